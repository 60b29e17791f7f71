"""The demo gateway's ACP face: a WebSocket server on loopback at ``/acp``."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import time
from collections.abc import Sequence
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import orjson
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from acp_bridge.demo.acp.methods import AcpMethods
from acp_bridge.demo.acp.run import AcpRun, AcpScript
from acp_bridge.demo.acp.store import StoredSession
from acp_bridge.demo.acp.wire import (
    ABNORMAL,
    INTERNAL,
    INVALID_REQUEST,
    PARSE_ERROR,
    AcpConnection,
    Call,
    Refused,
)
from acp_bridge.demo.calls import parsed
from acp_bridge.demo.script import demo_script
from acp_bridge.ids import Json

HOST: Final = "127.0.0.1"
PATH: Final = "/acp"
HEALTH: Final = "/health"
SUBPROTOCOL: Final = Subprotocol("zeroclaw.acp.v1")
MAX_MESSAGE: Final = 64 * 1024 * 1024
MAX_FRAME: Final = 16 * 1024 * 1024
_BEARER: Final = "bearer."
_CLOSE_SECONDS: Final = 1.0


class AcpDemoGateway:
    """A gateway that speaks ACP; use it as an async context manager.

    It listens on 127.0.0.1 only. ``script`` plays the agent; ``token`` is asked of clients if
    given; ``pace`` stretches the script's pauses. Leaving it raises again what a script raised.

    Besides, it can be steered while it runs:

    - ``calls``, ``runs``, ``store`` and ``wait_call`` tell what clients did;
    - ``refuse`` turns away new connections with an HTTP status;
    - ``drop_connections``, ``restart`` (or ``stop`` and ``start``) and ``mute`` break the link.
    """

    def __init__(
        self,
        script: AcpScript | None = None,
        *,
        token: str | None = None,
        agents: tuple[str, ...] = ("main",),
        pace: float = 1.0,
        port: int = 0,
        max_sessions: int = 10,
        session_timeout: float = 3600.0,
        protocol_version: Any = 1,
    ) -> None:
        self.calls: list[Call] = []
        self.connections: list[AcpConnection] = []
        self.upgrades: list[Headers] = []
        """The request headers of each upgrade that was let in."""
        self.answers: dict[str, list[Json]] = {}
        """The answers of clients to questions, by their ids, whatever connection they came over."""
        self._methods = AcpMethods(
            script or demo_script,
            agents=agents,
            pace=pace,
            max_sessions=max_sessions,
            session_timeout=session_timeout,
            protocol_version=protocol_version,
        )
        self._token = token
        self._port = port
        self._count = 0
        self._refusal: tuple[HTTPStatus, dict[str, str]] | None = None
        self._is_muted = False
        self._starts = 0
        self._started_at = 0.0
        self._server: Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._news = self._methods.news

    async def __aenter__(self) -> AcpDemoGateway:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()
        if error is None and self._methods.failures:
            raise self._methods.failures[0]

    @property
    def url(self) -> str:
        """Where it listens, or listened last."""
        return f"ws://{HOST}:{self._port}{PATH}"

    @property
    def runs(self) -> list[AcpRun]:
        """All turns, in order."""
        return self._methods.runs

    @property
    def store(self) -> dict[str, StoredSession]:
        """The stored sessions, by id."""
        return self._methods.store

    def methods(self) -> list[str]:
        """What was called, in order."""
        return [call.method for call in self.calls]

    def lose_store(self) -> None:
        """Run without a store from now on, as when it cannot be opened."""
        self._methods.has_store = False

    # Starting and stopping

    async def start(self) -> None:
        """Listen. A second start takes the port of the first."""
        self._starts += 1
        self._started_at = time.monotonic()
        self._server = await serve(
            self._serve,
            HOST,
            self._port,
            process_request=self._admit,
            select_subprotocol=_selected,
            max_size=(MAX_MESSAGE, MAX_FRAME),
            ping_interval=None,
            compression=None,
            close_timeout=0.2,
        )
        self._port = next(iter(self._server.sockets)).getsockname()[1]

    async def stop(self) -> None:
        """Go away as a process does: runs are lost, connections end without a close frame."""
        if self._server is None:
            return
        self.drop_connections()
        for run in self.runs:
            run.cut()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._server.server.close()
        for _ in range(3):
            await asyncio.sleep(0)  # who was let in just now, to ask for /health, gets a handler
        self._server.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._server.wait_closed()
        self._server = None

    async def restart(self) -> None:
        """Stop and start again: what is stored is kept, runs are not."""
        await self.stop()
        await self.start()

    # Steering

    def drop_connections(self, code: int = ABNORMAL, reason: str = "") -> None:
        """Close every connection; 1006 cuts it. Runs go on, unseen."""
        for connection in self.connections:
            if connection.is_open:
                connection.close(code, reason)

    def refuse(self, status: int | None, **headers: str) -> None:
        """Turn away new connections with this HTTP status; None lets them in again."""
        self._refusal = None if status is None else (HTTPStatus(status), headers)

    def mute(self, is_muted: bool = True) -> None:
        """Send nothing any more, as a dead link does; sockets stay open."""
        self._is_muted = is_muted
        for connection in self.connections:
            connection.is_muted = is_muted

    def send_text(self, text: str) -> None:
        """Send any text to all clients, be it a message or not."""
        for connection in self.connections:
            connection.send_text(text.encode())

    def notify(self, method: str, params: Json) -> None:
        """Send a notification to all clients."""
        for connection in self.connections:
            connection.notify(method, params)

    async def wait_call(self, method: str, count: int = 1, timeout: float = 5.0) -> Call:
        """The ``count``-th call of a method, waited for if need be.

        Raises ``TimeoutError`` after ``timeout`` seconds.
        """

        def found() -> list[Call]:
            return [each for each in self.calls if each.method == method]

        async with asyncio.timeout(timeout), self._news:
            await self._news.wait_for(lambda: len(found()) >= count)
        return found()[count - 1]

    async def wait_run(self, count: int = 1, timeout: float = 5.0) -> AcpRun:
        """The ``count``-th turn. Raises ``TimeoutError`` after ``timeout`` seconds."""
        async with asyncio.timeout(timeout), self._news:
            await self._news.wait_for(lambda: len(self.runs) >= count)
        return self.runs[count - 1]

    # One connection

    def _admit(self, socket: ServerConnection, request: Request) -> Response | None:
        if self._refusal is not None:
            status, headers = self._refusal
            response = socket.respond(status, "refused\n")
            for name, value in headers.items():
                response.headers[name.replace("_", "-")] = value
            return response
        if urlsplit(request.path).path == HEALTH:
            return socket.respond(HTTPStatus.OK, orjson.dumps(self._health()).decode())
        if urlsplit(request.path).path != PATH:
            return socket.respond(HTTPStatus.NOT_FOUND, "not found\n")
        if self._token is not None and not self._is_ours(request):
            text = "Unauthorized: use a bearer header, a bearer subprotocol or ?token=\n"
            return socket.respond(HTTPStatus.UNAUTHORIZED, text)
        return None

    def _health(self) -> Json:
        """What the real one tells everybody, as far as a bridge needs it. Each start counts as a
        process of its own."""
        uptime = int(time.monotonic() - self._started_at)
        runtime = {"pid": os.getpid() + self._starts, "uptime_seconds": uptime}
        is_closed = self._token is not None
        return {"status": "ok", "require_pairing": is_closed, "runtime": runtime}

    def _is_ours(self, request: Request) -> bool:
        """The first place that names a token decides: header, subprotocol, query."""
        header = request.headers.get("Authorization", "")
        offered = ",".join(request.headers.get_all("Sec-WebSocket-Protocol"))
        bearers = [
            name.strip()[len(_BEARER) :]
            for name in offered.split(",")
            if name.strip().startswith(_BEARER)
        ]
        query = parse_qs(urlsplit(request.path).query).get("token", [])
        given = [header[len("Bearer ") :] if header.startswith("Bearer ") else "", *bearers, *query]
        first = next((token for token in given if token), "")
        return hmac.compare_digest(first.encode(), (self._token or "").encode())

    async def _serve(self, socket: ServerConnection) -> None:
        self._count += 1
        path = socket.request.path if socket.request else ""
        agent = parse_qs(urlsplit(path).query).get("agent", [""])[0].strip() or None
        connection = AcpConnection(socket, self._count, agent)
        connection.is_muted = self._is_muted
        self.connections.append(connection)
        if socket.request:
            self.upgrades.append(socket.request.headers)
        writer = asyncio.create_task(connection.write())
        try:
            async for text in socket:
                await self._receive(connection, text)
        except ConnectionClosed:
            pass
        finally:
            connection.is_open = False
            writer.cancel()

    async def _receive(self, connection: AcpConnection, text: str | bytes) -> None:
        if not text.strip():
            return
        try:
            message = parsed(text)
        except orjson.JSONDecodeError:
            message = None
        if isinstance(message, dict) and "id" in message and ({"result", "error"} & message.keys()):
            self.answers.setdefault(str(message["id"]), []).append(message)
            connection.answered(message)
        elif not isinstance(message, dict) or not isinstance(message.get("method"), str):
            error = {"code": PARSE_ERROR, "message": "Parse error"}
            connection.send({"error": error, "id": None})
        elif message.get("jsonrpc") != "2.0":
            if message.get("id") is not None:
                error = {"code": INVALID_REQUEST, "message": "Invalid request"}
                connection.send({"error": error, "id": message["id"]})
        else:
            await self._called(connection, message)

    async def _called(self, connection: AcpConnection, message: Json) -> None:
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        call = Call(connection.number, message.get("id"), message["method"], params)
        # A task of its own for each call: answers may overtake each other, as they do there.
        task = asyncio.create_task(self._answer(connection, call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.calls.append(call)
        async with self._news:
            self._news.notify_all()

    async def _answer(self, connection: AcpConnection, call: Call) -> None:
        answer: Json
        try:
            answer = {"result": await self._methods.call(connection, call.method, call.params)}
        except Refused as refused:
            answer = {"error": refused.error}
        except Exception as error:
            self._methods.failures.append(error)
            answer = {"error": {"code": INTERNAL, "message": "internal error"}}
        if call.id is not None:
            connection.send({**answer, "id": call.id})


def _selected(_socket: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    return SUBPROTOCOL if SUBPROTOCOL in offered else None
