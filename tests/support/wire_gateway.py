"""A gateway of which the test plays every frame: a bare WebSocket server on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from acp_bridge.ids import Json
from tests.support.waits import WAIT

SCOPES = ["operator.read", "operator.write", "operator.approvals", "operator.admin"]


def hello(**changes: Any) -> Json:
    """A ``hello-ok`` payload; ``changes`` replace its parts."""
    return {
        "type": "hello-ok",
        "protocol": 4,
        "server": {"version": "2026.9.6", "connId": "c", "bootId": "b"},
        "features": {"methods": [], "events": []},
        "snapshot": {},
        "auth": {"role": "operator", "scopes": SCOPES, "deviceToken": "issued-1"},
        "policy": {"maxPayload": 26_214_400, "tickIntervalMs": 30_000},
        **changes,
    }


class WireConnection:
    """One connection, seen from the gateway."""

    def __init__(self, socket: ServerConnection) -> None:
        self.socket = socket

    async def send(self, frame: Json | str | bytes) -> None:
        await self.socket.send(json.dumps(frame) if isinstance(frame, dict) else frame)

    async def event(self, name: str, **payload: Any) -> None:
        await self.send({"type": "event", "event": name, "payload": payload})

    async def take(self, method: str) -> Json:
        """The next request, which must be ``method``."""
        async with asyncio.timeout(WAIT):
            request: Json = json.loads(await self.socket.recv())
        assert request["method"] == method
        return request

    async def answer(self, request: Json, payload: Any) -> None:
        await self.send({"type": "res", "id": request["id"], "ok": True, "payload": payload})

    async def refuse(self, request: Json, code: str, **error: Any) -> None:
        error = {"code": code, "message": "in other words", **error}
        await self.send({"type": "res", "id": request["id"], "ok": False, "error": error})

    async def challenge(self) -> Json:
        """Challenge the bridge; its ``connect`` request."""
        await self.event("connect.challenge", nonce="nonce", ts=1_796_000_000_000)
        return await self.take("connect")

    async def accept(self, **changes: Any) -> Json:
        """Shake hands; the parameters of ``connect``."""
        request = await self.challenge()
        await self.answer(request, hello(**changes))
        params: Json = request["params"]
        return params

    async def reject(self, details_code: str, **details: Any) -> Json:
        """Refuse the handshake as a real gateway does; the parameters of ``connect``."""
        request = await self.challenge()
        is_pairing = details_code == "PAIRING_REQUIRED"
        await self.refuse(
            request,
            "NOT_PAIRED" if is_pairing else "INVALID_REQUEST",
            details={"code": details_code, **details},
        )
        await self.close(1008, "refused")
        params: Json = request["params"]
        return params

    async def close(self, code: int = 1000, reason: str = "") -> None:
        await self.socket.close(code, reason)

    def cut(self) -> None:
        """End the connection without a word."""
        self.socket.transport.abort()

    async def closed_with(self) -> int | None:
        """Wait until the bridge closes; its code."""
        with contextlib.suppress(ConnectionClosed):
            async with asyncio.timeout(WAIT):
                while True:
                    await self.socket.recv()
        return self.socket.close_code


class WireGateway:
    """Hands the connections out in order. Each must be asked for with :meth:`accepted`."""

    def __init__(self, scheme: str = "ws") -> None:
        self.port = 0
        self._scheme = scheme
        self.upgrades = 0
        """Upgrade requests seen."""
        self.upgrade: Callable[[Request], Response | None] = lambda _: None
        """Answers an upgrade request itself, if it gives a response."""
        self.on_open: bytes | None = None
        """Said first over each connection."""
        self._waiting: asyncio.Queue[WireConnection] = asyncio.Queue()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    async def accepted(self) -> WireConnection:
        """The next connection."""
        async with asyncio.timeout(WAIT):
            return await self._waiting.get()

    @property
    def is_idle(self) -> bool:
        """Whether no connection waits to be asked for."""
        return self._waiting.empty()

    def decide(self, _: ServerConnection, request: Request) -> Response | None:
        self.upgrades += 1
        return self.upgrade(request)

    async def handle(self, socket: ServerConnection) -> None:
        if self.on_open is not None:
            await socket.send(self.on_open)
        self._waiting.put_nowait(WireConnection(socket))
        await socket.wait_closed()


def http(status: int, **headers: str) -> Response:
    """A plain HTTP response to an upgrade request."""
    return Response(status, HTTPStatus(status).phrase, Headers(**headers), b"{}")


@contextlib.asynccontextmanager
async def wire_gateway(context: ssl.SSLContext | None = None) -> AsyncIterator[WireGateway]:
    """A gateway on a free port of loopback; with a ``context`` it speaks TLS."""
    gateway = WireGateway("wss" if context else "ws")
    server = await serve(
        gateway.handle,
        "127.0.0.1",
        0,
        process_request=gateway.decide,
        compression=None,
        max_size=None,
        ping_interval=None,
        close_timeout=0.2,
        ssl=context,
    )
    gateway.port = next(iter(server.sockets)).getsockname()[1]
    try:
        yield gateway
    finally:
        server.close()
        await server.wait_closed()
