"""Whatever a gateway sends, the dialect gives events or one of the errors it promises."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.core.commands import (
    AbortRun,
    ChangeOption,
    DescribeSession,
    ListCommands,
    ListSessions,
    ProbeRun,
    ReadOptions,
    ReadTranscript,
    StartRun,
)
from acp_bridge.errors import GatewayError, GatewayUnreachable, HandshakeRefused
from acp_bridge.gateway.dialects.openclaw.dialect import OpenClawDialect
from acp_bridge.ids import RunId, SessionKey
from tests.support.replay import VERSIONS, names, opening, rows

RUN, KEY = RunId("run-1"), SessionKey("agent:main:work")
HELLO = {"type": "hello-ok", "protocol": 4, "auth": {"scopes": ["operator.admin"]}}

WORDS = st.sampled_from(
    [
        "type", "event", "res", "payload", "ok", "id", "1", "2", "3", "error", "code", "message",
        "chat", "agent", "session.tool", "sessions.changed", "exec.approval.requested",
        "exec.approval.resolved", "shutdown", "connect.challenge", "nonce", "ts",
        "runId", "run-1", "state", "delta", "final", "aborted", "deltaText", "content", "text",
        "thinking", "role", "assistant", "user", "toolResult", "stopReason", "stream", "tool",
        "item", "command_output", "plan", "approval", "data", "phase", "start", "update", "end",
        "result", "requested", "toolCallId", "approvalId", "steps", "status", "in_flight", "ok",
        "messages", "sessionInfo", "inFlightRun", "hasActiveRun", "__openclaw", "truncated",
        "sessionId", "sessions", "key", "toolCall", "items",
        "idempotencyKey", "run-1:user", "request", "allowedDecisions", "session", "sessionKey",
        "totalTokens", "totalTokensFresh", "retryable", "retryAfterMs", "details", "protocol",
        "auth", "scopes", "policy", "maxPayload", "features", "methods", "runIds",
        "models", "provider", "model", "modelProvider", "thinkingLevels", "thinkingLevel", "name",
        "commands", "args", "choices", "value", "acceptsArgs", "seq",
    ]
)  # fmt: skip
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | WORDS,
    lambda inner: st.lists(inner) | st.dictionaries(WORDS | st.text(), inner),
    max_leaves=30,
)
EVENT = st.fixed_dictionaries({"type": st.just("event"), "event": WORDS, "payload": JSON})
ANSWER = st.fixed_dictionaries(
    {"type": st.just("res"), "id": st.integers(1, 17).map(str), "ok": st.booleans()},
    optional={"payload": JSON, "error": JSON},
)


def busy() -> OpenClawDialect:
    """A dialect after its hello with a request of each kind in flight."""
    dialect = OpenClawDialect(opening(), 0.0)
    challenge = {"nonce": "n", "ts": 1}
    feed(dialect, {"type": "event", "event": "connect.challenge", "payload": challenge})
    feed(dialect, {"type": "res", "id": "1", "ok": True, "payload": HELLO})
    dialect.send(StartRun(RUN, KEY, "hello"), None, 0.0)
    dialect.send(AbortRun(RUN, KEY), None, 0.0)
    dialect.send(ProbeRun(RUN, KEY), None, 0.0)
    dialect.send(DescribeSession(KEY), 1, 0.0)
    dialect.send(ListSessions(), 2, 0.0)
    dialect.send(ReadTranscript(KEY), 3, 0.0)
    dialect.send(ReadOptions(KEY), 4, 0.0)
    dialect.send(ChangeOption(KEY, "model", "m"), 5, 0.0)
    dialect.send(ListCommands(KEY), 6, 0.0)
    return dialect


def feed(dialect: OpenClawDialect, frame: Any) -> None:
    try:
        dialect.receive(json.dumps(frame), 0.0)
    except (HandshakeRefused, GatewayUnreachable):
        assert dialect.hello is None


@given(frames=st.lists(EVENT | ANSWER | JSON, max_size=8))
def test_no_json_breaks_a_dialect_before_its_hello(frames: list[Any]) -> None:
    dialect = OpenClawDialect(opening(), 0.0)
    for frame in frames:
        feed(dialect, frame)


@given(frames=st.lists(EVENT | ANSWER | JSON, max_size=8))
def test_no_json_breaks_a_dialect_at_work(frames: list[Any]) -> None:
    dialect = busy()
    for frame in frames:
        feed(dialect, frame)
    dialect.tick(1000.0)
    for text in dialect.data_to_send():
        assert json.loads(text)["type"] == "req"


@given(text=st.text() | st.binary())
def test_no_text_breaks_a_dialect(text: str | bytes) -> None:
    busy().receive(text, 0.0)


RECORDED = [
    frame
    for version in VERSIONS
    for name in names(version)
    if not name.startswith("hs-")
    for direction, frame in rows(version, name)
    if direction == "in" and frame["type"] == "event"
]


@given(
    frame=st.sampled_from(RECORDED),
    spoil=st.lists(st.tuples(st.integers(0, 50), JSON), min_size=1, max_size=3),
)
def test_no_spoilt_field_of_a_real_event_breaks_a_dialect(
    frame: Any, spoil: list[tuple[int, Any]]
) -> None:
    frame = json.loads(json.dumps(frame))
    for place, value in spoil:
        spots = list(_spots(frame))
        holder, key = spots[place % len(spots)]
        holder[key] = value
    dialect = busy()
    try:
        dialect.receive(json.dumps(frame), 0.0)
    except GatewayError as error:
        raise AssertionError(error) from error


def _spots(value: Any) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, child in list(items):
        yield value, key
        if isinstance(child, dict | list):
            yield from _spots(child)
