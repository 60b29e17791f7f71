"""What may appear in a log: no secrets, no control characters, nothing endless.

Cleaning happens where a record is made, before it waits in any queue, so what a formatter or a
file sees is already safe, and nothing that changes later is held on to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from acp_bridge.wire.secrecy import (
    REDACTED,
    is_harmless,
    names_secret,
    without_secret_members,
)

# The same within text: query strings, bearer headers, JSON, user names in URLs (which may be
# tokens; a database's are none).
_SECRET_TEXT: Final = (
    re.compile(r"(?i)(\bbearer\s+)[^\s\"',;]+"),
    re.compile(r"(?i)((?:token|password|secret|signature|authorization)=)[^\s\"'&,;]+"),
    re.compile(r'(?i)((?:token|password|secret|signature|authorization)\\?"\s*:\s*\\?")[^"\\]+'),
    re.compile(r"(?i)((?<![a-z0-9+.-])(?!postgres)[a-z][a-z0-9+.-]*://)[^/\s@]+(?=@)"),
    re.compile(r"(?i)(\bpostgres[a-z0-9+.-]*://[^/\s@:]*:)[^/\s@]+(?=@)"),
)
_SHORTEST_SECRET: Final = 4
"""A shorter value is no secret, and hiding it would tear holes into every line."""

_LONG_SECRET: Final = 12
"""A shorter one may be a word of a conversation, which is not to have holes."""

_TEXT_LIMIT: Final = 2_000
_ITEM_LIMIT: Final = 50
_DEPTH_LIMIT: Final = 6

_secrets: tuple[str, ...] = ()
_long_secrets: tuple[str, ...] = ()


def register_secret(value: str) -> None:
    """Never let ``value`` out through a log again, nor as it would stand in a URL."""
    global _secrets, _long_secrets  # like the loggers themselves, one set for the process
    forms = {value, quote(value, safe="")}
    fresh = {each for each in forms if len(each) >= _SHORTEST_SECRET and each not in _secrets}
    if fresh:
        # The longest first, so that one that contains another is hidden whole.
        _secrets = tuple(sorted((*_secrets, *fresh), key=len, reverse=True))
        _long_secrets = tuple(each for each in _secrets if len(each) >= _LONG_SECRET)


def without_secrets(value: Any) -> Any:
    """A JSON value without the registered secrets: the same object if it holds none.

    Unlike a log it keeps what merely looks like a secret, and what is too short to be sure, since
    it is what somebody said.
    """
    return _replaced(value) if _long_secrets and _holds_secret(value) else value


def _holds_secret(value: Any) -> bool:
    if isinstance(value, str):  # most are short names, and this is asked of every line
        return len(value) >= _LONG_SECRET and any(secret in value for secret in _long_secrets)
    if isinstance(value, dict):
        return any(_holds_secret(each) for pair in value.items() for each in pair)
    return isinstance(value, list | tuple) and any(map(_holds_secret, value))


def _replaced(value: Any) -> Any:
    if isinstance(value, str):
        for secret in _long_secrets:
            value = value.replace(secret, REDACTED)
        return value
    if isinstance(value, dict):
        return {_replaced(name): _replaced(each) for name, each in value.items()}
    return [_replaced(each) for each in value] if isinstance(value, list | tuple) else value


def clean_text(text: str) -> str:
    """``text`` on one line, bounded, without secrets and control characters."""
    text = hide_secrets(text)
    if len(text) > _TEXT_LIMIT:
        text = f"{text[:_TEXT_LIMIT]}...(+{len(text) - _TEXT_LIMIT} characters)"
    return text if text.isprintable() else "".join(map(_visible, text))


def hide_secrets(text: str) -> str:
    """``text`` without the registered secrets and whatever looks like one."""
    for secret in _secrets:
        text = text.replace(secret, REDACTED)
    for pattern in _SECRET_TEXT:
        text = pattern.sub(rf"\1{REDACTED}", text)
    return text


def without_credentials(value: Any) -> Any:
    """A JSON value that tells of a failure, without any secret: by value, by the names of members,
    and by what looks like one. Nothing is cut."""
    return _hidden(without_secret_members(value))


def _hidden(value: Any) -> Any:
    if isinstance(value, str):
        return hide_secrets(value)
    if isinstance(value, dict):
        return {name: _hidden(each) for name, each in value.items()}
    return [_hidden(each) for each in value] if isinstance(value, list) else value


def clean(value: object, depth: int = 0) -> object:
    """A copy of ``value`` made of plain data, safe to show."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    if depth == _DEPTH_LIMIT:
        return "..."
    if isinstance(value, Mapping):
        return clean_mapping(value, depth)
    if isinstance(value, list | tuple | set | frozenset):
        items = [clean(item, depth + 1) for item in list(value)[:_ITEM_LIMIT]]
        return items if len(value) <= _ITEM_LIMIT else [*items, f"+{len(value) - _ITEM_LIMIT}"]
    return clean_text(_as_text(value))


def clean_mapping(fields: Mapping[object, object], depth: int = 0) -> dict[str, object]:
    """A copy of ``fields``; values whose key names a secret are hidden."""
    cleaned: dict[str, object] = {}
    for key, value in list(fields.items())[:_ITEM_LIMIT]:
        name = clean_text(str(key))
        is_secret = names_secret(name) and not is_harmless(value)
        cleaned[name] = REDACTED if is_secret else clean(value, depth + 1)
    return cleaned


def _as_text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # a broken __str__ must not break the log
        return f"<{type(value).__name__}>"


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")
