"""Headers of the user's own for the gateway, or for what stands before it: from a file.

Their values are mostly credentials (Cloudflare Access, a proxy's basic authentication), so the file
is held to the rules of secrets, and its values never reach a log.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from acp_bridge.errors import ConfigError, CredentialsUnusable
from acp_bridge.gateway.route import Route
from acp_bridge.gateway.secret_files import MAX_BYTES, OTHERS_MAY_ENTER, read_private

Headers = tuple[tuple[str, str], ...]

_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # a token, RFC 9110 5.6.2
_VALUE: Final = re.compile(r"[\x20-\x7e\t]+")
_FORBIDDEN: Final = frozenset(
    {
        "connection", "content-length", "expect", "host", "keep-alive", "te", "trailer",
        "transfer-encoding", "upgrade", "user-agent",
        "origin",  # OpenClaw refuses unknown ones
    }
)  # fmt: skip
"""They belong to the connection; a second one would break it or lead it elsewhere."""
_FORBIDDEN_BEGINNINGS: Final = ("sec-", "proxy-")


def extra_headers(route: Route, ours: Headers = ()) -> Headers:
    """The headers of ``header_file``, read anew; ``ours`` are those that the bridge sends itself.

    Raises ``CredentialsUnusable`` for a file that cannot be used, naming the line and never its
    value.
    """
    if route.header_file is None:
        return ()
    try:
        return _read(route, {name.lower() for name, _ in ours})
    except ConfigError as error:
        raise CredentialsUnusable(
            error.message,
            hint=error.hint or "Mend it and try again; the bridge need not be restarted.",
        ) from None


def _read(route: Route, taken: set[str]) -> Headers:
    path = Path(route.header_file or "").expanduser()
    label = f"{route.source('header_file')} {route.header_file}"
    raw = read_private(path, label, forbidden=OTHERS_MAY_ENTER, limit=MAX_BYTES)
    try:
        lines = raw.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise ConfigError(f"{label} is not UTF-8 text.") from None
    found: list[tuple[str, str]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, value = _header(line, f"{label}, line {number},")
        route.learn(value)
        if name.lower() in taken:
            raise ConfigError(
                f"{label}, line {number}, gives {name}, which is given already.",
                hint="If the gateway's token is what gives it, --token-via names other places.",
            )
        taken.add(name.lower())
        found.append((name, value))
    return tuple(found)


def _header(line: str, place: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    name, value = name.strip(), value.strip()
    if not colon or not _NAME.fullmatch(name):
        raise ConfigError(f"{place} is no header: each line is 'Name: value'.")
    if name.lower() in _FORBIDDEN or name.lower().startswith(_FORBIDDEN_BEGINNINGS):
        raise ConfigError(f"{place} gives {name}, which belongs to the connection itself.")
    if not _VALUE.fullmatch(value):
        raise ConfigError(f"{place} has no value, or one that no header may have.")
    return name, value
