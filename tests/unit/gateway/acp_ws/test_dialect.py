"""The ACP dialect, played message by message."""

from __future__ import annotations

import math
from typing import Any

import pytest

from acp_bridge.core import commands as cmd
from acp_bridge.core import events as ev
from acp_bridge.errors import (
    GatewayRefused,
    GatewayTimeout,
    HandshakeRefused,
    InvalidParams,
    LocalProtocolError,
    PromptTooLarge,
    SessionBusy,
    SessionNotFound,
    UnknownMethod,
    VersionMismatch,
)
from acp_bridge.gateway.dialects.acp_ws import outgoing
from acp_bridge.ids import ApprovalId, Json, SessionKey
from tests.support.acp_dialect import PLAIN, R1, S1, ZEROCLAW, Played, chunk, start

QUESTION: Json = {
    "sessionId": S1,
    "options": [
        {"optionId": "allow-once", "name": "Allow", "kind": "allow_once"},
        {"optionId": "reject-once", "name": "Reject", "kind": "reject_once"},
    ],
    "toolCall": {"toolCallId": "approval-1", "title": "Approve shell?", "status": "pending"},
}


def asked(message_id: Any = "zc-out-0", method: str = "session/request_permission") -> Json:
    return {"jsonrpc": "2.0", "id": message_id, "method": method, "params": QUESTION}


# --- the handshake -------------------------------------------------------------------------


def test_the_first_message_is_initialize_and_its_answer_is_the_hello() -> None:
    play = Played(generation=7)
    play.memory.capabilities = {"elicitation": {}}
    first = play.request("initialize")
    assert first["params"]["protocolVersion"] == 1
    play.hello()
    hello = play.dialect.hello
    assert hello is not None
    assert (hello.generation, hello.server_version) == (7, "zeroclaw-acp 0.8.4")
    assert hello.makes_sessions
    assert hello.tick_interval == math.inf
    assert play.events == [ev.ApprovalsListed(frozenset())]


@pytest.mark.parametrize(
    ("version", "hint"),
    [(0, "gateway"), (None, "gateway"), ("0.4", "gateway"), (2, "acp-bridge"), ("x", "acp-bridge")],
)
def test_another_version_of_acp_is_told_with_who_is_to_be_upgraded(version: Any, hint: str) -> None:
    with pytest.raises(VersionMismatch) as caught:
        Played().hello({**ZEROCLAW, "protocolVersion": version})
    assert f"Upgrade the {hint}" in (caught.value.hint or "")


def test_a_refused_or_unanswered_initialize_ends_the_connection() -> None:
    with pytest.raises(HandshakeRefused, match="not today"):
        Played().refuse("initialize", -32603, "not today")
    with pytest.raises(GatewayTimeout):
        Played().tick(15)


def test_what_does_not_know_initialize_speaks_another_protocol() -> None:
    with pytest.raises(HandshakeRefused, match="does not know initialize") as caught:
        Played().refuse("initialize", -32601, "no")
    assert "--gateway-kind" in (caught.value.hint or "")


def test_nothing_may_be_sent_before_the_hello() -> None:
    with pytest.raises(LocalProtocolError):
        Played().send(start())


def test_what_the_editor_can_do_is_told_again_when_it_becomes_known() -> None:
    play = Played().hello()
    play.memory.capabilities = {"elicitation": {"form": {}}}
    play.tick()
    play.tick()
    assert play.methods().count("initialize") == 2
    assert play.request("initialize")["params"]["clientCapabilities"] == {
        "elicitation": {"form": {}}
    }


# --- turns -----------------------------------------------------------------------------------


def test_a_turn_is_sent_shown_and_ended() -> None:
    play = Played().hello().opened()
    assert play.send(start()) == [ev.RunAccepted(R1)]
    prompt = play.request("session/prompt")["params"]
    assert prompt == {"sessionId": S1, "prompt": [{"type": "text", "text": "hello"}]}
    assert play.update(chunk("Hi")) == [ev.TextProgress(R1, "Hi", replace=False, snapshot=None)]
    assert play.update(chunk("Hm", "agent_thought_chunk")) == [ev.ThoughtProgress(R1, "Hm", None)]
    assert play.update(chunk("hello", "user_message_chunk")) == []
    ended = play.answer("session/prompt", {"stopReason": "end_turn", "content": "Hi"})
    extras = {"content": "Hi"}
    assert ended == [ev.RunEnded(R1, ev.EndKind.FINISHED, stop_reason="end_turn", extras=extras)]
    assert play.memory.stored[S1] == 1


