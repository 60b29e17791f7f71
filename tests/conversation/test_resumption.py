"""A gateway that is restarted in the middle of a run and goes on with it as another run."""

from __future__ import annotations

import pytest

from acp_bridge.core import events as ev
from acp_bridge.core.commands import AbortRun, ProbeRun, ReadTranscript, StartRun
from acp_bridge.core.transcript import PastTurn, SaidText, Transcript
from acp_bridge.core.turn_view import RESUMED
from acp_bridge.errors import OutcomeUnknown
from acp_bridge.ids import RunId
from acp_bridge.wire.acp import OpenedSession
from tests.conversation.test_links import finished, text
from tests.conversation.test_outages import running
from tests.support.service import Conversation, conversation

AGAIN = RunId("again")


async def restart(talk: Conversation, run: RunId, resumed_as: RunId | None = None) -> None:
    """The gateway was restarted and says that the run was cut."""
    await talk.gateway.down()
    await talk.gateway.up()
    await talk.gateway.emit(ev.RunReported(run, ev.RunState.CUT, resumed_as=resumed_as))


@pytest.mark.parametrize("named", [True, False])
async def test_the_rest_of_the_turn_is_shown_under_its_own_prompt(named: bool) -> None:
    async with conversation() as talk:
        session, run, answer = await running(talk)
        await restart(talk, run, AGAIN if named else None)
        assert not answer.is_answered
        if not named:
            key = talk.commands(StartRun)[0].session_key
            await talk.gateway.emit(ev.RunSeen(AGAIN, key, is_beginning=True))
            assert len(talk.commands(ProbeRun)) == 1  # the gateway may not know it yet
            await talk.gateway.emit(ev.RunSeen(AGAIN, key))
        assert talk.commands(ProbeRun)[-1].run_id == AGAIN
        await talk.gateway.emit(ev.RunReported(AGAIN, ev.RunState.RUNNING, "two"))
        await talk.gateway.emit(text(AGAIN, ", three", "two, three"))
        await talk.gateway.emit(finished(AGAIN, "two, three, four"))
        assert await answer.stop_reason() == "end_turn"
        assert talk.text(session) == f"one\n\n{RESUMED}\n\ntwo, three, four"


async def test_a_run_seen_before_the_answer_about_the_old_one_is_followed_too() -> None:
    async with conversation() as talk:
        session, run, answer = await running(talk)
        key = talk.commands(StartRun)[0].session_key
        await talk.gateway.down()
        await talk.gateway.up()
        await talk.gateway.emit(ev.RunSeen(AGAIN, key), ev.RunReported(run, ev.RunState.CUT))
        await talk.gateway.emit(finished(AGAIN, "two"))
        await talk.gateway.emit(ev.RunReported(AGAIN, ev.RunState.FINISHED, "two"))
        assert await answer.stop_reason() == "end_turn"
        assert talk.text(session).endswith("two")


async def test_a_run_that_is_not_taken_up_is_lost_after_a_while() -> None:
    async with conversation() as talk:
        _, run, answer = await running(talk)
        await restart(talk, run)
        talk.clock.advance(19)
        assert not answer.is_answered
        talk.clock.advance(2)
        assert isinstance(await answer.failure(), OutcomeUnknown)


async def test_what_somebody_else_began_meanwhile_is_not_taken_for_the_turn_s_work() -> None:
    async with conversation() as talk:
        session, run, answer = await running(talk)
        key = talk.commands(StartRun)[0].session_key
        await restart(talk, run)
        await talk.gateway.emit(ev.RunSeen(AGAIN, key))
        report = ev.RunReported(AGAIN, ev.RunState.RUNNING, "foreign", is_foreign=True)
        await talk.gateway.emit(report)
        talk.clock.advance(60)
        assert isinstance(await answer.failure(), OutcomeUnknown)
        assert "foreign" not in talk.text(session)


async def test_a_cancel_stops_the_run_that_goes_on() -> None:
    async with conversation() as talk:
        session, run, answer = await running(talk)
        await restart(talk, run, AGAIN)
        await talk.gateway.emit(ev.RunReported(AGAIN, ev.RunState.RUNNING, "two"))
        talk.bridge.cancel(session)
        assert talk.commands(AbortRun)[-1].run_id == AGAIN
        await talk.gateway.emit(ev.RunEnded(AGAIN, ev.EndKind.ABORTED))
        assert await answer.stop_reason() == "cancelled"


async def test_a_later_process_takes_up_the_run_that_goes_on() -> None:
    async with conversation() as talk:
        session, run, answer = await running(talk)
        await restart(talk, run, AGAIN)
        await talk.gateway.emit(ev.RunReported(AGAIN, ev.RunState.RUNNING, "two"))
        await talk.bridge.stop(0, detach=True)
        await answer.failure()
        ledger = talk.ledger
    async with conversation(ledger=ledger) as later:
        later.gateway.answers[ReadTranscript] = Transcript((), AGAIN, None, is_whole=True)
        await later.bridge.load_session(OpenedSession(session, "/home/me/project"))
        await later.settle()
        assert later.commands(ProbeRun)[-1].run_id == AGAIN
        await later.gateway.emit(ev.RunReported(AGAIN, ev.RunState.FINISHED, "two, three"))
        await later.settle()
        assert later.text(session) == f"one\n\n{RESUMED}\n\ntwo, three"


@pytest.mark.parametrize("name", [AGAIN, None])  # 2026.6.11 does not name the run
@pytest.mark.parametrize("has_ended", [True, False])
async def test_a_load_adds_of_the_resumed_work_only_what_was_not_seen(
    has_ended: bool, name: RunId | None
) -> None:
    async with conversation() as talk:
        session, run, answer = await running(talk)
        await restart(talk, run, AGAIN)
        await talk.gateway.emit(ev.RunReported(AGAIN, ev.RunState.RUNNING, "two"))
        if has_ended:
            await talk.gateway.emit(finished(AGAIN, "two, three"))
            assert await answer.stop_reason() == "end_turn"
        else:
            await talk.bridge.stop(0, detach=True)
            await answer.failure()
        ledger = talk.ledger
    turns = (
        PastTurn(run, 1, "hello", (), (SaidText("one"),), None, None),
        PastTurn(name, 2, "", (), (SaidText("two, three"),), "end_turn", None, is_system=True),
    )
    for _ in range(2):
        async with conversation(ledger=ledger) as later:
            later.gateway.answers[ReadTranscript] = Transcript(turns, None, None, is_whole=True)
            await later.bridge.load_session(OpenedSession(session, "/home/me/project"))
            await later.settle()
            assert later.text(session) == f"one\n\n{RESUMED}\n\ntwo, three"
