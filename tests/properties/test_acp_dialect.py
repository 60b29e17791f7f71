"""Whatever a gateway that speaks ACP sends, the dialect takes it, and answers each prompt once."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.core import commands as cmd
from acp_bridge.core import events as ev
from acp_bridge.errors import HandshakeRefused
from acp_bridge.ids import ApprovalId, Json
from tests.support.acp_dialect import R1, S1, Played, start

SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = (
    "sessionUpdate",
    "content",
    "toolCallId",
    "title",
    "kind",
    "status",
    "entries",
    "rawInput",
    "rawOutput",
    "options",
    "toolCall",
    "requestId",
    "stopReason",
)
KINDS = st.sampled_from(
    ["agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan", "odd"]
)
OBJECTS = st.dictionaries(st.sampled_from(NAMES), JSON, max_size=6)
UPDATES = st.builds(lambda kind, rest: {**rest, "sessionUpdate": kind}, KINDS, OBJECTS)
PARAMS = (
    st.builds(lambda update: {"sessionId": S1, "update": update}, UPDATES | JSON)
    | st.builds(lambda rest: {**rest, "sessionId": S1}, OBJECTS)
    | JSON
)
METHODS = st.sampled_from(
    ["session/update", "session/request_permission", "elicitation/create", "$/cancel_request"]
) | st.just("_zeroclaw/history_trimmed")
CALLS = st.builds(
    lambda method, params: {"jsonrpc": "2.0", "method": method, "params": params}, METHODS, PARAMS
)
REQUESTS = st.builds(lambda call, name: {**call, "id": name}, CALLS, SCALARS)
ANSWERS = st.builds(
    lambda name, body: {"jsonrpc": "2.0", "id": name, **body},
    st.sampled_from(["1", "2", "3", "4", "9"]) | SCALARS,
    st.builds(lambda result: {"result": result}, OBJECTS | JSON)
    | st.builds(lambda error: {"error": error}, JSON),
)
MESSAGES = st.lists(CALLS | REQUESTS | ANSWERS | JSON, max_size=12)


@given(MESSAGES)
def test_a_gateway_can_say_anything(messages: list[Any]) -> None:
    play = Played().hello().opened()
    play.send(start())
    for message in messages:
        say(play, message)
    play.tick()
    play.dialect.leave()
    play.flush()
    ends = [e for e in play.events if isinstance(e, ev.RunEnded | ev.RunRefused)]
    assert len(ends) <= 1


@given(MESSAGES)
def test_an_answer_to_a_restoration_can_be_anything(messages: list[Any]) -> None:
    first = Played().hello().opened()
    first.send(start())
    play = Played(first.memory, generation=2).hello()
    play.send(cmd.ProbeRun(R1, S1))
    play.send(cmd.ReadTranscript(S1), 7)
    for message in messages:
        say(play, message)
    play.send(cmd.AnswerPermission(ApprovalId("2:1"), "deny"))
    for _ in range(40):
        play.tick()


@given(OBJECTS | JSON)
def test_an_answer_to_initialize_opens_the_connection_or_refuses_it(result: Any) -> None:
    play = Played()
    try:
        play.answer("initialize", result)
    except HandshakeRefused:
        assert play.dialect.hello is None


def say(play: Played, message: Any) -> None:
    encoded: Json | str = message if isinstance(message, dict) else json.dumps(message)
    play.receive(encoded)
