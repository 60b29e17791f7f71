"""The proxy breaks a connection as a bad network does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from tests.support.proxy import Proxy


@pytest.fixture
async def echo_port() -> AsyncIterator[int]:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def dial(
    proxy: Proxy,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def test_bytes_pass_until_the_link_is_cut_and_again_after_it(echo_port: int) -> None:
    async with Proxy(echo_port) as proxy:
        async with dial(proxy) as (reader, writer):
            writer.write(b"one")
            assert await reader.readexactly(3) == b"one"
            proxy.cut()
            with pytest.raises(ConnectionResetError):
                await reader.readexactly(1)
        async with dial(proxy) as (reader, writer):
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
        proxy.restore()
        async with dial(proxy) as (reader, writer):
            writer.write(b"two")
            assert await reader.readexactly(3) == b"two"
        assert proxy.connections == 2


async def test_held_bytes_arrive_when_the_link_is_resumed(echo_port: int) -> None:
    async with Proxy(echo_port) as proxy, dial(proxy) as (reader, writer):
        proxy.hold()
        writer.write(b"late")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.readexactly(4), 0.1)
        proxy.resume()
        assert await reader.readexactly(4) == b"late"
