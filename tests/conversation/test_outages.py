"""Outages that last, runs that fall silent, and an editor that leaves."""

from __future__ import annotations

import asyncio

import pytest

from acp_bridge.bridge import opening
from acp_bridge.bridge.timing import Deadlines
from acp_bridge.core import events as ev
from acp_bridge.core.commands import AbortRun, ProbeRun, ReadTranscript, StartRun
from acp_bridge.core.transcript import Transcript
from acp_bridge.core.turn_view import OUTAGE, OUTAGE_OVER
from acp_bridge.errors import AuthenticationFailed, Detached, GatewayUnreachable, OutcomeUnknown
from acp_bridge.ids import RunId, SessionId
from acp_bridge.wire.acp import OpenedSession
from ledger import RunState
from tests.conversation.test_links import finished, text
from tests.conversation.test_permissions import APPROVAL, asked, asking
from tests.support.service import Conversation, PendingAnswer, conversation


async def running(talk: Conversation) -> tuple[SessionId, RunId, PendingAnswer]:
    """A turn that has said something."""
    session = await talk.session()
    answer = talk.send(session)
    run = (await talk.started()).run_id
    await talk.gateway.emit(ev.RunAccepted(run), text(run, "one", "one"))
    return session, run, answer


async def load_running(talk: Conversation, session: SessionId, run: RunId) -> None:
    """Load a session whose turn still runs at the gateway."""
    talk.gateway.answers[ReadTranscript] = Transcript((), run, None, is_whole=True)
    await talk.bridge.load_session(OpenedSession(session, "/home/me/project"))
    await talk.settle()


async def reconnect(talk: Conversation, run: RunId, snapshot: str) -> None:
    await talk.gateway.up()
    await talk.gateway.emit(ev.RunReported(run, ev.RunState.RUNNING, snapshot=snapshot))


async def test_a_long_outage_is_told_once_and_so_is_its_end_and_both_are_recorded() -> None:
    async with conversation() as talk:
        session, run, answer = await running(talk)
        await talk.gateway.down()
        talk.clock.advance(2.9)
        assert talk.text(session) == "one"
        talk.clock.advance(60)
        assert talk.text(session) == f"one\n\n{OUTAGE}\n\n"
        await reconnect(talk, run, "one\n\ntwo")
        await talk.gateway.emit(finished(run, "one\n\ntwo"))
        assert await answer.stop_reason() == "end_turn"

        assert talk.text(session) == f"one\n\n{OUTAGE}\n\n\n\n{OUTAGE_OVER}\n\n\n\ntwo"
        recorded = [e.record.payload for e in talk.outbox.records if e.record.kind == "update"]
        told = [update["content"]["text"].strip() for update in recorded if "content" in update]
        assert told == ["one", OUTAGE, OUTAGE_OVER, "two"]


async def test_a_notice_in_the_middle_of_a_text_does_not_confuse_the_next_load() -> None:
    async with conversation() as talk:
        session, run, answer = await running(talk)
        await talk.gateway.down()
        talk.clock.advance(4)
        await reconnect(talk, run, "one\n\ntwo")
        await talk.gateway.down()
        ledger = talk.ledger
        await talk.bridge.stop(0, detach=True)
        await answer.failure()
    async with conversation(ledger=ledger) as later:
        await load_running(later, session, run)
        await later.gateway.emit(ev.RunReported(run, ev.RunState.FINISHED, "one\n\ntwo, three"))
        shown = later.text(session).replace(OUTAGE, "").replace(OUTAGE_OVER, "")
        assert "".join(shown.split()) == "onetwo,three"


async def test_a_short_outage_is_not_worth_a_word() -> None:
    async with conversation() as talk:
        session, run, answer = await running(talk)
        for _ in range(3):
            await talk.gateway.down()
            talk.clock.advance(2)
            await reconnect(talk, run, "one")
        talk.clock.advance(60)
        await talk.gateway.emit(finished(run, "one"))
        assert await answer.stop_reason() == "end_turn"
        assert talk.text(session) == "one"


async def test_a_prompt_of_a_long_outage_is_told_so_and_sent_once_after_it() -> None:
    async with conversation() as talk:
        session = await talk.session()
        await talk.gateway.down(trouble=GatewayUnreachable())
        talk.clock.advance(10)
        answer = talk.send(session)
        await talk.settle()
        assert OUTAGE in talk.text(session)
        assert not answer.is_answered

        await talk.gateway.up()
        run = (await talk.started()).run_id
        await talk.gateway.emit(finished(run, "after all"))
        assert await answer.stop_reason() == "end_turn"
        assert len(talk.commands(StartRun)) == 1


