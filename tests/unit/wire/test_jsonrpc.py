"""Lines become messages, and messages lines, without an exception on either way."""

from __future__ import annotations

import json
from typing import Any

import pytest

from acp_bridge.errors import InvalidRequest, MalformedMessage, SessionNotFound
from acp_bridge.wire import jsonrpc
from acp_bridge.wire.jsonrpc import BareId, Broken, Notification, Request, Response, decode, encode


def line(**members: Any) -> bytes:
    return json.dumps(members).encode()


@pytest.mark.requirement("ACP-5")
@pytest.mark.parametrize(
    "message_id",
    ["a", "", 0, 1, -1, 2**63 - 1, -(2**63), 2**64, 10**40, None, 1.5, 1.0, True, False],
    ids=repr,
)
def test_an_id_is_echoed_in_type_and_value(message_id: Any) -> None:
    request = decode(line(jsonrpc="2.0", id=message_id, method="m"))
    assert isinstance(request, Request)
    for answer in (
        jsonrpc.result(request.id, {}),
        jsonrpc.failure(request.id, SessionNotFound()),
    ):
        echoed = json.loads(encode(answer))["id"]
        assert (type(echoed), echoed) == (type(message_id), message_id)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"id": 1, "method": "m", "params": {"a": 1}}, Request(1, "m", {"a": 1})),
        ({"id": 1, "method": "m"}, Request(1, "m", None)),
        ({"id": None, "method": "m", "params": None}, Request(None, "m", None)),
        ({"method": "m", "params": {}}, Notification("m", {})),
        ({"method": "m"}, Notification("m", None)),
        ({"id": "b", "result": {"x": 1}}, Response("b", {"x": 1})),
        ({"id": "b", "result": None}, Response("b", None)),
        ({"id": "b", "result": None, "error": None}, Response("b", None)),
        ({"id": "b", "error": {"code": 1}}, Response("b", error={"code": 1})),
        ({"id": "b", "result": None, "error": {"code": 1}}, Response("b", error={"code": 1})),
        ({"id": [0], "result": {}}, Response([0], {})),
        ({"id": "b"}, BareId("b")),
        ({"id": "b", "error": None}, BareId("b")),
    ],
    ids=str,
)
@pytest.mark.parametrize("envelope", [{"jsonrpc": "2.0"}, {}], ids=["2.0", "no version"])
def test_the_members_tell_what_a_message_is(
    envelope: dict[str, Any], members: dict[str, Any], message: object
) -> None:
    assert decode(line(**envelope, **members)) == message


@pytest.mark.requirement("ACP-11", "ACP-4", "C003")
@pytest.mark.parametrize(
    "text",
    [
        b"Welcome back",
        b"\x1b]0;title\x07",
        b'{"jsonrpc":"2.0"',
        b'{"jsonrpc":"2.0"} {"jsonrpc":"2.0"}',
        b'{"id":1,"method":"\xff"}',
        b'{"id":1,"method":"\xed\xa0\x80"}',
        '{"id":1,"method":"m"}'.encode("utf-16"),
        b'{"id":' + b"1" * 5000 + b',"method":"m"}',
    ],
    ids=lambda text: ascii(text[:25]),
)
def test_what_is_no_json_is_a_parse_error(text: bytes) -> None:
    broken = decode(text)
    assert isinstance(broken, Broken)
    assert isinstance(broken.error, MalformedMessage)
    assert broken.id is None


@pytest.mark.requirement("ACP-19")
@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"a":' * 100_000 + b"1" + b"}" * 100_000])
def test_deep_nesting_is_a_parse_error(text: bytes) -> None:
    broken = decode(text)
    assert isinstance(broken, Broken)
    assert isinstance(broken.error, MalformedMessage)


@pytest.mark.requirement("ACP-12", "ACP-13")
@pytest.mark.parametrize(
    "text",
    [
        b"[]",
        b'[{"jsonrpc":"2.0","id":1,"method":"m"},{"jsonrpc":"2.0","id":2,"method":"m"}]',
        b"123",
        b"null",
        b"true",
        b'"text"',
        b"{}",
        b'{"jsonrpc":"2.0"}',
        b'{"jsonrpc":"2.0","result":{}}',
        b'{"jsonrpc":"2.0","method":5}',
        b'{"jsonrpc":"2.0","id":[1],"method":"m"}',
        b'{"jsonrpc":"2.0","id":{},"method":"m"}',
    ],
    ids=lambda text: text.decode()[:40],
)
def test_json_that_is_no_message_is_one_invalid_request(text: bytes) -> None:
    broken = decode(text)
    assert isinstance(broken, Broken)
    assert isinstance(broken.error, InvalidRequest)
    assert broken.id is None


