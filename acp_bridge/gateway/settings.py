"""What the gateway client has to know, and the rule for the gateway's URL."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from acp_bridge.errors import ConfigError
from acp_bridge.gateway.addresses import is_loopback_host, is_near_host
from acp_bridge.gateway.credentials import Credentials
from acp_bridge.gateway.route import DIRECT, Route

DEFAULT_PORT = 18789
"""The port of an OpenClaw gateway unless it is configured otherwise."""
ACP_URL = "ws://127.0.0.1:42617/acp"
"""Where ZeroClaw listens unless it is configured otherwise."""


class GatewaySettings(NamedTuple):
    """Where the gateway is and who we are there."""

    url: str
    url_source: str
    """The option, variable or default that the URL comes from, for messages."""
    credentials: Credentials
    scopes: tuple[str, ...] | None
    """The scopes to ask for; None = all that are useful here."""
    state_dir: Path
    """Holds the device's key and its tokens; created with mode 0700."""
    kind: str = "openclaw"
    """``openclaw``, ``acp`` or, where the connection is to tell, ``auto``."""
    kind_source: str = "default"
    acp_credentials: Credentials = Credentials()
    """Those for a gateway that speaks ACP."""
    route: Route = DIRECT
    """How it is reached."""
    token_via: str = "header"  # noqa: S105 - a place for one
    """Where the token goes at the upgrade then: ``header``, ``subprotocol`` or ``query``."""


def is_loopback(url: str) -> bool:
    """Whether ``url`` points at this machine by an address that cannot point elsewhere.

    127.0.0.0/8, ::1 and ``localhost``; no name is looked up.
    """
    return is_loopback_host(urlsplit(url).hostname or "")


def check_url(url: str, source: str, *, allow_insecure: bool = False) -> str:
    """The URL without surrounding blanks, if it may be used; ``source`` says where it came from.

    Raises ``ConfigError``: only ``ws`` and ``wss`` are allowed, no credentials inside, and unless
    ``allow_insecure`` plain ``ws`` only to hosts that are near (see ``gateway.addresses``), since
    the token and all that is said would travel in clear text.
    """
    url = url.strip()
    where = f"{url!r} ({source})"
    if any(character.isspace() or not character.isprintable() for character in url):
        raise ConfigError(f"The gateway URL {where} holds blanks or control characters.")
    try:
        parts = urlsplit(url)
        host = parts.hostname
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"The gateway URL {where} cannot be read: {error}.") from None
    if parts.username is not None or parts.password is not None:
        raise ConfigError(
            f"The gateway URL ({source}) holds a user name or password; they would show up in"
            " logs and process lists.",
            hint="Use --token-file or --password-file.",
        )
    _check_scheme(parts, where)
    if not host:
        raise ConfigError(f"The gateway URL {where} names no host.")
    if port == 0:
        raise ConfigError(f"The gateway URL {where} names port 0.")
    if parts.fragment:
        raise ConfigError(f"The gateway URL {where} has a fragment (#…), which means nothing here.")
    if parts.scheme == "ws" and not is_near_host(host) and not allow_insecure:
        raise _clear_text(parts, host, port, where)
    return url


def _check_scheme(parts: SplitResult, where: str) -> None:
    if parts.scheme in {"ws", "wss"}:
        return
    better = {"http": "ws", "https": "wss"}.get(parts.scheme)
    raise ConfigError(
        f"The gateway URL {where} must begin with ws:// or wss://.",
        hint=f"Try {better}://{parts.netloc}{parts.path}" if better else None,
    )


def _clear_text(parts: SplitResult, host: str, port: int | None, where: str) -> ConfigError:
    name = f"[{host}]" if ":" in host else host
    port = port or DEFAULT_PORT
    return ConfigError(
        f"The gateway URL {where} is refused: over plain ws:// anyone on the way could read and"
        " use the token and the whole conversation.",
        hint="\n".join(
            (
                "Any of these is safe:",
                f"  wss://{name}{f':{parts.port}' if parts.port else ''}{parts.path}"
                "  (TLS on the gateway or on a proxy before it)",
                f"  ssh -N -L {DEFAULT_PORT}:127.0.0.1:{port} {host}"
                f"  and then ws://127.0.0.1:{DEFAULT_PORT}",
                f"  tailscale serve --bg {port}  on the gateway's machine, and then its"
                " wss://….ts.net address",
                "Plain ws:// is for this machine, private addresses, .local and .ts.net;"
                " --allow-insecure-ws lifts that.",
            )
        ),
    )
