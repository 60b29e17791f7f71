"""Sessions over several connections, and runs that go on unseen."""

from __future__ import annotations

import pytest

from acp_bridge.core import commands as cmd
from acp_bridge.core import events as ev
from acp_bridge.core.transcript import UNSEEN_FOR, SaidText, Transcript, UsedTool
from acp_bridge.errors import GatewayRefused, GatewayTimeout, SessionBusy, SessionNotFound
from acp_bridge.gateway.dialects.acp_ws.memory import Memory, Process
from acp_bridge.gateway.dialects.acp_ws.sessions import LOOKS
from acp_bridge.ids import Json, SessionKey, ToolCallId
from tests.support.acp_dialect import PLAIN, R1, R2, S1, ZEROCLAW, Played, chunk, start, stored

OTHER = SessionKey("5e0f8a52-0000-4000-8000-000000000002")
LOADS: Json = {**ZEROCLAW, "agentCapabilities": {"loadSession": True}}
GENERIC: Json = {**PLAIN, "agentCapabilities": {"loadSession": True}}


def lost(text: str = "hello", *, hello: Json = ZEROCLAW) -> Memory:
    """What is known after a connection that ended in the middle of a run."""
    play = Played().hello(hello).opened()
    play.send(start(text))
    return play.memory


def replayed(play: Played, *updates: Json) -> list[ev.GatewayEvent]:
    """Answer the latest ``session/load`` with this replay."""
    for update in updates:
        assert play.update(update) == []
    return play.answer("session/load", {})


def test_a_session_of_an_earlier_process_is_loaded_and_its_replay_kept_from_the_editor() -> None:
    play = Played().hello()
    assert play.send(start("again")) == []
    assert replayed(play, stored("hello"), chunk("Hi")) == [ev.RunAccepted(R1)]
    assert play.memory.stored[S1] == 1
    assert play.memory.flying[S1].stored_before == 1


def test_a_session_of_an_earlier_connection_is_resumed_without_its_plan() -> None:
    first = Played().hello().opened()
    play = Played(first.memory, generation=2).hello()
    assert play.send(start()) == []
    plan = {"sessionUpdate": "plan", "entries": []}
    assert play.update(plan) == []
    trimmed = {"sessionId": S1, "droppedMessages": 1}
    told = {"jsonrpc": "2.0", "method": "_zeroclaw/history_trimmed", "params": trimmed}
    assert play.receive(told) == []
    assert play.answer("session/resume", {}) == [ev.RunAccepted(R1)]


def test_a_transcript_is_read_by_loading() -> None:
    play = Played().hello()
    play.send(cmd.ResolveSession(S1), 1)
    tool = {"toolCallId": "call_0", "name": "shell", "rawInput": {"command": "ls"}}
    replayed(
        play,
        stored("hello"),
        {"sessionUpdate": "tool_call", "status": "completed", **tool},
        {"sessionUpdate": "tool_call_update", "toolCallId": "call_0", "rawOutput": "a-file"},
        chunk("Hi"),
    )
    assert play.results[1] == S1
    play.send(cmd.ReadTranscript(S1), 2)
    transcript = play.results[2]
    assert isinstance(transcript, Transcript)
    assert transcript.is_whole
    assert transcript.is_nameless
    (turn,) = transcript.turns
    assert (turn.prompt, turn.stop_reason) == ("hello", "end_turn")
    assert turn.at == 1_796_076_000_000
    call = UsedTool(ToolCallId("call_0"), "shell", {"command": "ls"}, "a-file", failed=False)
    assert turn.parts == (call, SaidText("Hi"))
    assert play.methods().count("session/load") == 1


def test_of_a_session_that_runs_here_nothing_is_stored_that_was_not_seen() -> None:
    play = Played().hello().opened()
    play.send(start())
    play.send(cmd.ReadTranscript(S1), 2)
    assert play.results[2] == Transcript((), R1, None, is_whole=True, is_nameless=True)


