"""What went wrong on the way to a gateway, in words: what, where, and what to do about it.

One sentence, code and hint for each kind of mistake. Nothing here quotes a header, a token or the
password of a proxy, and of what a peer has sent only what cannot do harm.
"""

from __future__ import annotations

import socket
from typing import Final
from urllib.parse import urlsplit

from acp_bridge.errors import GatewayError, GatewayUnreachable, HandshakeRefused
from acp_bridge.gateway.network_errors import (
    ConnectTimeout,
    HostNotFound,
    NotWebSocket,
    ProxyFailed,
    TlsFailed,
    UpgradeRefused,
)
from acp_bridge.gateway.proxies import Proxy
from acp_bridge.gateway.settings import DEFAULT_PORT, is_loopback

_MOST_SECONDS: Final = 6
"""Digits of a Retry-After that are believed."""


def of_network(url: str, error: Exception, proxy: Proxy | None) -> GatewayError:
    """The connection could not be made: to the gateway or, if there is one, to the proxy."""
    is_nameless = isinstance(error, socket.gaierror | UnicodeError)
    if is_nameless and proxy is not None and proxy.wants_addresses:
        return _not_looked_up(url, proxy)
    if proxy is not None:
        return _proxy_away(url, error, proxy)
    if isinstance(error, socket.gaierror | UnicodeError):
        return _not_found(url, error)
    return _unreachable(url, _os_reason(error))


def timed_out(url: str, proxy: Proxy | None, seconds: float) -> ConnectTimeout:
    """No connection came about within ``seconds``."""
    way = f" through the proxy {proxy.shown}" if proxy is not None else ""
    if is_loopback(url):
        hint = "Something holds the port and says nothing: a gateway that hangs, or a tunnel?"
    else:
        hint = (
            "Mostly a firewall, a VPN that is down, or a machine that is off. Check the address"
            " and the port."
        )
    return ConnectTimeout(
        f"The gateway at {url} cannot be reached: it did not answer within {seconds:.0f} s{way}.",
        hint=hint,
    )


def closed_unanswered(url: str) -> GatewayUnreachable:
    """The connection was accepted and closed without a word."""
    return GatewayUnreachable(
        f"The gateway at {url} cannot be reached: something accepts the connection there and closes"
        " it without an answer.",
        hint="That is what a tunnel or a proxy does when the gateway behind it is not running:"
        " start the gateway where it leads to, or check where that is. Or the other end"
        f" {_other_scheme(url)}.",
    )


def upgrade_refused(url: str, status: int, retry_after: str) -> GatewayError:
    """The upgrade to a WebSocket was answered with another HTTP status than 101."""
    data = {"httpStatus": status}
    if status in (401, 403):
        what = "wants to know who asks" if status == 401 else "does not let us in"
        return HandshakeRefused(
            f"The gateway at {url} refused the connection with HTTP {status}: it {what}.",
            hint="If something before the gateway asks for credentials, give them with"
            " --header-file; and if the gateway is reached through a proxy, list that in"
            " gateway.trustedProxies.",
            data=data,
        )
    if 200 <= status < 300:
        return NotWebSocket(
            f"The gateway at {url} cannot be reached: what answers there is a web server that"
            f" speaks no WebSocket (HTTP {status}).",
            hint=_other_server(url),
            data=data,
        )
    error = UpgradeRefused(
        f"The gateway at {url} cannot be reached: it answered with HTTP {status}.",
        hint=_upgrade_hint(status),
        data=data,
    )
    if retry_after.isascii() and retry_after.isdecimal():
        error.data["retryAfterMs"] = int(retry_after[:_MOST_SECONDS]) * 1000
    return error


def not_websocket(url: str, said: str) -> NotWebSocket:
    """Something answered, and not in the way of a WebSocket. ``said`` is the library's clause."""
    reason = f": {said}" if said and said.isprintable() else ""
    return NotWebSocket(
        f"The gateway at {url} cannot be reached: what answers there does not speak"
        f" WebSocket{reason}.",
        hint=_other_server(url),
    )


def no_tls(url: str) -> TlsFailed:
    """Something answered, and not in TLS."""
    return TlsFailed(
        f"The gateway at {url} cannot be reached: what answers there speaks no TLS.",
        hint=f"If the gateway has no TLS, its address is ws{url[3:]}, which is for this machine and"
        " private networks; else check the port.",
    )


def tls_failed(url: str, reason: str) -> TlsFailed:
    """The TLS handshake broke off. ``reason`` is OpenSSL's name for it."""
    wants_certificate = "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason
    return TlsFailed(
        f"The gateway at {url} cannot be reached: the TLS handshake failed"
        f" ({reason.replace('_', ' ').lower()}).",
        hint="Does the gateway ask for a certificate? Give one with --client-cert."
        if wants_certificate
        else "See the log of the gateway, or of what ends TLS before it.",
    )


