"""How the gateway is reached: what to trust, what to show, and by which way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from acp_bridge.errors import ConfigError

PROXY_AUTO: Final = "auto"
PROXY_NONE: Final = "none"

_FOR_TLS: Final = ("fingerprint", "ca_file", "client_cert")
_FLAGS: Final = {
    "ca_file": "--ca-file",
    "fingerprint": "--tls-fingerprint",
    "client_cert": "--client-cert",
    "client_key": "--client-key",
    "proxy": "--proxy",
    "header_file": "--header-file",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The options of the connection. Files are read anew for each connection."""

    ca_file: Path | None = None
    """Certificates to trust instead of the system's."""
    fingerprint: str | None = None
    """SHA-256 of the gateway's certificate in small hexadecimal digits: with it nothing else is
    asked of the certificate, unless there is a ``ca_file`` too."""
    client_cert: Path | None = None
    client_key: Path | None = None
    proxy: str = field(default=PROXY_AUTO, repr=False)
    """``auto`` for the environment's, ``none``, or a URL, which may hold a password."""
    header_file: Path | None = None
    learn: Callable[[str], None] = field(default=lambda _value: None, compare=False)
    """Told each secret that is read, so that the log can keep it out of every line."""
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The flag or variable that gave a field, where it is not the flag."""

    def source(self, name: str) -> str:
        """The flag or variable that the field ``name`` comes from."""
        return self.sources.get(name, _FLAGS[name])

    def check(self, url: str) -> None:
        """Raises ``ConfigError`` for options that contradict each other or the scheme of ``url``:
        who pins a certificate must not be served in clear text."""
        if self.client_key is not None and self.client_cert is None:
            raise ConfigError(
                f"{self.source('client_key')} names a key without its certificate.",
                hint="Name that too, with --client-cert.",
            )
        if urlsplit(url).scheme == "wss":
            return
        for name in _FOR_TLS:
            if getattr(self, name) is not None:
                raise ConfigError(
                    f"{self.source(name)} means something for wss:// only, and the gateway is at"
                    f" {url}.",
                    hint="Change the URL to wss://, or leave the option out.",
                )


DIRECT: Final = Route()
"""No option at all: the system's trust, and the environment's proxies."""
