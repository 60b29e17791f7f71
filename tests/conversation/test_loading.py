"""Earlier sessions through the service: load, resume, list, delete, in a new process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from acp_bridge.bridge.opening import OFFLINE
from acp_bridge.core import events as ev
from acp_bridge.core.commands import (
    DeleteSession,
    DescribeSession,
    ListSessions,
    ProbeRun,
    ReadTranscript,
    ResolveSession,
    SessionFacts,
    StartRun,
)
from acp_bridge.core.replay import INCOMPLETE, INTERRUPTED
from acp_bridge.core.sessions import SessionOptions
from acp_bridge.core.transcript import PastTurn, SaidText, Transcript
from acp_bridge.errors import (
    GatewayUnreachable,
    HistoryUnavailable,
    InvalidParams,
    OutcomeUnknown,
    SessionNotFound,
)
from acp_bridge.ids import Json, RunId, SessionId, SessionKey, ToolCallId
from acp_bridge.wire import updates
from acp_bridge.wire.acp import ListedSessions, OpenedSession
from ledger import Incomplete, LedgerUnreachable, Limits, NewSession, Replay, RunState
from ledger.memory import MemoryLedger
from tests.support.service import PATIENCE, Conversation, conversation, first_key


async def load(talk: Conversation, session: SessionId, cwd: str = "/w", **meta: Any) -> None:
    request = OpenedSession(session, cwd, (), meta)
    assert await asyncio.wait_for(talk.bridge.load_session(request), PATIENCE) == {}


def past(run: str, prompt: str, said: str) -> PastTurn:
    return PastTurn(RunId(run), 1, prompt, (), (SaidText(said),), "end_turn", None)


def told(*turns: PastTurn, running: str | None = None) -> Transcript:
    return Transcript(turns, RunId(running) if running else None, None, is_whole=True)


def texts(talk: Conversation) -> list[str]:
    return [
        u["content"]["text"] for _, u in talk.outbox.shown if isinstance(u.get("content"), dict)
    ]


async def one_turn(ledger: MemoryLedger, *, ends: bool = True) -> tuple[SessionId, RunId]:
    """A session with one turn, in a process of its own."""
    async with conversation(ledger=ledger) as talk:
        session = await talk.session()
        talk.send(session, "hi")
        run = (await talk.started()).run_id
        await talk.gateway.emit(ev.RunAccepted(run), ev.TextProgress(run, "Hello", False, "Hello"))
        if ends:
            await talk.gateway.emit(ev.RunEnded(run, ev.EndKind.FINISHED, "Hello"))
            return session, run
        # A kill: nothing of the rest is recorded.
        talk.outbox._record = lambda entry: None  # type: ignore[method-assign]
    return session, run


@pytest.mark.requirement("C054")
@pytest.mark.requirement("C061")
async def test_a_loaded_session_shows_its_past_and_goes_on_under_its_key() -> None:
    ledger = MemoryLedger()
    session, run = await one_turn(ledger)
    async with conversation(ledger=ledger) as talk:
        talk.gateway.answers[ReadTranscript] = told(past(run, "hi", "Hello"))
        await load(talk, session)
        assert texts(talk) == ["hi", "Hello"]

        answer = talk.send(session, "again")
        command = await talk.started()
        assert command.session_key == first_key()
        await talk.gateway.emit(ev.RunEnded(command.run_id, ev.EndKind.FINISHED, "Sure"))
        assert await answer.stop_reason() == "end_turn"

    async with conversation(ledger=ledger) as talk:
        talk.gateway.answers[ReadTranscript] = told()
        await load(talk, session)
        assert texts(talk) == ["hi", "Hello", "again", "Sure"]


async def test_what_the_limits_trimmed_is_named_once_and_not_brought_back() -> None:
    ledger = MemoryLedger(limits=Limits(max_events_per_session=3))
    session, first = await one_turn(ledger)
    async with conversation(ledger=ledger) as talk:
        talk.gateway.answers[ReadTranscript] = told(past(first, "hi", "Hello"))
        await load(talk, session)
        answer = talk.send(session, "again")
        second = (await talk.started()).run_id
        await talk.gateway.emit(ev.RunEnded(second, ev.EndKind.FINISHED, "Sure"))
        assert await answer.stop_reason() == "end_turn"

    for _ in range(2):
        async with conversation(ledger=ledger) as talk:
            talk.gateway.answers[ReadTranscript] = told(
                past(first, "hi", "Hello"), past(second, "again", "Sure")
            )
            await load(talk, session)
            notice, *rest = texts(talk)
            assert "no longer kept" in notice
            assert rest[-2:] == ["again", "Sure"]
            assert "hi" not in rest


@pytest.mark.requirement("C056")
async def test_a_resumed_session_shows_nothing_and_goes_on() -> None:
    ledger = MemoryLedger()
    session, _ = await one_turn(ledger)
    async with conversation(ledger=ledger) as talk:
        request = OpenedSession(session, "/w")
        assert await talk.bridge.resume_session(request) == {}
        assert talk.outbox.shown == []
        talk.send(session, "again")
        assert (await talk.started()).session_key == first_key()


async def test_a_load_without_a_gateway_replays_and_says_so() -> None:
    ledger = MemoryLedger()
    session, _ = await one_turn(ledger)
    async with conversation(ledger=ledger, link=False) as talk:
        await talk.gateway.down()
        await load(talk, session)
        assert texts(talk) == ["hi", "Hello", OFFLINE]

        talk.send(session, "later")
        await talk.settle()
        await talk.gateway.up()
        assert (await talk.started()).message == "later"


@pytest.mark.requirement("C060")
async def test_an_id_that_nobody_knows_is_not_found() -> None:
    async with conversation() as talk:
        talk.gateway.answers[ResolveSession] = None
        for call in (talk.bridge.load_session, talk.bridge.resume_session):
            with pytest.raises(SessionNotFound, match="nobody"):
                await call(OpenedSession(SessionId("nobody"), "/w"))


async def test_an_unknown_id_without_a_gateway_fails_with_the_gateways_reason() -> None:
    async with conversation(link=False) as talk:
        await talk.gateway.down()
        talk.bridge._opener._deadlines = talk.bridge._opener._deadlines.__class__(connect=0.01)
        with pytest.raises(GatewayUnreachable):
            await talk.bridge.load_session(OpenedSession(SessionId("x"), "/w"))


async def test_a_session_of_the_gateway_alone_is_shown_from_its_transcript() -> None:
    async with conversation() as talk:
        talk.gateway.answers[ResolveSession] = "agent:main:telegram"
        talk.gateway.answers[ReadTranscript] = told(past("theirs", "question", "answer"))
        await load(talk, SessionId("agent:main:telegram"))
        assert [text for text in texts(talk) if "transcript" not in text] == ["question", "answer"]

        await load(talk, SessionId("agent:main:telegram"))
        assert texts(talk).count("answer") == 2  # shown by each load, recorded once


@pytest.mark.requirement("C063")
async def test_a_turn_that_still_runs_streams_on_after_the_load() -> None:
    ledger = MemoryLedger()
    session, run = await one_turn(ledger, ends=False)
    async with conversation(ledger=ledger) as talk:
        talk.gateway.answers[ReadTranscript] = told(running=run)
        await load(talk, session)
        assert texts(talk) == ["hi", "Hello"]
        await talk.until(lambda: bool(talk.commands(ProbeRun)))
        await talk.gateway.emit(
            ev.RunReported(run, ev.RunState.RUNNING, "Hello wor"),
            ev.TextProgress(run, "ld", False, "Hello world"),
            ev.RunEnded(run, ev.EndKind.FINISHED, "Hello world"),
        )
        assert texts(talk) == ["hi", "Hello", " wor", "ld"]

    async with conversation(ledger=ledger) as talk:
        talk.gateway.answers[ReadTranscript] = told()
        await load(talk, session)
        assert "".join(texts(talk)) == "hiHello world"


@pytest.mark.requirement("C063")
async def test_a_turn_that_ended_meanwhile_shows_its_end_once() -> None:
    ledger = MemoryLedger()
    session, run = await one_turn(ledger, ends=False)
    for _ in range(2):
        async with conversation(ledger=ledger) as talk:
            talk.gateway.answers[ReadTranscript] = told(past(run, "hi", "Hello world"))
            await load(talk, session)
            assert "".join(texts(talk)) == "hiHello world"
            assert talk.commands(StartRun) == []


@pytest.mark.requirement("C047")
async def test_a_turn_that_was_given_up_is_taken_up_again_if_it_runs_or_has_ended() -> None:
    ledger = MemoryLedger()
    async with conversation(ledger=ledger) as talk:
        session = await talk.session()
        answer = talk.send(session, "question")
        run = (await talk.started()).run_id
        await talk.gateway.emit(ev.TextProgress(run, "Hello", False, "Hello"))
        await talk.gateway.down()
        talk.clock.advance(1_800)
        assert isinstance(await answer.failure(), OutcomeUnknown)
        assert "--reconnect-window" in talk.text(session)
        await talk.gateway.up()

        talk.gateway.answers[ReadTranscript] = told(past(run, "question", ""), running=run)
        await load(talk, session)
        await talk.settle()
        assert [probe.run_id for probe in talk.commands(ProbeRun)] == [run]
        await talk.gateway.emit(ev.RunReported(run, ev.RunState.RUNNING, "Hello wor"))
        await talk.gateway.emit(ev.RunEnded(run, ev.EndKind.FINISHED, "Hello world"))
        await talk.settle()
        assert talk.text(session).endswith("ld")

    async with conversation(ledger=ledger) as later:
        done = told(past(run, "question", "Hello world"))
        later.gateway.answers[ReadTranscript] = done
        await load(later, session)
        assert later.commands(ProbeRun) == []
        assert sum("world" in text or text == " world" for text in texts(later)) == 1
        assert later.text(session).count("Hello") == 1


@pytest.mark.requirement("C047")
async def test_a_turn_that_was_given_up_and_fails_when_taken_up_again_says_both_for_good() -> None:
    ledger = MemoryLedger()
    async with conversation(ledger=ledger) as talk:
        session = await talk.session()
        answer = talk.send(session, "question")
        run = (await talk.started()).run_id
        await talk.gateway.emit(ev.TextProgress(run, "Hello", False, "Hello"))
        await talk.gateway.down()
        talk.clock.advance(1_800)
        assert isinstance(await answer.failure(), OutcomeUnknown)
        await talk.gateway.up()
        talk.gateway.answers[ReadTranscript] = told(past(run, "question", ""), running=run)
        await load(talk, session)
        await talk.settle()
        await talk.gateway.emit(ev.RunReported(run, ev.RunState.RUNNING, "Hello"))
        await talk.gateway.emit(ev.RunEnded(run, ev.EndKind.FAILED, None, error="It broke."))
        await talk.settle()
        assert talk.text(session).endswith("It broke.")

    async with conversation(ledger=ledger) as later:
        later.gateway.answers[ReadTranscript] = told(past(run, "question", "Hello"))
        await load(later, session)
        *_, given_up, failed = texts(later)
        assert "--reconnect-window" in given_up
        assert failed.endswith("It broke.")
        names = [update.get("messageId") for _, update in later.outbox.shown]
        assert len(set(names)) == len(names)


async def test_a_turn_that_nobody_knows_is_called_interrupted_each_time() -> None:
    ledger = MemoryLedger()
    session, _ = await one_turn(ledger, ends=False)
    for _ in range(2):
        async with conversation(ledger=ledger) as talk:
            talk.gateway.answers[ReadTranscript] = told()
            await load(talk, session)
            assert texts(talk) == ["hi", "Hello", INTERRUPTED]


async def test_a_session_that_is_open_here_can_be_loaded_again_in_mid_turn() -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session, "hi")
        run = (await talk.started()).run_id
        card = ev.ToolStarted(run, ToolCallId("t"), "exec", {"command": "ls"})
        await talk.gateway.emit(ev.RunAccepted(run), ev.TextProgress(run, "On", False, "On"), card)
        talk.gateway.answers[ReadTranscript] = told(past(run, "hi", "On it"))
        shown = len(talk.outbox.shown)
        await load(talk, session)
        kinds = [update["sessionUpdate"] for _, update in talk.outbox.shown[shown:]]
        assert kinds == ["user_message_chunk", "agent_message_chunk", "tool_call"]

        await talk.gateway.emit(ev.RunEnded(run, ev.EndKind.FINISHED, "On it"))
        assert await answer.stop_reason() == "end_turn"


@pytest.mark.requirement("C059")
async def test_a_session_is_listed_with_its_directory_and_the_title_of_its_first_prompt() -> None:
    ledger = MemoryLedger()
    session, _ = await one_turn(ledger)
    async with conversation(ledger=ledger, link=False) as talk:
        (item,) = (await talk.bridge.list_sessions(ListedSessions()))["sessions"]
        assert (item["sessionId"], item["cwd"], item["title"]) == (
            session,
            "/home/me/project",
            "hi",
        )
        assert item["updatedAt"] == "2023-11-14T22:13:20.000Z"
        filtered = ListedSessions(cwd="/home/me/project/")
        assert len((await talk.bridge.list_sessions(filtered))["sessions"]) == 1
        assert (await talk.bridge.list_sessions(ListedSessions(cwd="/other")))["sessions"] == []


def theirs(query: ResolveSession) -> SessionKey | None:
    """The gateway's session of that key, if it is another client's."""
    key = query.session_key
    return key if key and "acp-bridge" not in key else None


async def listed_title(talk: Conversation) -> str:
    listed = (await talk.bridge.list_sessions(ListedSessions()))["sessions"]
    (title,) = (item["title"] for item in listed if item["_meta"]["source"] == "ledger")
    return str(title)


@pytest.mark.requirement("C059")
@pytest.mark.parametrize("given", ["A given title", None])
async def test_a_session_loaded_from_the_gateway_has_its_title_or_its_first_prompts(
    given: str | None,
) -> None:
    key = SessionKey("agent:main:theirs")
    async with conversation() as talk:
        talk.gateway.answers[ResolveSession] = theirs
        talk.gateway.answers[ReadTranscript] = told(
            past("a", "the first\nprompt", "Hello"), past("b", "another", "Hello")
        )
        talk.gateway.answers[DescribeSession] = SessionFacts(key, title=given)
        await load(talk, SessionId(key))
        await talk.settle()
        assert await listed_title(talk) == (given or "the first")
        talk.send(SessionId(key), "and more")
        await talk.settle()
        assert await listed_title(talk) == (given or "the first")
    async with conversation(ledger=talk.ledger, link=False) as later:
        assert await listed_title(later) == (given or "the first")


@pytest.mark.requirement("C059")
async def test_a_session_resumed_from_the_gateway_is_called_as_the_gateway_lists_it() -> None:
    key = SessionKey("agent:main:theirs")
    async with conversation() as talk:
        talk.gateway.answers[ResolveSession] = theirs
        talk.gateway.answers[DescribeSession] = SessionFacts(key)
        others = [SessionFacts(SessionKey("agent:main:x"), title="no")]
        talk.gateway.answers[ListSessions] = [*others, SessionFacts(key, title="the first")]
        await talk.bridge.resume_session(OpenedSession(SessionId("agent:MAIN:theirs"), "/w", ()))
        await talk.settle()
        assert talk.kinds() == ["session_info_update"]
        talk.send(SessionId("agent:MAIN:theirs"), "and more")
        await talk.settle()
        assert await listed_title(talk) == "the first"


@pytest.mark.requirement("C059")
async def test_a_session_of_the_ledger_without_a_title_gets_one_with_the_load() -> None:
    ledger = MemoryLedger()
    session, run = await one_turn(ledger)
    copy = MemoryLedger()
    replay = ledger.read(session)
    assert replay is not None
    copy.write([NewSession(session, replay.session.session_key, "/w", 1)])
    async with conversation(ledger=copy) as talk:
        talk.gateway.answers[ReadTranscript] = told(past(run, "hi", "Hello"))
        await load(talk, session)
        assert await listed_title(talk) == "hi"


@pytest.mark.requirement("C058")
async def test_following_the_cursors_lists_each_session_once() -> None:
    async with conversation() as talk:
        for number in range(120):
            await talk.session(f"/s/{number}") if number < 100 else None
        rows = [SessionFacts(SessionKey(f"agent:main:x{n}"), title=f"x{n}") for n in range(60)]
        own = SessionFacts(first_key())
        rows.insert(3, own)
        talk.gateway.answers[ListSessions] = lambda query: rows[
            query.offset : query.offset + query.limit
        ]
        seen: list[Json] = []
        cursor: str | None = None
        while True:
            page = await talk.bridge.list_sessions(ListedSessions(cursor=cursor))
            seen += page["sessions"]
            cursor = page.get("nextCursor")
            if cursor is None:
                break
        ids = [item["sessionId"] for item in seen]
        assert len(ids) == len(set(ids)) == 160
        assert {item["_meta"]["source"] for item in seen} == {"ledger", "gateway"}


@pytest.mark.requirement("C058")
@pytest.mark.parametrize("cursor", ["garbage", "", "eyJ2IjoyfQ", "e30", "////"])
async def test_a_cursor_that_is_none_of_ours_is_refused(cursor: str) -> None:
    async with conversation() as talk:
        with pytest.raises(InvalidParams, match="cursor"):
            await talk.bridge.list_sessions(ListedSessions(cursor=cursor))


@pytest.mark.parametrize("option", [False, True])
async def test_a_deleted_session_is_gone_and_the_gateways_only_with_the_option(
    option: bool,
) -> None:
    options = SessionOptions(prefix_cwd=False, delete_at_gateway=option)
    async with conversation(options=options) as talk:
        session = await talk.session()
        for _ in range(2):
            assert await talk.bridge.delete_session(session) == {}
        assert (await talk.bridge.list_sessions(ListedSessions()))["sessions"] == []
        deleted = [q for q in talk.gateway.requests if isinstance(q, DeleteSession)]
        assert bool(deleted) is option


async def test_the_gateways_session_is_deleted_by_its_key_also_in_another_process() -> None:
    options = SessionOptions(prefix_cwd=False, delete_at_gateway=True)
    async with conversation() as talk:
        session = await talk.session()
        ledger = talk.ledger
    async with conversation(options=options, ledger=ledger) as later:
        await later.bridge.delete_session(session)
        deleted = [q.session_key for q in later.gateway.requests if isinstance(q, DeleteSession)]
        assert deleted == [f"agent:main:acp-bridge:{session}"]


@pytest.mark.parametrize("method", ["load_session", "resume_session"])
async def test_an_id_that_the_ledger_has_lost_is_found_at_the_gateway(method: str) -> None:
    own = "agent:main:acp-bridge:lost"
    async with conversation() as talk:
        talk.gateway.answers[ResolveSession] = lambda query: (
            own if query.session_key == own else None
        )
        talk.gateway.answers[ReadTranscript] = told(past("r", "question", "answer"))
        await getattr(talk.bridge, method)(OpenedSession(SessionId("lost"), "/w"))
        talk.send(SessionId("lost"), "more")
        assert (await talk.started()).session_key == own


class UnreadableLedger(MemoryLedger):
    """Cannot be read while it is ``away``."""

    away = False

    def read(self, session_id: str) -> Replay | None:
        if self.away:
            raise LedgerUnreachable("away")
        return super().read(session_id)


@pytest.mark.parametrize("method", ["load_session", "resume_session"])
async def test_a_ledger_that_cannot_be_read_costs_no_session_its_key(method: str) -> None:
    ledger = UnreadableLedger()
    async with conversation(ledger=ledger) as talk:
        session = await talk.session()
        ledger.away = True
        await getattr(talk.bridge, method)(OpenedSession(session, "/w"))
        talk.send(session, "more")
        assert (await talk.started()).session_key == first_key()
    async with conversation(ledger=ledger) as later:
        with pytest.raises(HistoryUnavailable) as caught:
            await getattr(later.bridge, method)(OpenedSession(session, "/w"))
        assert caught.value.retryable
        with pytest.raises(SessionNotFound):
            later.send(session, "more")


async def test_the_option_for_new_sessions_does_not_move_an_old_one() -> None:
    async with conversation() as talk:
        session = await talk.session()
        ledger = talk.ledger
    options = SessionOptions(prefix_cwd=False, session_key=SessionKey("main"))
    async with conversation(options=options, ledger=ledger) as later:
        await load(later, session)
        later.send(session, "more")
        assert (await later.started()).session_key == first_key()


async def test_a_session_that_was_not_recorded_whole_says_so() -> None:
    ledger = MemoryLedger()
    session, _ = await one_turn(ledger)
    ledger.write([Incomplete(session)])
    async with conversation(ledger=ledger) as talk:
        await load(talk, session)
        assert texts(talk)[0] == INCOMPLETE


async def test_the_last_token_counts_are_shown_without_a_gateway_and_not_recorded_again() -> None:
    ledger = MemoryLedger()
    session, _ = await one_turn(ledger)
    key = first_key()
    async with conversation(ledger=ledger) as talk:
        await load(talk, session)
        await talk.gateway.emit(ev.SessionChanged(key, 10, 100, 0.5))
    before = ledger.read(session)
    async with conversation(ledger=ledger, link=False) as talk:
        await load(talk, session)
        await talk.gateway.up()
        await talk.gateway.emit(ev.SessionChanged(key, 10, 100, 0.5))
        usages = [u for _, u in talk.outbox.shown if u["sessionUpdate"] == "usage_update"]
        assert usages == [updates.usage(10, 100, 0.5)]
    after = ledger.read(session)
    assert before is not None
    assert after is not None
    assert after.entries == before.entries
    assert after.session.updated_at == before.session.updated_at


async def test_a_prompt_sent_offline_waits_for_what_became_of_the_turn_before() -> None:
    ledger = MemoryLedger()
    session, run = await one_turn(ledger, ends=False)
    async with conversation(ledger=ledger, link=False) as talk:
        await load(talk, session)
        answer = talk.send(session, "more")
        await talk.settle()
        assert not answer.is_answered
        await talk.gateway.up()
        assert talk.commands(StartRun) == []
        await talk.gateway.emit(ev.RunReported(run, ev.RunState.FINISHED, "Hello world"))
        assert (await talk.started()).message == "more"
        assert talk.text(session).endswith(" world")
        replay = ledger.read(session)
        assert replay is not None
        assert replay.runs[0].state is RunState.FINISHED


@pytest.mark.requirement("C057")
async def test_a_closed_session_can_be_loaded_again() -> None:
    async with conversation() as talk:
        session = await talk.session()
        await talk.bridge.close_session(session)
        talk.gateway.answers[ReadTranscript] = told()
        await load(talk, session)
        talk.send(session, "hi")
        assert (await talk.started()).session_key == first_key()
