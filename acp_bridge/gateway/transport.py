"""The WebSocket: the only user of ``websockets``."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as websocket_connect
from websockets.exceptions import (
    ConnectionClosed,
    InvalidProxy,
    InvalidProxyStatus,
    InvalidStatus,
    NegotiationError,
    ProxyError,
    WebSocketException,
)
from websockets.typing import Subprotocol

from acp_bridge.errors import GatewayError
from acp_bridge.gateway import mistakes
from acp_bridge.gateway.headers import Headers, extra_headers
from acp_bridge.gateway.network_errors import wrong_protocol
from acp_bridge.gateway.proxies import Proxy, not_a_proxy, proxy_for
from acp_bridge.gateway.route import DIRECT, Route

MAX_FRAME = 64 * 1024 * 1024
"""Bytes of a received frame. Each delta repeats the whole answer, and a transcript comes in one
piece; above this the gateway must be broken."""
OPEN_TIMEOUT = 10.0
CLOSE_TIMEOUT = 1.0

_library_log = logging.getLogger(f"{__name__}.library")
_library_log.setLevel(logging.INFO)  # below it, the library logs whole frames, tokens and all

ABNORMAL = 1006
"""The close code of a connection that ended without one."""

FAILURES: Final = (WebSocketException, OSError, EOFError, UnicodeError)
"""All that an attempt to connect can end with; the last for names that cannot be one."""
_NO_TLS: Final = {
    "WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST",
    "UNEXPECTED_MESSAGE", "BAD_RECORD_TYPE",
}  # fmt: skip
"""What OpenSSL calls it when the peer's first bytes are none of TLS."""
_CUT: Final = (ssl.SSLEOFError, ConnectionResetError, BrokenPipeError, EOFError)


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


class _TellingConnection(ClientConnection):
    """Keeps why TLS ended the connection: in TLS 1.3 a missing client certificate is refused only
    after the handshake, where the library forgets the reason."""

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        failure = self.protocol.handshake_exc
        if failure is not None and isinstance(exc, ssl.SSLError):
            failure.__cause__ = exc


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


async def connect(url: str, upgrade: Upgrade = PLAIN, route: Route = DIRECT) -> WebSocketTransport:
    """Open a connection by ``route``. Messages name ``url`` alone, and nothing of ``upgrade``.

    Nothing is sent before the certificate was accepted. No Origin is sent: the gateway refuses
    unknown ones. Loopback is never reached through a proxy.

    Raises ``CredentialsUnusable`` for a file of ``route`` that cannot be used, else the
    ``GatewayError`` of ``gateway.network_errors`` that fits.
    """
    headers = (*upgrade.headers, *extra_headers(route, upgrade.headers))
    proxy = proxy_for(url, route)
    secured = _secured(url, proxy, route)
    try:
        connection = await _open(url, upgrade, headers, secured, proxy)
    except (*FAILURES, ImportError) as error:
        raise await _explained(error, url, route, proxy) from None
    return WebSocketTransport(connection, upgrade.max_frame)


async def _open(
    url: str,
    upgrade: Upgrade,
    headers: Headers,
    secured: Mapping[str, Any],
    proxy: Proxy | None,
) -> ClientConnection:
    return await _DirectConnect(
        _with_query(url, upgrade.query),
        additional_headers=list(headers),
        subprotocols=[Subprotocol(name) for name in upgrade.subprotocols] or None,
        open_timeout=OPEN_TIMEOUT,
        close_timeout=CLOSE_TIMEOUT,
        ping_interval=upgrade.ping_interval,
        ping_timeout=upgrade.ping_interval,
        max_size=MAX_FRAME,
        compression=None,
        logger=_library_log,
        create_connection=_TellingConnection,
        proxy=proxy.url if proxy is not None else None,
        **secured,
    )


