"""The reading end of a pipe, cut into lines, whose reading can be paused."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import Self


class LineReader(asyncio.Protocol):
    """Reads lines of bytes, without their newline, and tells of each.

    The write end is for a child process; ``ended`` is set at the end of the pipe. ``rest`` is what
    came after the last newline.
    """

    def __init__(self, on_line: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self.lines: list[bytes] = []
        self.ended = asyncio.Event()
        self.write_end = -1
        self._on_line = on_line
        self._on_end = on_end
        self.rest = bytearray()

    @classmethod
    async def open(cls, on_line: Callable[[bytes], None], on_end: Callable[[], None]) -> Self:
        reader = cls(on_line, on_end)
        read_end, reader.write_end = os.pipe()
        loop = asyncio.get_running_loop()
        reader._transport, _ = await loop.connect_read_pipe(
            lambda: reader, os.fdopen(read_end, "rb", 0)
        )
        return reader

    _transport: asyncio.ReadTransport

    def close_write_end(self) -> None:
        os.close(self.write_end)

    def pause(self) -> None:
        self._transport.pause_reading()

    def resume(self) -> None:
        with contextlib.suppress(RuntimeError):  # not paused, or closed
            self._transport.resume_reading()

    def close(self) -> None:
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        # Only the new bytes are searched: a line of many MiB arrives in thousands of pieces.
        *whole, rest = data.split(b"\n")
        for piece in whole:
            line = bytes(self.rest) + piece
            self.rest.clear()
            self.lines.append(line)
            self._on_line(line)
        self.rest += rest

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()
        self._on_end()
