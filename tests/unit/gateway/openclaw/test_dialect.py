"""The protocol object: what it is fed, what it gives back, and what it sends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from acp_bridge.core import events as ev
from acp_bridge.core.commands import (
    AbortRun,
    AnswerPermission,
    ChangeOption,
    Command,
    DescribeSession,
    ListCommands,
    ProbeRun,
    ReadOptions,
    ResetSession,
    ResolveSession,
    StartRun,
)
from acp_bridge.core.options import OPTION_IDS
from acp_bridge.errors import (
    AuthenticationFailed,
    GatewayRefused,
    GatewayTimeout,
    GatewayUnreachable,
    HandshakeRefused,
    LocalProtocolError,
    PromptTooLarge,
    ScopeMissing,
    VersionMismatch,
)
from acp_bridge.gateway.dialects.openclaw.dialect import OpenClawDialect
from acp_bridge.gateway.port import Dialect
from acp_bridge.gateway.secret import Secret
from acp_bridge.ids import ApprovalId, Json, RunId, SessionKey
from tests.support.replay import opening

RUN, KEY = RunId("run-1"), SessionKey("agent:main:work")
SEND = StartRun(RUN, KEY, "hello")
PROBE = ProbeRun(RUN, KEY)
IN_FLIGHT = {"messages": [], "inFlightRun": {"runId": RUN, "text": "so far"}}
CHALLENGE = {"nonce": "n", "ts": 1_000_000}
HELLO: Json = {
    "type": "hello-ok",
    "protocol": 4,
    "server": {"version": "2026.6.11", "connId": "c"},
    "features": {"methods": ["sessions.unsubscribe"]},
    "auth": {"scopes": ["operator.admin"], "deviceToken": "issued"},
    "policy": {"maxPayload": 10_000, "tickIntervalMs": 30_000},
}


class Wire:
    """A dialect and what a gateway would see of it."""

    def __init__(self, hello: Json | None = HELLO) -> None:
        self.now = 100.0
        self.dialect = OpenClawDialect(opening(), self.now)
        self.requests: dict[str, Json] = {}
        """The latest request of each method."""
        if hello is not None:
            self.event("connect.challenge", CHALLENGE)
            self.answer("connect", hello)

    def feed(self, frame: Json) -> list[tuple[int | None, Any]]:
        outcomes = self.dialect.receive(json.dumps(frame), self.now)
        self.collect()
        return outcomes

    def event(self, name: str, payload: Any) -> list[tuple[int | None, Any]]:
        return self.feed({"type": "event", "event": name, "payload": payload})

    def answer(self, method: str, payload: Any) -> list[tuple[int | None, Any]]:
        request = self.requests.pop(method)
        return self.feed({"type": "res", "id": request["id"], "ok": True, "payload": payload})

    def refuse(self, method: str, code: str, **error: Any) -> list[tuple[int | None, Any]]:
        request = self.requests.pop(method)
        error = {"code": code, "message": "no", **error}
        return self.feed({"type": "res", "id": request["id"], "ok": False, "error": error})

    def send(self, command: Command, token: int | None = None) -> list[str]:
        self.dialect.send(command, token, self.now)
        return self.collect()

    def tick(self, seconds: float) -> list[tuple[int | None, Any]]:
        self.now += seconds
        outcomes = self.dialect.tick(self.now)
        self.collect()
        return outcomes

    def collect(self) -> list[str]:
        sent = [json.loads(text) for text in self.dialect.data_to_send()]
        self.requests.update({request["method"]: request for request in sent})
        return [request["method"] for request in sent]


def test_the_challenge_is_answered_once_and_the_hello_opens() -> None:
    wire = Wire(hello=None)
    as_port: Dialect = wire.dialect
    before = as_port.hello
    assert wire.event("health", {"ok": True}) == []
    wire.event("connect.challenge", CHALLENGE)
    assert wire.requests["connect"]["params"]["device"]["nonce"] == "n"
    wire.event("connect.challenge", {"nonce": "again", "ts": 1})
    assert wire.requests["connect"]["params"]["device"]["nonce"] == "n"
    assert wire.answer("connect", HELLO) == []
    assert before is None
    assert as_port.hello is not None
    assert as_port.hello.server_version == "2026.6.11"
    assert wire.dialect.issued_token is not None
    assert wire.dialect.issued_token.token == Secret("issued")


def test_a_refused_handshake_raises_its_reason() -> None:
    for error, kind in (
        ({"details": {"code": "AUTH_TOKEN_MISMATCH"}}, AuthenticationFailed),
        ({"retryable": True, "retryAfterMs": 500}, GatewayUnreachable),
        ({}, HandshakeRefused),
    ):
        wire = Wire(hello=None)
        wire.event("connect.challenge", CHALLENGE)
        with pytest.raises(kind):
            wire.refuse("connect", "INVALID_REQUEST", **error)
        assert wire.dialect.hello is None


def test_a_hello_in_another_protocol_and_an_odd_challenge_raise() -> None:
    wire = Wire(hello=None)
    with pytest.raises(HandshakeRefused):
        wire.event("connect.challenge", {})
    wire.event("connect.challenge", CHALLENGE)
    with pytest.raises(VersionMismatch):
        wire.answer("connect", {**HELLO, "protocol": 9})


def test_a_gateway_that_does_not_shake_hands_in_time_is_given_up() -> None:
    silent = Wire(hello=None)
    assert silent.tick(14.9) == []
    with pytest.raises(GatewayTimeout, match="challenge"):
        silent.tick(0.2)
    slow = Wire(hello=None)
    slow.tick(10)
    slow.event("connect.challenge", CHALLENGE)
    assert slow.tick(14) == []
    with pytest.raises(GatewayTimeout, match="handshake"):
        slow.tick(2)


def test_nothing_can_be_sent_before_the_hello_and_no_query_without_a_token() -> None:
    with pytest.raises(LocalProtocolError):
        Wire(hello=None).send(SEND)
    with pytest.raises(LocalProtocolError):
        Wire().send(ResetSession(KEY))


def test_a_prompt_is_sent_and_taken() -> None:
    wire = Wire()
    assert wire.send(SEND) == ["chat.send"]
    outcomes = wire.answer("chat.send", {"runId": RUN, "status": "started"})
    assert outcomes == [(None, ev.RunAccepted(RUN))]
    assert wire.tick(3600) == []


def test_an_answer_to_nothing_and_a_second_answer_are_nothing() -> None:
    wire = Wire()
    for request_id in ("invalid", 7, None, "99"):
        assert wire.feed({"type": "res", "id": request_id, "ok": False, "error": {}}) == []
    wire.send(SEND)
    request = wire.requests["chat.send"]
    wire.answer("chat.send", {"runId": RUN})
    again = {"type": "res", "id": request["id"], "ok": True, "payload": {"runId": RUN}}
    assert wire.feed(again) == []


@pytest.mark.requirement("C021")
def test_a_frame_over_the_gateways_limit_is_not_sent_and_tells_both_sizes() -> None:
    wire = Wire()
    with pytest.raises(PromptTooLarge) as caught:
        wire.send(StartRun(RUN, KEY, "é" * 5000))
    assert wire.collect() == []
    assert caught.value.data["limit"] == 10_000
    assert caught.value.data["size"] > 10_000
    assert str(caught.value.data["size"]) in caught.value.message
    assert wire.send(SEND) == ["chat.send"]


def test_a_refused_prompt_is_refused_by_its_reason() -> None:
    wire = Wire()
    wire.send(SEND)
    ((_, refused),) = wire.refuse("chat.send", "INVALID_REQUEST")
    assert isinstance(refused, ev.RunRefused)
    assert isinstance(refused.error, GatewayRefused)
    wire.send(SEND)
    ((_, refused),) = wire.refuse("chat.send", "FORBIDDEN", details={"missingScope": "s"})
    assert isinstance(refused, ev.RunRefused)
    assert isinstance(refused.error, ScopeMissing)


def test_refused_provenance_is_left_out_and_the_prompt_sent_again_once() -> None:
    wire = Wire()
    provenance = {"systemInputProvenance": {"kind": "external_user"}}
    wire.send(StartRun(RUN, KEY, "hello", provenance=provenance))
    assert "systemInputProvenance" in wire.requests["chat.send"]["params"]
    assert wire.refuse("chat.send", "INVALID_REQUEST") == []
    again = wire.requests["chat.send"]["params"]
    assert again == {"sessionKey": KEY, "message": "hello", "idempotencyKey": RUN}
    ((_, refused),) = wire.refuse("chat.send", "INVALID_REQUEST")
    assert isinstance(refused, ev.RunRefused)
    wire.send(StartRun(RUN, KEY, "hello", provenance=provenance))
    ((_, refused),) = wire.refuse("chat.send", "UNAVAILABLE")
    assert isinstance(refused, ev.RunRefused)


def test_a_run_that_was_over_already_is_asked_about_at_once() -> None:
    wire = Wire()
    wire.send(SEND)
    outcomes = wire.answer("chat.send", {"runId": RUN, "status": "ok"})
    assert outcomes == [(None, ev.RunAccepted(RUN))]
    assert set(wire.requests) == {"chat.history", "agent.wait"}
    assert wire.answer("chat.history", {"messages": [], "sessionInfo": {}}) == []
    ((_, report),) = wire.answer("agent.wait", {"status": "ok"})
    assert report == ev.RunReported(RUN, ev.RunState.FINISHED)


def test_aborts_and_decisions_are_answered_refused_or_given_up_in_time() -> None:
    wire = Wire()
    abort, answer = AbortRun(RUN, KEY), AnswerPermission(ApprovalId("a"), "deny")
    wire.send(abort)
    assert wire.answer("chat.abort", {"aborted": True}) == [(None, ev.AbortAnswered(RUN, True))]
    wire.send(answer)
    settled = wire.answer("exec.approval.resolve", {"ok": True})
    assert settled == [(None, ev.PermissionSettled(ApprovalId("a"), None))]
    wire.send(answer)
    ((_, refused),) = wire.refuse("exec.approval.resolve", "INVALID_REQUEST")
    assert isinstance(refused, ev.PermissionSettled)
    assert isinstance(refused.error, GatewayRefused)
    wire.send(abort)
    wire.send(answer)
    assert wire.tick(29) == []
    (_, aborted), (_, denied) = wire.tick(1)
    assert isinstance(aborted, ev.AbortAnswered)
    assert isinstance(denied, ev.PermissionSettled)
    assert isinstance(aborted.error, GatewayTimeout)
    assert isinstance(denied.error, GatewayTimeout)


def test_queries_come_back_with_their_token() -> None:
    wire = Wire()
    wire.send(ResolveSession(label="work"), 7)
    assert wire.answer("sessions.resolve", {"ok": True, "key": KEY}) == [(7, KEY)]
    wire.send(DescribeSession(KEY), 8)
    assert wire.refuse("sessions.describe", "INVALID_REQUEST") == [(8, None)]
    wire.send(ResetSession(KEY), 9)
    ((token, error),) = wire.refuse("sessions.reset", "INVALID_REQUEST")
    assert token == 9
    assert isinstance(error, GatewayRefused)
    wire.send(ResetSession(KEY), 10)
    assert wire.tick(3600) == []


def test_a_probe_asks_follows_and_reports_once() -> None:
    wire = Wire()
    assert wire.send(PROBE) == [
        "sessions.subscribe",
        "exec.approval.list",
        "chat.history",
        "agent.wait",
    ]
    wire.answer("sessions.subscribe", {"subscribed": True})
    waiting = [{"id": "a", "request": {"command": "ls"}, "expiresAtMs": 1_060_000}]
    wire.now += 10
    ((_, listed),) = wire.answer("exec.approval.list", waiting)
    assert wire.answer("agent.wait", {"status": "timeout"}) == []
    (_, reported), (_, asked) = wire.answer("chat.history", IN_FLIGHT)
    assert reported == ev.RunReported(RUN, ev.RunState.RUNNING, snapshot="so far")
    assert listed == ev.ApprovalsListed(frozenset({ApprovalId("a")}))
    assert isinstance(asked, ev.PermissionAsked)
    assert asked.expires_in == pytest.approx(50)
    assert wire.event("chat", {"runId": "run-0", "state": "final"})
    assert "sessions.unsubscribe" not in wire.requests
    wire.event("chat", {"runId": RUN, "state": "final"})
    assert "sessions.unsubscribe" in wire.requests


def test_an_approval_that_ends_before_the_probe_does_is_not_asked_for() -> None:
    wire = Wire()
    wire.send(PROBE)
    waiting = [{"id": name, "request": {"command": "ls"}} for name in "ab"]
    wire.answer("exec.approval.list", waiting)
    wire.answer("agent.wait", {"status": "timeout"})
    wire.event("exec.approval.resolved", {"id": "a", "decision": "deny"})
    told = [event for _, event in wire.answer("chat.history", IN_FLIGHT)]
    assert [e.approval_id for e in told if isinstance(e, ev.PermissionAsked)] == ["b"]


def test_approvals_that_are_listed_after_the_probes_answer_are_told_at_once() -> None:
    wire = Wire()
    wire.send(PROBE)
    wire.answer("agent.wait", {"status": "timeout"})
    assert len(wire.answer("chat.history", IN_FLIGHT)) == 1
    waiting = [{"id": "a", "request": {"command": "ls"}}]
    assert len(wire.answer("exec.approval.list", waiting)) == 2


def test_several_probes_share_one_subscription_until_the_last_is_over() -> None:
    wire = Wire()
    wire.send(PROBE)
    second = ProbeRun(RunId("run-2"), KEY)
    assert "sessions.subscribe" not in wire.send(second)
    wire.event("chat", {"runId": RUN, "state": "final"})
    assert "sessions.unsubscribe" not in wire.requests
    wire.event("chat", {"runId": "run-2", "state": "final"})
    assert "sessions.unsubscribe" in wire.requests


def test_a_gateway_without_unsubscribe_is_not_asked_for_it() -> None:
    wire = Wire({**HELLO, "features": {}})
    wire.send(PROBE)
    wire.event("chat", {"runId": RUN, "state": "final"})
    assert "sessions.unsubscribe" not in wire.requests


def test_approvals_are_not_asked_for_without_their_scope() -> None:
    wire = Wire({**HELLO, "auth": {"scopes": ["operator.write"]}})
    assert "exec.approval.list" not in wire.send(PROBE)


def test_a_question_that_is_refused_or_not_answered_counts_as_not_known() -> None:
    wire = Wire()
    wire.send(PROBE)
    assert wire.refuse("exec.approval.list", "FORBIDDEN") == []
    assert wire.refuse("chat.history", "FORBIDDEN") == []
    assert wire.tick(19) == []
    assert wire.tick(1) == [(None, ev.RunReported(RUN, ev.RunState.UNTOLD))]
    assert "sessions.unsubscribe" in wire.requests


def test_an_answer_too_long_for_the_history_is_got_once_by_itself() -> None:
    wire = Wire()
    wire.send(PROBE)
    row = {"role": "assistant", "content": [], "__openclaw": {"id": "row-2", "truncated": True}}
    prompt = {"role": "user", "content": "hi", "idempotencyKey": f"{RUN}:user"}
    history = {"messages": [prompt, row], "sessionInfo": {}}
    wire.answer("agent.wait", {"status": "ok"})
    assert wire.answer("chat.history", history) == []
    assert wire.requests["chat.message.get"]["params"]["messageId"] == "row-2"
    whole = {"role": "assistant", "content": "all of it", "stopReason": "stop"}
    ((_, report),) = wire.answer("chat.message.get", {"ok": True, "message": whole})
    assert (report.state, report.snapshot) == (ev.RunState.FINISHED, "all of it")
    wire.send(PROBE)
    wire.answer("agent.wait", {"status": "ok"})
    wire.answer("chat.history", history)
    ((_, report),) = wire.answer("chat.message.get", {"ok": False})
    assert (report.state, report.snapshot) == (ev.RunState.FINISHED, None)


def test_a_subscribed_sender_gets_each_tool_event_once() -> None:
    wire = Wire()
    data = {"phase": "update", "toolCallId": "call-1", "partialResult": "x"}
    payload = {"runId": RUN, "stream": "tool", "data": data}
    assert len(wire.event("session.tool", payload)) == 1
    assert len(wire.event("agent", payload)) == 1
    assert wire.event("session.tool", payload) == []
    assert len(wire.event("session.tool", {**payload, "runId": "run-2"})) == 1


def test_token_counts_are_told_when_they_change() -> None:
    wire = Wire()

    def changed(tokens: int, key: str = KEY) -> list[tuple[int | None, Any]]:
        row = {"totalTokens": tokens, "totalTokensFresh": True}
        return wire.event("sessions.changed", {"sessionKey": key, "session": row})

    assert len(changed(1)) == 1
    assert changed(1) == []
    assert len(changed(1, "other")) == 1
    assert len(changed(2)) == 1


@pytest.mark.requirement("C044")
@pytest.mark.parametrize(
    ("aborted", "kind", "error"),
    [
        ({"stopReason": "stop"}, ev.EndKind.FAILED, "nothing came"),
        ({"stopReason": "rpc"}, ev.EndKind.ABORTED, None),
        ({"stopReason": "stop", "errorMessage": "restart"}, ev.EndKind.ABORTED, "restart"),
    ],
)
def test_a_run_that_failed_is_told_from_one_that_was_stopped(
    aborted: Json, kind: ev.EndKind, error: str | None
) -> None:
    wire = Wire()
    failure = {"phase": "error", "error": "nothing came"}
    wire.event("agent", {"runId": RUN, "stream": "lifecycle", "data": failure})
    payload = {"runId": RUN, "sessionKey": KEY, "state": "aborted", **aborted}
    assert wire.event("chat", payload)[-1] == (None, ev.RunEnded(RUN, kind, error=error))


def test_what_cannot_be_read_is_counted_and_nothing_more() -> None:
    wire = Wire()
    assert wire.dialect.receive(b"\x00", wire.now) == [(None, ev.Unreadable("binary frame"))]
    assert wire.dialect.receive("{", wire.now) == [(None, ev.Unreadable("frame is not JSON"))]


ROW = {"modelProvider": "fake", "model": "one", "effectiveFastMode": False}


def test_options_are_read_with_two_requests_at_once_and_their_changes_followed_once() -> None:
    wire = Wire()
    first = wire.send(ReadOptions(KEY), 1)
    assert first == ["sessions.subscribe", "chat.history", "models.list"]
    assert wire.answer("models.list", {"models": []}) == []
    [(token, options)] = wire.answer("chat.history", {"sessionInfo": ROW})
    assert token == 1
    assert [option.option_id for option in options] == list(OPTION_IDS[2:])
    assert wire.send(ReadOptions(KEY), 2) == ["chat.history", "models.list"]


def test_options_without_a_row_are_an_error_and_without_models_are_the_rest() -> None:
    wire = Wire()
    wire.send(ReadOptions(KEY), 1)
    wire.refuse("chat.history", "INVALID_REQUEST", message="missing scope: operator.read")
    [(token, error)] = wire.refuse("models.list", "INVALID_REQUEST")
    assert token == 1
    assert isinstance(error, ScopeMissing)
    wire.send(ReadOptions(KEY), 2)
    wire.refuse("models.list", "INVALID_REQUEST")
    [(token, options)] = wire.answer("chat.history", {"sessionInfo": ROW})
    assert [option.option_id for option in options] == list(OPTION_IDS[2:])
    wire.send(ReadOptions(KEY), 3)
    [(token, error)] = wire.tick(20.0)
    assert token == 3
    assert isinstance(error, GatewayTimeout)


def test_a_followed_run_leaves_the_changes_of_options_followed() -> None:
    wire = Wire()
    wire.send(PROBE)
    assert "sessions.subscribe" not in wire.send(ReadOptions(KEY), 1)
    wire.event("chat", {"runId": RUN, "state": "final"})
    assert "sessions.unsubscribe" not in wire.requests


def test_a_choice_and_a_list_of_commands_are_one_request_each() -> None:
    wire = Wire()
    assert wire.send(ChangeOption(KEY, "model", "fake/two"), 1) == ["sessions.patch"]
    assert wire.answer("sessions.patch", {"ok": True}) == [(1, None)]
    wire.send(ChangeOption(KEY, "model", "fake/two"), 2)
    [(_, error)] = wire.refuse("sessions.patch", "INVALID_REQUEST", message="not supported")
    assert "not supported" in error.message
    assert wire.send(ListCommands(KEY), 3) == ["commands.list"]
    [(_, commands)] = wire.answer("commands.list", {"commands": [{"name": "help"}]})
    assert [command.name for command in commands] == ["help"]


def test_a_row_tells_of_options_only_when_they_differ() -> None:
    wire = Wire()
    changed = {"sessionKey": KEY, **ROW}
    assert len(wire.event("sessions.changed", changed)) == 1
    assert wire.event("sessions.changed", changed) == []
    [(_, event)] = wire.event("sessions.changed", changed | {"thinkingLevel": "low"})
    assert isinstance(event, ev.OptionsChanged)
    assert event.session_key == KEY
