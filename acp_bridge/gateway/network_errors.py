"""The ways in which the network fails on the way to a gateway, as kinds of ``errors.GatewayError``.

    GatewayUnreachable             nothing listens, or the network breaks off
    ├── HostNotFound               its name has no address
    ├── ConnectTimeout
    ├── ProxyFailed                the proxy, not the gateway
    ├── TlsFailed                  no TLS there, or not with us
    ├── UpgradeRefused             an HTTP status, but 401 and 403
    └── NotWebSocket
    HandshakeRefused               the gateway refused: HTTP 401 and 403
    ├── CertificateUntrusted       we refused, and nothing was sent
    │   ├── CertificateMisnamed    it is another host's
    │   └── FingerprintMismatch    it is not the pinned one
    └── WrongProtocol              a WebSocket, but no such gateway

The former may heal by itself and are tried again; the latter want somebody to act, are told at once
and then tried seldom.
"""

from __future__ import annotations

from acp_bridge.errors import GatewayUnreachable, HandshakeRefused


class HostNotFound(GatewayUnreachable):
    """The gateway's host has no address."""

    code = "host_not_found"


class ConnectTimeout(GatewayUnreachable):
    """The gateway did not take the connection in time."""

    code = "connect_timeout"


class ProxyFailed(GatewayUnreachable):
    """The proxy on the way to the gateway does not lead there."""

    code = "proxy_failed"


class TlsFailed(GatewayUnreachable):
    """The gateway's address speaks no TLS with the bridge."""

    code = "tls_failed"


class UpgradeRefused(GatewayUnreachable):
    """The gateway's address answers, but gives no WebSocket."""

    code = "upgrade_refused"


class NotWebSocket(GatewayUnreachable):
    """What answers at the gateway's address speaks no WebSocket."""

    code = "not_websocket"


class CertificateUntrusted(HandshakeRefused):
    """The gateway's certificate is not trusted."""

    code = "tls_untrusted"


class CertificateMisnamed(CertificateUntrusted):
    """The gateway's certificate is made out to another name."""

    code = "tls_wrong_name"


class FingerprintMismatch(CertificateUntrusted):
    """The gateway's certificate is not the one that was pinned."""

    code = "tls_wrong_pin"


class WrongProtocol(HandshakeRefused):
    """What answers at the gateway's address is no gateway that the bridge knows."""

    code = "wrong_protocol"


def wrong_protocol(url: str, expected: str) -> WrongProtocol:
    """A WebSocket at ``url`` that speaks something else than ``expected``."""
    return WrongProtocol(
        f"What answers at {url} is a WebSocket, but it does not speak {expected}.",
        hint="Check the gateway's address, the path at its end too; and --gateway-kind, if that is"
        " given.",
    )