def test_content_is_the_answer_if_nothing_was_streamed() -> None:
    play = Played().hello().opened()
    play.send(start())
    (ended,) = play.answer("session/prompt", {"stopReason": "end_turn", "content": "cached"})
    assert isinstance(ended, ev.RunEnded)
    assert ended.snapshot == "cached"


def test_a_cancel_is_sent_until_the_turn_has_ended() -> None:
    play = Played().hello().opened()
    play.send(start())
    play.send(cmd.AbortRun(R1, S1))
    play.tick()
    assert play.methods().count("session/cancel") == 2
    ended = play.answer("session/prompt", {"stopReason": "cancelled", "sessionId": S1})
    assert ended == [ev.RunEnded(R1, ev.EndKind.ABORTED, stop_reason="cancelled")]
    play.tick()
    assert play.methods().count("session/cancel") == 2
    assert play.memory.stored[S1] == 0


def test_there_is_nothing_to_cancel_of_an_unknown_run_or_one_that_waits() -> None:
    play = Played().hello()
    nothing = [ev.AbortAnswered(R1, aborted=False)]
    assert play.send(cmd.AbortRun(R1, S1)) == nothing
    assert play.send(start()) == []
    assert play.send(cmd.AbortRun(R1, S1)) == nothing
    play.answer("session/load", {})
    assert "session/prompt" not in play.methods()


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (-32002, SessionBusy),
        (-32001, GatewayRefused),
        (-32602, InvalidParams),
        (-32601, GatewayRefused),
        (-1, GatewayRefused),
    ],
)
def test_a_refused_prompt_is_an_error_of_ours(code: int, error: type[Exception]) -> None:
    play = Played().hello().opened()
    play.send(start())
    (refused,) = play.refuse("session/prompt", code, "in its words")
    assert isinstance(refused, ev.RunRefused)
    assert isinstance(refused.error, error)
    assert refused.error.data["gateway"]["code"] == code


def test_a_failed_turn_has_the_gateways_sentence() -> None:
    play = Played().hello().opened()
    play.send(start())
    (ended,) = play.refuse("session/prompt", -32603, "Agent turn failed: no money")
    assert isinstance(ended, ev.RunEnded)
    assert (ended.kind, ended.error) == (ev.EndKind.FAILED, "Agent turn failed: no money")


def test_a_session_that_is_not_at_hand_is_restored_and_the_prompt_sent_once_more() -> None:
    play = Played().hello().opened()
    play.send(start())
    assert play.refuse("session/prompt", -32000) == []
    assert play.answer("session/resume", {}) == [ev.RunAccepted(R1)]
    (refused,) = play.refuse("session/prompt", -32000)
    assert isinstance(refused, ev.RunRefused)
    assert isinstance(refused.error, SessionNotFound)
    assert play.methods().count("session/prompt") == 2


def test_a_running_turn_is_running_when_asked_about() -> None:
    play = Played().hello().opened()
    play.send(start())
    running = [ev.RunReported(R1, ev.RunState.RUNNING)]
    assert play.send(cmd.ProbeRun(R1, S1)) == running


def test_a_prompt_that_cannot_be_sent_is_refused_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    play = Played().hello().opened()
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    with pytest.raises(InvalidParams, match="takes no images"):
        play.send(start()._replace(blocks=(image,)))
    monkeypatch.setattr(outgoing, "MAX_MESSAGE", 2000)
    with pytest.raises(PromptTooLarge):
        play.send(start("x" * 3000))
    assert "session/prompt" not in play.methods()


# --- questions -------------------------------------------------------------------------------


def test_a_question_is_asked_and_answered_under_its_own_id() -> None:
    play = Played(generation=3).hello().opened()
    play.send(start())
    (question,) = play.receive(asked())
    assert isinstance(question, ev.PermissionAsked)
    assert (question.approval_id, question.run_id) == ("3:zc-out-0", R1)
    assert question.allowed == ("allow-once", "reject-once")
    assert question.expires_in == 3600
    settled = play.send(cmd.AnswerPermission(question.approval_id, "allow-once"))
    assert settled == [ev.PermissionSettled(question.approval_id, None)]
    outcome = {"outcome": "selected", "optionId": "allow-once"}
    assert play.flush()[-1] == {
        "jsonrpc": "2.0",
        "id": "zc-out-0",
        "result": {"outcome": outcome},
    }


