"""Members of JSON objects that hold secrets, by their names. Pure."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import unquote_plus, urlsplit

REDACTED: Final = "[redacted]"

_SECRET_KEY: Final = re.compile(
    r"(?:token|password|passphrase|secret|authorization|signature|credentials?|cookie|apikey"
    r"|privatekey|^meta)$"
)
_NO_LETTER: Final = re.compile(r"[^a-z0-9]")


def names_secret(key: str) -> bool:
    """Whether the value under this key is nobody's business, however the key is spelled."""
    return _SECRET_KEY.search(_NO_LETTER.sub("", key.lower())) is not None


def is_harmless(value: object) -> bool:
    """Whether a value can be no secret: a count of tokens is not one."""
    return value is None or isinstance(value, bool | int | float)


def without_secret_members(value: Any) -> Any:
    """A JSON value in which what stands under the name of a secret is replaced."""
    if isinstance(value, dict):
        return {
            name: REDACTED
            if names_secret(name) and not is_harmless(each)
            else without_secret_members(each)
            for name, each in value.items()
        }
    return [without_secret_members(each) for each in value] if isinstance(value, list) else value


def secrets_in_query(url: str) -> list[str]:
    """What stands in a URL under the name of a secret, as written and as meant."""
    try:
        query = urlsplit(url).query
    except ValueError:
        return []
    pairs = (pair.partition("=") for pair in query.split("&"))
    written = [value for name, _, value in pairs if value and names_secret(name)]
    return [*written, *(unquote_plus(value) for value in written)]
