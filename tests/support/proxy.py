"""A TCP proxy on this machine that can cut connections, refuse new ones and hold the traffic."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from types import TracebackType
from typing import Self


class Proxy:
    """Stands between a bridge and its gateway; use as an async context manager.

    ``connections`` counts the connections that were let through. It listens on ``listen``, or on a
    port of its own choice.
    """

    def __init__(self, port: int, listen: int = 0) -> None:
        self.connections = 0
        self._listen = listen
        self._target = port
        self._open = True
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._listen)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        self.cut()
        self._flowing.set()
        await asyncio.gather(*self._serving)

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Drop all connections, without goodbye, and refuse new ones until ``restore``."""
        self._open = False
        for writer in self._writers:
            _reset(writer)

    def restore(self) -> None:
        """Let new connections through again."""
        self._open = True

    def hold(self) -> None:
        """Let no more bytes through; the connections stay open."""
        self._flowing.clear()

    def resume(self) -> None:
        """Let the bytes flow again, those held back first."""
        self._flowing.set()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            if self._open:
                await self._join(reader, writer)
        finally:
            _reset(writer)
            self._writers.discard(writer)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            return
        self.connections += 1
        self._writers.add(far_writer)
        ways = [
            asyncio.ensure_future(self._pass(reader, far_writer)),
            asyncio.ensure_future(self._pass(far_reader, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            _reset(far_writer)
            self._writers.discard(far_writer)
            for way in ways:
                way.cancel()
            await asyncio.wait(ways)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with a TCP reset, as a broken network does, not with the end of the stream."""
    if not writer.is_closing():
        option = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, option)
        writer.transport.abort()
