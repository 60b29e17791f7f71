"""The service over a gateway that speaks ACP itself: sessions it names, questions it words."""

from __future__ import annotations

from typing import Any

import pytest

from acp_bridge.core import events as ev
from acp_bridge.core.commands import (
    AnswerPeer,
    AnswerPermission,
    CloseSession,
    Forward,
    Notify,
    OpenedAt,
    OpenSession,
    ReadTranscript,
)
from acp_bridge.core.ports import EditorAnswer
from acp_bridge.core.transcript import PastTurn, SaidText, Transcript
from acp_bridge.core.turn_view import UNSEEN
from acp_bridge.errors import OutcomeUnknown, SessionNotFound, UnknownMethod
from acp_bridge.ids import ApprovalId, Json, RunId, SessionId, SessionKey
from acp_bridge.wire.acp import NewSession, OpenedSession, SetMode, SetOption
from tests.conversation.test_turns import finished, text
from tests.support.service import Conversation, conversation

KEY = SessionKey("5e0f8a52-0000-4000-8000-000000000001")
ASK = ApprovalId("1:zc-out-0")
TOOL: Json = {
    "sessionUpdate": "tool_call",
    "toolCallId": "call_0123456789abcdef",
    "title": "shell",
    "kind": "execute",
    "status": "pending",
    "_meta": {"x": 1},
}
OPTIONS = [
    {"optionId": "allow-once", "name": "Allow", "kind": "allow_once"},
    {"optionId": "edit", "name": "Reject with edit", "kind": "reject_once"},
]


def talking(**more: Any) -> Any:
    return conversation(makes_sessions=True, **more)


async def opened(talk: Conversation, **extras: Any) -> SessionId:
    talk.gateway.answers[OpenSession] = OpenedAt(KEY, extras)
    return await talk.session()


def asked(run: RunId | None) -> ev.PermissionAsked:
    call = {"toolCallId": "approval-1", "title": "Approve shell?", "kind": "execute"}
    return ev.PermissionAsked(
        approval_id=ASK,
        run_id=run,
        session_key=KEY,
        tool_call_id=None,
        command="",
        cwd=None,
        host=None,
        allowed=("allow-once", "edit"),
        expires_in=None,
        params={"sessionId": KEY, "options": OPTIONS, "toolCall": call, "extra": 1},
    )


async def test_the_gateway_names_the_session_and_hears_of_its_end() -> None:
    async with talking() as talk:
        talk.gateway.answers[OpenSession] = OpenedAt(KEY, {"modes": {"x": 1}})
        request = NewSession("/home/me", agent="two")
        result = await talk.bridge.new_session(request)
        assert result["modes"] == {"x": 1}
        assert talk.gateway.requests[0] == OpenSession("/home/me", "two")
        talk.send(result["sessionId"])
        assert (await talk.started()).session_key == KEY
        await talk.gateway.emit(finished((await talk.started()).run_id, "done"))
        await talk.bridge.close_session(result["sessionId"])
        assert talk.commands(CloseSession) == [CloseSession(KEY)]


async def test_updates_are_shown_recorded_and_replayed_as_the_gateway_made_them() -> None:
    async with talking() as talk:
        session = await opened(talk)
        answer = talk.send(session)
        run = (await talk.started()).run_id
        assert (await talk.started()).blocks
        await talk.gateway.emit(text(run, "one "), ev.Updated(run, TOOL), text(run, "two"))
        await talk.gateway.emit(finished(run))
        assert await answer.stop_reason() == "end_turn"
        shown = [update for _, update in talk.outbox.shown]
        assert TOOL in shown
        assert shown[-1]["toolCallId"] == TOOL["toolCallId"]  # closed with the turn
        assert talk.text(session) == "one two"
        ids = {u["messageId"] for u in shown if u["sessionUpdate"] == "agent_message_chunk"}
        assert len(ids) == 2
        ledger = talk.ledger
    async with talking(ledger=ledger) as later:
        later.gateway.answers[ReadTranscript] = Transcript((), None, None, True, True)
        await later.bridge.load_session(OpenedSession(session, "/home/me/project"))
        cards = [u for _, u in later.outbox.shown if u["sessionUpdate"] == "tool_call"]
        assert [(card["status"], card["_meta"]) for card in cards] == [("completed", {"x": 1})]


