"""Which proxy leads to a gateway, and what of it may be shown."""

from __future__ import annotations

import os
import urllib.request
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from acp_bridge.gateway.network_errors import ProxyFailed
from acp_bridge.gateway.route import PROXY_AUTO, PROXY_NONE, Route
from acp_bridge.gateway.settings import is_loopback

_SCHEMES: Final = ("http", "https", "socks5h", "socks5", "socks4a", "socks4")
_KINDS: Final = {
    "wss": ("wss", "socks", "https", "all"),
    "ws": ("ws", "socks", "https", "http", "all"),
}
"""The environment's proxies for a scheme, first one first: RFC 6455 4.1 prefers SOCKS and then the
one for HTTPS."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy that is to be used."""

    url: str = field(repr=False)
    """May hold a password: not to be shown."""
    source: str
    """The option or variable that it comes from."""

    @property
    def scheme(self) -> str:
        """``http``, ``https`` or one that begins with ``socks``."""
        return urlsplit(self.url).scheme

    @property
    def wants_addresses(self) -> bool:
        """Whether names are looked up here, and not by the proxy."""
        return self.scheme in ("socks5", "socks4")

    @property
    def shown(self) -> str:
        """Scheme, host and port, and where they come from."""
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        return f"{parts.scheme}://{host} ({self.source})"


def proxy_for(url: str, route: Route) -> Proxy | None:
    """The proxy that leads to the gateway at ``url``; None for the direct way.

    There is none for this machine, and none for a host that ``NO_PROXY`` names. Its password is
    told to ``route.learn``. Raises ``ProxyFailed`` for a variable that holds no proxy.
    """
    parts = urlsplit(url)
    if route.proxy == PROXY_NONE or is_loopback(url) or _is_bypassed(parts):
        return None
    if route.proxy == PROXY_AUTO:
        proxy = _of_environment(parts.scheme)
    else:
        proxy = Proxy(route.proxy, route.source("proxy"))
    if proxy is not None:
        _check(proxy, url)
        password = urlsplit(proxy.url).password
        for secret in {password, unquote(password)} if password else ():
            route.learn(secret)
    return proxy


def _is_bypassed(parts: SplitResult) -> bool:
    port = parts.port or (443 if parts.scheme == "wss" else 80)
    return bool(urllib.request.proxy_bypass(f"{parts.hostname}:{port}"))


def _of_environment(scheme: str) -> Proxy | None:
    proxies = urllib.request.getproxies()
    for kind in _KINDS[scheme]:
        if url := proxies.get(kind):
            source = _variable(kind, url)
            if "://" not in url:
                url = f"http://{url}"  # as curl and others read it
            if kind == "socks" and url.startswith("http://"):
                url = f"socks5h://{url[7:]}"  # as the settings of an operating system have it
            return Proxy(url, source)
    return None


def _variable(kind: str, url: str) -> str:
    for name in (f"{kind}_proxy", f"{kind.upper()}_PROXY"):
        if os.environ.get(name) == url:
            return name
    return "the system's settings"


def _check(proxy: Proxy, url: str) -> None:
    try:
        parts = urlsplit(proxy.url)
        is_proxy = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_proxy = False
    if not is_proxy:
        raise not_a_proxy(proxy, url)


def not_a_proxy(proxy: Proxy, url: str) -> ProxyFailed:
    """What is configured as a proxy is the URL of none; it is not quoted."""
    return ProxyFailed(
        f"The gateway at {url} cannot be reached: {proxy.source} holds no proxy's URL"
        f" ({', '.join(_SCHEMES)}).",
        hint=f"Mend {proxy.source}, or go without a proxy: --no-proxy.",
    )
