from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.support.fault_proxy import CODES, Fault, FaultProxy
from tests.support.waits import WAIT

pytestmark = pytest.mark.integration


async def echo(socket: ServerConnection) -> None:
    """Answers each request, with an event before it."""
    async for text in socket:
        request = json.loads(text)
        await socket.send(
            json.dumps({"type": "event", "event": "chat", "payload": {"state": "delta"}})
        )
        await socket.send(json.dumps({"type": "res", "id": request["id"]}))


@asynccontextmanager
async def proxied(*faults: Fault) -> AsyncIterator[FaultProxy]:
    async with serve(echo, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with FaultProxy(f"ws://127.0.0.1:{port}", faults) as proxy:
            yield proxy


async def ask(socket: ClientConnection, number: int, method: str = "m") -> None:
    await socket.send(json.dumps({"id": str(number), "method": method}))


async def read(socket: ClientConnection) -> str:
    async with asyncio.timeout(WAIT):
        frame = json.loads(await socket.recv())
    return str(frame.get("id", frame.get("event")))


async def test_everything_passes_in_order_without_a_fault() -> None:
    async with proxied() as proxy, connect(proxy.url) as socket:
        for number in range(20):
            await ask(socket, number)
        got = [await read(socket) for _ in range(40)]
    assert got == [part for number in range(20) for part in ("chat", str(number))]


@pytest.mark.parametrize("code", CODES)
async def test_a_close_has_its_code_and_refuses_for_a_while(code: int) -> None:
    async with proxied(Fault("close", after=1, seconds=0.05, code=code)) as proxy:
        async with connect(proxy.url) as socket:
            await ask(socket, 1)
            assert await read(socket) == "chat"
            with pytest.raises(ConnectionClosed):
                await read(socket)
            assert socket.close_code == code
        with pytest.raises(InvalidStatus):
            await connect(proxy.url)
        await asyncio.sleep(0.06)  # the time of the fault
        async with connect(proxy.url) as socket:
            await ask(socket, 2)
            assert [await read(socket), await read(socket)] == ["chat", "2"]
    assert proxy.struck == {f"close {code}": 1}


async def test_a_hold_keeps_the_frames_for_later() -> None:
    async with (
        proxied(Fault("hold", after=0, seconds=0.05)) as proxy,
        connect(proxy.url) as socket,
    ):
        await ask(socket, 1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.03):
                await socket.recv()
        assert [await read(socket), await read(socket)] == ["chat", "1"]


async def test_answers_of_chosen_methods_and_chosen_events_are_lost() -> None:
    faults = [
        Fault("drop answers", names=frozenset({"m"})),
        Fault("drop events", names=frozenset({"chat delta"})),
    ]
    async with proxied(*faults) as proxy, connect(proxy.url) as socket:
        await ask(socket, 1, "other")
        await ask(socket, 2)
        await ask(socket, 3)
        got = [await read(socket) for _ in range(4)]
    assert got == ["chat", "1", "chat", "3"]
