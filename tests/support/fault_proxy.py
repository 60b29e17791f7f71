"""A WebSocket proxy on this machine that breaks the link by a plan.

It passes frames on, both ways and in order, except for what its faults do. A fault strikes after
so many frames towards the bridge; the next one is counted from its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter, deque
from collections.abc import Iterable
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as websocket_connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidMessage
from websockets.http11 import Request, Response
from websockets.protocol import OPEN
from websockets.typing import Data

CODES: Final = (1001, 1005, 1006, 1008, 1009, 1012, 1013, 4000)
KINDS: Final = ("cut", "close", "hold", "delay", "drop answers", "drop events")
_NO_CODE: Final = 1005
_ABNORMAL: Final = 1006


class Fault(NamedTuple):
    """One thing that goes wrong.

    ``cut`` ends the TCP connections without goodbye, ``close`` ends them with ``code``; both
    refuse new ones for ``seconds``. ``hold`` lets nothing through for so long, either way, with
    the connections open; ``delay`` holds up each frame for ``seconds``, so many ``times``.
    ``drop answers`` loses, so many ``times``, the answer to a method of ``names``; ``drop events``
    an event of ``names`` (see :func:`event_of`).
    """

    kind: str
    after: int = 0
    seconds: float = 0.0
    code: int = _ABNORMAL
    times: int = 1
    names: frozenset[str] = frozenset()


class FaultProxy:
    """Stands between a bridge and its gateway; use as an async context manager.

    ``struck`` counts the faults that have happened, by kind (closes with their code); ``dropped``
    names what was lost of answers and events. ``called`` counts what the bridge has called, by
    method.
    """

    def __init__(self, target: str, faults: Iterable[Fault] = ()) -> None:
        self.struck: Counter[str] = Counter()
        self.dropped: set[str] = set()
        self.called: Counter[str] = Counter()
        self._target = target
        self._faults = deque(faults)
        self._passed = 0
        self._dropping: Fault | None = None
        self._delaying: Fault | None = None
        self._left = 0
        self._is_open = True
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._pairs: set[_Pair] = set()
        self._timers: set[asyncio.TimerHandle] = set()

    async def __aenter__(self) -> Self:
        self._server = await serve(
            self._serve,
            "127.0.0.1",
            0,
            process_request=self._admit,
            ping_interval=None,
            max_size=None,
            compression=None,
            close_timeout=0.2,
        )
        self.port: int = next(iter(self._server.sockets)).getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.heal()
        for pair in list(self._pairs):
            pair.abort()
        self._server.close()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    # --- faults ------------------------------------------------------------------------------

    def plan(self, *faults: Fault) -> None:
        """Let these happen next; the first is counted from now."""
        self._faults = deque(faults)
        self._passed = 0

    def heal(self) -> None:
        """No more faults, and the present ones end."""
        self._faults.clear()
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._dropping = self._delaying = None
        self._restore()

    def strike(self, fault: Fault) -> None:
        """Let a fault happen now."""
        is_close = fault.kind == "close"
        self.struck[f"close {fault.code}" if is_close else fault.kind] += 1
        match fault.kind:
            case "cut" | "close":
                self._is_open = False
                self._later(fault.seconds)
                for pair in list(self._pairs):
                    pair.end(_ABNORMAL if fault.kind == "cut" else fault.code)
            case "hold":
                self._flowing.clear()
                self._later(fault.seconds)
            case "delay":
                self._delaying, self._left = fault, fault.times
            case _:
                self._dropping, self._left = fault, fault.times

    def tear(self) -> None:
        """End the connections to the bridge in the middle of a frame."""
        for pair in list(self._pairs):
            pair.near.transport.write(bytes([0x81, 126, 0x10, 0x00]) + b'{"jsonrpc"')
            pair.near.transport.close()
            pair.far.transport.abort()

    def freeze(self) -> None:
        """Hear nothing more of the bridge over its connections, which stay open: not even pings
        are answered."""
        for pair in self._pairs:
            pair.near.transport.pause_reading()

    def _later(self, seconds: float) -> None:
        self._timers.add(asyncio.get_running_loop().call_later(seconds, self._restore))

    def _restore(self) -> None:
        self._is_open = True
        self._flowing.set()
        self._passed = 0

    @property
    def _is_at_rest(self) -> bool:
        is_busy = self._dropping or self._delaying
        return self._is_open and self._flowing.is_set() and not is_busy

    # --- traffic -----------------------------------------------------------------------------

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        if self._is_open:
            return None
        return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, "not now\n")

    async def _serve(self, near: ServerConnection) -> None:
        try:
            far = await websocket_connect(
                self._target, ping_interval=None, max_size=None, compression=None, close_timeout=0.2
            )
        except (OSError, EOFError, InvalidMessage):
            near.transport.abort()
            return
        pair = _Pair(near, far)
        self._pairs.add(pair)
        ways = [
            asyncio.create_task(self._to_gateway(pair)),
            asyncio.create_task(self._to_bridge(pair)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            await pair.pass_on_close()
        finally:
            self._pairs.discard(pair)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            pair.abort()

    async def _to_gateway(self, pair: _Pair) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for data in pair.near:
                method = pair.note(data)
                await self._hold_up()
                await pair.far.send(data)
                self.called[method] += 1

    async def _to_bridge(self, pair: _Pair) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for data in pair.far:
                await self._hold_up()
                self._passed += 1
                if self._faults and self._is_at_rest and self._passed > self._faults[0].after:
                    self.strike(self._faults.popleft())
                    await self._hold_up()
                if not self._is_dropped(pair, data):
                    await pair.near.send(data)

    async def _hold_up(self) -> None:
        await self._flowing.wait()
        if self._delaying is not None:
            seconds = self._delaying.seconds
            self._count_down()
            await asyncio.sleep(seconds)  # the fault itself

    def _is_dropped(self, pair: _Pair, data: Data) -> bool:
        if self._dropping is None:
            return False
        frame = json.loads(data)
        name = pair.method_of(frame) if self._dropping.kind == "drop answers" else event_of(frame)
        if name not in self._dropping.names:
            return False
        self._count_down()
        self.dropped.add(str(name))
        return True

    def _count_down(self) -> None:
        self._left -= 1
        if self._left <= 0:
            self._dropping = self._delaying = None
            self._passed = 0


class _Pair:
    """The two connections of one link."""

    def __init__(self, near: ServerConnection, far: ClientConnection) -> None:
        self.near = near
        self.far = far
        self._methods: dict[str, str] = {}

    def note(self, data: Data) -> str:
        """The method of a call; its answer will be known by it."""
        frame = json.loads(data)
        if not isinstance(frame, dict) or not isinstance(frame.get("id"), str):
            return ""
        return self._methods.setdefault(frame["id"], str(frame.get("method")))

    def method_of(self, frame: dict[str, Any]) -> str | None:
        return self._methods.get(frame["id"]) if frame.get("type") == "res" else None

    def end(self, code: int) -> None:
        """Close towards the bridge with ``code``, and cut towards the gateway."""
        if code == _ABNORMAL or self.near.state is not OPEN:  # or its own goodbye is on its way
            self.abort()
            return
        # The library refuses to send some of these codes; the wire does not.
        reason = b"" if code == _NO_CODE else code.to_bytes(2, "big") + b"fault"
        self.near.transport.write(bytes([0x88, len(reason)]) + reason)
        self.near.transport.close()
        self.far.transport.abort()

    async def pass_on_close(self) -> None:
        """What one side says at its end, the other hears."""
        if self.far.close_code is not None and self.near.close_code is None:
            if self.far.close_code in (_NO_CODE, _ABNORMAL):
                self.end(self.far.close_code)
            else:
                await self.near.close(self.far.close_code, self.far.close_reason or "")

    def abort(self) -> None:
        self.near.transport.abort()
        self.far.transport.abort()


def event_of(frame: dict[str, Any]) -> str | None:
    """The name of an event; of a chat event with its state, of an agent event with its stream."""
    if frame.get("type") != "event":
        return None
    name, payload = str(frame.get("event")), frame.get("payload") or {}
    part = payload.get("state") if name == "chat" else payload.get("stream")
    return f"{name} {part}" if isinstance(part, str) else name