@pytest.mark.parametrize(
    ("outcome", "decision", "details", "status"),
    [
        ({"outcome": "selected", "optionId": "allow-once"}, "allow-once", {}, "completed"),
        (
            {"outcome": "selected", "optionId": "edit", "replacementContent": "x"},
            "edit",
            {"replacementContent": "x"},
            "failed",
        ),
        ({"outcome": "selected", "optionId": "allow-always"}, "deny", {}, "failed"),
        ({"outcome": "cancelled"}, "deny", {}, "failed"),
        (None, "deny", {}, "failed"),
    ],
)
async def test_a_question_is_asked_as_the_gateway_words_it(
    outcome: Json | None, decision: str, details: Json, status: str
) -> None:
    async with talking() as talk:
        session = await opened(talk)
        talk.send(session)
        run = (await talk.started()).run_id
        await talk.gateway.emit(asked(run))
        (question,) = talk.editor.asked
        assert question.params["sessionId"] == session
        assert question.params["options"] == OPTIONS
        assert question.params["extra"] == 1
        card = talk.outbox.shown[-1][1]
        assert (card["sessionUpdate"], card["toolCallId"]) == ("tool_call", "approval-1")
        question.on_answer(answered(outcome))
        assert talk.commands(AnswerPermission) == [AnswerPermission(ASK, decision, details)]
        assert talk.outbox.shown[-1][1]["status"] == status


def answered(outcome: Json | None) -> EditorAnswer:
    if outcome is None:
        return EditorAnswer(error={"code": -1, "message": "no"})
    return EditorAnswer(result={"outcome": outcome})


async def test_a_question_that_belongs_to_no_turn_is_denied_since_nobody_else_is_asked() -> None:
    async with talking() as talk:
        await opened(talk)
        await talk.gateway.emit(asked(RunId("unknown")))
        assert talk.commands(AnswerPermission) == [AnswerPermission(ASK, "deny")]


async def test_questions_of_an_earlier_connection_are_withdrawn() -> None:
    async with talking() as talk:
        session = await opened(talk)
        talk.send(session)
        await talk.gateway.emit(asked((await talk.started()).run_id))
        await talk.gateway.down()
        await talk.gateway.up(makes_sessions=True)
        await talk.gateway.emit(ev.ApprovalsListed(frozenset()))
        assert talk.editor.asked[0].is_withdrawn
        assert talk.outbox.shown[-1][1]["sessionUpdate"] == "agent_message_chunk"


# --- what passes ------------------------------------------------------------------------------


async def test_updates_without_a_turn_wait_until_the_editor_knows_the_session() -> None:
    update = {"sessionUpdate": "available_commands_update", "availableCommands": []}
    async with talking() as talk:
        await talk.gateway.emit(ev.SessionUpdated(KEY, update))
        assert talk.kinds() == []
        await opened(talk)
        await talk.settle()
        assert talk.kinds() == ["available_commands_update"]
        await talk.gateway.emit(ev.SessionUpdated(KEY, update))
        assert talk.kinds() == ["available_commands_update"] * 2


async def test_requests_and_notifications_of_the_editor_pass() -> None:
    async with talking() as talk:
        session = await opened(talk)
        talk.gateway.answers[Forward] = {"status": "processed"}
        params = {"sessionId": session, "x": 1}
        assert await talk.bridge.forward("_x/y", params) == {"status": "processed"}
        assert talk.gateway.requests[-1] == Forward("_x/y", params, KEY)
        talk.bridge.notify("_x/z", params)
        talk.bridge.notify("_x/z", None)
        assert talk.commands(Notify) == [Notify("_x/z", params, KEY), Notify("_x/z", {}, None)]
        with pytest.raises(SessionNotFound):
            await talk.bridge.forward("_x/y", {"sessionId": "unknown"})


async def test_nothing_passes_to_a_gateway_with_a_dialect_of_its_own() -> None:
    async with conversation() as talk:
        with pytest.raises(UnknownMethod):
            await talk.bridge.forward("_x/y", {})
        talk.bridge.notify("_x/z", {})
        assert talk.commands(Notify) == []


async def test_questions_that_are_not_interpreted_pass_and_end_with_turn_or_link() -> None:
    async with talking() as talk:
        session = await opened(talk)
        await talk.settle()
        for number in range(3):
            ask_id = ApprovalId(f"1:{number}")
            await talk.gateway.emit(ev.PeerAsked(ask_id, "elicitation/create", {"a": 1}, KEY))
        first, second, _ = talk.editor.asked
        assert (first.method, first.params) == (
            "elicitation/create",
            {"a": 1, "sessionId": session},
        )
        first.on_answer(answered({"outcome": "x"}))
        talk.bridge.cancel(session)
        assert second.is_withdrawn
        await talk.gateway.emit(ev.PeerAsked(ApprovalId("1:9"), "elicitation/create", {}, KEY))
        await talk.gateway.down()
        assert talk.editor.asked[-1].is_withdrawn
        answers = talk.commands(AnswerPeer)
        assert answers[0] == AnswerPeer(ApprovalId("1:0"), {"outcome": {"outcome": "x"}})
        assert [answer.error is None for answer in answers] == [True, False, False]


