"""From the settings to the way to the gateway."""

from __future__ import annotations

from collections.abc import Callable

from acp_bridge.config.settings import Settings
from acp_bridge.gateway.route import Route


def route_of(settings: Settings, url: str, learn: Callable[[str], None]) -> Route:
    """How the gateway at ``url`` is to be reached; ``learn`` is told each secret that is read.

    Raises ``ConfigError`` for options that contradict each other or the URL.
    """
    route = Route(
        ca_file=settings.ca_file,
        fingerprint=settings.tls_fingerprint,
        client_cert=settings.client_cert,
        client_key=settings.client_key,
        proxy=settings.proxy,
        header_file=settings.header_file,
        learn=learn,
        sources={
            ("fingerprint" if name == "tls_fingerprint" else name): source
            for name, source in settings.sources.items()
        },
    )
    route.check(url)
    return route
