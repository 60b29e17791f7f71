"""JSON values to text and back, and text that any database takes.

Writing is total: whatever a caller hands over becomes JSON. Reading is exact: numbers of any size
come back as they were, which the faster decoder does not promise.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

MAX_DEPTH = 500
"""Levels of nesting that are kept; what lies deeper becomes null. Above the 254 of the fast
encoder, and safely below the interpreter's limit of recursion."""


def encode(value: dict[str, Any]) -> str:
    """JSON on one line.

    Half of a surrogate pair becomes U+FFFD (two halves in a row are joined); what JSON cannot
    say, and what is nested deeper than ``MAX_DEPTH``, becomes null.
    """
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:
        return json.dumps(_plain(value, 0), ensure_ascii=False, separators=(",", ":"))


def decode(text: str | bytes) -> Any:
    """What :func:`encode` was given. Raises ``ValueError`` for what is no JSON."""
    return json.loads(text)


def size(text: str) -> int:
    """Bytes of ``text`` in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def clean(text: str) -> str:
    """``text`` without what databases refuse: halves of surrogate pairs and NUL."""
    text = text.replace("\0", "\ufffd")
    return text if text.isascii() else _whole(text)


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