def proxy_refused(url: str, proxy: Proxy, status: int) -> ProxyFailed:
    """An HTTP proxy answered, and leads nowhere."""
    target = urlsplit(url).netloc
    if status == 407:
        what = "wants a user name and a password, or others than it was given (HTTP 407)"
        hint = f"Give them: {_account(proxy)}"
    else:
        what = f"does not connect to {target} (HTTP {status})"
        hint = f"Ask who runs the proxy to allow {target}, or {_without(url)}"
    return _proxy_failed(url, proxy, what, hint, {"proxyStatus": status})


def proxy_broken(url: str, proxy: Proxy, said: str) -> ProxyFailed:
    """A proxy answered in its own protocol that it does not lead there, or not in it at all."""
    reason = f": {said}" if said and said.isprintable() else ""
    what = f"does not connect to {urlsplit(url).netloc}{reason}"
    return _proxy_failed(url, proxy, what, f"See its log, or {_without(url)}")


def socks_refused(url: str, proxy: Proxy, said: str) -> ProxyFailed:
    """A SOCKS proxy did not even take the request. ``said`` is the library's clause; whether it was
    about the account stands in its words alone, and so the hint names both."""
    error = proxy_broken(url, proxy, said)
    error.hint = (
        f"If it wants to know who asks: {_account(proxy)}. Else see its log, or {_without(url)}"
    )
    return error


def proxy_needs_extra(url: str, proxy: Proxy) -> ProxyFailed:
    """A SOCKS proxy, and nothing is installed that speaks to it."""
    return _proxy_failed(
        url,
        proxy,
        "speaks SOCKS, which needs a package that is not installed",
        "Install the extra of that name: uv tool install 'acp-gateway-bridge[socks]';"
        f" or {_without(url)}",
    )


def _account(proxy: Proxy) -> str:
    return (
        "put a user name and a password into its URL in ACP_BRIDGE_PROXY,"
        f" {proxy.scheme}://USER:PASSWORD@HOST:PORT"
    )


def _not_looked_up(url: str, proxy: Proxy) -> HostNotFound:
    host = urlsplit(url).hostname or ""
    return HostNotFound(
        f"The gateway at {url} cannot be reached: the name {host} has no address on this machine.",
        hint=f"The proxy {proxy.shown} is given addresses alone. To let it look names up, write"
        f" {proxy.scheme}{'a' if proxy.scheme == 'socks4' else 'h'}:// before its address.",
    )


def _proxy_away(url: str, error: Exception, proxy: Proxy) -> ProxyFailed:
    if isinstance(error.__cause__, OSError):
        error = error.__cause__  # the library for SOCKS puts words of its own around it
    if isinstance(error, socket.gaierror | UnicodeError):
        what = "has a name without an address"
    else:
        what = f"cannot be reached: {_os_reason(error)}"
    return _proxy_failed(url, proxy, what, f"Mend {proxy.source}, or {_without(url)}")


def _proxy_failed(
    url: str, proxy: Proxy, what: str, hint: str, data: dict[str, int] | None = None
) -> ProxyFailed:
    return ProxyFailed(
        f"The gateway at {url} cannot be reached: the proxy {proxy.shown} {what}.",
        hint=hint,
        data=data,
    )


def _without(url: str) -> str:
    return f"go without it: --no-proxy, or NO_PROXY={urlsplit(url).hostname}"


def _not_found(url: str, error: socket.gaierror | UnicodeError) -> HostNotFound:
    host = urlsplit(url).hostname or ""
    if isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN:
        what, hint = "cannot be looked up now", "Is this machine online, and its name server too?"
    else:
        what, hint = "has no address", "Check its spelling; is it known only in a VPN that is down?"
    if host.endswith(".ts.net"):
        hint = "Is Tailscale up on this machine? See: tailscale status"
    elif host.endswith(".local"):
        hint = "Is the gateway's machine on this network and awake? .local is looked up by mDNS."
    return HostNotFound(
        f"The gateway at {url} cannot be reached: the name {host} {what}.", hint=hint
    )


def _unreachable(url: str, reason: str) -> GatewayUnreachable:
    return GatewayUnreachable(
        f"The gateway at {url} cannot be reached: {reason}.", hint=_where_to_look(url)
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


def _other_server(url: str) -> str:
    return (
        "Another program may hold that port: check the address of the gateway. Or the other end"
        f" {_other_scheme(url)}."
    )


def _other_scheme(url: str) -> str:
    if url.startswith("wss:"):
        return "has no TLS, and its address begins with ws://"
    return "wants TLS, and its address begins with wss://"


def _upgrade_hint(status: int) -> str:
    if status == 404:
        return "There is nothing at this path: check the end of the address."
    if 300 <= status < 400:
        return (
            "Redirects are not followed, since they could lead the token elsewhere: give the"
            " address that this one leads to."
        )
    return "Start the gateway, if what answers stands before it; else see its log."


def _os_reason(error: Exception) -> str:
    """Without the address: several addresses of one host give one long text otherwise."""
    if isinstance(error, ConnectionRefusedError) or "refused" in str(error).lower():
        return "nothing listens there"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