def test_an_unknown_session_is_none_and_a_gateway_that_fails_is_an_error() -> None:
    play = Played().hello()
    play.send(cmd.ResolveSession(S1), 1)
    play.send(cmd.ReadTranscript(S1), 2)
    play.refuse("session/load", -32000)
    assert (play.results[1], play.results[2]) == (None, None)
    play.send(cmd.ResolveSession(S1), 3)
    play.send(cmd.ReadTranscript(S1), 4)
    play.send(cmd.Forward("session/event", {}, S1), 5)
    play.refuse("session/load", -32603)
    assert isinstance(play.results[3], GatewayRefused)
    assert isinstance(play.results[4], GatewayRefused)
    assert isinstance(play.results[5], GatewayRefused)


def test_a_restoration_that_is_not_answered_fails_in_time() -> None:
    play = Played().hello()
    play.send(start())
    (refused,) = play.tick(30)
    assert isinstance(refused, ev.RunRefused)
    assert isinstance(refused.error, GatewayTimeout)


def test_a_session_that_is_active_already_is_used() -> None:
    play = Played().hello()
    play.send(start())
    assert play.refuse("session/load", -32602, "already active") == [ev.RunAccepted(R1)]


def test_at_the_limit_the_session_that_rests_longest_is_closed() -> None:
    play = Played().hello().opened().opened(OTHER)
    play.send(start(key=OTHER))
    play.send(cmd.OpenSession("/x"), 9)
    play.refuse("session/new", -32001)
    assert play.request("session/close")["params"] == {"sessionId": S1}
    play.answer("session/close", {})
    play.refuse("session/new", -32001)
    assert isinstance(play.results[9], GatewayRefused)  # the other one is at work
    play.send(start(run_id=R2))
    play.refuse("session/resume", -32001)
    assert isinstance(play.events[-1], ev.RunRefused)


def test_a_closed_session_is_restored_for_what_comes_while_it_closes() -> None:
    play = Played().hello().opened()
    play.send(cmd.CloseSession(S1))
    play.send(cmd.CloseSession(S1))
    assert play.methods().count("session/close") == 1
    assert play.send(start()) == []
    play.answer("session/close", {})
    assert play.answer("session/resume", {}) == [ev.RunAccepted(R1)]
    agent = Played().hello(PLAIN).opened()
    agent.send(cmd.CloseSession(S1))
    assert "session/close" not in agent.methods()


# --- orphans ---------------------------------------------------------------------------------


def test_a_run_whose_end_is_stored_is_reported_with_what_was_missed() -> None:
    play = Played(lost(), generation=2).hello()
    assert play.send(cmd.ProbeRun(R1, S1)) == []
    (report,) = replayed(play, stored("hello"), chunk("Hello to you"))
    assert isinstance(report, ev.RunReported)
    assert (report.state, report.snapshot) == (ev.RunState.FINISHED, "Hello to you")
    assert play.memory.orphans == {}
    assert play.send(start("next", R2)) == [ev.RunAccepted(R2)]
    assert play.memory.flying[S1].stored_before == 1


def test_an_end_that_is_seen_before_anybody_asks_is_kept() -> None:
    play = Played(lost(), generation=2).hello()
    assert replayed(play, stored("hello"), chunk("Hi")) == []
    (report,) = play.send(cmd.ProbeRun(R1, S1))
    assert isinstance(report, ev.RunReported)
    assert report.state is ev.RunState.FINISHED


def test_a_run_that_goes_on_unseen_is_looked_for_again_and_again() -> None:
    play = Played(lost(), generation=2).hello()
    play.send(cmd.ProbeRun(R1, S1))
    assert replayed(play) == [ev.RunReported(R1, ev.RunState.UNSEEN)]
    for count, seconds in enumerate((*LOOKS, LOOKS[-1]), 1):
        play.answer("session/close", {})
        assert play.methods().count("session/load") == count
        play.tick(seconds)
        assert play.methods().count("session/load") == count + 1
        assert replayed(play) == []
    play.answer("session/close", {})
    play.tick(LOOKS[-1])
    (report,) = replayed(play, stored("hello"), chunk("Hi"))
    assert isinstance(report, ev.RunReported)
    assert report.state is ev.RunState.FINISHED


