"""Pairing with a ZeroClaw gateway: a short code for a token, over HTTP, beside the WebSocket."""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.error
import urllib.request
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from acp_bridge.errors import (
    AuthenticationFailed,
    ConfigError,
    GatewayError,
    GatewayRefused,
    GatewayUnreachable,
    PairingRequired,
)
from acp_bridge.gateway import mistakes
from acp_bridge.gateway.headers import extra_headers
from acp_bridge.gateway.proxies import Proxy, proxy_for
from acp_bridge.gateway.route import DIRECT, Route
from acp_bridge.gateway.secret import Secret
from acp_bridge.ids import Json

TIMEOUT: Final = 10.0
_MAX_ANSWER: Final = 64 * 1024
_MAX_WORD: Final = 4096
_ACP: Final = "/acp"
_NEW_CODE: Final = "Get a new code on the gateway's machine: zeroclaw gateway get-paircode --new"


def pair(url: str, code: str, route: Route = DIRECT) -> Secret:
    """Exchange a pairing code for a token. ``url`` is the WebSocket's address; ``route`` holds as
    for the WebSocket.

    Raises ``ConfigError`` for what can be no code, ``AuthenticationFailed`` for a wrong one,
    ``GatewayRefused`` and ``GatewayUnreachable`` with what to do.
    """
    if not _is_word(code):
        raise ConfigError(
            "This is no pairing code: it has blanks or odd characters.", hint=_NEW_CODE
        )
    answer = call(url, "/pair", code, route)
    token = answer.get("token")
    if not isinstance(token, str) or not _is_word(token.strip()):
        raise GatewayRefused("The gateway paired, but gave no token.", hint=_NEW_CODE)
    return Secret(token.strip())


def open_code(url: str, route: Route = DIRECT) -> str:
    """The code that a gateway shows to anybody as long as no client was ever paired.

    Raises ``PairingRequired`` if it shows none.
    """
    answer = call(url, "/pair/code", None, route)
    code = answer.get("pairing_code")
    if isinstance(code, str) and _is_word(code.strip()):
        return code.strip()
    if answer.get("pairing_required") is False:
        raise PairingRequired(
            "The gateway wants no pairing: it lets everybody in.",
            hint="Start the bridge without a token.",
        )
    raise PairingRequired("The gateway shows no pairing code.", hint=f"{_NEW_CODE}; then --code.")


def _is_word(text: str) -> bool:
    """Whether it may stand in a header: visible ASCII without blanks, of a sensible length."""
    return text.isascii() and text.isprintable() and " " not in text and 0 < len(text) <= _MAX_WORD


def call(url: str, path: str, code: str | None, route: Route = DIRECT) -> Json:
    """The answer of an endpoint beside the WebSocket at ``url``; with a code it is sent along.
    Raises as :func:`pair` does."""
    where = _http(url, path)
    request = urllib.request.Request(where, method="GET" if code is None else "POST")  # noqa: S310
    for name, value in extra_headers(route):
        request.add_header(name, value)
    if code is not None:
        request.add_header("X-Pairing-Code", code)
    proxy = proxy_for(url, route)
    is_secure = where.startswith("https:")
    try:
        with _opener(url, proxy, _context(route) if is_secure else None).open(
            request, timeout=TIMEOUT
        ) as answer:
            return _read(answer)
    except urllib.error.HTTPError as error:
        with error:
            raise _refusal(url, error.code, _read(error)) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise _explained(url, where, reason, route, proxy) from None


def _context(route: Route) -> ssl.SSLContext:
    from acp_bridge.gateway.tls import client_context

    return client_context(route)


def _opener(
    url: str, proxy: Proxy | None, context: ssl.SSLContext | None
) -> urllib.request.OpenerDirector:
    if proxy is not None and proxy.scheme != "http":
        raise mistakes.proxy_broken(url, proxy, "pairing goes through http:// proxies only")
    proxies = {} if proxy is None else {"http": proxy.url, "https": proxy.url}
    handlers: list[urllib.request.BaseHandler] = [
        _NoRedirect(),
        urllib.request.ProxyHandler(proxies),
    ]
    if context is not None:
        handlers.append(urllib.request.HTTPSHandler(context=context))
    return urllib.request.build_opener(*handlers)


def _explained(
    url: str, where: str, reason: object, route: Route, proxy: Proxy | None
) -> GatewayError:
    if isinstance(reason, ssl.SSLError):
        return _of_tls(url, where, reason, route, proxy)
    if isinstance(reason, TimeoutError):
        return mistakes.timed_out(url, proxy, TIMEOUT)
    if isinstance(reason, OSError) and not str(reason).startswith("Tunnel connection failed"):
        return mistakes.of_network(url, reason, proxy)
    if proxy is not None:
        return mistakes.proxy_broken(url, proxy, "")
    return mistakes.not_websocket(url, "it answers no HTTP")


def _of_tls(
    url: str, where: str, error: ssl.SSLError, route: Route, proxy: Proxy | None
) -> GatewayError:
    from acp_bridge.gateway import distrust, tls

    if isinstance(error, tls.OtherCertificate):
        return distrust.wrong_pin(url, error, route)
    if not isinstance(error, ssl.SSLCertVerificationError):
        return mistakes.tls_failed(url, error.reason or "unknown reason")
    shown = None
    try:
        _opener(url, proxy, tls.curious_context()).open(where, timeout=TIMEOUT)
    except urllib.error.URLError as seen:
        if isinstance(seen.reason, tls.OtherCertificate):
            shown = seen.reason.der
    except OSError:
        pass  # the first failure is the one to tell
    return distrust.untrusted(url, error, shown, route)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect could lead the code to another host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _http(url: str, path: str) -> str:
    parts = urlsplit(url)
    base = parts.path.rstrip("/").removesuffix(_ACP)
    scheme = "https" if parts.scheme == "wss" else "http"
    return urlunsplit((scheme, parts.netloc, base + path, "", ""))


def _read(answer: Any) -> Json:
    try:
        found = json.loads(answer.read(_MAX_ANSWER))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _refusal(
    url: str, status: int, answer: Json
) -> AuthenticationFailed | GatewayRefused | GatewayUnreachable:
    data = {"httpStatus": status}
    if status in (401, 403):
        return AuthenticationFailed(
            f"The gateway at {url} does not know this code.",
            hint=f"A code holds once. {_NEW_CODE}",
            data=data,
        )
    if 300 <= status < 400:
        return GatewayUnreachable(
            f"The gateway at {url} is said to be elsewhere (HTTP {status}).",
            hint="Name its final address with --gateway-url: a redirect is never followed.",
            data=data,
        )
    if status in (404, 405):
        return GatewayUnreachable(
            f"The gateway at {url} has no pairing at this path.",
            hint="Does it run behind a path_prefix? Then the URL is ws://HOST:PORT/PREFIX/acp.",
            data=data,
        )
    if status == 429:
        seconds = answer.get("retry_after")
        is_number = isinstance(seconds, int) and not isinstance(seconds, bool) and seconds > 0
        wait = f"{seconds} s" if is_number else "some minutes"
        return GatewayRefused(
            f"The gateway at {url} takes no more codes for a while.",
            hint=f"Try again in {wait}; after five wrong codes it waits for five minutes.",
            data=data,
        )
    return GatewayRefused(
        f"The gateway at {url} could not pair (HTTP {status}).",
        hint="See the gateway's log.",
        data=data,
    )
