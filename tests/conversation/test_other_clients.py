"""Turns that other clients of a session begin."""

from __future__ import annotations

import pytest

from acp_bridge.core import events as ev
from acp_bridge.core.commands import AbortRun, ReadTranscript, StartRun
from acp_bridge.core.sessions import SessionOptions
from acp_bridge.core.transcript import PastTurn, SaidText, Transcript
from acp_bridge.core.turn_base import FOREIGN
from acp_bridge.ids import RunId, SessionId, SessionKey
from acp_bridge.wire.acp import OpenedSession
from tests.conversation.test_links import finished, text
from tests.conversation.test_outages import load_running, running
from tests.conversation.test_permissions import asked
from tests.support.service import Conversation, conversation

THEIRS = RunId("theirs")


def key_of(session: SessionId) -> SessionKey:
    return SessionKey(f"agent:main:acp-bridge:{session}")


async def begun(talk: Conversation) -> SessionId:
    """A session in which another client's turn says something."""
    session = await talk.session()
    seen = ev.RunSeen(THEIRS, key_of(session))
    await talk.gateway.emit(seen, text(THEIRS, "theirs", "theirs"))
    return session


@pytest.mark.requirement("C090")
async def test_a_foreign_turn_is_shown_as_such_and_kept() -> None:
    async with conversation() as talk:
        session = await begun(talk)
        await talk.gateway.emit(finished(THEIRS, "theirs, all of it"))
        assert talk.text(session) == f"{FOREIGN}theirs, all of it"
        marks = [u["_meta"]["acpBridge"] for _, u in talk.outbox.shown if "_meta" in u]
        assert marks == [{"from": "another client", "runId": THEIRS}]
        ledger = talk.ledger
    for _ in range(2):
        async with conversation(ledger=ledger) as later:
            turn = PastTurn(
                THEIRS, 1, "question", (), (SaidText("theirs, all of it"),), "end_turn", None
            )
            later.gateway.answers[ReadTranscript] = Transcript((turn,), None, None, is_whole=True)
            await later.bridge.load_session(OpenedSession(session, "/home/me/project"))
            assert later.text(session, "user_message_chunk") == "question"
            assert later.text(session).endswith("theirs, all of it")
            assert later.text(session).count("theirs") == 1


async def test_a_foreign_turn_is_not_shown_if_that_is_not_wanted() -> None:
    options = SessionOptions(prefix_cwd=False, shows_foreign=False)
    async with conversation(options=options) as talk:
        session = await begun(talk)
        assert talk.text(session) == ""


@pytest.mark.requirement("C089")
@pytest.mark.parametrize("is_shown", [True, False])
async def test_a_prompt_waits_for_a_foreign_turn_that_has_said_nothing_and_is_not_told_of(
    is_shown: bool,
) -> None:
    options = SessionOptions(prefix_cwd=False, shows_foreign=is_shown)
    async with conversation(options=options) as talk:
        session = await talk.session()
        await talk.gateway.emit(ev.RunSeen(THEIRS, key_of(session)))
        answer = talk.send(session, "mine")
        await talk.settle()
        assert talk.commands(StartRun) == []
        await talk.gateway.emit(finished(THEIRS))
        run = (await talk.started()).run_id
        await talk.gateway.emit(finished(run, "mine"))
        assert await answer.stop_reason() == "end_turn"
        assert talk.text(session) == "mine"
        replay = talk.ledger.read(session)
        assert replay is not None
        assert THEIRS not in {entry.run_id for entry in replay.entries}


async def test_a_turn_of_another_session_is_not_shown() -> None:
    async with conversation() as talk:
        session = await talk.session()
        seen = ev.RunSeen(THEIRS, SessionKey("agent:main:other"))
        await talk.gateway.emit(seen, text(THEIRS, "theirs", "theirs"))
        assert talk.text(session) == ""


@pytest.mark.requirement("C089")
async def test_a_prompt_waits_for_a_foreign_turn_and_stops_nothing() -> None:
    async with conversation() as talk:
        session = await begun(talk)
        answer = talk.send(session, "mine")
        await talk.settle()
        assert talk.commands(StartRun) == []
        await talk.gateway.emit(finished(THEIRS, "theirs"))
        run = (await talk.started()).run_id
        await talk.gateway.emit(finished(run, "mine"))
        assert await answer.stop_reason() == "end_turn"
        assert talk.commands(AbortRun) == []


async def test_a_cancel_stops_the_own_turn_and_not_the_foreign_one() -> None:
    async with conversation() as talk:
        session = await begun(talk)
        talk.bridge.cancel(session)
        answer = talk.send(session, "mine")
        talk.bridge.cancel(session)
        assert await answer.stop_reason() == "cancelled"
        await talk.bridge.stop(0, detach=False)
        assert talk.commands(AbortRun) == []


