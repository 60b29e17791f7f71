"""Content blocks of ACP, and what makes any text fit to be written as one.

Texts of the gateway may hold halves of surrogate pairs (a JavaScript string can be cut anywhere)
and may be of any length; a line to the editor is strict UTF-8 and of bounded length.
"""

from __future__ import annotations

import binascii
import re
from typing import Final

from acp_bridge.ids import Json

_HALF = re.compile(r"[\ud800-\udfff]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SHORT_ESCAPES: Final = {
    "\0": r"\0",
    "\t": r"\t",
    "\n": r"\n",
    "\v": r"\v",
    "\f": r"\f",
    "\r": r"\r",
}
_DATA_URL = re.compile(r"data:([^;,]*)(?:;[^;,]*)*?;base64,", re.IGNORECASE)
_MARKER_ROOM: Final = 64
"""Bytes kept free for the marker of :func:`cut_middle`."""


def text_block(text: str) -> Json:
    """A text block."""
    return {"type": "text", "text": text}


def image_block(data: str, mime_type: str) -> Json:
    """An image block; ``data`` is base64."""
    return {"type": "image", "data": data, "mimeType": mime_type}


def well_formed(text: str) -> str:
    """``text`` as strict UTF-8 can hold it: split surrogate pairs joined, lone halves U+FFFD."""
    if _HALF.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def utf8_size(text: str) -> int:
    """The bytes of ``text`` in UTF-8; a lone surrogate counts as the U+FFFD that it becomes."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def utf16_units(text: str) -> int:
    """The length of ``text`` as JavaScript counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def escape_controls(text: str) -> str:
    """``text`` on one line, with control characters as visible escapes (C0, DEL, C1, U+2028/9)."""
    return _CONTROL.sub(_escape, well_formed(text))


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    if char in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[char]
    return f"\\x{ord(char):02x}" if ord(char) < 0x100 else f"\\u{ord(char):04x}"


def cut_middle(text: str, limit: int) -> str:
    """``text`` in at most ``limit`` bytes of UTF-8 (at least 128), well formed.

    What is too much is taken out of the middle, between characters, and a marker says how much.
    """
    text = well_formed(text)
    if utf8_size(text) <= limit:
        return text
    room = (limit - _MARKER_ROOM) // 2
    head = text[:room].encode()[:room].decode("utf-8", "ignore")
    tail = text[-room:].encode()[-room:].decode("utf-8", "ignore")
    left_out = len(text) - len(head) - len(tail)
    return f"{head}\n[… {left_out} characters left out …]\n{tail}"


def inline_data(value: str) -> tuple[str, str | None]:
    """The base64 in ``value`` and, where ``value`` is a ``data:`` URL, its media type.

    Raises ``ValueError``, whose text completes "the data …", when there is no usable base64.
    """
    mime_type = None
    if match := _DATA_URL.match(value):
        value, mime_type = value[match.end() :], match[1].strip() or None
    if not value:
        raise ValueError("is empty")
    try:
        binascii.a2b_base64(value, strict_mode=True)
        is_base64 = len(value) % 4 == 0 and not value.endswith("===")
    except ValueError:
        is_base64 = False
    if not is_base64:
        raise ValueError("is not base64")
    return value, mime_type
