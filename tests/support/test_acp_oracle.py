"""The oracle must be able to say no: each line here is one that a sloppy agent might write."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.acp_oracle import AcpOracle, Violation

SESSION = "s-1"


def line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


def update(kind: str, /, **fields: Any) -> bytes:
    params = {"sessionId": SESSION, "update": {"sessionUpdate": kind, **fields}}
    return line(method="session/update", params=params)


def chunk(text: str, message: str = "m-1", kind: str = "agent_message_chunk") -> bytes:
    return update(kind, content={"type": "text", "text": text}, messageId=message)


def request(request_id: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def answer(request_id: Any, **result: Any) -> bytes:
    return line(id=request_id, result=result)


@pytest.fixture
def oracle() -> AcpOracle:
    """In the middle of a conversation: one session, one pending prompt with id 3."""
    judge = AcpOracle()
    judge.sent(request(1, "initialize", protocolVersion=1))
    judge.received(answer(1, protocolVersion=1))
    judge.sent(request(2, "session/new", cwd="/", mcpServers=[]))
    judge.received(answer(2, sessionId=SESSION))
    judge.sent(request(3, "session/prompt", sessionId=SESSION, prompt=[]))
    return judge


def test_a_whole_turn_passes(oracle: AcpOracle) -> None:
    oracle.received(chunk("Let me see.", "t-1", "agent_thought_chunk"))
    oracle.received(chunk("Hello"))
    oracle.received(update("tool_call", toolCallId="c", title="ls", kind="execute"))
    oracle.received(
        line(
            id=0,
            method="session/request_permission",
            params={
                "sessionId": SESSION,
                "toolCall": {"toolCallId": "c"},
                "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}],
            },
        )
    )
    oracle.received(line(method="$/cancel_request", params={"requestId": 0}))
    oracle.received(update("tool_call_update", toolCallId="c", status="completed"))
    oracle.received(chunk("Done", "m-2"))
    oracle.received(answer(3, stopReason="end_turn"))


@pytest.mark.parametrize(
    "noise",
    [
        b"",
        b"[acp] ready",
        b"[]",
        b"null",
        b'{"jsonrpc": "2.0", "id": 3, "result": {"stopReason": "end_turn"}} ',
        b'{"jsonrpc": "2.0", "id": 3, "result": {"stopReason": NaN}}',
        b'{"jsonrpc": "2.0", "id": 3, "id": 3, "result": {"stopReason": "end_turn"}}',
        b'{"id": 3, "result": {"stopReason": "end_turn"}}',
        b'{"jsonrpc": "2.0", "id": 3, "result": {"stopReason": "\\ud83d"}}',
        b'{"jsonrpc": "2.0", "id": 3, "error": {"code": 1, "message": "\xff"}}',
    ],
)
def test_a_line_that_is_no_strict_message_is_refused(oracle: AcpOracle, noise: bytes) -> None:
    with pytest.raises(Violation):
        oracle.received(noise)


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(answer(3, stopReason="fine"), id="unknown stop reason"),
        pytest.param(answer("3", stopReason="end_turn"), id="id of another type"),
        pytest.param(answer(4, stopReason="end_turn"), id="nothing was asked"),
        pytest.param(answer(3, stopReason="end_turn", extra=1), id="field of its own"),
        pytest.param(line(id=3, error={"code": "x", "message": "m"}), id="code is no number"),
        pytest.param(line(id=3, error={"code": 1, "message": ""}), id="empty error text"),
        pytest.param(line(id=3, result={}, error={"code": 1, "message": "m"}), id="both"),
        pytest.param(line(method="session/update", params={}, extra=1), id="custom root field"),
        pytest.param(line(method="log", params={}), id="unknown notification"),
        pytest.param(update("agent_message_chunk", content="text"), id="content is no block"),
        pytest.param(update("surprise"), id="unknown update"),
        pytest.param(
            update("tool_call", toolCallId="c", title="t", kind="weird"), id="the SDK would mend it"
        ),
        pytest.param(update("current_mode_update", modeId="a"), id="wrong field name"),
        pytest.param(
            line(method="$/cancel_request", params={"requestId": 9}), id="withdraws nothing"
        ),
    ],
)
def test_what_the_models_do_not_know_is_refused(oracle: AcpOracle, wrong: bytes) -> None:
    with pytest.raises(Violation):
        oracle.received(wrong)


@pytest.mark.parametrize(
    ("before", "late"),
    [
        pytest.param([answer(3, stopReason="end_turn")], chunk("x"), id="chunk after the answer"),
        pytest.param(
            [update("tool_call", toolCallId="c", title="t")],
            answer(3, stopReason="end_turn"),
            id="answer with an open tool call",
        ),
        pytest.param([], update("tool_call_update", toolCallId="c"), id="update before its call"),
        pytest.param(
            [update("tool_call", toolCallId="c", title="t")],
            update("tool_call", toolCallId="c", title="t"),
            id="call that begins twice",
        ),
        pytest.param(
            [update("tool_call", toolCallId="c", title="t", status="failed")],
            update("tool_call_update", toolCallId="c", status="in_progress"),
            id="ended call that goes on",
        ),
        pytest.param([chunk("a"), chunk("b", "m-2")], chunk("c"), id="message that goes on"),
        pytest.param([chunk("a")], chunk("b", "m-1", "agent_thought_chunk"), id="mixed message"),
    ],
)
def test_what_comes_out_of_order_is_refused(
    oracle: AcpOracle, before: list[bytes], late: bytes
) -> None:
    for earlier in before:
        oracle.received(earlier)
    with pytest.raises(Violation):
        oracle.received(late)


def test_an_update_before_the_session_is_known_is_refused() -> None:
    judge = AcpOracle()
    judge.sent(request(1, "initialize", protocolVersion=1))
    judge.received(answer(1, protocolVersion=1))
    with pytest.raises(Violation):
        judge.received(chunk("early"))


def test_nothing_but_answers_may_precede_the_initialize_result() -> None:
    judge = AcpOracle()
    judge.received(line(id=None, error={"code": -32700, "message": "no JSON"}))
    with pytest.raises(Violation):
        judge.received(chunk("early"))
