"""Which kind of gateway it is, where nobody has said so.

A URL whose path ends in ``/acp`` is ACP's (ZeroClaw, and the usual place of the SDKs' servers).
Elsewhere ZeroClaw's subprotocol is offered, and a gateway that selects it speaks ACP. Where none
does, it counts who speaks first: OpenClaw greets at once with a challenge, and an ACP agent waits
for ``initialize``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from acp_bridge.gateway.dialects.acp_ws.handshake import SUBPROTOCOL
from acp_bridge.gateway.transport import Transport, TransportClosed, Upgrade

GREETING: Final = 3.0
"""Seconds that a gateway is given to speak first; OpenClaw's challenge comes in milliseconds."""

ASKING: Final = Upgrade(subprotocols=("acp-bridge", SUBPROTOCOL))
"""Offers ZeroClaw's subprotocol behind one that nobody knows: a server that does not look takes the
first one (the library ``ws`` of Node, and so OpenClaw), and has said nothing by that."""

AUTO: Final = "auto"
ACP: Final = "acp"
OPENCLAW: Final = "openclaw"
KINDS: Final = (AUTO, OPENCLAW, ACP)


class Choice(NamedTuple):
    """A kind of gateway and why it is taken to be one."""

    kind: str
    reason: str


def choose(wanted: str, url: str, source: str) -> Choice | None:
    """The kind as the options say it, or the URL; None if the connection has to tell."""
    if wanted != AUTO:
        return Choice(wanted, f"{source} says so")
    if urlsplit(url).path.rstrip("/").endswith("/acp"):
        return Choice(ACP, "the path of the URL ends in /acp")
    return None


def selected(transport: Transport) -> Choice | None:
    """What the gateway's answer to ``ASKING`` says of its kind."""
    if transport.subprotocol != SUBPROTOCOL:
        return None
    return Choice(ACP, f"the gateway selected the subprotocol {SUBPROTOCOL}")


class Greeted:
    """A ``Transport`` whose first message was read already."""

    def __init__(self, transport: Transport, first: str | bytes | TransportClosed) -> None:
        self._transport = transport
        self._first: str | bytes | TransportClosed | None = first

    @property
    def subprotocol(self) -> str | None:
        return self._transport.subprotocol

    async def receive(self) -> str | bytes:
        first, self._first = self._first, None
        if isinstance(first, TransportClosed):
            raise first
        return first if first is not None else await self._transport.receive()

    async def send(self, text: str) -> None:
        await self._transport.send(text)

    async def close(self, code: int, reason: str) -> None:
        await self._transport.close(code, reason)


async def greeting(
    transport: Transport, sleep: Callable[[float], Awaitable[None]]
) -> Transport | None:
    """Wait for the gateway to speak first; None if it does not, and the connection is closed."""
    hearing = asyncio.ensure_future(transport.receive())
    patience = asyncio.ensure_future(sleep(GREETING))
    try:
        await asyncio.wait({hearing, patience}, return_when=asyncio.FIRST_COMPLETED)
        if not hearing.done():
            await transport.close(1000, "")
            return None
        failure = hearing.exception()
        if isinstance(failure, TransportClosed):
            return Greeted(transport, failure)
        return Greeted(transport, hearing.result())
    finally:
        hearing.cancel()
        patience.cancel()
        await asyncio.gather(hearing, patience, return_exceptions=True)
