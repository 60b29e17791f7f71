"""Lines from standard input, without blocking the loop or the end of the program."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Protocol


class Lines(Protocol):
    """Where the user's lines come from."""

    is_interactive: bool
    """Whether somebody sits there who can be asked."""

    async def read(self) -> str | None:
        """The next line without its end, or None at the end of input."""

    def discard(self) -> None:
        """Forget lines that were typed but not read yet."""


class Keyboard:
    """Standard input. A daemon thread reads it, since nothing can interrupt a read of it."""

    def __init__(self) -> None:
        self.is_interactive = sys.stdin is not None and sys.stdin.isatty()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._has_started = False
        self._has_ended = False

    async def read(self) -> str | None:
        if self._has_ended:
            return None
        if not self._has_started:
            self._has_started = True
            loop = asyncio.get_running_loop()
            threading.Thread(target=self._pump, args=(loop,), daemon=True).start()
        line = await self._lines.get()
        self._has_ended = line is None
        return line

    def discard(self) -> None:
        while not self._lines.empty():
            if self._lines.get_nowait() is None:
                self._has_ended = True

    def _pump(self, loop: asyncio.AbstractEventLoop) -> None:
        # A stream of its own: the interpreter, when it ends, waits for the lock of sys.stdin.
        encoding = sys.stdin.encoding if sys.stdin is not None else "utf-8"
        try:
            with open(0, encoding=encoding, errors="replace", closefd=False) as stream:
                for line in stream:
                    loop.call_soon_threadsafe(self._lines.put_nowait, line.rstrip("\r\n"))
            loop.call_soon_threadsafe(self._lines.put_nowait, None)
        except (OSError, RuntimeError):  # input is closed, or the loop is
            return
