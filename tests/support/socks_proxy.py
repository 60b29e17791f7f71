"""A SOCKS5 proxy of loopback (RFC 1928 and 1929) that leads every tunnel to one port."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from tests.support.http_proxy import tunnel
from tests.support.serving import serving

OPEN, BY_PASSWORD, NONE_OF_THEM = 0, 2, 0xFF
GRANTED, NOT_ALLOWED, HOST_UNREACHABLE, REFUSED = 0, 2, 4, 5
_VERSION, _CONNECT = 5, 1
_IPV4, _NAME, _IPV6 = 1, 3, 4


class SocksProxy:
    """Wants the user and password of ``account``, if there is one, and answers requests with
    ``reply``; if that grants one, the tunnel leads to ``target``."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.account: tuple[str, str] | None = None
        self.reply = GRANTED
        self.garbage = b""
        """What it says instead of anything else."""
        self.port = 0
        self.asked: list[str] = []
        """Host and port of each request, as the client named them."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            if self.garbage:
                writer.write(self.garbage)
                await reader.read()
            elif await self._lets_in(reader, writer):
                self.asked.append(await _destination(reader))
                writer.write(bytes([_VERSION, self.reply, 0, _IPV4, 0, 0, 0, 0, 0, 0]))
                await writer.drain()
                if self.reply == GRANTED:
                    await tunnel(reader, writer, self.target)

    async def _lets_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        version, count = await reader.readexactly(2)
        offered = await reader.readexactly(count)
        wanted = OPEN if self.account is None else BY_PASSWORD
        assert version == _VERSION
        if wanted not in offered:
            writer.write(bytes([_VERSION, NONE_OF_THEM]))
            return False
        writer.write(bytes([_VERSION, wanted]))
        if self.account is None:
            return True
        assert await reader.readexactly(1) == b"\x01"
        given = (await _text(reader), await _text(reader))
        writer.write(bytes([1, given != self.account]))
        return given == self.account


async def _destination(reader: asyncio.StreamReader) -> str:
    version, command, _, kind = await reader.readexactly(4)
    assert (version, command) == (_VERSION, _CONNECT)
    if kind == _NAME:
        host = await _text(reader)
    else:
        host = (await reader.readexactly({_IPV4: 4, _IPV6: 16}[kind])).hex()
    return f"{host}:{int.from_bytes(await reader.readexactly(2))}"


async def _text(reader: asyncio.StreamReader) -> str:
    (length,) = await reader.readexactly(1)
    return (await reader.readexactly(length)).decode()


@contextlib.asynccontextmanager
async def socks_proxy(target: int) -> AsyncIterator[SocksProxy]:
    """A running proxy on a free port."""
    proxy = SocksProxy(target)
    async with serving(proxy.serve) as proxy.port:
        yield proxy
