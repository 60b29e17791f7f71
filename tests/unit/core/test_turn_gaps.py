"""Moves of a turn around a gap that random interleavings found wrong once."""

from __future__ import annotations

import pytest

from acp_bridge.core import effects as fx
from acp_bridge.core import events as ev
from acp_bridge.core.commands import AbortRun, ProbeRun, StartRun
from acp_bridge.core.live_turn import Turn
from acp_bridge.core.transcript import SaidText, UsedTool
from acp_bridge.core.turn import TurnState
from acp_bridge.errors import LinkLost, OutcomeUnknown, PromptTooLarge, RunFailed
from acp_bridge.ids import ApprovalId, RunId, SessionId, SessionKey, ToolCallId

RUN, KEY = RunId("r"), SessionKey("k")
ABORT = fx.Send(AbortRun(RUN, KEY))


def sent() -> Turn:
    turn = Turn(SessionId("s"), StartRun(RUN, KEY, "hello"), cwd="/", prompt={})
    turn.begin(is_link_up=True)
    turn.recorded()
    turn.grant_slot()
    return turn


def running() -> Turn:
    turn = sent()
    turn.handle(ev.RunAccepted(RUN))
    return turn


def armed(effects: list[fx.Effect], kind: fx.DeadlineKind) -> fx.Arm:
    return next(e for e in effects if isinstance(e, fx.Arm) and e.kind is kind)


def fired(turn: Turn, effects: list[fx.Effect], kind: fx.DeadlineKind) -> list[fx.Effect]:
    return turn.deadline(kind, armed(effects, kind).serial)


def report(state: ev.RunState) -> ev.RunReported:
    return ev.RunReported(RUN, state)


def test_a_cancel_before_a_probe_that_finds_the_run_at_work_aborts_it_and_keeps_its_deadline() -> (
    None
):
    turn = sent()
    turn.link_lost()
    turn.link_up()
    cancel = turn.cancel()

    effects = turn.handle(report(ev.RunState.RUNNING))

    assert ABORT in effects
    assert fx.Disarm() not in effects
    assert fx.Answer("cancelled") in fired(turn, cancel, fx.DeadlineKind.CANCEL)


def test_news_of_the_run_end_the_waiting_for_the_probe() -> None:
    turn = running()
    turn.link_lost()
    turn.link_up()

    effects = turn.handle(ev.TextProgress(RUN, "a", False, "a"))

    assert fx.Disarm() in effects
    assert turn.state is TurnState.RUNNING


def test_a_cancelled_run_is_aborted_however_late_the_link_comes_back() -> None:
    turn = running()
    turn.link_lost()
    answer = fired(turn, turn.cancel(), fx.DeadlineKind.CANCEL)
    assert fx.Answer("cancelled") in answer
    assert not any(isinstance(each, fx.Arm) for each in answer), "nothing drains without a link"

    assert ABORT in turn.link_up()
    assert fx.Release(RUN) in turn.handle(ev.AbortAnswered(RUN, aborted=True))


def test_a_run_that_is_known_to_be_over_is_not_aborted_over_the_next_link() -> None:
    turn = running()
    turn.cancel()
    turn.handle(ev.RunEnded(RUN, ev.EndKind.ABORTED))
    turn.link_lost()

    assert turn.link_up() == []


def test_a_cancelled_prompt_that_nobody_acknowledged_is_aborted_at_the_last_moment() -> None:
    turn = sent()
    answer = fired(turn, turn.cancel(), fx.DeadlineKind.CANCEL)

    assert fired(turn, answer, fx.DeadlineKind.DRAIN)[0] == ABORT


def test_a_prompt_that_seems_to_break_the_link_is_asked_about_before_it_fails() -> None:
    turn = sent()

    assert not any(isinstance(each, fx.Reject) for each in turn.link_lost(1009))
    assert fx.Send(ProbeRun(RUN, KEY)) in turn.link_up()
    turn.handle(report(ev.RunState.RUNNING))  # another one's frame was too large
    assert fx.Answer("end_turn") in turn.handle(ev.RunEnded(RUN, ev.EndKind.FINISHED, "done"))


def test_a_prompt_that_was_not_taken_and_broke_the_link_fails() -> None:
    turn = sent()
    turn.link_lost(1009)
    turn.link_up()

    effects = turn.handle(report(ev.RunState.NOT_TAKEN))

    assert [type(e.error) for e in effects if isinstance(e, fx.Reject)] == [PromptTooLarge]


def test_a_prompt_that_was_never_taken_is_sent_at_most_three_times() -> None:
    turn = sent()
    for _ in range(2):
        turn.link_lost()
        turn.link_up()
        assert fx.Send(turn.command) in turn.handle(report(ev.RunState.NOT_TAKEN))
    turn.link_lost()
    turn.link_up()

    effects = turn.handle(report(ev.RunState.NOT_TAKEN))

    assert [type(e.error) for e in effects if isinstance(e, fx.Reject)] == [LinkLost]


