"""A bare client of a gateway that speaks ACP over a WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from acp_bridge.ids import Json
from tests.support.waits import WAIT


class AcpWire:
    """One connection; keeps what arrives."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.messages: list[Json] = []
        self._last = 0

    async def send(self, message: Json | str | bytes) -> None:
        await self.socket.send(json.dumps(message) if isinstance(message, dict) else message)

    async def begin(self, method: str, **params: Any) -> int:
        """Send a request; its id."""
        self._last += 1
        await self.send({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params})
        return self._last

    async def next(self) -> Json:
        async with asyncio.timeout(WAIT):
            message: Json = json.loads(await self.socket.recv())
        self.messages.append(message)
        return message

    async def answer(self, request_id: int) -> Json:
        """The answer to a request; what comes before it is kept."""
        while True:
            message = await self.next()
            if message.get("id") == request_id and "method" not in message:
                return message

    async def asked(self) -> Json:
        """The next question of the gateway."""
        while True:
            message = await self.next()
            if "method" in message and "id" in message:
                return message

    async def call(self, method: str, **params: Any) -> Json:
        """A result; an error fails the test."""
        answer = await self.answer(await self.begin(method, **params))
        assert "result" in answer, answer
        result: Json = answer["result"]
        return result

    async def error(self, method: str, **params: Any) -> int:
        """The number of the error that a call is answered with."""
        answer = await self.answer(await self.begin(method, **params))
        return int(answer["error"]["code"])

    def updates(self) -> list[Json]:
        """All updates so far."""
        return [
            each["params"]["update"]
            for each in self.messages
            if each.get("method") == "session/update"
        ]


@contextlib.asynccontextmanager
async def acp_wire(url: str, **options: Any) -> AsyncIterator[AcpWire]:
    async with connect(url, compression=None, max_size=None, **options) as socket:
        yield AcpWire(socket)
