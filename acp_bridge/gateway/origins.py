"""The origin of a gateway's URL: to whom a credential belongs."""

from __future__ import annotations

from urllib.parse import urlsplit


def origin_of(url: str) -> str:
    """Scheme, host and port of ``url``. Two URLs of one origin lead to the same gateway, and a
    credential for it may go to either. A URL that cannot be read is an origin of its own."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"ws": 80, "wss": 443}.get(parts.scheme)
    except ValueError:
        return url
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}:{port}"