def test_a_prompt_that_was_put_off_again_and_again_is_not_blamed_for_the_loss_of_the_link() -> None:
    turn = sent()
    for _ in range(5):
        put_off = turn.handle(ev.RunDeferred(RUN))
        assert fx.Send(turn.command) in fired(turn, put_off, fx.DeadlineKind.RESEND)
    turn.link_lost()
    turn.link_up()

    assert fx.Send(turn.command) in turn.handle(report(ev.RunState.NOT_TAKEN))


def test_an_approval_that_is_listed_again_after_its_end_is_not_asked_again() -> None:
    turn = running()
    asked = ev.PermissionAsked(
        ApprovalId("a"), RUN, KEY, ToolCallId("t"), "make", None, None, ("allow-once",), 9.0
    )
    turn.permission_asked(asked)
    turn.permissions.expired(ApprovalId("a"))

    assert not any(isinstance(e, fx.AskPermission) for e in turn.permission_asked(asked))


def test_an_end_that_comes_before_the_probes_answer_waits_for_what_was_missed() -> None:
    turn = running()
    turn.handle(ev.TextProgress(RUN, "one", False, "one"))
    turn.link_lost()
    turn.link_up()

    wait = turn.handle(ev.RunEnded(RUN, ev.EndKind.FINISHED))  # as it often comes, without a text
    assert armed(wait, fx.DeadlineKind.PROBE)
    missed = ev.RunReported(
        RUN,
        ev.RunState.FINISHED,
        snapshot="one two",
        parts=(UsedTool(ToolCallId("t"), "exec", None, "no", failed=True),),
    )
    effects = turn.handle(missed)

    assert "".join(texts(effects)) == " two"
    assert ("t", "failed") in [
        (e.update.get("toolCallId"), e.update.get("status"))
        for e in effects
        if isinstance(e, fx.Show)
    ]
    assert fx.Answer("end_turn") in effects


def test_an_end_is_told_all_the_same_if_the_probe_is_never_answered() -> None:
    turn = running()
    turn.link_lost()
    turn.link_up()
    wait = turn.handle(ev.RunEnded(RUN, ev.EndKind.FAILED, error="broken"))

    effects = fired(turn, wait, fx.DeadlineKind.PROBE)

    assert [type(e.error) for e in effects if isinstance(e, fx.Reject)] == [RunFailed]
    assert "may be missing" in "".join(texts(effects))


@pytest.mark.parametrize("state", [ev.RunState.FAILED, ev.RunState.ABORTED, ev.RunState.FINISHED])
def test_the_record_of_a_run_that_has_ended_in_a_gap_is_asked_for_again(
    state: ev.RunState,
) -> None:
    turn = running()
    turn.handle(ev.TextProgress(RUN, "one", False, "one"))
    turn.link_lost()
    turn.link_up()
    assert fx.Send(ProbeRun(RUN, KEY)) in turn.handle(report(state)._replace(is_partial=True))

    effects = turn.handle(report(state)._replace(snapshot="rewritten", error="why"))

    assert texts(effects)[0] == "rewritten"
    assert "may be missing" not in "".join(texts(effects))
    assert turn.state.is_final


@pytest.mark.parametrize("state", [ev.RunState.FAILED, ev.RunState.ABORTED])
def test_an_end_in_a_gap_whose_record_is_never_given_is_told_with_that_it_lacks(
    state: ev.RunState,
) -> None:
    turn = running()
    turn.link_lost()
    turn.link_up()
    turn.handle(report(state)._replace(is_partial=True))
    turn.handle(untold())

    effects = turn.handle(untold())  # what was known of the end is not forgotten

    assert "may be missing" in "".join(texts(effects))
    ends = [type(e) for e in effects if isinstance(e, fx.Answer | fx.Reject)]
    assert ends == [fx.Reject if state is ev.RunState.FAILED else fx.Answer]
    assert not any(isinstance(e.error, OutcomeUnknown) for e in effects if isinstance(e, fx.Reject))


def texts(effects: list[fx.Effect]) -> list[str]:
    return [
        e.update["content"]["text"]
        for e in effects
        if isinstance(e, fx.Show) and e.update["sessionUpdate"] == "agent_message_chunk"
    ]


