"""More sessions than a bridge keeps, and such that nobody uses, with the whole service."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from acp_bridge.core import events as ev
from acp_bridge.core.sessions import MAX_IDLE, MAX_SESSIONS, CreationLimit
from acp_bridge.errors import SessionNotFound, TooManySessions
from acp_bridge.ids import Json, SessionId
from ledger import Change
from ledger.memory import MemoryLedger
from tests.conversation.test_loading import load
from tests.support.service import Conversation, conversation

LOOP = CreationLimit(count=10 * MAX_SESSIONS)
"""No session comes too fast."""


async def talked(talk: Conversation, session: SessionId) -> None:
    """Hold a turn in the session."""
    count = len(talk.gateway.submitted)
    answer = talk.send(session)
    await talk.until(lambda: len(talk.gateway.submitted) > count)
    run = talk.gateway.submitted[-1].run_id  # type: ignore[union-attr]  # it is a StartRun
    await talk.gateway.emit(ev.RunEnded(run, ev.EndKind.FINISHED, f"answer in {session}"))
    assert await answer.stop_reason() == "end_turn"


class Blank(MemoryLedger):
    """Keeps nothing, and so takes no time for thousands of sessions."""

    def write(self, changes: Sequence[Change]) -> None:
        return


async def test_5000_sessions_are_kept_and_one_more_costs_the_one_unused_for_longest() -> None:
    async with conversation(limit=LOOP, ledger=Blank()) as talk:
        sessions = []
        for _ in range(MAX_SESSIONS):
            sessions.append(await talk.session())
            talk.clock.advance(1)
        await talked(talk, sessions[0])  # nothing was forgotten; and now it was used last

        sessions.append(await talk.session())

        with pytest.raises(SessionNotFound, match=f"Session not found: {sessions[1]}"):
            talk.send(sessions[1])
        for kept in (sessions[0], sessions[2], sessions[-1]):
            await talked(talk, kept)


async def test_a_session_that_nobody_used_for_a_day_is_forgotten_and_can_be_loaded() -> None:
    async with conversation() as talk:
        used, idle = await talk.session(), await talk.session()
        await talked(talk, used)
        await talked(talk, idle)
        talk.clock.advance(MAX_IDLE - 1)
        await talk.session()
        await talked(talk, used)  # both are there at 24 hours less a second

        talk.clock.advance(1)
        await talk.session()

        with pytest.raises(SessionNotFound):
            talk.send(idle)
        await talked(talk, used)
        shown = len(talk.outbox.shown)
        await load(talk, idle)
        replayed: list[Json] = [update for _, update in talk.outbox.shown[shown:]]
        assert f"answer in {idle}" in str(replayed)
        await talked(talk, idle)


async def test_a_session_with_a_turn_at_work_outlives_the_day() -> None:
    async with conversation() as talk:
        busy = await talk.session()
        answer = talk.send(busy)
        run = (await talk.started()).run_id
        await talk.gateway.emit(ev.RunAccepted(run), ev.TextProgress(run, "so far", False, None))
        for _ in range(48):
            talk.clock.advance(MAX_IDLE / 24)
            await talk.gateway.emit(ev.TextProgress(run, ".", False, None))
        await talk.session()
        await talk.gateway.emit(ev.RunEnded(run, ev.EndKind.FINISHED))
        assert await answer.stop_reason() == "end_turn"
        await talked(talk, busy)


async def test_while_all_sessions_are_at_work_one_more_is_refused_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with conversation() as talk:
        monkeypatch.setattr(talk.bridge._sessions, "_limit", 3)
        for number in range(3):
            talk.send(await talk.session())
            await talk.started(number + 1)

        with pytest.raises(TooManySessions) as caught:
            await talk.session()

        assert caught.value.code == "too_many_sessions"
        assert "close a session" in (caught.value.hint or "")
