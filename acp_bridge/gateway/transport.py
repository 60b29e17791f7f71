"""The WebSocket: the only user of ``websockets``."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Final, NamedTuple, Protocol
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as websocket_connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.typing import Subprotocol

from acp_bridge.errors import GatewayError, GatewayUnreachable, HandshakeRefused
from acp_bridge.gateway.settings import DEFAULT_PORT, is_loopback

MAX_FRAME = 64 * 1024 * 1024
"""Bytes of a received frame. Each delta repeats the whole answer, and a transcript comes in one
piece; above this the gateway must be broken."""
OPEN_TIMEOUT = 10.0
CLOSE_TIMEOUT = 1.0

_library_log = logging.getLogger(f"{__name__}.library")
_library_log.setLevel(logging.INFO)  # below it, the library logs whole frames, tokens and all

ABNORMAL = 1006
"""The close code of a connection that ended without one."""


class TransportClosed(Exception):
    """The connection is over; nothing more can be received or sent."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code} {reason}".rstrip())
        self.code = code
        self.reason = reason


class Transport(Protocol):
    """One open connection. What was received before its end can still be read."""

    @property
    def subprotocol(self) -> str | None:
        """The one of those offered at the upgrade that the gateway has selected."""

    async def receive(self) -> str | bytes:
        """The next message. Raises ``TransportClosed``."""

    async def send(self, text: str) -> None:
        """Send one text; waits while the peer does not read. Raises ``TransportClosed``."""

    async def close(self, code: int, reason: str) -> None:
        """Close; returns within about a second. No-op when closed."""


class Upgrade(NamedTuple):
    """What goes with the upgrade to a WebSocket, and how the connection is kept."""

    headers: tuple[tuple[str, str], ...] = ()
    """May hold a token: never to be logged."""
    subprotocols: tuple[str, ...] = ()
    """Likewise."""
    query: str = ""
    """Added to the URL; likewise."""
    ping_interval: float | None = None
    """Seconds between two pings; None where the gateway gives signs of life itself."""
    max_frame: int | None = None
    """Characters of one frame; a longer text goes in several. None: all in one."""


PLAIN: Final = Upgrade()


class _DirectConnect(websocket_connect):
    """Follows no redirect: it could lead the token to another host, or out of TLS."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class WebSocketTransport:
    """A ``Transport`` over one WebSocket."""

    def __init__(self, connection: ClientConnection, max_frame: int | None = None) -> None:
        self._connection = connection
        self._max_frame = max_frame

    @property
    def subprotocol(self) -> str | None:
        return self._connection.subprotocol

    async def receive(self) -> str | bytes:
        try:
            return await self._connection.recv()
        except ConnectionClosed as closed:
            raise _closed(closed) from None

    async def send(self, text: str) -> None:
        try:
            await self._connection.send(self._in_frames(text))
        except ConnectionClosed as closed:
            raise _closed(closed) from None

    def _in_frames(self, text: str) -> str | list[str]:
        size = self._max_frame
        if size is None or len(text) <= size:
            return text
        return [text[start : start + size] for start in range(0, len(text), size)]

    async def close(self, code: int, reason: str) -> None:
        try:
            # The library bounds its handshake, but not its wait behind a send that cannot go on.
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self._connection.close(code, reason)
        except TimeoutError:
            self._connection.transport.abort()


async def connect(url: str, upgrade: Upgrade = PLAIN) -> WebSocketTransport:
    """Open a connection. Messages name ``url`` alone, and nothing of ``upgrade``.

    Raises ``GatewayUnreachable``, or ``HandshakeRefused`` when the gateway answers the upgrade
    with 401 or 403. No Origin is sent: the gateway refuses unknown ones. Loopback is never reached
    through a proxy.
    """
    try:
        connection = await _DirectConnect(
            _with_query(url, upgrade.query),
            additional_headers=list(upgrade.headers),
            subprotocols=[Subprotocol(name) for name in upgrade.subprotocols] or None,
            open_timeout=OPEN_TIMEOUT,
            close_timeout=CLOSE_TIMEOUT,
            ping_interval=upgrade.ping_interval,
            ping_timeout=upgrade.ping_interval,
            max_size=MAX_FRAME,
            compression=None,
            logger=_library_log,
            proxy=None if is_loopback(url) else True,
        )
    except InvalidStatus as error:
        raise _refused_upgrade(url, error) from None
    except (ssl.SSLEOFError, ConnectionResetError, BrokenPipeError, asyncio.IncompleteReadError):
        raise _closed_unanswered(url) from None
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", None) or error.reason or "handshake failed"
        raise _unreachable(
            url, f"its TLS certificate or handshake is not accepted: {reason}"
        ) from None
    except TimeoutError:
        raise _unreachable(url, "it did not answer in time") from None
    except WebSocketException as error:
        if isinstance(error.__cause__, EOFError | ConnectionError):
            raise _closed_unanswered(url) from None
        raise _unreachable(url, f"it does not speak WebSocket: {error}") from None
    except OSError as error:
        raise _unreachable(url, _os_reason(error)) from None
    except ImportError as error:  # a SOCKS proxy in the environment needs an extra package
        raise _unreachable(url, f"the proxy cannot be used: {error}") from None
    return WebSocketTransport(connection, upgrade.max_frame)


def _with_query(url: str, query: str) -> str:
    if not query:
        return url
    return f"{url}{'&' if urlsplit(url).query else '?'}{query}"


def _closed(closed: ConnectionClosed) -> TransportClosed:
    close = closed.rcvd or closed.sent
    return TransportClosed(close.code, close.reason) if close else TransportClosed(ABNORMAL, "")


def _unreachable(url: str, reason: str) -> GatewayUnreachable:
    return GatewayUnreachable(
        f"The gateway at {url} cannot be reached: {reason}.", hint=_where_to_look(url)
    )


def _closed_unanswered(url: str) -> GatewayUnreachable:
    return GatewayUnreachable(
        f"The gateway at {url} cannot be reached: something accepts the connection there and closes"
        " it without an answer.",
        hint="That is what a tunnel or a proxy does when the gateway behind it is not running:"
        " start the gateway where it leads to, or check where that is.",
    )


def _where_to_look(url: str) -> str:
    parts = urlsplit(url)
    if not is_loopback(url):
        return "Check the address, the network and whether the gateway runs there."
    port = parts.port or (443 if parts.scheme == "wss" else 80)
    return (
        "Start the gateway on this machine; or, if it runs on another one, open a tunnel:"
        f" ssh -N -L {port}:127.0.0.1:{DEFAULT_PORT} USER@HOST"
    )


def _os_reason(error: OSError) -> str:
    """Without the address: several addresses of one host give one long text otherwise."""
    if isinstance(error, ConnectionRefusedError) or "refused" in str(error).lower():
        return "nothing listens there"
    return error.strerror or str(error) or type(error).__name__


def _refused_upgrade(url: str, error: InvalidStatus) -> GatewayError:
    status = error.response.status_code
    if status in {401, 403}:
        return HandshakeRefused(
            f"The gateway at {url} refused the connection with HTTP {status}.",
            hint="If it is reached through a proxy, list that in gateway.trustedProxies.",
            data={"httpStatus": status},
        )
    unreachable = _unreachable(url, f"it answered with HTTP {status}")
    unreachable.data["httpStatus"] = status
    seconds = error.response.headers.get("Retry-After", "")
    if seconds.isascii() and seconds.isdecimal():
        unreachable.data["retryAfterMs"] = int(seconds[:6]) * 1000
    return unreachable