@pytest.mark.parametrize("answer", ["none", "without the transcript"])
@pytest.mark.parametrize("snapshot", [None, "one two"])
def test_an_end_after_a_gap_of_which_nothing_is_known_says_so(
    answer: str, snapshot: str | None
) -> None:
    turn = running()
    turn.link_lost()
    turn.link_up()
    held = turn.handle(ev.RunEnded(RUN, ev.EndKind.FINISHED, snapshot))
    if answer == "none":
        effects = fired(turn, held, fx.DeadlineKind.PROBE)
    else:
        partial = report(ev.RunState.FINISHED)._replace(is_partial=True)
        for _ in range(2):
            assert fx.Send(ProbeRun(RUN, KEY)) in turn.handle(partial)
        effects = turn.handle(partial)

    texts = [e.update["content"]["text"] for e in effects if isinstance(e, fx.Show)]
    assert ("may be missing" in "".join(texts)) is (snapshot is None)
    assert fx.Answer("end_turn") in effects


def untold() -> ev.RunReported:
    return report(ev.RunState.UNTOLD)


def test_a_gateway_that_does_not_tell_is_asked_again_before_the_run_is_given_up() -> None:
    turn = running()
    turn.link_lost()
    turn.link_up()

    for _ in range(2):
        effects = turn.handle(untold())
        assert effects[0] == fx.Send(ProbeRun(RUN, KEY))
        assert armed(effects, fx.DeadlineKind.PROBE)
    effects = turn.handle(untold())

    assert [type(e.error) for e in effects if isinstance(e, fx.Reject)] == [OutcomeUnknown]


def test_what_came_before_a_probe_is_answered_waits_for_the_second_answer_too() -> None:
    turn = running()
    turn.link_lost()
    turn.link_up()
    turn.handle(ev.TextProgress(RUN, "two", False, "one two"))
    turn.handle(ev.RunEnded(RUN, ev.EndKind.FINISHED))

    assert armed(turn.handle(untold()), fx.DeadlineKind.PROBE)
    effects = turn.handle(ev.RunReported(RUN, ev.RunState.FINISHED, snapshot="one two three"))

    assert "".join(texts(effects)) == "one two three"
    assert fx.Answer("end_turn") in effects


def test_a_silent_run_of_which_the_gateway_does_not_tell_is_not_given_up() -> None:
    turn = running()

    for _ in range(5):
        assert turn.stalled() == [fx.Send(ProbeRun(RUN, KEY))]
        assert not any(isinstance(each, fx.Reject) for each in turn.handle(untold()))

    assert turn.state is TurnState.RUNNING


def test_news_that_come_before_the_probes_answer_are_shown_after_what_was_missed() -> None:
    turn = running()
    turn.handle(ev.TextProgress(RUN, "one", False, "one"))
    turn.link_lost()
    turn.link_up()
    assert turn.handle(ev.TextProgress(RUN, "th", False, "one two\n\nth")) == [fx.Disarm()]
    assert turn.handle(ev.TextProgress(RUN, "ree", False, "one two\n\nthree")) == []

    part = UsedTool(ToolCallId("t"), "exec", None, "ok", failed=False)
    missed = ev.RunReported(
        RUN,
        ev.RunState.RUNNING,
        snapshot="one two\n\nt",
        parts=(SaidText("one two "), part),
    )
    effects = turn.handle(missed)

    shown = [e.update for e in effects if isinstance(e, fx.Show)]
    kinds = [each["sessionUpdate"] for each in shown]
    assert kinds[:3] == ["agent_message_chunk", "tool_call", "tool_call_update"]
    assert texts(effects) == [" two", "t", "hree"]


def test_news_that_come_before_the_probes_answer_outlast_another_loss_of_the_link() -> None:
    turn = running()
    turn.link_lost()
    turn.link_up()
    turn.handle(ev.TextProgress(RUN, "one", False, "one"))
    effects = fired(turn, turn.link_lost(), fx.DeadlineKind.RECONNECT)
    assert texts(effects)[0] == "one"


def test_each_notice_is_a_message_of_its_own() -> None:
    turn = running()
    shown = turn.link_lost() + turn.outage() + turn.link_up()
    shown += turn.handle(ev.TextProgress(RUN, "one", False, "one"))
    shown += turn.handle(report(ev.RunState.RUNNING))
    shown += turn.handle(ev.RunEnded(RUN, ev.EndKind.FAILED, error="broken"))

    messages = [e.update["messageId"] for e in shown if isinstance(e, fx.Show)]
    assert len(messages) == len(set(messages)) == 4


def test_a_rewrite_that_came_before_a_probes_older_answer_is_not_undone_by_it() -> None:
    turn = running()
    turn.link_lost()
    turn.link_up()
    turn.handle(ev.TextProgress(RUN, "anew", replace=True, snapshot="anew"))
    shown = turn.handle(report(ev.RunState.RUNNING)._replace(snapshot="old"))
    shown += turn.handle(ev.RunEnded(RUN, ev.EndKind.FAILED, None, None, None, "why"))
    assert texts(shown)[:2] == ["old", "anew"]
