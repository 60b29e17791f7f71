"""Bytes to lines.

LF alone ends a line: never U+2028, U+0085, CR or VT, which may stand inside a JSON string or come
from a careless peer (ACP, transports). Decoding is left to whole lines, so that no character is
cut at the edge of a read.
"""

from __future__ import annotations

from acp_bridge.errors import MalformedMessage

MAX_LINE = 32 * 1024 * 1024
"""Bytes of the longest line that is read: twice the largest prompt with attachments seen."""

_BOM = b"\xef\xbb\xbf"
_BLANK = b" \t\r"

Line = bytes | MalformedMessage
"""A line without its end, or why a line was skipped."""


class LineReader:
    """Cuts a byte stream into lines, at a cost linear in its length however it arrives.

    A CR before the LF and a BOM before the line are dropped, and blank lines skipped. A line of
    more than ``limit`` bytes is skipped up to its LF and reported once as ``MalformedMessage``;
    the lines after it are read as usual.
    """

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._begun = bytearray()
        self._is_skipping = False

    def feed(self, data: bytes) -> list[Line]:
        """Take the next bytes; return the lines that they complete."""
        lines: list[Line] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._extend(data[start:end], lines)
            self._finish(lines)
            start = end + 1
        self._extend(data[start:], lines)
        return lines

    def end(self) -> list[Line]:
        """The stream has ended; return the last line, if it had no LF."""
        lines: list[Line] = []
        self._finish(lines)
        return lines

    def _extend(self, part: bytes, lines: list[Line]) -> None:
        if self._is_skipping:
            return
        if len(self._begun) + len(part) > self._limit:
            lines.append(MalformedMessage(f"The line is longer than {self._limit} bytes."))
            self._is_skipping = True
            self._begun = bytearray()
        else:
            self._begun += part

    def _finish(self, lines: list[Line]) -> None:
        line = bytes(self._begun).removeprefix(_BOM).strip(_BLANK)
        if line:
            lines.append(line)
        self._begun = bytearray()
        self._is_skipping = False