def test_who_asks_late_hears_that_it_goes_on_unseen() -> None:
    play = Played(lost(), generation=2).hello()
    replayed(play)
    assert play.send(cmd.ProbeRun(R1, S1)) == [ev.RunReported(R1, ev.RunState.UNSEEN)]


def test_an_earlier_turn_with_the_same_prompt_is_not_taken_for_it() -> None:
    first = Played().hello()
    first.send(start("go on"))
    replayed(first, stored("go on"), chunk("the old answer"))
    play = Played(first.memory, generation=2).hello()
    play.send(cmd.ProbeRun(R1, S1))
    old = (stored("go on"), chunk("the old answer"))
    assert replayed(play, *old) == [ev.RunReported(R1, ev.RunState.UNSEEN)]
    play.answer("session/close", {})
    play.tick()
    (report,) = replayed(play, *old, stored("go on"), chunk("the new answer"))
    assert isinstance(report, ev.RunReported)
    assert report.snapshot == "the new answer"


def test_where_turns_were_dropped_nobody_can_tell() -> None:
    first = Played().hello()
    first.send(start("go on"))
    replayed(first, stored("a"), chunk("x"), stored("b"), chunk("y"))
    play = Played(first.memory, generation=2).hello()
    play.send(cmd.ProbeRun(R1, S1))
    assert replayed(play, stored("b"), chunk("y")) == [ev.RunReported(R1, ev.RunState.UNKNOWN)]


def test_a_trimmed_history_is_not_counted_on() -> None:
    play = Played().hello().opened()
    params = {"sessionId": S1, "droppedMessages": 2}
    told = {"jsonrpc": "2.0", "method": "_zeroclaw/history_trimmed", "params": params}
    assert play.receive(told) == [ev.Notified("_zeroclaw/history_trimmed", params, S1)]
    assert S1 not in play.memory.stored


def test_no_prompt_goes_into_a_session_that_may_be_busy_unseen() -> None:
    play = Played(lost(), generation=2).hello()
    replayed(play)
    play.answer("session/close", {})
    assert play.send(start("next", R2)) == []
    (refused,) = replayed(play)
    assert isinstance(refused, ev.RunRefused)
    assert isinstance(refused.error, SessionBusy)
    assert "session/prompt" not in play.methods()
    play.answer("session/close", {})
    play.send(cmd.ReadTranscript(S1), 3)
    replayed(play)
    assert play.results[3].turns == ()


def test_a_run_is_given_up_when_the_gateways_own_patience_must_be_over() -> None:
    play = Played(lost(), generation=2).hello()
    play.send(cmd.ProbeRun(R1, S1))
    replayed(play)
    play.answer("session/close", {})
    assert ev.RunReported(R1, ev.RunState.UNKNOWN) in play.tick(UNSEEN_FOR)
    assert play.memory.orphans == {}
    play.tick()
    assert play.methods().count("session/load") == 1


@pytest.mark.parametrize("code", [-32000, -32603])
def test_a_session_that_is_gone_has_lost_the_run_and_one_that_fails_is_tried_again(
    code: int,
) -> None:
    play = Played(lost(), generation=2).hello()
    play.send(cmd.ProbeRun(R1, S1))
    unknown = [ev.RunReported(R1, ev.RunState.UNKNOWN)] if code == -32000 else []
    assert play.refuse("session/load", code) == unknown
    play.tick()
    assert play.methods().count("session/load") == (1 if unknown else 2)


@pytest.mark.parametrize("hello", [PLAIN, GENERIC])
def test_of_other_agents_nobody_knows_what_became_of_a_run(hello: Json) -> None:
    play = Played(lost(hello=hello), generation=2).hello(hello)
    if hello is GENERIC:
        replayed(play)
    assert play.send(cmd.ProbeRun(R1, S1)) == [ev.RunReported(R1, ev.RunState.UNKNOWN)]


def test_a_prompt_that_waited_for_its_session_was_not_taken() -> None:
    first = Played().hello()
    first.send(start())
    play = Played(first.memory, generation=2).hello()
    probe = cmd.ProbeRun(R1, S1)
    assert play.send(probe) == [ev.RunReported(R1, ev.RunState.NOT_TAKEN)]
    assert play.send(probe) == [ev.RunReported(R1, ev.RunState.UNKNOWN)]


