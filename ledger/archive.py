"""The entries of one session as compressed bytes, and back.

The format is JSON lines under zlib, one line for each entry, so that it can be read without this
program and may get new members later.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from ledger.codec import decode, encode

_LEVEL = 6


def pack(entries: Iterable[Mapping[str, Any]]) -> bytes:
    """Compress entries, each a mapping of JSON values."""
    packer = zlib.compressobj(_LEVEL)
    parts = [packer.compress(f"{encode(dict(entry))}\n".encode()) for entry in entries]
    return b"".join([*parts, packer.flush()])


def unpack(data: bytes) -> list[dict[str, Any]]:
    """Read what :func:`pack` made. Raises ``ValueError`` if it is damaged."""
    try:
        lines = zlib.decompress(data).split(b"\n")
    except zlib.error as error:
        raise ValueError(str(error)) from error
    return [decode(line) for line in lines if line]
