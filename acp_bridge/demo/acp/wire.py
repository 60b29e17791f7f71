"""One client of the ACP demo gateway: its socket, its sessions, and the questions it was asked."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from acp_bridge.ids import Json

if TYPE_CHECKING:
    from acp_bridge.demo.acp.methods import LiveSession

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL: Final = -32603
SESSION_NOT_FOUND: Final = -32000
SESSION_LIMIT: Final = -32001
SESSION_BUSY: Final = -32002
ABNORMAL: Final = 1006


class Refused(Exception):
    """An error answer, with one of the gateway's numbers."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.error: Json = {"code": code, "message": message}


@dataclass(frozen=True, slots=True)
class Call:
    """A request or notification that a client made; ``id`` is None for a notification."""

    connection: int
    """Number of the connection, counted from 1."""
    id: Any
    method: str
    params: Json = field(repr=False)


class AcpConnection:
    """One WebSocket. What is sent after its end is lost."""

    def __init__(self, socket: ServerConnection, number: int, agent: str | None) -> None:
        self.socket = socket
        self.number = number
        self.agent = agent
        """The ``?agent=`` of its URL: the agent of new sessions that name none."""
        self.sessions: dict[str, LiveSession] = {}
        self.has_elicitation = False
        self.is_open = True
        self.is_muted = False
        self._questions: dict[str, asyncio.Future[Json]] = {}
        self._asked = 0
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue()

    def send(self, message: Json) -> None:
        """Queue one message."""
        self.send_text(orjson.dumps({"jsonrpc": "2.0", **message}))

    def send_text(self, text: bytes) -> None:
        """Queue any text, be it a message or not."""
        if self.is_open and not self.is_muted:
            self._waiting.put_nowait(text)

    def notify(self, method: str, params: Json) -> None:
        """Queue a notification."""
        self.send({"method": method, "params": params})

    async def ask(self, method: str, params: Json, timeout: float) -> Json | None:
        """Ask the client; None for an error, a late answer, or a client that is gone already.

        The ids begin at ``zc-out-0`` on each connection. A connection that ends later leaves the
        question open until ``timeout`` seconds have passed.
        """
        if not self.is_open:
            return None
        question, self._asked = f"zc-out-{self._asked}", self._asked + 1
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._questions[question] = answer
        self.send({"method": method, "params": params, "id": question})
        try:
            async with asyncio.timeout(timeout):
                return await answer
        except TimeoutError:
            return None
        finally:
            self._questions.pop(question, None)

    def answered(self, message: Json) -> None:
        """A message that is an answer, to whatever question; unknown ids are ignored."""
        question = message.get("id")
        answer = self._questions.get(question) if isinstance(question, str) else None
        if answer is not None and not answer.done():
            result = message.get("result")
            answer.set_result(result if isinstance(result, dict) else {})

    async def write(self) -> None:
        """Send what is queued, for as long as the connection lasts."""
        with contextlib.suppress(ConnectionClosed):
            while True:
                text = await self._waiting.get()
                await self.socket.send(text, text=True)

    def close(self, code: int, reason: str = "") -> None:
        """End the connection; 1006 cuts it without a word."""
        self.is_open = False
        if code == ABNORMAL:
            self.socket.transport.abort()
        else:
            self._closing = asyncio.ensure_future(self.socket.close(code, reason))
