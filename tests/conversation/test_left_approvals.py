"""Approvals that outlive their turn at the gateway: asked once, denied, and told of as it was.

OpenClaw 2026.6.11 names no run in an approval, and lists one that a stopped run has left.
"""

from __future__ import annotations

from typing import Any

import pytest

from acp_bridge.core import events as ev
from acp_bridge.core.commands import AbortRun, AnswerPermission, ProbeRun
from acp_bridge.errors import GatewayRefused
from acp_bridge.ids import ApprovalId, RunId, SessionId, SessionKey
from acp_bridge.wire.acp import OpenedSession
from tests.support.service import Conversation, conversation

APPROVAL = ApprovalId("approval-1")
KEY = SessionKey("agent:main:acp-bridge:id-1")


def asked(run: RunId | None = None, **changes: Any) -> ev.PermissionAsked:
    fields: dict[str, Any] = {
        "approval_id": APPROVAL,
        "run_id": run,
        "session_key": KEY,
        "tool_call_id": None,
        "command": "touch x",
        "cwd": "/w",
        "host": "gateway",
        "allowed": ("allow-once", "deny"),
        "expires_in": 1_800.0,
    }
    return ev.PermissionAsked(**{**fields, **changes})


def listed(*names: str) -> ev.ApprovalsListed:
    return ev.ApprovalsListed(frozenset(map(ApprovalId, names)))


def answers(talk: Conversation) -> list[tuple[str, str]]:
    return [(each.approval_id, each.decision) for each in talk.commands(AnswerPermission)]


async def replayed(talk: Conversation, session: SessionId) -> str:
    """What a load by the next process says of questions."""
    async with conversation(ledger=talk.ledger) as later:
        await later.bridge.load_session(OpenedSession(session, "/home/me/project"))
        return later.text(session)


async def begun(talk: Conversation, session: SessionId, count: int) -> RunId:
    talk.send(session)
    run = (await talk.started(count)).run_id
    await talk.gateway.emit(ev.RunAccepted(run))
    return run


async def cancelled_in_the_gap(talk: Conversation, choice: str | None = None) -> SessionId:
    """A question was open, the link broke, perhaps it was answered, then the turn cancelled; the
    link is back and the turn's end confirmed."""
    session = await talk.session()
    run = await begun(talk, session, 1)
    await talk.gateway.emit(asked())
    await talk.gateway.down()
    if choice is not None:
        talk.editor.asked[0].choose(choice)
    talk.bridge.cancel(session)
    talk.clock.advance(2.0)
    await talk.gateway.up()
    await talk.gateway.emit(ev.AbortAnswered(run, aborted=False))
    return session


async def next_turn_after_a_gap(talk: Conversation, session: SessionId, *news: Any) -> RunId:
    """The next turn, whose link breaks too; after it the gateway lists what waits."""
    run = await begun(talk, session, 2)
    talk.clock.advance(5.0)
    await talk.gateway.down()
    await talk.gateway.up()
    assert talk.commands(ProbeRun)[-1].run_id == run
    await talk.gateway.emit(*news)
    return run


@pytest.mark.requirement("C037")
@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize("choice", ["allow-once", "deny", None])
async def test_an_approval_of_a_cancelled_turn_is_denied_once_and_never_asked_again(
    is_named: bool, choice: str | None
) -> None:
    async with conversation() as talk:
        session = await cancelled_in_the_gap(talk, choice)
        assert [type(command) for command in talk.gateway.submitted[-2:]] == [
            AbortRun,
            AnswerPermission,
        ]
        assert answers(talk) == [(APPROVAL, "deny")]
        await talk.gateway.emit(ev.PermissionSettled(APPROVAL, None))

        run = RunId("id-2") if is_named else None
        await next_turn_after_a_gap(talk, session, asked(run, waited=9.0), listed(APPROVAL))
        assert len(talk.editor.asked) == 1
        assert answers(talk) == [(APPROVAL, "deny")]
        assert "tool_call" not in talk.kinds()[1:]


@pytest.mark.parametrize("is_answered", [True, False])
async def test_a_denial_that_the_gateway_has_not_answered_is_sent_over_the_next_link(
    is_answered: bool,
) -> None:
    async with conversation() as talk:
        session = await talk.session()
        run = await begun(talk, session, 1)
        await talk.gateway.emit(asked())
        talk.bridge.cancel(session)
        await talk.gateway.emit(ev.RunEnded(run, ev.EndKind.ABORTED))
        talk.clock.advance(2.0)
        if is_answered:
            await talk.gateway.emit(ev.PermissionSettled(APPROVAL, GatewayRefused("gone")))
        await talk.gateway.down()
        await talk.gateway.up()
        await talk.gateway.down()
        await talk.gateway.up()
        assert len(answers(talk)) == (1 if is_answered else 3)
        assert {decision for _, decision in answers(talk)} == {"deny"}