async def test_a_question_for_a_session_that_is_not_open_is_refused() -> None:
    async with talking() as talk:
        for key in (KEY, None):
            await talk.gateway.emit(ev.PeerAsked(ASK, "fs/read_text_file", {}, key))
        assert [answer.error is not None for answer in talk.commands(AnswerPeer)] == [True, True]


async def test_what_the_editor_can_do_is_announced() -> None:
    async with talking() as talk:
        await talk.bridge.initialize({"clientCapabilities": {"elicitation": {}}})
        assert talk.gateway.capabilities == {"elicitation": {}}
        await talk.bridge.initialize({"clientCapabilities": "odd"})
        assert talk.gateway.capabilities == {}


# --- unseen -----------------------------------------------------------------------------------


async def test_a_run_that_goes_on_unseen_is_waited_for_and_told_of_once() -> None:
    async with talking() as talk:
        session = await opened(talk)
        answer = talk.send(session)
        run = (await talk.started()).run_id
        await talk.gateway.emit(ev.RunAccepted(run), text(run, "one "))
        for _ in range(2):
            await talk.gateway.down()
            await talk.gateway.up(makes_sessions=True)
            await talk.gateway.emit(ev.RunReported(run, ev.RunState.UNSEEN))
        assert talk.text(session).count(UNSEEN) == 1
        talk.clock.advance(60)
        assert not answer.is_answered
        parts = (SaidText("one "), SaidText("two"))
        await talk.gateway.emit(
            ev.RunReported(run, ev.RunState.FINISHED, "one two", None, "end_turn", parts)
        )
        assert await answer.stop_reason() == "end_turn"
        assert talk.text(session).replace(UNSEEN, "").split() == ["one", "two"]


async def test_it_is_waited_for_no_longer_than_the_window() -> None:
    async with talking() as talk:
        session = await opened(talk)
        answer = talk.send(session)
        run = (await talk.started()).run_id
        await talk.gateway.down()
        await talk.gateway.up(makes_sessions=True)
        await talk.gateway.emit(ev.RunReported(run, ev.RunState.UNSEEN))
        talk.clock.advance(1_801)
        assert isinstance(await answer.failure(), OutcomeUnknown)


async def test_a_cancelled_turn_is_not_waited_for() -> None:
    async with talking() as talk:
        session = await opened(talk)
        answer = talk.send(session)
        run = (await talk.started()).run_id
        await talk.gateway.down()
        talk.bridge.cancel(session)
        await talk.gateway.up(makes_sessions=True)
        await talk.gateway.emit(ev.RunReported(run, ev.RunState.UNSEEN))
        assert not answer.is_answered
        await talk.gateway.emit(ev.AbortAnswered(run, aborted=False))
        assert await answer.stop_reason() == "cancelled"


async def test_a_load_heals_a_turn_whose_end_nobody_knew() -> None:
    async with talking() as talk:
        session = await opened(talk)
        answer = talk.send(session, "work")
        run = (await talk.started()).run_id
        await talk.gateway.emit(ev.RunAccepted(run), text(run, "one "))
        await talk.gateway.down()
        await talk.gateway.up(makes_sessions=True)
        await talk.gateway.emit(ev.RunReported(run, ev.RunState.UNKNOWN))
        await answer.failure()
        ledger = talk.ledger
    turn = PastTurn(None, None, "work", (), (SaidText("one two"),), "end_turn", None)
    for _ in range(2):
        async with talking(ledger=ledger) as later:
            later.gateway.answers[ReadTranscript] = Transcript((turn,), None, None, True, True)
            await later.bridge.load_session(OpenedSession(session, "/home/me/project"))
            users = [u for _, u in later.outbox.shown if u["sessionUpdate"] == "user_message_chunk"]
            assert len(users) == 1
            assert later.text(session).count("two") == 1


async def test_modes_and_options_are_the_gateways_own() -> None:
    async with talking() as talk:
        session = await opened(talk)
        talk.gateway.answers[Forward] = lambda query: {"configOptions": [query.method]}
        mode = await talk.bridge.set_mode(SetMode(session, "plan"))
        assert mode == {"configOptions": ["session/set_mode"]}
        asked_for = talk.gateway.requests[-1]
        wanted = {"sessionId": session, "modeId": "plan"}
        assert asked_for == Forward("session/set_mode", wanted, KEY)
        await talk.bridge.set_option(SetOption(session, "model", "x"))
        wanted = {"sessionId": session, "configId": "model", "value": "x"}
        assert talk.gateway.requests[-1] == Forward("session/set_config_option", wanted, KEY)
