"""The demo gateway: a WebSocket server on loopback that speaks OpenClaw's dialect."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from acp_bridge.demo.calls import Calls, Override, Request, decoded, failure, frame_problem, success
from acp_bridge.demo.handshake import Admission, Denied, Doorkeeper
from acp_bridge.demo.hello import Limits, hello
from acp_bridge.demo.hub import Connection, Hub, now_ms
from acp_bridge.demo.quirks import Quirks
from acp_bridge.demo.rpc import Methods, health
from acp_bridge.demo.runs import RunContext, Script
from acp_bridge.demo.script import demo_script
from acp_bridge.ids import Json

HOST = "127.0.0.1"
MAX_PAYLOAD = 26_214_400
MAX_BUFFERED = 52_428_800
HANDSHAKE_SECONDS = 15.0
CLOSE_SECONDS = 1.0
FIRST_FRAME_BYTES = 65_536


class DemoGateway:
    """A gateway with a scripted agent; use it as an async context manager.

    It listens on 127.0.0.1 only and refuses browsers (any ``Origin``). ``script`` plays the
    agent; ``token`` is asked of clients if given; ``pace`` stretches the script's pauses (0: none);
    ``tick_interval`` is in seconds. Leaving it raises again what a script raised.

    Besides, it can be steered while it runs:

    - ``requests``, ``runs`` and ``wait_request`` tell what clients did;
    - ``overrides`` answers single methods otherwise, or never;
    - ``refuse`` turns away new connections; ``hold_hello``, set to an event, holds them up;
    - ``drop_connections``, ``restart`` (or ``stop`` and ``start``) and ``mute`` break the link.
    """

    def __init__(
        self,
        script: Script | None = None,
        *,
        token: str | None = None,
        quirks: Quirks = Quirks(),  # noqa: B008 - frozen
        pace: float = 1.0,
        port: int = 0,
        tick_interval: float = 30.0,
        max_payload: int = MAX_PAYLOAD,
        max_buffered: int = MAX_BUFFERED,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self.hold_hello: asyncio.Event | None = None
        self._hub = Hub(quirks, pace, clock)
        self._limits = Limits(max_payload, max_buffered, tick_interval)
        self._methods = Methods(self._hub, script or demo_script)
        self._calls = Calls(self._hub, self._methods)
        self._doorkeeper = Doorkeeper(token, quirks)
        self._refusal: Denied | None = None
        self._refusals_left: int | None = None
        self._is_muted = False
        self._port = port
        self._boot_id = ""
        self._booted_at = 0
        self._count = 0
        self._server: Server | None = None
        self._ticker: asyncio.Task[None] | None = None

    async def __aenter__(self) -> DemoGateway:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()
        if error is None and self._hub.failures:
            raise self._hub.failures[0]

    # What clients see

    @property
    def url(self) -> str:
        """Where it listens, or listened last."""
        return f"ws://{HOST}:{self._port}"

    @property
    def requests(self) -> list[Request]:
        """All calls of all clients, in order, ``connect`` included."""
        return self._calls.requests

    @property
    def overrides(self) -> dict[str, Override]:
        """Methods that are answered otherwise; change it at will."""
        return self._calls.overrides

    @property
    def runs(self) -> dict[str, RunContext]:
        """All runs since the last start, by run id."""
        return self._hub.runs

    @property
    def connections(self) -> list[Connection]:
        """The open connections, in the order in which they came."""
        return [each for each in self._hub.connections if each.is_open]

    # Starting and stopping

    async def start(self) -> None:
        """Listen. A second start takes the port of the first and a new boot id."""
        self._hub.forget()
        self._boot_id, self._booted_at = str(uuid.uuid4()), self._hub.clock()
        self._server = await serve(
            self._serve,
            HOST,
            self._port,
            max_size=self._limits.max_payload,
            ping_interval=None,
            compression=None,
            origins=[None],
        )
        self._port = next(iter(self._server.sockets)).getsockname()[1]
        self._ticker = asyncio.create_task(self._tick())

    async def stop(self, *, code: int = 1012, reason: str = "service restart") -> None:
        """Go down as at SIGTERM: say so, cut all runs, close every connection; 1006 as at
        SIGKILL, without a word."""
        if self._server is None:
            return
        if code != 1006:
            expected: Json = {"restartExpectedMs": None} if self._hub.quirks.is_old else {}
            self._hub.broadcast("shutdown", {"reason": "gateway stopping"} | expected)
        self._hub.is_stopping = True
        self._hub.cut_runs()
        self.drop_connections(code, reason)
        tasks = [task for task in (self._ticker, *self._hub.tasks) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.gather(*(c.socket.wait_closed() for c in self._hub.connections))
        self.drop_connections()  # whoever has not read the close by now
        self._server.close()
        await self._server.wait_closed()
        self._server = None

    async def restart(self, *, code: int = 1012) -> None:
        """Stop and start again: transcripts and devices are kept, runs and keys are not."""
        await self.stop(code=code)
        await self.start()

    # Steering

    def drop_connections(self, code: int = 1006, reason: str = "") -> None:
        """Close every connection; 1006 cuts the TCP connection. Runs go on."""
        for connection in list(self._hub.connections):
            connection.close(code, reason)

    def refuse(
        self, error: Json | None, *, close_code: int = 1008, times: int | None = None
    ) -> None:
        """Turn away new connections with this ``error`` object, the next ``times`` or all of
        them; None lets them in again."""
        self._refusals_left = times
        self._refusal = None
        if error is not None:
            self._refusal = Denied(str(error.get("message", "")), close_code=close_code)
            self._refusal.error = error

    def mute(self, is_muted: bool = True) -> None:
        """Send nothing any more, as a dead link does; sockets stay open."""
        self._is_muted = is_muted
        for connection in self._hub.connections:
            connection.is_muted = is_muted

    def broadcast(self, event: str, payload: Json) -> None:
        """Send an event to all clients that may read."""
        self._hub.broadcast(event, payload)

    def send_text(self, text: str) -> None:
        """Send any text to all clients, be it a frame or not."""
        for connection in self._hub.readers():
            connection.send_text(text)

    def start_run(self, session_key: str, message: str, run_id: str | None = None) -> RunContext:
        """Start a run that no client asked for, as the gateway does when it resumes work."""
        run_id = run_id or str(uuid.uuid4())
        return self._methods.start_run(
            {"sessionKey": session_key, "message": message, "idempotencyKey": run_id}
        )

    def resolve_approval(self, approval_id: str, decision: str, resolved_by: str = "other") -> None:
        """Decide an open approval, as another client would."""
        self._hub.settle_approval(approval_id, decision, resolved_by)

    async def wait_request(self, method: str, count: int = 1, timeout: float = 5.0) -> Request:
        """The ``count``-th call of a method since the gateway was made, waited for if need be.

        Raises ``TimeoutError`` after ``timeout`` seconds.
        """
        return await self._calls.wait(method, count, timeout)

    # One connection

    async def _serve(self, socket: ServerConnection) -> None:
        self._count += 1
        connection = Connection(socket, self._count, self._limits.max_buffered)
        connection.is_muted = self._is_muted
        self._hub.connections.append(connection)
        writer = asyncio.create_task(connection.write())
        try:
            if await self._shake_hands(connection):
                async for text in socket:
                    await self._calls.receive(connection, text)
            else:
                await writer  # the refusal, and then the close
        except ConnectionClosed:
            pass
        finally:
            connection.is_open = False
            self._hub.connections.remove(connection)
            writer.cancel()

    async def _shake_hands(self, connection: Connection) -> bool:
        nonce = str(uuid.uuid4())
        challenge: Json = {"nonce": nonce, "ts": self._hub.clock()}
        if not self._hub.quirks.is_old:
            challenge["capabilities"] = ["model-catalog-snapshot"]
        connection.send_event("connect.challenge", challenge, numbered=False)
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                text = await connection.socket.recv()
        except TimeoutError:
            connection.close(1000, "")
            return False
        if len(text) > FIRST_FRAME_BYTES:
            connection.close(1009, "")
            return False
        frame = decoded(text)
        if isinstance(text, bytes) or not isinstance(frame, dict):
            connection.close(1008, "")
            return False
        return await self._connect(connection, frame, nonce)

    async def _connect(self, connection: Connection, frame: Json, nonce: str) -> bool:
        request_id = frame.get("id")
        if frame_problem(frame) is None:
            await self._calls.note(connection, frame)
        try:
            self._turn_away(frame)
            admission = self._doorkeeper.admit(frame.get("params"), nonce, self._hub.clock())
        except Denied as denied:
            connection.send(failure(request_id, denied))
            connection.close(denied.close_code, denied.reason)
            return False
        if self.hold_hello is not None:
            await _first_of(self.hold_hello.wait(), connection.socket.wait_closed())
        connection.scopes, connection.caps = admission.scopes, admission.caps
        connection.client = admission.client
        connection.send(success(request_id, self._hello(connection, admission)))
        connection.is_open = True
        connection.send_event("health", health(self._hub))
        return True

    def _turn_away(self, frame: Json) -> None:
        if frame.get("method") != "connect":
            raise Denied("invalid handshake: first request must be connect")
        if self._refusal is None or self._refusals_left == 0:
            return
        if self._refusals_left is not None:
            self._refusals_left -= 1
        raise self._refusal

    def _hello(self, connection: Connection, admission: Admission) -> Json:
        return hello(
            self._hub,
            admission,
            self._limits,
            self._methods.table,
            connection_id=connection.id,
            boot_id=self._boot_id,
            booted_at=self._booted_at,
        )

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self._limits.tick_interval)
            self._hub.broadcast("tick", {"ts": self._hub.clock()})


async def _first_of(*waits: Coroutine[Any, Any, Any]) -> None:
    """Wait for one of them; the others are dropped."""
    tasks = [asyncio.create_task(each) for each in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
