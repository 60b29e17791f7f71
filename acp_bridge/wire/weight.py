"""About how many bytes a value takes in memory, which is what queues and turns are bounded by."""

from __future__ import annotations

from typing import Any

_OVERHEAD = 256
"""Bytes that an object costs beside its text; only the order of magnitude matters."""


def weigh_text(text: str) -> int:
    """An upper bound of the bytes of ``text`` in UTF-8."""
    return len(text) * width(text)


def weigh(value: Any) -> int:
    """The bytes of a JSON value, approximately."""
    weight = 0
    rest = [value]  # no recursion: nesting is the gateway's to choose
    while rest:
        value = rest.pop()
        weight += _OVERHEAD
        if isinstance(value, str):
            weight += weigh_text(value)
        elif isinstance(value, dict):
            rest.extend(value.values())
        elif isinstance(value, list | tuple):
            rest.extend(value)
    return weight


def width(text: str) -> int:
    """Bytes that a character of ``text`` takes at most."""
    return 1 if text.isascii() else 4