@pytest.mark.parametrize(
    "text", [b'{"jsonrpc":"2.0","id":5,"method":null}', b'{"jsonrpc":"1.0","id":5,"method":"m"}']
)
def test_an_invalid_request_is_answered_under_its_id_where_it_has_one(text: bytes) -> None:
    broken = decode(text)
    assert isinstance(broken, Broken)
    assert isinstance(broken.error, InvalidRequest)
    assert broken.id == 5


@pytest.mark.parametrize("error", ["boom", 5, [1], True])
def test_an_answer_with_an_error_of_any_shape_is_an_error(error: Any) -> None:
    response = decode(line(jsonrpc="2.0", id="b", error=error))
    assert isinstance(response, Response)
    assert response.error is not None
    assert response.error["code"] == -32600


@pytest.mark.requirement("ACP-6", "ACP-8", "ACP-95")
def test_answers_hold_either_result_or_error_and_nothing_else() -> None:
    assert jsonrpc.result(1, {}) == {"jsonrpc": "2.0", "id": 1, "result": {}}
    failure = jsonrpc.failure(1, SessionNotFound("Session not found: x", data={"sessionId": "x"}))
    assert failure.keys() == {"jsonrpc", "id", "error"}
    assert failure["error"]["code"] == -32002
    assert failure["error"]["message"] == "Session not found: x"
    assert failure["error"]["data"]["sessionId"] == "x"


def test_a_foreign_exception_shows_none_of_its_text() -> None:
    assert b"secret" not in encode(jsonrpc.failure(1, ValueError("secret")))


@pytest.mark.requirement("ACP-2", "ACP-15", "C022")
def test_text_is_written_as_it_is_on_one_line() -> None:
    text = "é 日本 \u2028\u2029\u0085\v\f\x1c\r\n\0\x7f \U0001f600"
    written = encode({"text": text})
    assert written.endswith(b"\n")
    assert written.count(b"\n") == 1
    assert b"\r" not in written
    assert json.loads(written) == {"text": text}


@pytest.mark.requirement("ACP-18", "C024")
@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("\ud83d", "\ufffd"),
        ("a\ude00b", "a\ufffdb"),
        ("\ud83d\ude00", "\U0001f600"),
        ({"\ud83d": 1}, {"\ufffd": 1}),
        (float("nan"), None),
        (float("inf"), None),
        (-float("inf"), None),
        ([float("nan"), 2**70], [None, 2**70]),
        ({"n": 2**70, "s": "\ud83d"}, {"n": 2**70, "s": "\ufffd"}),
        ((1, {2}), [1, None]),
        ({1: "a"}, {"1": "a"}),
    ],
    ids=ascii,
)
def test_what_json_cannot_say_is_replaced(value: Any, written: Any) -> None:
    assert json.loads(encode({"value": value}), parse_constant=pytest.fail) == {"value": written}


@pytest.mark.requirement("ACP-18")
def test_oddities_read_can_be_written() -> None:
    request = decode(
        b'{"id":1,"method":"m","params":{"a":NaN,"b":1e400,"c":"\\ud83d","d":1%s}}' % (b"0" * 100)
    )
    assert isinstance(request, Request)
    written = json.loads(encode({"p": request.params}), parse_constant=pytest.fail)
    assert written == {"p": {"a": None, "b": None, "c": "\ufffd", "d": 10**100}}


@pytest.mark.requirement("C024")
def test_nesting_of_500_levels_is_written_whole_and_more_is_cut() -> None:
    def nested(levels: int) -> Any:
        value: Any = "core"
        for _ in range(levels):
            value = [value]
        return value

    whole = {"v": nested(jsonrpc.MAX_DEPTH - 1)}
    assert json.loads(encode(whole)) == whole
    assert b"core" not in encode({"v": nested(900)})
    assert json.loads(encode({"v": nested(900)}))["v"]
