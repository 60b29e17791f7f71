"""Nothing that a line holds raises, and all that was read can be written strictly."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.errors import InvalidRequest, MalformedMessage
from acp_bridge.wire import jsonrpc
from acp_bridge.wire.jsonrpc import BareId, Broken, Notification, Request, Response, decode, encode

any_text = st.text(alphabet=st.characters(exclude_categories=()))  # surrogates as well
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**80), 2**80)
    | st.floats()
    | any_text,
    lambda inner: st.lists(inner) | st.dictionaries(any_text, inner),
    max_leaves=20,
)
near_messages = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | json_values,
        "id": json_values,
        "method": st.sampled_from(["initialize", "$/cancel_request"]) | json_values,
        "params": json_values,
        "result": json_values,
        "error": json_values,
    },
)


def strict(line: bytes) -> Any:
    """Parse one strict JSON line."""
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert b"\r" not in line
    return json.loads(line.decode("utf-8"), parse_constant=pytest.fail)


@given(st.binary())
def test_no_bytes_raise(line: bytes) -> None:
    assert isinstance(decode(line), Request | Notification | Response | BareId | Broken)


@given(near_messages | json_values)
def test_any_json_is_a_message_or_tells_why_not(value: Any) -> None:
    message = decode(json.dumps(value).encode())
    if isinstance(message, Broken):
        assert isinstance(message.error, MalformedMessage | InvalidRequest)
        strict(encode(jsonrpc.failure(message.id, message.error)))
    if isinstance(message, Request):
        assert isinstance(message.method, str)
        strict(encode(jsonrpc.result(message.id, {"echo": message.params})))


@given(json_values)
def test_what_is_written_is_strict_json_on_one_line(value: Any) -> None:
    strict(encode({"value": value}))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_sound_values_come_through_unchanged(value: Any) -> None:
    assert strict(encode({"value": value})) == {"value": value}
