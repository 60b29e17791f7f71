"""A line to a JSON-RPC 2.0 message, and back.

Reading is forgiving where real editors are careless and never raises: whatever a line holds comes
back as a value. ACP v1 has no batches, so an array is one invalid request. A missing ``jsonrpc``
member is tolerated, another value than ``"2.0"`` is not. ``NaN`` and ``Infinity``, which are no
JSON, are read all the same: refusing them would leave a request unanswered for one odd number.

Writing is total: whatever was read can be written, as strict JSON in UTF-8 on one line.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import orjson

from acp_bridge.errors import InvalidRequest, MalformedMessage, to_jsonrpc
from acp_bridge.ids import Json
from acp_bridge.wire import bounds

MessageId = str | int | float | None
"""The id of a request, echoed in the type it came in (``bool`` is an ``int`` here)."""

MAX_DEPTH = 500
"""Levels of nesting that are written; what lies deeper becomes null. Above the 254 of the fast
encoder, and safely below the interpreter's limit of recursion."""


class Request(NamedTuple):
    """A call that must be answered exactly once."""

    id: MessageId
    method: str
    params: Any = None


class Notification(NamedTuple):
    """A call that must not be answered."""

    method: str
    params: Any = None


class Response(NamedTuple):
    """An answer to a request of ours; ``error`` decides which of the two it is."""

    id: Any
    result: Any = None
    error: Json | None = None


class BareId(NamedTuple):
    """An object with an id, but without method, result and error.

    To a request of ours it is an answer whose result was undefined and so left out; otherwise it
    is an invalid request.
    """

    id: Any


class Broken(NamedTuple):
    """No message. ``error`` is to be answered under ``id``."""

    error: MalformedMessage | InvalidRequest
    id: MessageId = None


_TOO_DEEP = f"The message is nested more than {bounds.MAX_DEPTH} levels deep."

Message = Request | Notification | Response | BareId | Broken


def decode(line: bytes) -> Message:
    """Read one line. Never raises."""
    if bounds.has_too_many_values(line):
        return _refused(line, f"The message has more than {bounds.MAX_VALUES:,} values.")
    try:
        value = json.loads(line.decode("utf-8"))
    except ValueError:
        return Broken(MalformedMessage())
    except RecursionError:
        return _refused(line, _TOO_DEEP)
    if bounds.is_too_deep(value, line):
        return _refused(line, _TOO_DEEP)
    if not isinstance(value, dict):
        return Broken(InvalidRequest())
    message_id = value.get("id")
    has_usable_id = message_id is None or isinstance(message_id, str | int | float)
    if value.get("jsonrpc", "2.0") != "2.0":
        error = InvalidRequest('The member "jsonrpc" must be "2.0".')
        return Broken(error, message_id if has_usable_id else None)
    if "method" in value:
        return _call(value, has_usable_id=has_usable_id)
    if "id" in value:
        return _answer(value)
    return Broken(InvalidRequest())


def _refused(line: bytes, why: str) -> Broken:
    """JSON, but more of it than is read."""
    known = bounds.id_at_front(line)
    return Broken(MalformedMessage(why), None if known is None else json.loads(known))


def _call(value: Json, *, has_usable_id: bool) -> Request | Notification | Broken:
    method, params = value["method"], value.get("params")
    if not has_usable_id:
        return Broken(InvalidRequest("The id must be a string, a number or null."))
    if not isinstance(method, str):
        return Broken(InvalidRequest("The method must be a string."), value.get("id"))
    if "id" not in value:
        return Notification(method, params)
    return Request(value["id"], method, params)


def _answer(value: Json) -> Response | BareId:
    error = value.get("error")
    if isinstance(error, dict):
        return Response(value["id"], error=error)
    if error is not None:
        shaped = to_jsonrpc(InvalidRequest("The peer answered with an error of the wrong shape."))
        return Response(value["id"], error=shaped)
    if "result" in value:
        return Response(value["id"], result=value["result"])
    return BareId(value["id"])


def request(message_id: str, method: str, params: Json) -> Json:
    """A request of ours."""
    return {"jsonrpc": "2.0", "id": message_id, "method": method, "params": params}


def notification(method: str, params: Json) -> Json:
    """A notification of ours."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


def result(message_id: MessageId, value: Json) -> Json:
    """The answer to a request that succeeded; an empty result is ``{}``, never null."""
    return {"jsonrpc": "2.0", "id": message_id, "result": value}


def failure(message_id: MessageId, error: BaseException) -> Json:
    """The answer to a request that failed."""
    return {"jsonrpc": "2.0", "id": message_id, "error": to_jsonrpc(error)}


def encode(message: Json) -> bytes:
    """One line with its LF.

    Half of a surrogate pair becomes U+FFFD (two halves in a row are joined); what JSON cannot
    say, and what is nested deeper than ``MAX_DEPTH``, becomes null.
    """
    try:
        return orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE)
    except orjson.JSONEncodeError:
        text = json.dumps(_plain(message, 0), ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8") + b"\n"


def _plain(value: Any, depth: int) -> Any:
    """``value`` in the types of JSON alone."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return _whole(value)
    if isinstance(value, float):
        return value if value - value == 0 else None  # the difference is NaN for both oddities
    if depth == MAX_DEPTH:
        return None
    if isinstance(value, dict):
        # Loops and no comprehensions: they would take two interpreter frames for each level.
        members = {}
        for key, member in value.items():
            members[_whole(str(key))] = _plain(member, depth + 1)
        return members
    if isinstance(value, list | tuple):
        items = []
        for item in value:
            items.append(_plain(item, depth + 1))  # noqa: PERF401 -- see the dict above
        return items
    return None


def _whole(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
