"""A proxy of loopback that leads every tunnel to one port, whatever name it was asked for."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator

from tests.support.serving import serving


class HttpProxy:
    """Answers CONNECT with ``answer``; with 200 the tunnel leads to ``target``."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.answer = "200 Connection established"
        self.port = 0
        self.asked: list[str] = []
        """The heads of the requests."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            self.asked.append(head.decode())
            writer.write(f"HTTP/1.1 {self.answer}\r\n\r\n".encode())
            await writer.drain()
            if self.answer.startswith("200"):
                await tunnel(reader, writer, self.target)


async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    """Lead a connection on to ``port`` until both sides have ended."""
    far, near = await asyncio.open_connection("127.0.0.1", port)
    try:
        await asyncio.gather(_pass(reader, near), _pass(far, writer))
    finally:
        near.transport.abort()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def http_proxy(
    target: int, context: ssl.SSLContext | None = None
) -> AsyncIterator[HttpProxy]:
    """A running proxy on a free port; with a ``context`` it is spoken to in TLS."""
    proxy = HttpProxy(target)
    async with serving(proxy.serve, context) as proxy.port:
        yield proxy
