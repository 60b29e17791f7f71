"""How much JSON one message may be: at each limit, and one past it."""

from __future__ import annotations

import json
import time
import tracemalloc

import pytest

from acp_bridge.wire import bounds
from acp_bridge.wire.bounds import MAX_DEPTH, MAX_VALUES
from acp_bridge.wire.jsonrpc import Broken, Request, decode


def nested(levels: int) -> bytes:
    """A request whose parameters are ``levels`` deep; the message is one more."""
    inside = b"[" * levels + b"]" * levels
    return b'{"jsonrpc":"2.0","id":7,"method":"m","params":' + inside + b"}"


def listed(items: int) -> bytes:
    """A request that counts ``items`` values: those of a list, the message and its members."""
    head = b'{"jsonrpc":"2.0","id":7,"method":"m","params":['
    return head + b",".join([b"1"] * (items - 4)) + b"]}"


@pytest.mark.requirement("ACP-19")
def test_a_message_may_be_as_deep_as_the_limit_and_no_deeper() -> None:
    assert isinstance(decode(nested(MAX_DEPTH - 1)), Request)
    broken = decode(nested(MAX_DEPTH))
    assert isinstance(broken, Broken)
    assert (broken.error.number, broken.id) == (-32700, 7)
    assert broken.error.message == "The message is nested more than 200 levels deep."


@pytest.mark.requirement("ACP-19")
@pytest.mark.parametrize("levels", [5_000, 900_000])
def test_a_message_that_no_parser_takes_is_refused_under_its_id(levels: int) -> None:
    broken = decode(nested(levels))
    assert isinstance(broken, Broken)
    assert (broken.error.code, broken.id) == ("parse_error", 7)
    assert "levels deep" in broken.error.message


def test_a_message_may_have_as_many_values_as_the_limit_and_no_more() -> None:
    assert isinstance(decode(listed(MAX_VALUES)), Request)
    broken = decode(listed(MAX_VALUES + 1))
    assert isinstance(broken, Broken)
    assert (broken.error.code, broken.id) == ("parse_error", 7)
    assert broken.error.message == "The message has more than 1,000,000 values."


def test_what_stands_in_a_string_counts_for_nothing() -> None:
    text = '[{,\\"' * MAX_VALUES
    line = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "m", "params": {"text": text}}).encode()
    assert decode(line) == Request(7, "m", {"text": text})


@pytest.mark.parametrize(
    "text", [b'{"a":"' + b"[{" * 40_000, b'"' + b"\\" * 80_001, b'"\\' * 40_000, b"\xff" * 80_000]
)
def test_what_is_no_json_is_counted_in_passing(text: bytes) -> None:
    start = time.perf_counter()
    bounds.has_too_many_values(text * 40)
    assert time.perf_counter() - start < 2.0


def test_brackets_without_end_cost_hardly_more_than_their_text() -> None:
    line = b"[{}," * (8 * 1024 * 1024)
    tracemalloc.start()
    try:
        assert isinstance(decode(line), Broken)
        assert tracemalloc.get_traced_memory()[1] < 3 * len(line)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b'{"id":7,"method":"m"', b"7"),
        (b' { "jsonrpc" : "2.0" , "method" : "m" , "id" : "x" , ', b'"x"'),
        (b'{"method":"m","params":{"id":7},', None),
        (b'{"id":' + b"7" * 400 + b",", None),
        (b'{"id":[7],', None),
        (b"", None),
    ],
)
def test_an_id_is_found_where_it_stands_in_front(text: bytes, found: bytes | None) -> None:
    assert bounds.id_at_front(text) == found
