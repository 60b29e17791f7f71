"""Several processes that record one turn: nothing of it is shown twice later."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack

import pytest

from acp_bridge.core import events as ev
from acp_bridge.core.commands import ReadTranscript
from acp_bridge.core.transcript import PastTurn, SaidText, Transcript
from acp_bridge.ids import SessionId, ToolCallId
from acp_bridge.wire.acp import OpenedSession
from ledger import Change, LedgerBusy
from ledger.memory import MemoryLedger
from tests.conversation.test_links import finished, text
from tests.conversation.test_outages import load_running, running
from tests.conversation.test_permissions import APPROVAL, asked
from tests.support.service import Conversation, conversation


async def shown_later(ledger: MemoryLedger, session: SessionId, *turns: PastTurn) -> str:
    """The agent's text of a load in a new process."""
    async with conversation(ledger=ledger) as later:
        later.gateway.answers[ReadTranscript] = Transcript(turns, None, None, is_whole=True)
        await later.bridge.load_session(OpenedSession(session, "/home/me/project"))
        await later.settle()
        return later.text(session)


async def tell(talks: list[Conversation], *events: ev.GatewayEvent) -> None:
    for talk in talks:
        await talk.gateway.emit(*events)


@pytest.mark.requirement("C063")
async def test_a_turn_that_three_windows_watch_is_recorded_once() -> None:
    async with conversation() as first, AsyncExitStack() as stack:
        session, run, answer = await running(first)
        others = [
            await stack.enter_async_context(conversation(ledger=first.ledger)) for _ in range(2)
        ]
        for other in others:
            await load_running(other, session, run)
            await other.gateway.emit(ev.RunReported(run, ev.RunState.RUNNING, "one"))
        every = [first, *others]
        call = ToolCallId("call-1")
        await tell(every, text(run, " two", "one two"))
        await tell(every, ev.ToolStarted(run, call, "exec", {"command": "echo hi"}), asked(run))
        await tell(every, ev.PermissionClosed(APPROVAL, "allow-once"))
        await tell(every, ev.ToolEnded(run, call, "exec", is_error=False, result="hi"))
        await tell(every, text(run, "three", "one two\n\nthree"))
        await tell(every[::-1], text(run, " four", "one two\n\nthree four"))
        await tell(every, finished(run, "one two\n\nthree four five"))
        assert await answer.stop_reason() == "end_turn"
        shown = await shown_later(first.ledger, session)
        permission = "Permission asked: echo hi (allowed once)"
        assert shown == f"one two{permission}three four five"


async def test_a_failed_turn_that_two_windows_watch_says_once_why() -> None:
    async with conversation() as first, conversation(ledger=first.ledger) as second:
        session, run, answer = await running(first)
        await load_running(second, session, run)
        await second.gateway.emit(ev.RunReported(run, ev.RunState.RUNNING, "one"))
        failed = ev.RunEnded(run, ev.EndKind.FAILED, error="No more tokens.")
        await tell([first, second], failed)
        await answer.failure()
        assert await shown_later(first.ledger, session) == "one\n\nNo more tokens."


class LockedLedger(MemoryLedger):
    """Takes nothing while it is locked."""

    is_locked = False

    def write(self, changes: Sequence[Change]) -> None:
        if self.is_locked:
            raise LedgerBusy("locked")
        super().write(changes)


async def test_what_another_process_has_added_meanwhile_is_not_doubled_by_a_late_record() -> None:
    ledger = LockedLedger()
    async with conversation(ledger=ledger) as first:
        session = await first.session()
        ledger.is_locked = True
        answer = first.send(session)
        run = (await first.started()).run_id
        await first.gateway.emit(ev.RunAccepted(run), text(run, "one", "one"))
        await first.gateway.emit(finished(run, "one, two"))
        assert await answer.stop_reason() == "end_turn"
        ledger.is_locked = False

        turn = PastTurn(run, 1, "hello", (), (SaidText("one, two"),), "end_turn", None)
        assert "one, two" in await shown_later(ledger, session, turn)
        first.outbox.catch_up()
        assert await shown_later(ledger, session, turn) == "one, two"
        async with conversation(ledger=ledger) as later:
            await later.bridge.load_session(OpenedSession(session, "/home/me/project"))
            assert later.text(session, "user_message_chunk") == "hello"
