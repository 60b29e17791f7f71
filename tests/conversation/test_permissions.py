"""Approvals through the service: who decides, and what the gateway hears."""

from __future__ import annotations

from typing import Any

import pytest

from acp_bridge.core import events as ev
from acp_bridge.core.commands import AbortRun, AnswerPermission
from acp_bridge.core.ports import EditorAnswer
from acp_bridge.errors import GatewayRefused
from acp_bridge.ids import ApprovalId, RunId, SessionKey, ToolCallId
from tests.support.service import Asked, Conversation, PendingAnswer, conversation

APPROVAL = ApprovalId("approval-1")


def asked(run: RunId | None, **changes: Any) -> ev.PermissionAsked:
    fields: dict[str, Any] = {
        "approval_id": APPROVAL,
        "run_id": run,
        "session_key": None,
        "tool_call_id": None,
        "command": "echo hi",
        "cwd": "/w",
        "host": "gateway",
        "allowed": ("allow-once", "deny"),
        "expires_in": 1_800.0,
    }
    return ev.PermissionAsked(**{**fields, **changes})


async def asking(talk: Conversation, **changes: Any) -> tuple[RunId, PendingAnswer, Asked]:
    """A running turn with one open permission."""
    session = await talk.session()
    answer = talk.send(session)
    run = (await talk.started()).run_id
    card = ev.ToolStarted(run, ToolCallId("call-1"), "exec", {"command": "echo hi"})
    await talk.gateway.emit(ev.RunAccepted(run), card, asked(run, **changes))
    return run, answer, talk.editor.asked[0]


def decisions(talk: Conversation) -> list[str]:
    return [command.decision for command in talk.commands(AnswerPermission)]


async def test_the_question_hangs_on_the_tool_call_and_offers_what_the_gateway_allows() -> None:
    async with conversation() as talk:
        _, _, question = await asking(talk)

        assert question.method == "session/request_permission"
        assert question.params["toolCall"]["toolCallId"] == "call-1"
        kinds = [option["kind"] for option in question.params["options"]]
        assert kinds == ["allow_once", "reject_once"]


@pytest.mark.requirement("C039")
async def test_allow_once_is_exactly_that() -> None:
    async with conversation() as talk:
        _, _, question = await asking(talk, allowed=("allow-once", "allow-always", "deny"))
        question.choose("allow-once")

        assert decisions(talk) == ["allow-once"]


@pytest.mark.requirement("C038")
@pytest.mark.parametrize(
    "answer",
    [
        EditorAnswer(error={"code": -32603, "message": "dialog crashed"}),
        EditorAnswer(result={"outcome": {"outcome": "cancelled"}}),
        EditorAnswer(result={"outcome": {"outcome": "selected", "optionId": "allow-always"}}),
        EditorAnswer(result={"outcome": {"outcome": "granted"}}),
        EditorAnswer(result=None),
        EditorAnswer(result=["yes"]),
    ],
)
async def test_anything_but_an_offered_choice_is_a_denial(answer: EditorAnswer) -> None:
    async with conversation() as talk:
        _, _, question = await asking(talk)
        question.on_answer(answer)

        assert decisions(talk) == ["deny"]


async def test_one_approval_over_two_streams_is_one_question() -> None:
    async with conversation() as talk:
        run, _, _ = await asking(talk)
        await talk.gateway.emit(asked(run))

        assert len(talk.editor.asked) == 1


async def test_an_approval_without_a_run_is_matched_by_its_session_in_any_spelling() -> None:
    async with conversation() as talk:
        key = SessionKey("agent:MAIN:acp-bridge:ID-1")
        _, _, question = await asking(talk, run_id=None, session_key=key)

        assert question.params["toolCall"]["toolCallId"] == "call-1"


async def test_an_approval_of_somebody_elses_run_is_left_alone() -> None:
    async with conversation() as talk:
        session = await talk.session()
        talk.send(session)
        await talk.started()
        await talk.gateway.emit(asked(RunId("foreign")), asked(None, session_key=SessionKey("x:y")))

        assert talk.editor.asked == []
        assert decisions(talk) == []


async def test_an_approval_without_a_card_gets_one_first() -> None:
    async with conversation() as talk:
        session = await talk.session()
        talk.send(session)
        run = (await talk.started()).run_id
        await talk.gateway.emit(asked(run, command="rm -r x"))

        assert talk.kinds() == ["tool_call"]
        shown = talk.outbox.shown[0][1]["toolCallId"]
        assert talk.editor.asked[0].params["toolCall"]["toolCallId"] == shown


