"""Large base64 data, taken out of a payload and put back.

The same picture comes again and again: in the prompt, in a tool's result, in a replay. Outside
the payload it is stored once, by its hash, and a quarter smaller.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from ledger.codec import decode, encode, size

MIN_LENGTH = 4096
"""Characters of base64 that are worth a row of their own."""

_MEMBERS = ("data", "blob")
"""Where ACP and MCP put base64: content blocks and embedded resources."""
_REFERENCE = "$blob"


def extract(text: str) -> tuple[str, dict[str, bytes]]:
    """Take the blobs out of an encoded payload: the payload's text without them, and they by
    their hash. Nothing is taken out of a payload that looks as if that had been done before."""
    if size(text) < MIN_LENGTH or _REFERENCE in text:
        return text, {}
    if not any(f'"{member}":"' in text for member in _MEMBERS):
        return text, {}
    payload = decode(text)
    blobs: dict[str, bytes] = {}
    for node in _objects(payload):
        for member in _MEMBERS:
            data = _decoded(node.get(member))
            if data is not None:
                name = hashlib.sha256(data).hexdigest()
                blobs[name] = data
                node[member] = {_REFERENCE: name}
    return (encode(payload), blobs) if blobs else (text, {})


def references(payload: dict[str, Any]) -> set[str]:
    """The hashes of the blobs that were taken out of a payload."""
    return {name for _, _, name in _places(payload)}


def restore(payload: dict[str, Any], blobs: Mapping[str, bytes]) -> None:
    """Put the blobs back, in place. Raises ``KeyError`` if one is missing."""
    for node, member, name in list(_places(payload)):
        node[member] = base64.b64encode(blobs[name]).decode()


def _places(payload: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str, str]]:
    for node in _objects(payload):
        for member in _MEMBERS:
            value = node.get(member)
            if isinstance(value, dict) and value.keys() == {_REFERENCE}:
                yield node, member, value[_REFERENCE]


def _objects(payload: dict[str, Any]) -> Iterator[dict[str, Any]]:
    rest: list[Any] = [payload]  # no recursion: nesting is the gateway's to choose
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            yield value
            rest.extend(value.values())
        elif isinstance(value, list):
            rest.extend(value)


def _decoded(value: Any) -> bytes | None:
    """The bytes that ``value`` says in base64, if it says them in the one way that comes back."""
    if not isinstance(value, str) or len(value) < MIN_LENGTH:
        return None
    try:
        data = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if base64.b64encode(data).decode() == value else None