def _secured(url: str, proxy: Proxy | None, route: Route) -> dict[str, Any]:
    """The TLS of the connection, where it has any; the certificates are loaded only then."""
    is_secure = urlsplit(url).scheme == "wss"
    is_proxy_secure = proxy is not None and proxy.scheme == "https"
    if not is_secure and not is_proxy_secure:
        return {}
    from acp_bridge.gateway import tls

    secured = {"ssl": tls.client_context(route)} if is_secure else {}
    return {**secured, "proxy_ssl": tls.trusting_context(route)} if is_proxy_secure else secured


async def _explained(error: Exception, url: str, route: Route, proxy: Proxy | None) -> GatewayError:
    if proxy is not None and isinstance(error, InvalidProxy | ProxyError | ImportError):
        return _of_proxy(error, url, proxy)
    if isinstance(error, WebSocketException):
        return _of_websocket(error, url)
    if isinstance(error, TimeoutError):
        return mistakes.timed_out(url, proxy, OPEN_TIMEOUT)
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        return await _of_tls(error, url, route, proxy)
    if isinstance(error, _CUT):
        return mistakes.closed_unanswered(url)
    return mistakes.of_network(url, error, proxy)


def _of_websocket(error: WebSocketException, url: str) -> GatewayError:
    cause = error.__cause__
    if isinstance(error, InvalidStatus):
        headers = error.response.headers
        return mistakes.upgrade_refused(
            url, error.response.status_code, headers.get("Retry-After", "")
        )
    if isinstance(error, NegotiationError):
        return wrong_protocol(url, "the subprotocol that was asked for")
    if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError):
        return mistakes.tls_failed(url, cause.reason or "")
    if isinstance(cause, EOFError | ConnectionError | ssl.SSLEOFError):
        return mistakes.closed_unanswered(url)
    return mistakes.not_websocket(url, str(error))


def _of_proxy(error: Exception, url: str, proxy: Proxy) -> GatewayError:
    if isinstance(error, InvalidProxyStatus):
        return mistakes.proxy_refused(url, proxy, error.response.status_code)
    if isinstance(error, InvalidProxy):
        return not_a_proxy(proxy, url)  # its text quotes the URL, password and all
    if isinstance(error, ImportError):
        return mistakes.proxy_needs_extra(url, proxy)
    cause = error.__cause__
    if proxy.scheme.startswith("socks") and getattr(cause, "error_code", None) is None:
        return mistakes.socks_refused(url, proxy, str(cause or ""))
    return mistakes.proxy_broken(url, proxy, str(cause or ""))


async def _of_tls(error: ssl.SSLError, url: str, route: Route, proxy: Proxy | None) -> GatewayError:
    from acp_bridge.gateway import distrust, tls

    if isinstance(error, tls.OtherCertificate):
        return distrust.wrong_pin(url, error, route)
    is_of_certificate = isinstance(error, ssl.SSLCertVerificationError)
    is_proxy_secure = proxy is not None and proxy.scheme == "https"
    shown = None
    if is_of_certificate or is_proxy_secure:
        shown = await _certificate(url, proxy, route)
    if proxy is not None and is_proxy_secure and shown is None:
        return mistakes.proxy_broken(url, proxy, "TLS with the proxy itself failed")
    if isinstance(error, ssl.SSLCertVerificationError):
        return distrust.untrusted(url, error, shown, route)
    if error.reason in _NO_TLS:
        return mistakes.no_tls(url)
    return mistakes.tls_failed(url, error.reason or "unknown reason")


async def _certificate(url: str, proxy: Proxy | None, route: Route) -> bytes | None:
    """What the gateway shows, by a connection of its own that ends within the handshake."""
    from acp_bridge.gateway import tls

    secured = {**_secured(url, proxy, route), "ssl": tls.curious_context()}
    try:
        await _open(url, PLAIN, (), secured, proxy)
    except tls.OtherCertificate as seen:
        return seen.der
    except FAILURES:
        pass  # the first failure is the one to tell
    return None


def _with_query(url: str, query: str) -> str:
    if not query:
        return url
    return f"{url}{'&' if urlsplit(url).query else '?'}{query}"


def _closed(closed: ConnectionClosed) -> TransportClosed:
    close = closed.rcvd or closed.sent
    return TransportClosed(close.code, close.reason) if close else TransportClosed(ABNORMAL, "")
