"""The three frames: requests out, responses and events in; and careful ways to look into them.

A frame is one JSON object per WebSocket text. What a gateway sends is never trusted: each reader
below answers None where the type is not the expected one, so that nothing above has to check.
"""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

import orjson

from acp_bridge.errors import UnreadableFrame
from acp_bridge.ids import MAX_ID, Json
from acp_bridge.wire import bounds


class Response(NamedTuple):
    """The gateway's answer to a request of ours."""

    request_id: object
    ok: bool
    payload: Any
    error: Json
    """``code``, ``message``, ``details`` …; empty when ``ok``."""


class Event(NamedTuple):
    """News from the gateway that nobody asked for."""

    name: str
    payload: Json


def read_frame(text: str | bytes) -> Response | Event:
    """Read one WebSocket message. Raises ``UnreadableFrame``; its message quotes no content."""
    if not isinstance(text, str):
        raise UnreadableFrame("binary frame")
    frame = _parse(text)
    if not isinstance(frame, dict):
        raise UnreadableFrame("frame is not an object")
    kind = frame.get("type")
    if kind == "event" and isinstance(frame.get("event"), str):
        return Event(frame["event"], as_object(frame.get("payload")))
    if kind == "res":
        ok = frame.get("ok") is True
        return Response(
            request_id=frame.get("id"),
            ok=ok,
            payload=frame.get("payload"),
            error={} if ok else as_object(frame.get("error")),
        )
    raise UnreadableFrame("frame of unknown type")


def write_request(request_id: str, method: str, params: Json) -> bytes:
    """One request frame in UTF-8."""
    return _dump({"type": "req", "id": request_id, "method": method, "params": params})


def json_size(value: object) -> int:
    """About how many bytes ``value`` takes on the wire."""
    return len(_dump(value))


def as_object(value: object) -> Json:
    """``value`` if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """``value`` if it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: object) -> str | None:
    """``value`` if it is a string that is not empty."""
    return value if isinstance(value, str) and value else None


def as_id(value: object) -> str | None:
    """``value`` if it can be an id or a key: a string of at most ``MAX_ID`` characters."""
    return value if isinstance(value, str) and 0 < len(value) <= MAX_ID else None


def as_count(value: object) -> int | None:
    """``value`` as a whole number if it is one that is not negative."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return int(value) if value >= 0 else None


def _dump(value: object) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # half a surrogate pair, or a number beyond 64 bits, in the user's prompt
        return json.dumps(value, separators=(",", ":")).encode()


def _parse(text: str) -> Any:
    raw = text.encode("utf-8", "surrogatepass")
    if bounds.has_too_many_values(raw):
        raise UnreadableFrame("frame with too many values")
    try:
        frame = orjson.loads(raw)
    except ValueError:
        frame = _parse_leniently(text)
    if bounds.is_too_deep(frame, raw):
        raise UnreadableFrame("frame nested too deeply")
    return frame


def _parse_leniently(text: str) -> Any:
    """Read what strict JSON forbids but JavaScript gateways send.

    Half a surrogate pair is kept: a gateway that cuts a text between two deltas may cut an emoji,
    and the next delta brings the other half. Numbers that JSON cannot hold become null.
    """
    try:
        return json.loads(
            text,
            parse_constant=lambda _: None,
            parse_float=_finite_or_none,
            parse_int=_int64_or_float,
        )
    except (ValueError, RecursionError):
        raise UnreadableFrame("frame is not JSON") from None


def _finite_or_none(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


def _int64_or_float(digits: str) -> int | float | None:
    if len(digits) <= 20 and -(2**63) <= (number := int(digits)) < 2**64:
        return number
    return _finite_or_none(digits)
