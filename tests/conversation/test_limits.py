"""What a gateway may ask and begin: at each limit, and one past it."""

from __future__ import annotations

import pytest

from acp_bridge.bridge import approvals, passing
from acp_bridge.core import events as ev
from acp_bridge.core.commands import AnswerPeer, AnswerPermission, OpenedAt, OpenSession
from acp_bridge.core.open_permissions import MAX_ASKED, MAX_OPEN
from acp_bridge.core.turns import MAX_TURNS
from acp_bridge.ids import ApprovalId, RunId, SessionKey
from acp_bridge.wire.weight import weigh
from tests.conversation.test_permissions import asked, decisions
from tests.support.service import Conversation, conversation, first_key

TOO_MANY = "too many approvals"


def named(run: RunId, number: int) -> ev.PermissionAsked:
    return asked(run, approval_id=ApprovalId(f"approval-{number}"))


async def running(talk: Conversation) -> tuple[str, RunId]:
    session = await talk.session()
    talk.send(session)
    run = (await talk.started()).run_id
    await talk.gateway.emit(ev.RunAccepted(run))
    return session, run


async def test_one_open_approval_more_than_a_turn_may_have_is_denied_and_told_once() -> None:
    async with conversation() as talk:
        session, run = await running(talk)
        for number in range(MAX_OPEN):
            await talk.gateway.emit(named(run, number))
        assert len(talk.editor.asked) == MAX_OPEN
        assert decisions(talk) == []
        for number in range(MAX_OPEN, MAX_OPEN + 3):
            await talk.gateway.emit(named(run, number))
        assert len(talk.editor.asked) == MAX_OPEN
        assert decisions(talk) == ["deny"] * 3
        assert {each.approval_id for each in talk.commands(AnswerPermission)} == {
            f"approval-{number}" for number in range(MAX_OPEN, MAX_OPEN + 3)
        }
        assert talk.text(session).count(TOO_MANY) == 1  # type: ignore[arg-type]  # a SessionId
        talk.editor.asked[0].choose("allow-once")
        await talk.settle()
        assert decisions(talk)[-1] == "allow-once"


async def test_approvals_that_are_settled_make_room_up_to_the_number_of_one_turn() -> None:
    async with conversation() as talk:
        _, run = await running(talk)
        for number in range(MAX_ASKED):
            await talk.gateway.emit(named(run, number))
            await talk.gateway.emit(ev.PermissionClosed(ApprovalId(f"approval-{number}"), "deny"))
        assert len(talk.editor.asked) == MAX_ASKED
        await talk.gateway.emit(named(run, MAX_ASKED))
        assert len(talk.editor.asked) == MAX_ASKED
        assert decisions(talk) == ["deny"]


async def test_approvals_that_nobody_settles_are_forgotten_past_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(approvals, "MAX_KNOWN", 5)
    async with conversation() as talk:
        _, run = await running(talk)
        for number in range(20):
            await talk.gateway.emit(named(run, number))
        known = talk.bridge._prompting._approvals
        assert (len(known._known), len(known._unsettled)) == (5, 5)
        assert known.turn_of(ApprovalId("approval-19")) is not None


async def test_runs_that_others_begin_without_end_are_watched_up_to_the_limit() -> None:
    async with conversation() as talk:
        await talk.session()
        for number in range(MAX_TURNS + 1):
            assert len(talk.bridge._prompting.turns) == number
            await talk.gateway.emit(ev.RunSeen(RunId(f"other-{number}"), SessionKey(first_key())))
        assert len(talk.bridge._prompting.turns) == MAX_TURNS


async def test_updates_of_a_session_that_is_not_open_yet_wait_up_to_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = SessionKey("named-by-the-gateway")
    update = {"sessionUpdate": "session_info_update", "title": "early"}
    for limit, kept in ((passing.MAX_EARLY, passing.MAX_EARLY), (5, 5)):
        if limit != passing.MAX_EARLY:
            monkeypatch.setattr(passing, "MAX_EARLY_BYTES", limit * weigh(update))
        async with conversation(makes_sessions=True) as talk:
            talk.gateway.answers[OpenSession] = OpenedAt(key, {})
            for _ in range(kept + 1):
                await talk.gateway.emit(ev.SessionUpdated(key, update))
            await talk.session()
            await talk.settle()
            assert talk.kinds() == ["session_info_update"] * kept


async def test_one_question_of_the_gateway_more_than_may_wait_is_refused() -> None:
    key = SessionKey("named-by-the-gateway")
    async with conversation(makes_sessions=True) as talk:
        talk.gateway.answers[OpenSession] = OpenedAt(key, {})
        await talk.session()
        for number in range(passing.MAX_ASKS + 1):
            assert talk.commands(AnswerPeer) == []
            ask = ApprovalId(f"ask-{number}")
            await talk.gateway.emit(ev.PeerAsked(ask, "_x/ask", {"sessionId": key}, key))
        assert len(talk.editor.asked) == passing.MAX_ASKS
        (refused,) = talk.commands(AnswerPeer)
        assert refused.ask_id == f"ask-{passing.MAX_ASKS}"
        assert refused.error is not None
        assert refused.error["data"]["code"] == "too_many_requests"