async def test_the_foreign_client_is_asked_for_its_permissions_and_not_this_editor() -> None:
    async with conversation() as talk:
        await begun(talk)
        await talk.gateway.emit(asked(THEIRS))
        assert talk.editor.asked == []


@pytest.mark.requirement("C029")
async def test_late_news_of_an_own_run_after_a_reconnect_are_nobody_elses_turn() -> None:
    async with conversation() as talk:
        session, run, answer = await running(talk)
        await talk.gateway.emit(finished(run, "one"))
        assert await answer.stop_reason() == "end_turn"
        await talk.gateway.down()
        await talk.gateway.up()
        failed = ev.RunEnded(run, ev.EndKind.FAILED, error="late")
        await talk.gateway.emit(ev.RunSeen(run, key_of(session)), failed)
        assert talk.text(session) == "one"


@pytest.mark.parametrize("way", ["close", "exit"])
async def test_a_window_that_leaves_does_not_stop_a_turn_that_another_process_began(
    way: str,
) -> None:
    async with conversation() as first, conversation(ledger=first.ledger) as second:
        session, run, answer = await running(first)
        await load_running(second, session, run)
        await second.gateway.emit(ev.RunReported(run, ev.RunState.RUNNING, "one"))
        if way == "close":
            await second.bridge.close_session(session)
        else:
            waiting = second.send(session, "mine")
            await second.bridge.stop(0, detach=False)
            assert await waiting.stop_reason() == "cancelled"
        assert second.commands(AbortRun) == []
        assert second.commands(StartRun) == []
        await first.gateway.emit(finished(run, "one"))
        assert await answer.stop_reason() == "end_turn"


async def test_a_user_may_stop_a_turn_that_another_process_began() -> None:
    async with conversation() as first, conversation(ledger=first.ledger) as second:
        session, run, _ = await running(first)
        await load_running(second, session, run)
        await second.gateway.emit(ev.RunReported(run, ev.RunState.RUNNING, "one"))
        second.bridge.cancel(session)
        assert [command.run_id for command in second.commands(AbortRun)] == [run]


@pytest.mark.requirement("C046")
async def test_a_prompt_does_not_stop_a_turn_that_another_process_began() -> None:
    async with conversation() as first, conversation(ledger=first.ledger) as second:
        session, run, answer = await running(first)
        await load_running(second, session, run)
        await second.gateway.emit(ev.RunReported(run, ev.RunState.RUNNING, "one"))
        mine = second.send(session, "mine")
        await second.settle()
        assert second.commands(AbortRun) == []
        assert second.commands(StartRun) == []
        for talk in (first, second):
            await talk.gateway.emit(finished(run, "one"))
        assert await answer.stop_reason() == "end_turn"
        own = (await second.started()).run_id
        await second.gateway.emit(finished(own, "two"))
        assert await mine.stop_reason() == "end_turn"


@pytest.mark.parametrize("is_deleted", [False, True], ids=["close", "delete"])
async def test_a_session_that_the_editor_has_left_is_told_nothing_more_of_a_foreign_turn(
    is_deleted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with conversation() as talk:
        session = await begun(talk)
        leave = talk.bridge.delete_session if is_deleted else talk.bridge.close_session
        await leave(session)
        shown, recorded = len(talk.outbox.shown), len(talk.outbox.records)
        await talk.gateway.emit(
            ev.RunSeen(THEIRS, key_of(session)),
            text(THEIRS, "theirs, and more", " and more"),
            finished(THEIRS, "theirs, and more, all of it"),
        )
        await talk.settle()
        assert talk.outbox.shown[shown:] == []
        assert talk.outbox.records[recorded:] == []
        assert [record for record in caplog.records if record.levelname == "WARNING"] == []


async def test_a_foreign_turn_goes_on_in_a_session_that_is_loaded_again() -> None:
    async with conversation() as talk:
        session = await begun(talk)
        await talk.bridge.close_session(session)
        await load_running(talk, session, THEIRS)
        answer = talk.send(session, "mine")
        await talk.settle()
        assert talk.commands(StartRun) == []
        await talk.gateway.emit(
            ev.RunReported(THEIRS, ev.RunState.RUNNING, "theirs"),
            finished(THEIRS, "theirs, and more"),
        )
        assert talk.text(session).endswith("and more")
        run = (await talk.started()).run_id
        await talk.gateway.emit(finished(run, "mine"))
        assert await answer.stop_reason() == "end_turn"
