"""Profiles: options that a file gives under a name.

    [profiles.default]
    gateway_url = "ws://127.0.0.1:18789"

    [profiles.work]
    gateway_url = "wss://gateway.example"
    token_command = "op read op://work/gateway/token"

The keys are the options' names with underscores. A profile stands alone: none takes anything from
another one, so that a credential never gets to another profile's gateway.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from acp_bridge.config import values
from acp_bridge.config.option import Option
from acp_bridge.config.options import OPTIONS
from acp_bridge.errors import ConfigError
from acp_bridge.gateway.secret_files import OTHERS_MAY_ENTER, OTHERS_MAY_READ, read_linked

USUAL: Final = "default"
"""The profile that counts where none is named."""

Texts = Mapping[str, tuple[str, str]]
"""By the option's field: the text and where it stands."""

MAKE_ONE: Final = "acp-bridge config init makes one, to be filled in."

_MAX_BYTES: Final = 1024 * 1024
_TABLE: Final = "profiles"


def read_profile(path: Path, name: str | None, source: str) -> Texts | None:
    """What the profile ``name`` of the file says, or the usual one; ``source`` tells who named it.
    None if there is no such file.

    Raises ``ConfigError`` for a file that cannot be used, an unknown key and an unknown profile,
    with what was probably meant.
    """
    label = f"The configuration {path}"
    try:
        raw = read_linked(path, label, forbidden=OTHERS_MAY_READ, limit=_MAX_BYTES)
    except ConfigError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise
    profiles = _profiles(path, _parse(raw, label))
    if name is not None and name not in profiles:
        raise ConfigError(
            f"{source} {name!r} is no profile of {path}.",
            hint=_meant(name, profiles) or f"It has: {', '.join(profiles) or 'none'}.",
            data={"field": "profile", "source": source},
        )
    chosen = name or USUAL
    texts = {
        key: (_text(path, chosen, _OPTIONS[key], value), _place(path, chosen, key))
        for key, value in profiles.get(chosen, {}).items()
    }
    if any(_is_secret(key, text) for key, (text, _) in texts.items()):
        read_linked(path, label, forbidden=OTHERS_MAY_ENTER, limit=_MAX_BYTES)
    return {key: found for key, found in texts.items() if found[0]}


def profile_names(path: Path) -> list[str]:
    """The profiles of the file. Raises ``ConfigError`` for a file that is not there, cannot be
    used, or has none."""
    label = f"The configuration {path}"
    try:
        raw = read_linked(path, label, forbidden=OTHERS_MAY_READ, limit=_MAX_BYTES)
    except ConfigError as error:
        missing = isinstance(error.__cause__, FileNotFoundError)
        raise ConfigError(error.message, hint=MAKE_ONE if missing else error.hint) from None
    names = list(_profiles(path, _parse(raw, label)))
    if not names:
        raise ConfigError(f"{path} has no profile.", hint=f"Begin one: [{_TABLE}.{USUAL}]")
    return names


_OPTIONS: Final = {option.field: option for option in OPTIONS if option.is_in_profiles}


def _parse(raw: bytes, label: str) -> dict[str, Any]:
    import tomllib  # only here: most starts of the bridge find no file

    try:
        return tomllib.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ConfigError(f"{label} is not UTF-8 text.") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{label} is no valid TOML: {error}.") from None


def _profiles(path: Path, content: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """The profiles of the file, all of their keys known."""
    for key in content:
        if key != _TABLE:
            hint = f"Options belong into a profile: [{_TABLE}.{USUAL}]"
            raise _unknown(path, key, hint if key in _OPTIONS else _meant(key, (_TABLE,)))
    profiles = content.get(_TABLE, {})
    if not isinstance(profiles, dict):
        raise ConfigError(f"{path}: {_TABLE} is no table.", hint=f"Begin one: [{_TABLE}.{USUAL}]")
    for name, profile in profiles.items():
        if not isinstance(profile, dict):
            hint = f"Begin one: [{_TABLE}.{name}]"
            if name in _OPTIONS:
                hint = f"Options belong into a profile: [{_TABLE}.{USUAL}]"
            raise ConfigError(f"{path}: {_TABLE}.{name} is no table.", hint=hint)
        for key in profile:
            if key not in _OPTIONS:
                raise _unknown(path, f"{_TABLE}.{name}.{key}", _meant(key, _OPTIONS))
    return profiles


def _unknown(path: Path, key: str, hint: str | None) -> ConfigError:
    return ConfigError(
        f"{path}: {key} is no option.",
        hint=hint or "acp-bridge --help lists the options; - becomes _ here.",
        data={"field": key.rpartition(".")[2], "source": str(path)},
    )


def _meant(word: str, known: Iterable[str]) -> str | None:
    import difflib  # only on the way to an error

    near = difflib.get_close_matches(word.lower().replace("-", "_").lstrip("_"), known, n=1)
    return f"Did you mean {near[0]}?" if near else None


def _place(path: Path, name: str, key: str) -> str:
    return f"{_TABLE}.{name}.{key} in {path}"


def _text(path: Path, name: str, option: Option, value: Any) -> str:
    """The value as the text that a variable would have."""
    if option.is_switch is isinstance(value, bool):
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str):
            is_relative = option.read is values.path and value and value[0] not in "~"
            return str(path.parent / value) if is_relative else value
        if isinstance(value, int | float):
            return str(value)
        if option.read is values.names and isinstance(value, list):
            return ",".join(map(str, value))
    place = _place(path, name, option.field)
    right = "true" if option.is_switch else f'"{option.example}"'
    raise ConfigError(
        f"{place} has the wrong type.",
        hint=f"For example: {option.field} = {right}",
        data={"field": option.field, "source": place},
    )


def _is_secret(key: str, text: str) -> bool:
    if key not in ("ledger_url", "proxy"):
        return _OPTIONS[key].is_secret
    try:
        return urlsplit(text).password is not None
    except ValueError:
        return False