@pytest.mark.requirement("C041")
async def test_an_answer_given_elsewhere_withdraws_the_question() -> None:
    async with conversation() as talk:
        _, _, question = await asking(talk)
        await talk.gateway.emit(ev.PermissionClosed(APPROVAL, "allow-once"))
        assert question.is_withdrawn

        question.choose("allow-once")
        assert decisions(talk) == []


@pytest.mark.requirement("C038")
async def test_an_approval_that_expires_is_withdrawn_denied_and_said() -> None:
    async with conversation() as talk:
        run, answer, question = await asking(talk, expires_in=3.0)
        talk.clock.advance(3.0)
        assert question.is_withdrawn
        assert decisions(talk) == ["deny"]
        assert "in time" in talk.text(talk.outbox.shown[0][0])

        await talk.gateway.emit(ev.RunEnded(run, ev.EndKind.FINISHED, "went on"))
        assert await answer.stop_reason() == "end_turn"


@pytest.mark.requirement("C040")
async def test_a_decision_that_the_gateway_does_not_take_is_explained_and_not_repeated() -> None:
    async with conversation() as talk:
        _, _, question = await asking(talk)
        question.choose("allow-once")
        await talk.gateway.emit(ev.PermissionSettled(APPROVAL, GatewayRefused("expired")))
        await talk.gateway.down()
        await talk.gateway.up()

        assert decisions(talk) == ["allow-once"]
        assert "expired" in talk.text(talk.outbox.shown[0][0])


@pytest.mark.parametrize("end", list(ev.EndKind))
async def test_open_questions_are_withdrawn_and_denied_when_the_turn_ends(end: ev.EndKind) -> None:
    async with conversation() as talk:
        run, answer, question = await asking(talk)
        await talk.gateway.emit(ev.RunEnded(run, end))
        await talk.until(lambda: answer.is_answered)

        assert question.is_withdrawn
        assert decisions(talk) == ["deny"]


async def test_a_cancel_while_asking_aborts_first_and_then_denies() -> None:
    async with conversation() as talk:
        run, answer, question = await asking(talk)
        talk.bridge.cancel(talk.outbox.shown[0][0])
        assert [type(command) for command in talk.gateway.submitted[-2:]] == [
            AbortRun,
            AnswerPermission,
        ]
        question.choose("allow-once")
        await talk.gateway.emit(ev.RunEnded(run, ev.EndKind.ABORTED))

        assert await answer.stop_reason() == "cancelled"
        assert decisions(talk) == ["deny"]


@pytest.mark.requirement("C037")
async def test_a_decision_without_a_link_is_delivered_over_the_next_one() -> None:
    async with conversation() as talk:
        _, _, question = await asking(talk)
        await talk.gateway.down()
        question.choose("allow-once")
        assert decisions(talk) == []

        await talk.gateway.up()
        assert decisions(talk) == ["allow-once"]
        assert len(talk.editor.asked) == 1


@pytest.mark.requirement("C037")
async def test_after_a_cancel_in_the_gap_no_allow_is_ever_sent() -> None:
    async with conversation() as talk:
        _, _, question = await asking(talk)
        await talk.gateway.down()
        question.choose("allow-once")
        talk.bridge.cancel(talk.outbox.shown[0][0])
        await talk.gateway.up()

        assert decisions(talk) == ["deny"]
        assert len(talk.commands(AbortRun)) == 1


@pytest.mark.parametrize("is_given_before", [True, False])
async def test_a_decision_that_had_arrived_before_the_gap_is_no_news(is_given_before: bool) -> None:
    async with conversation() as talk:
        _, _, question = await asking(talk)
        if is_given_before:
            question.choose("allow-once")
        await talk.gateway.down()
        if not is_given_before:
            question.choose("allow-once")
        await talk.gateway.up()
        refused = ev.PermissionSettled(APPROVAL, GatewayRefused("already resolved"))
        await talk.gateway.emit(refused)
        said = [u["content"]["text"] for _, u in talk.outbox.shown if "messageId" in u]
        assert any("already resolved" in text for text in said) is not is_given_before


async def test_a_line_about_an_approval_stands_between_two_messages() -> None:
    async with conversation() as talk:
        run, _, question = await asking(talk)
        await talk.gateway.emit(ev.TextProgress(run, "Now ", False, "Now "))
        question.choose("allow-once")
        refused = ev.PermissionSettled(APPROVAL, GatewayRefused("already resolved"))
        await talk.gateway.emit(refused, ev.TextProgress(run, "on.", False, "Now on."))
        ids = [u["messageId"] for _, u in talk.outbox.shown if "messageId" in u]
        assert len(set(ids)) == len(ids) == 3