def test_an_orphan_that_is_stopped_cannot_be_and_stays_one() -> None:
    play = Played(lost(), generation=2).hello()
    assert play.send(cmd.AbortRun(R1, S1)) == [ev.AbortAnswered(R1, aborted=False)]
    assert S1 in play.memory.orphans


def test_a_gateway_that_can_only_load_is_loaded_from() -> None:
    first = Played().hello(LOADS).opened()
    play = Played(first.memory, generation=2).hello(LOADS)
    play.send(start())
    assert replayed(play) == [ev.RunAccepted(R1)]


def test_a_lost_session_is_an_error_with_a_way_on() -> None:
    play = Played().hello()
    play.send(start())
    (refused,) = play.refuse("session/load", -32000)
    assert isinstance(refused, ev.RunRefused)
    assert isinstance(refused.error, SessionNotFound)
    assert "begin a new session" in (refused.error.hint or "")


# --- a process that is gone -------------------------------------------------------------------

FIRST, NEXT = Process(7, 3600), Process(8, 2)


def crashed(text: str = "hello") -> Memory:
    """What is known after a connection whose process is known."""
    play = Played().hello().opened()
    play.send(start(text))
    play.memory.learned(FIRST, play.memory.connection)
    return play.memory


@pytest.mark.parametrize("after", [NEXT, Process(FIRST.pid, FIRST.uptime - 1)])
def test_a_run_is_over_with_its_process_and_its_session_takes_prompts_again(after: Process) -> None:
    play = Played(crashed(), generation=2).hello()
    play.send(cmd.ProbeRun(R1, S1))
    assert replayed(play) == [ev.RunReported(R1, ev.RunState.UNSEEN)]
    play.answer("session/close", {})
    play.memory.learned(after, play.memory.connection)
    play.tick(0)
    assert replayed(play) == [ev.RunReported(R1, ev.RunState.UNKNOWN)]
    assert play.send(start("next", R2)) == [ev.RunAccepted(R2)]


def test_what_the_process_had_stored_is_shown_all_the_same() -> None:
    play = Played(crashed(), generation=2)
    play.hello()
    play.memory.learned(NEXT, play.memory.connection)
    play.send(cmd.ProbeRun(R1, S1))
    (report,) = replayed(play, stored("hello"), chunk("Hi"))
    assert isinstance(report, ev.RunReported)
    assert (report.state, report.snapshot) == (ev.RunState.FINISHED, "Hi")


@pytest.mark.parametrize("after", [None, FIRST, Process(FIRST.pid, FIRST.uptime + 5)])
def test_a_run_is_waited_for_as_long_as_its_process_may_be_there(after: Process | None) -> None:
    play = Played(crashed(), generation=2).hello()
    if after is not None:
        play.memory.learned(after, play.memory.connection)
    play.send(start("next", R2))
    (refused,) = replayed(play)
    assert isinstance(refused, ev.RunRefused)
    assert isinstance(refused.error, SessionBusy)


def test_a_process_that_is_told_of_too_late_says_nothing_of_the_next_connection() -> None:
    memory = crashed()
    play = Played(memory, generation=2).hello()
    memory.learned(NEXT, play.memory.connection - 1)
    assert not memory.is_gone(memory.orphans[S1])
    play.memory.learned(NEXT, play.memory.connection)
    assert memory.is_gone(memory.orphans[S1])


def test_the_process_is_asked_for_once_it_matters() -> None:
    asked: list[int] = []
    play = Played(ask=lambda: asked.append(1)).hello().opened()
    assert asked == []
    play.send(start())
    play.answer("session/prompt", {"stopReason": "end_turn"})
    play.send(start("again", R2))
    assert asked == [1]
    Played(play.memory, generation=2, ask=lambda: asked.append(2)).hello()
    assert asked == [1, 2]
    plain = Played(ask=lambda: asked.append(3)).hello(PLAIN).opened()
    plain.send(start())
    assert asked == [1, 2]