async def test_what_a_stopped_run_asks_is_denied_once_however_often_it_is_told() -> None:
    async with conversation() as talk:
        session = await talk.session()
        await begun(talk, session, 1)
        talk.bridge.cancel(session)
        await talk.gateway.emit(asked(), asked())
        assert answers(talk) == [(APPROVAL, "deny")]
        assert talk.editor.asked == []


async def test_an_approval_from_before_the_turn_is_not_the_turns() -> None:
    async with conversation() as talk:
        session = await talk.session()
        run = await begun(talk, session, 1)
        await talk.gateway.down()
        talk.bridge.cancel(session)  # and meanwhile the run asked, which nobody here has heard
        talk.clock.advance(5.0)
        await talk.gateway.up()
        await talk.gateway.emit(ev.AbortAnswered(run, aborted=False))
        old, own = asked(waited=12.0), asked(approval_id=ApprovalId("own"), waited=3.0)
        await next_turn_after_a_gap(talk, session, old, own, listed(APPROVAL, "own"))
        assert [each.params["toolCall"]["toolCallId"] for each in talk.editor.asked] == ["exec:own"]


async def test_an_approval_of_another_clients_turn_is_neither_asked_nor_denied_later() -> None:
    async with conversation() as talk:
        session = await talk.session()
        foreign = RunId("foreign")
        await talk.gateway.emit(ev.RunSeen(foreign, KEY), asked())
        await talk.gateway.emit(ev.RunEnded(foreign, ev.EndKind.FINISHED))
        await begun(talk, session, 1)
        await talk.gateway.down()
        await talk.gateway.up()
        await talk.gateway.emit(asked(), listed(APPROVAL))
        assert talk.editor.asked == []
        assert answers(talk) == []


@pytest.mark.parametrize("choice", ["allow-once", None])
async def test_what_a_turn_that_was_given_up_waits_for_is_not_decided_and_no_other_turns(
    choice: str | None,
) -> None:
    async with conversation() as talk:
        session = await talk.session()
        await begun(talk, session, 1)
        await talk.gateway.emit(asked(expires_in=9_000.0))
        await talk.gateway.down()
        if choice is not None:
            talk.editor.asked[0].choose(choice)
        talk.clock.advance(1_800.0)
        assert talk.editor.asked[0].is_withdrawn is (choice is None)
        await talk.gateway.up()
        await next_turn_after_a_gap(talk, session, asked(), listed(APPROVAL))
        assert len(talk.editor.asked) == 1
        assert answers(talk) == []
        assert "touch x (" not in await replayed(talk, session)


@pytest.mark.parametrize(("choice", "told"), [("allow-once", "denied"), (None, "denied")])
async def test_a_replay_tells_that_an_allow_was_dropped(choice: str | None, told: str) -> None:
    async with conversation() as talk:
        session = await cancelled_in_the_gap(talk, choice)
        assert f"touch x ({told})" in await replayed(talk, session)


async def test_a_replay_tells_of_an_allow_that_was_delivered_after_the_gap() -> None:
    async with conversation() as talk:
        session = await talk.session()
        await begun(talk, session, 1)
        await talk.gateway.emit(asked())
        await talk.gateway.down()
        talk.editor.asked[0].choose("allow-once")
        await talk.gateway.up()
        assert answers(talk) == [(APPROVAL, "allow-once")]
        assert "touch x (allowed once)" in await replayed(talk, session)


@pytest.mark.parametrize("arrived", [True, False])
async def test_a_replay_tells_whether_an_allow_at_the_break_had_arrived(arrived: bool) -> None:
    async with conversation() as talk:
        session = await talk.session()
        await begun(talk, session, 1)
        await talk.gateway.emit(asked())
        talk.editor.asked[0].choose("allow-once")
        await talk.gateway.down()
        talk.bridge.cancel(session)
        await talk.gateway.up()
        assert answers(talk) == [(APPROVAL, "allow-once"), (APPROVAL, "deny")]
        error = GatewayRefused("already resolved") if arrived else None
        await talk.gateway.emit(ev.PermissionSettled(APPROVAL, error))
        told = "allowed once" if arrived else "denied"
        assert f"touch x ({told})" in await replayed(talk, session)


async def test_a_replay_tells_the_decision_that_counted() -> None:
    async with conversation() as talk:
        session = await talk.session()
        await begun(talk, session, 1)
        await talk.gateway.emit(asked())
        talk.editor.asked[0].choose("allow-once")
        await talk.gateway.emit(ev.PermissionClosed(APPROVAL, "deny"))
        assert "touch x (denied)" in await replayed(talk, session)
