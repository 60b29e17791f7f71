"""The settings for people: each value, and where it comes from; never a secret."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from acp_bridge.config.options import OPTIONS
from acp_bridge.config.settings import Settings

HIDDEN: Final = "***"
_URLS: Final = ("gateway_url", "ledger_url", "proxy")
_RATE: Final = "session_rate"


class Row(NamedTuple):
    """One option: what it is, None if it is unset, and what says so."""

    field: str
    value: Any
    source: str


def rows(settings: Settings) -> list[Row]:
    """A row for each option, with values that JSON has."""
    return [
        Row(
            option.field,
            _shown(option.field, getattr(settings, option.field), is_secret=option.is_secret),
            settings.source(option.field),
        )
        for option in OPTIONS
    ]


def shown_url(url: str) -> str:
    """``url`` without a password and without the values of its query."""
    head, mark, query = url.partition("?")
    try:
        place, password = urlsplit(head).netloc, urlsplit(head).password
    except ValueError:
        return HIDDEN
    if password is not None:
        user, _, host = place.rpartition("@")
        head = head.replace(place, f"{user.partition(':')[0]}:{HIDDEN}@{host}", 1)
    names = [pair.partition("=")[0] for pair in query.split("&")] if mark else []
    return head + mark + "&".join(f"{name}={HIDDEN}" for name in names)


def _shown(field: str, value: Any, *, is_secret: bool) -> Any:
    if value is None:
        return None
    if is_secret:
        return HIDDEN
    if field in _URLS:
        return shown_url(value)
    if field.endswith("_command"):  # its arguments may be as good as the secret
        return f"{shlex.quote(value[0])} …" if len(value) > 1 else shlex.quote(value[0])
    if field == _RATE:
        return f"{value[0]}/{value[1]:g}"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value) if isinstance(value, Path) else value
