"""The process's own descriptors, as one channel to the editor.

Blocking reads and writes in threads of their own, and never ``O_NONBLOCK``: that flag belongs to
the open file description, which is shared with whoever gave it to us (a terminal, a log on the
same pipe). Anything can be read and written that way: pipes, files, terminals, sockets,
``/dev/null``. The threads are daemons, so that a blocked one never holds the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import sys
import threading

MAX_WAITING = 64 * 1024 * 1024
"""Bytes read from the editor that may wait to be handled: two lines of the greatest length."""

_READ_SIZE = 64 * 1024
"""What a pipe holds on Linux, so that one read empties it."""


class EditorGone(OSError):
    """Standard output cannot be written any more."""


class Channel:
    """Bytes from and to the editor. ``in_fd`` is None when there is no input at all."""

    def __init__(self, wire_fd: int, in_fd: int | None) -> None:
        self._wire_fd = wire_fd
        self._in_fd = in_fd
        self._thread: threading.Thread | None = None
        self._read: asyncio.Queue[bytes] = asyncio.Queue()
        self._waiting = 0
        self._room = threading.Condition()
        self.ended = asyncio.Event()
        """Set as soon as the end of input is met, also while bytes before it still wait."""

    def open(self) -> None:
        """Begin to take in what comes, so that its end is noticed before anybody reads."""
        if self._thread is None:
            loop = asyncio.get_running_loop()
            self._thread = threading.Thread(
                target=self._pump, args=(loop,), name="editor-input", daemon=True
            )
            self._thread.start()

    async def read(self) -> bytes:
        """The next bytes in order; empty at the end of input, and then always."""
        self.open()
        if self.ended.is_set() and self._read.empty():
            return b""
        data = await self._read.get()
        with self._room:
            self._waiting -= len(data)
            self._room.notify()
        return data

    def write(self, data: bytes) -> None:
        """Write all of ``data``, however long that takes. Called from one thread.

        Raises ``EditorGone`` when nothing can be written any more.
        """
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._wire_fd, rest) :]
            except BlockingIOError:  # someone else has set O_NONBLOCK on the description
                _wait_for(self._wire_fd, select.POLLOUT)
            except OSError as error:
                raise EditorGone(error.errno, error.strerror) from error

    def _pump(self, loop: asyncio.AbstractEventLoop) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody reads any more
            while data := self._read_some():
                with self._room:
                    self._room.wait_for(lambda: self._waiting < MAX_WAITING)
                    self._waiting += len(data)
                loop.call_soon_threadsafe(self._read.put_nowait, data)
            loop.call_soon_threadsafe(self._end)

    def _read_some(self) -> bytes:
        while self._in_fd is not None:
            try:
                return os.read(self._in_fd, _READ_SIZE)
            except BlockingIOError:
                _wait_for(self._in_fd, select.POLLIN)
            except OSError:  # closed, or a terminal that hung up: the end of input as well
                break
        return b""

    def _end(self) -> None:
        self.ended.set()
        self._read.put_nowait(b"")


def claim(wire_fd: int, in_fd: int = 0) -> Channel:
    """The channel over ``wire_fd``, a duplicate of the real standard output, and ``in_fd``.

    With standard input closed, the duplicate may have got its number; then there is no input.
    """
    if sys.platform == "win32":
        import msvcrt

        for fd in (wire_fd, in_fd):
            msvcrt.setmode(fd, os.O_BINARY)
    return Channel(wire_fd, None if in_fd == wire_fd else in_fd)


def _wait_for(fd: int, event: int) -> None:
    poll = select.poll()
    poll.register(fd, event)
    poll.poll()