async def test_a_sent_prompt_waits_for_the_whole_window_and_no_longer() -> None:
    async with conversation() as talk:
        session, _, answer = await running(talk)
        await talk.gateway.down()
        talk.clock.advance(1_799)
        assert not answer.is_answered
        talk.clock.advance(2)
        error = await answer.failure()
        assert isinstance(error, OutcomeUnknown)
        assert error.message in talk.text(session)


@pytest.mark.requirement("C030")
async def test_a_silent_run_is_asked_about_and_its_missed_end_recovered() -> None:
    async with conversation() as talk:
        session, run, answer = await running(talk)
        talk.clock.advance(59)
        assert talk.commands(ProbeRun) == []
        await talk.gateway.emit(text(run, ",", "one,"))
        talk.clock.advance(59)
        assert talk.commands(ProbeRun) == []
        talk.clock.advance(1)
        assert len(talk.commands(ProbeRun)) == 1
        await talk.gateway.emit(ev.RunReported(run, ev.RunState.FINISHED, "one, two"))
        assert await answer.stop_reason() == "end_turn"
        assert talk.text(session) == "one, two"
        talk.clock.advance(600)
        assert len(talk.commands(ProbeRun)) == 1


@pytest.mark.requirement("C030")
async def test_a_silent_run_that_the_gateway_has_at_work_is_waited_for() -> None:
    async with conversation() as talk:
        _, run, answer = await running(talk)
        for number in range(1, 4):
            talk.clock.advance(60)
            assert len(talk.commands(ProbeRun)) == number
            await talk.gateway.emit(ev.RunReported(run, ev.RunState.RUNNING, "one"))
        assert not answer.is_answered


@pytest.mark.requirement("C030")
@pytest.mark.parametrize("state", [ev.RunState.UNKNOWN, ev.RunState.NOT_TAKEN])
async def test_a_silent_run_that_the_gateway_denies_twice_is_lost(state: ev.RunState) -> None:
    async with conversation() as talk:
        session, run, answer = await running(talk)
        talk.clock.advance(60)
        await talk.gateway.emit(ev.RunReported(run, state))
        assert not answer.is_answered
        talk.clock.advance(5)
        assert len(talk.commands(ProbeRun)) == 2
        await talk.gateway.emit(ev.RunReported(run, state))
        assert isinstance(await answer.failure(), OutcomeUnknown)
        assert "no longer knows" in talk.text(session)
        assert len(talk.commands(StartRun)) == 1


@pytest.mark.requirement("C030", "C089")
@pytest.mark.parametrize("state", [ev.RunState.UNKNOWN, ev.RunState.CUT])
async def test_a_silent_run_is_not_lost_while_the_gateway_works_in_its_session(
    state: ev.RunState,
) -> None:
    """2026.9.6 names the run of another client's prompt, which it feeds into this one."""
    async with conversation() as talk:
        session, run, answer = await running(talk)
        for _ in range(4):
            talk.clock.advance(60)
            await talk.gateway.emit(ev.RunReported(run, state, is_busy=True))
        await talk.gateway.emit(finished(run, "one, two"))
        assert await answer.stop_reason() == "end_turn"
        assert talk.text(session) == "one, two"


@pytest.mark.parametrize("boot", ["boot-1", "boot-2"])
async def test_only_a_gateway_that_was_not_restarted_is_believed_to_work_on_the_run(
    boot: str,
) -> None:
    async with conversation(link=False) as talk:
        await talk.gateway.up(boot_id="boot-1")
        _, run, answer = await running(talk)
        await talk.gateway.down()
        await talk.gateway.up(boot_id=boot)
        await talk.gateway.emit(ev.RunReported(run, ev.RunState.CUT, "one", is_busy=True))
        talk.clock.advance(25)
        if boot == "boot-1":
            assert not answer.is_answered
            await talk.gateway.emit(finished(run, "one, two"))
            assert await answer.stop_reason() == "end_turn"
        else:
            assert isinstance(await answer.failure(), OutcomeUnknown)


async def test_one_denial_is_forgotten_when_the_run_says_something() -> None:
    async with conversation() as talk:
        _, run, answer = await running(talk)
        talk.clock.advance(60)
        await talk.gateway.emit(ev.RunReported(run, ev.RunState.UNKNOWN))
        await talk.gateway.emit(text(run, "!", "one!"))
        talk.clock.advance(60)
        await talk.gateway.emit(ev.RunReported(run, ev.RunState.UNKNOWN))
        assert not answer.is_answered


async def test_a_run_that_waits_for_the_user_is_not_called_silent() -> None:
    async with conversation() as talk:
        await asking(talk)
        talk.clock.advance(600)
        assert talk.commands(ProbeRun) == []