def test_an_answer_to_a_question_of_another_connection_is_not_sent() -> None:
    play = Played(generation=2).hello().opened()
    play.send(start())
    play.receive(asked())
    play.flush()
    for late in ("1:zc-out-0", "2:zc-out-9", "zc-out-0"):
        play.send(cmd.AnswerPermission(ApprovalId(late), "allow-once"))
        play.send(cmd.AnswerPeer(ApprovalId(late), {}))
    play.send(cmd.AnswerPeer(ApprovalId("2:zc-out-0"), {}))
    assert play.flush() == []


def test_a_denial_of_ours_is_told_as_cancelled() -> None:
    play = Played().hello().opened()
    play.send(start())
    play.receive(asked())
    play.send(cmd.AnswerPermission(ApprovalId("1:zc-out-0"), "deny"))
    assert play.flush()[-1]["result"] == {"outcome": {"outcome": "cancelled"}}


def test_a_question_without_a_turn_or_behind_a_cancel_is_cancelled_at_once() -> None:
    play = Played().hello().opened()
    assert play.receive(asked()) == []
    play.send(start())
    play.send(cmd.AbortRun(R1, S1))
    assert play.receive(asked("zc-out-1")) == []
    answers = [message["result"] for message in play.flush() if "result" in message]
    assert answers == [{"outcome": {"outcome": "cancelled"}}] * 2


def test_questions_that_the_bridge_does_not_interpret_pass() -> None:
    play = Played().hello().opened()
    (peer,) = play.receive(asked("zc-out-0", "elicitation/create"))
    assert peer == ev.PeerAsked(ApprovalId("1:zc-out-0"), "elicitation/create", QUESTION, S1)
    play.send(cmd.AnswerPeer(peer.ask_id, {"action": "accept"}))
    assert play.flush()[-1]["result"] == {"action": "accept"}
    play.receive(asked("zc-out-1", "elicitation/create"))
    play.send(cmd.AnswerPeer(ApprovalId("1:zc-out-1"), error={"code": -1, "message": "no"}))
    assert play.flush()[-1]["error"] == {"code": -1, "message": "no"}


def test_a_question_that_the_gateway_takes_back_is_closed() -> None:
    play = Played().hello().opened()
    play.send(start())
    play.receive(asked())
    withdrawn = {
        "jsonrpc": "2.0",
        "method": "$/cancel_request",
        "params": {"requestId": "zc-out-0"},
    }
    assert play.receive(withdrawn) == [ev.PermissionClosed(ApprovalId("1:zc-out-0"), None)]


def test_leaving_cancels_what_waits() -> None:
    play = Played().hello().opened()
    play.send(start())
    play.receive(asked())
    play.receive(asked("zc-out-1", "elicitation/create"))
    play.flush()
    play.dialect.leave()
    one, two = play.flush()
    assert one["result"] == {"outcome": {"outcome": "cancelled"}}
    assert two["error"]["code"] == -32800


# --- what does not belong to a turn -----------------------------------------------------------


def test_updates_without_a_turn_and_unknown_notifications_pass() -> None:
    play = Played().hello().opened()
    update = {"sessionUpdate": "available_commands_update", "availableCommands": [], "x": 1}
    assert play.update(update) == [ev.SessionUpdated(S1, update)]
    params = {"sessionId": S1, "y": 2}
    told = {"jsonrpc": "2.0", "method": "_zeroclaw/other", "params": params}
    assert play.receive(told) == [ev.Notified("_zeroclaw/other", params, S1)]


@pytest.mark.parametrize(
    "odd",
    [
        "nonsense",
        b"\xff\xfe",
        "[]",
        '{"jsonrpc":"1.0","method":"x"}',
        '{"jsonrpc":"2.0","id":99,"result":{}}',
        '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}',
        '{"jsonrpc":"2.0","id":4}',
        '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":5}}',
        '{"jsonrpc":"2.0","method":"session/update","params":[]}',
    ],
)
def test_odd_messages_are_unreadable_and_change_nothing(odd: str | bytes) -> None:
    play = Played().hello().opened()
    play.send(start())
    (event,) = play.receive(odd)
    assert isinstance(event, ev.Unreadable)
    assert play.receive(" \n") == []
    assert play.answer("session/prompt", {"stopReason": "end_turn"})


