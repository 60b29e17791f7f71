"""The one port of a ZeroClaw gateway: its HTTP side here, the WebSocket in a demo gateway."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

from acp_bridge.demo.acp import AcpDemoGateway
from acp_bridge.ids import Json
from tests.support.serving import serving

CODE = "123456"


class Door:
    """``health`` is what ``/health`` answers, None for 404; ``shows_code`` whether ``/pair/code``
    tells the code. ``asked`` has the requests that were answered here."""

    def __init__(self, gateway: AcpDemoGateway, token: str) -> None:
        self._gateway = gateway
        self._token = token
        self.code: str | None = CODE
        self.shows_code = True
        self.health: Json | None = None
        self.asked: list[str] = []
        self.heads: list[str] = []
        """The heads of all requests in small letters, those that were handed on too."""
        self.latency = 0.0
        """Seconds that each of its answers takes."""
        self.news = asyncio.Event()
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, OSError):
            head = await reader.readuntil(b"\r\n\r\n")
            method, path, _ = head.decode("latin-1").split(" ", 2)
            self.heads.append(head.decode("latin-1").lower())
            if path.startswith("/acp"):
                await self._pipe(head, reader, writer)
            else:
                self.asked.append(f"{method} {path}")
                await asyncio.sleep(self.latency)
                status, body = self._answer(method, path, head.decode("latin-1").lower())
                text = json.dumps(body).encode()
                said = f"HTTP/1.1 {status} x\r\nContent-Length: {len(text)}\r\n\r\n"
                writer.write(said.encode() + text)
                await writer.drain()
                self.news.set()

    def _answer(self, method: str, path: str, head: str) -> tuple[int, Json]:
        if (method, path) == ("GET", "/health") and self.health is not None:
            return 200, self.health
        if (method, path) == ("GET", "/pair/code"):
            code = self.code if self.shows_code else None
            return 200, {"success": True, "pairing_required": True, "pairing_code": code}
        if (method, path) == ("POST", "/pair") and self.code is not None:
            if f"x-pairing-code: {self.code}\r\n" not in head:
                return 403, {"error": "Invalid pairing code"}
            self.code = None
            return 200, {"paired": True, "persisted": True, "token": self._token}
        return 404, {}

    async def _pipe(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        port = urlsplit(self._gateway.url).port
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        inner_writer.write(head)
        ways = [
            asyncio.create_task(_copy(reader, inner_writer)),
            asyncio.create_task(_copy(inner_reader, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            inner_writer.close()


@contextlib.asynccontextmanager
async def door(
    gateway: AcpDemoGateway, token: str = "", context: ssl.SSLContext | None = None
) -> AsyncIterator[Door]:
    """A door before a running gateway; it stays open when that is stopped. It speaks TLS by
    ``context``."""
    opened = Door(gateway, token)
    async with serving(opened.serve, context) as port:
        scheme = "ws" if context is None else "wss"
        opened.url = f"{scheme}://127.0.0.1:{port}/acp"
        yield opened


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