@pytest.mark.requirement("C037")
async def test_a_question_that_still_waits_after_a_gap_stays_open() -> None:
    async with conversation() as talk:
        run, _, question = await asking(talk)
        await talk.gateway.down()
        await talk.gateway.up()
        waiting = ev.ApprovalsListed(frozenset({APPROVAL}))
        await talk.gateway.emit(asked(run), waiting)
        assert len(talk.editor.asked) == 1
        assert not question.is_withdrawn


@pytest.mark.requirement("C041")
async def test_a_question_that_was_settled_in_a_gap_is_withdrawn_with_a_line() -> None:
    async with conversation() as talk:
        run, answer, question = await asking(talk)
        await talk.gateway.down()
        await talk.gateway.up()
        report = ev.RunReported(run, ev.RunState.RUNNING)
        await talk.gateway.emit(ev.ApprovalsListed(frozenset()), report)
        assert question.is_withdrawn
        await talk.gateway.emit(finished(run, "done"))
        assert await answer.stop_reason() == "end_turn"
        shown = [u["content"]["text"] for _, u in talk.outbox.shown if "messageId" in u]
        assert any("while the connection was lost" in each for each in shown)


async def test_a_question_of_this_connection_is_not_closed_by_an_older_list() -> None:
    async with conversation() as talk:
        session = await talk.session()
        talk.send(session)
        run = (await talk.started()).run_id
        await talk.gateway.emit(ev.RunAccepted(run))
        await talk.gateway.down()
        await talk.gateway.up()
        await talk.gateway.emit(asked(run), ev.ApprovalsListed(frozenset()))
        assert not talk.editor.asked[0].is_withdrawn


@pytest.mark.requirement("C083")
async def test_when_the_editor_leaves_its_turns_go_on_and_a_later_process_takes_them_up() -> None:
    async with conversation() as talk:
        session, run, answer = await running(talk)
        waiting = talk.send(await talk.session("/elsewhere"))
        await talk.started(2)
        await talk.bridge.stop(0, detach=True)
        assert isinstance(await answer.failure(), Detached)
        assert isinstance(await waiting.failure(), Detached)
        assert talk.commands(AbortRun) == []
        replay = talk.ledger.read(session)
        assert replay is not None
        assert replay.runs[0].state is RunState.OPEN
        ledger = talk.ledger
    async with conversation(ledger=ledger) as later:
        await load_running(later, session, run)
        await later.gateway.emit(ev.RunReported(run, ev.RunState.RUNNING, "one, two"))
        await later.gateway.emit(finished(run, "one, two, three"))
        await later.settle()
        assert later.text(session) == "one, two, three"
        replay = ledger.read(session)
        assert replay is not None
        assert replay.runs[0].state is RunState.FINISHED


async def test_when_the_editor_leaves_what_was_not_sent_yet_is_cancelled() -> None:
    async with conversation() as talk:
        session = await talk.session()
        await talk.gateway.down()
        answer = talk.send(session)
        await talk.bridge.stop(0, detach=True)
        assert await answer.stop_reason() == "cancelled"
        await talk.gateway.up()
        await talk.settle()
        assert talk.commands(StartRun) == []


@pytest.mark.parametrize("is_loaded", [True, False], ids=["load", "resume"])
async def test_a_prompt_into_a_session_opened_offline_waits_as_long_as_for_a_lost_link(
    is_loaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with conversation() as talk:
        session, ledger = await talk.session(), talk.ledger
    monkeypatch.setattr(opening, "LOAD_WAIT", 0.01)
    async with conversation(ledger=ledger, link=False) as talk:
        talk.bridge._prompting._deadlines = Deadlines(connect=0.01)
        wanted = OpenedSession(session, "/home/me/project")
        if is_loaded:
            await talk.bridge.load_session(wanted)
        else:
            await talk.bridge.resume_session(wanted)
        waits = talk.gateway.waits
        answer = talk.send(session)
        await talk.until(lambda: talk.gateway.waits > waits)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(answer._future), 0.1)
        talk.clock.advance(3)
        assert OUTAGE in talk.text(session)
        await talk.gateway.up()
        assert (await talk.started()).message == "hello"
        assert OUTAGE_OVER in talk.text(session)


async def test_a_prompt_into_a_session_opened_offline_fails_at_once_if_it_is_refused() -> None:
    async with conversation() as talk:
        session, ledger = await talk.session(), talk.ledger
    async with conversation(ledger=ledger, link=False) as talk:
        await talk.gateway.down(trouble=AuthenticationFailed())
        await talk.bridge.load_session(OpenedSession(session, "/home/me/project"))
        assert isinstance(await talk.send(session).failure(), AuthenticationFailed)