def test_a_second_question_with_an_open_id_is_unreadable() -> None:
    play = Played().hello().opened()
    play.send(start())
    play.receive(asked())
    assert isinstance(play.receive(asked())[0], ev.Unreadable)


def test_calls_before_the_hello_are_unreadable() -> None:
    assert isinstance(Played().receive(asked())[0], ev.Unreadable)


# --- queries ---------------------------------------------------------------------------------


def test_a_session_is_made_for_an_agent_in_a_directory() -> None:
    play = Played().hello()
    server = {"name": "files", "command": "/bin/files"}
    play.send(cmd.OpenSession("/work", "main", (server,), {"_meta": {"a": 1}, "x": 2}), 1)
    assert play.request("session/new")["params"] == {
        "cwd": "/work",
        "mcpServers": [server],
        "agentAlias": "main",
        "_meta": {"a": 1},
        "x": 2,
    }
    play.answer("session/new", {})
    assert isinstance(play.results[1], GatewayRefused)


def test_a_refused_session_says_where_directories_are_looked_up() -> None:
    play = Played().hello()
    play.send(cmd.OpenSession("/work"), 1)
    play.refuse("session/new", -32602, "no such directory")
    assert isinstance(play.results[1], InvalidParams)
    assert "gateway's machine" in (play.results[1].hint or "")


def test_what_such_a_gateway_has_not_is_answered_at_once() -> None:
    play = Played().hello().opened()
    queries: list[tuple[cmd.Query, Any]] = [
        (cmd.DescribeSession(S1), None),
        (cmd.ListCommands(S1), None),
        (cmd.ListSessions(), []),
        (cmd.ReadOptions(S1), ()),
        (cmd.ResolveSession(label="x"), None),
        (cmd.ResolveSession(SessionKey("agent:main:x")), None),
        (cmd.ResolveSession(S1), S1),
        (cmd.DeleteSession(S1), False),
    ]
    for token, (query, expected) in enumerate(queries, 10):
        play.send(query, token)
        assert play.results[token] == expected
    unable: list[cmd.Query] = [cmd.ResetSession(S1), cmd.ChangeOption(S1, "a", "b")]
    for token, query in enumerate(unable, 30):
        play.send(query, token)
        assert isinstance(play.results[token], GatewayRefused)
    with pytest.raises(LocalProtocolError):
        play.send(cmd.ListSessions(), None)


def test_requests_and_notifications_pass_with_the_sessions_name() -> None:
    play = Played().hello().opened()
    play.send(cmd.Forward("session/event", {"sessionId": "ours", "type": "x"}, S1), 5)
    assert play.request("session/event")["params"] == {"sessionId": S1, "type": "x"}
    play.answer("session/event", {"status": "processed"})
    assert play.results[5] == {"status": "processed"}
    play.send(cmd.Forward("_x/y", {}), 6)
    play.refuse("_x/y", -32601)
    assert isinstance(play.results[6], UnknownMethod)
    play.send(cmd.Notify("_x/z", {"a": 1}))
    play.send(cmd.Notify("session/update", {"sessionId": "ours"}, S1))
    play.send(cmd.Notify("session/update", {}, SessionKey("unknown")))
    sent = [message["params"] for message in play.flush()]
    assert sent == [{"a": 1}, {"sessionId": S1}]


def test_a_stopped_session_is_restored_before_its_next_use() -> None:
    play = Played().hello().opened()
    play.send(cmd.Forward("session/stop", {}, S1), 5)
    play.answer("session/stop", {"stopped": True})
    assert play.send(start()) == []
    assert play.answer("session/resume", {}) == [ev.RunAccepted(R1)]


def test_an_agent_that_keeps_no_sessions_has_lost_them_with_the_connection() -> None:
    first = Played().hello(PLAIN).opened()
    second = Played(first.memory, generation=2).hello(PLAIN)
    (refused,) = second.send(start())
    assert isinstance(refused, ev.RunRefused)
    assert isinstance(refused.error, SessionNotFound)
