"""How much JSON one message may be, beside its length: levels and values.

A short text can be very deep, which ends in the interpreter's limit of recursion, or be very many
values: a byte or two of text each become some hundred bytes in memory. Pure.
"""

from __future__ import annotations

import re
from typing import Any, Final

MAX_DEPTH: Final = 200
"""Levels of nesting that are read, from either side: what is passed on must still be writable, and
the fast encoder allows 254."""

MAX_VALUES: Final = 1_000_000
"""Values of one message that are read, counted by the brackets and commas outside its strings: the
longest transcript is far below, and in memory they stay below some 200 MiB."""

_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\[\x00-\xff][^"\\]*+)*+(?:"|\Z)')
_ID_AT_FRONT: Final = re.compile(
    rb'\s*\{(?:\s*"(?:jsonrpc|method)"\s*:\s*"[^"\\]{0,200}"\s*,)*'
    rb'\s*"id"\s*:\s*("[^"\\]{0,200}"|-?\d{1,18})\s*[,}]'
)


def has_too_many_values(text: bytes) -> bool:
    """Whether the text of a message holds more values than are read; it need not be valid."""
    # Counting is far cheaper than looking, and hardly any message has so many of them.
    return _values(text) > MAX_VALUES and _values(_STRING.sub(b"", text)) > MAX_VALUES


def is_too_deep(value: object, text: bytes) -> bool:
    """Whether ``value``, which ``text`` was parsed to, is nested deeper than is read."""
    if text.count(b"[") + text.count(b"{") <= MAX_DEPTH:
        return False
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for each in level
            if isinstance(each, dict | list)
            for child in (each.values() if isinstance(each, dict) else each)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


def id_at_front(text: bytes) -> bytes | None:
    """The JSON of the id of a request that cannot be parsed, if it stands before the parameters, as
    most peers write it: who asked should hear of the refusal."""
    found = _ID_AT_FRONT.match(text)
    return found[1] if found is not None else None


def _values(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")
