"""Where the gateway's token and password come from.

What the bridge was told (options, variables, a profile: one of them, chosen in ``config``) is used
alone, so that a token of one gateway never travels to another one; without any of it the keyring,
if it is to be asked; and last what the gateway's own tools would use. Files are read anew for each
connection: a rotated token needs no restart. Commands and the keyring are asked once, and again
after a refusal.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from acp_bridge.errors import ConfigError
from acp_bridge.gateway.fetching import Command, Fetched, Keyring
from acp_bridge.gateway.secret import AuthMaterial, Secret
from acp_bridge.gateway.secret_files import read_credential

__all__ = ["AuthMaterial", "Credentials", "Found", "Secret", "Source"]

NO_SOURCES: Mapping[str, str] = {}

OPENCLAW = "OPENCLAW_GATEWAY"
ZEROCLAW = "ZEROCLAW_ACP_BRIDGE"
"""Begin the variables that each gateway's own tools read."""


@dataclass(frozen=True, slots=True)
class Found:
    """A credential and where it was."""

    secret: Secret
    label: str


class Source(Protocol):
    """One place that a credential comes from."""

    def read(self) -> Found | None:
        """The credential as it is now; None if the place has none. Raises ``ConfigError``."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value that was given outright."""

    label: str
    secret: Secret

    def read(self) -> Found | None:
        return Found(self.secret, self.label)


@dataclass(frozen=True, slots=True)
class File:
    """A file of one line, read anew each time."""

    name: str
    path: Path
    is_optional: bool = False

    def read(self) -> Found | None:
        label = f"{self.name} {self.path}"
        try:
            return Found(Secret(read_credential(self.path.expanduser(), label)), label)
        except ConfigError as error:
            if self.is_optional and isinstance(error.__cause__, FileNotFoundError):
                return None
            raise


class Slow:
    """What has to be got first, by :meth:`fetch`; kept until it is forgotten."""

    def __init__(self, place: Fetched) -> None:
        self.label = place.label
        self._place = place
        self._outcome: Secret | ConfigError | None = None
        self._is_known = False

    def read(self) -> Found | None:
        if isinstance(self._outcome, ConfigError):
            raise self._outcome
        return None if self._outcome is None else Found(self._outcome, self.label)

    async def fetch(self) -> None:
        """Get it, unless it is known. What goes wrong is raised by :meth:`read`, and tried again
        the next time."""
        if self._is_known:
            return
        try:
            self._outcome = await self._place.get()
            self._is_known = True
        except ConfigError as error:
            self._outcome = error

    async def renew(self) -> bool:
        """Get it anew. Whether it is another one than before."""
        before, self._is_known = self._outcome, False
        await self.fetch()
        return self._outcome != before

    def forget(self) -> None:
        """It was refused: get it anew the next time."""
        self._is_known = False


@dataclass(frozen=True, slots=True)
class Credentials:
    """The configured way to authenticate; :meth:`current` reads it."""

    token: Source | None = None
    password: Source | None = None
    withheld: str | None = None
    """What was kept back since it is for another gateway, and why."""
    learn: Callable[[str], None] = field(default=lambda _value: None)
    """Told each value that is read, so that the log can keep it out of every line."""

    @classmethod
    def from_options(
        cls,
        *,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        token_command: Sequence[str] | None = None,
        password: str | None = None,
        password_file: str | os.PathLike[str] | None = None,
        password_command: Sequence[str] | None = None,
        keyring: str | None = None,
        url: str = "",
        sources: Mapping[str, str] = NO_SOURCES,
        withheld: str | None = None,
        learn: Callable[[str], None] = lambda _value: None,
    ) -> Credentials:
        """Those that the bridge was told; nothing is read or run yet. ``keyring`` is the kind of
        credential that the keyring has for the gateway at ``url``. ``sources`` names the flag,
        the variable or the place in a file that each option was given by, where that is not the
        flag of its name.

        Raises ``ConfigError`` for two origins of one credential, and for an empty or many-lined
        value.
        """
        chosen = {
            "token": {"value": token, "file": token_file, "command": token_command},
            "password": {"value": password, "file": password_file, "command": password_command},
        }
        if keyring is not None:
            chosen[keyring]["keyring"] = url
        return cls(
            token=_told("token", chosen["token"], sources),
            password=_told("password", chosen["password"], sources),
            withheld=withheld,
            learn=learn,
        )

    @property
    def are_told(self) -> bool:
        """Whether there is anything to authenticate with."""
        return self.token is not None or self.password is not None

    @property
    def kept(self) -> Path | None:
        """The file that may hold the token of a pairing, if nothing else gives one."""
        match self.token:
            case File(path=path, is_optional=True):
                return path
        return None

    def or_else(self, token: Source | None, password: Source | None = None) -> Credentials:
        """These, or if there are none the given ones."""
        return self if self.are_told else replace(self, token=token, password=password)

    async def fetch(self) -> None:
        """Get what takes time, before :meth:`current`; a moment if it is known."""
        await asyncio.gather(*(slow.fetch() for slow in self._slow()))

    async def renew(self) -> bool:
        """After a refusal: get anew what takes time. Whether anything is different then, so that
        another attempt makes sense."""
        return any(await asyncio.gather(*(slow.renew() for slow in self._slow())))

    def forget(self) -> None:
        """After a refusal: get anew what takes time, before the next attempt."""
        for slow in self._slow():
            slow.forget()

    def current(self) -> AuthMaterial:
        """The credentials as they are now.

        Raises ``ConfigError`` with one sentence for each way in which they can be wrong.
        """
        token = self._read(self.token)
        password = self._read(self.password)
        labels = [found.label for found in (token, password) if found]
        return AuthMaterial(
            token=token.secret if token else None,
            password=password.secret if password else None,
            source=" and ".join(labels) or "no credential",
        )

    def _read(self, source: Source | None) -> Found | None:
        found = source.read() if source is not None else None
        if found is not None:
            self.learn(found.secret.reveal())
        return found

    def _slow(self) -> list[Slow]:
        return [source for source in (self.token, self.password) if isinstance(source, Slow)]


def from_environment(name: str, environ: Mapping[str, str]) -> Value | None:
    """The value of the variable ``name``, if it has one. Raises ``ConfigError``."""
    value = environ.get(name, "")
    return _from_text(name, value) if value.strip() else None


def _told(kind: str, given: Mapping[str, Any], sources: Mapping[str, str]) -> Source | None:
    """The one way in ``given`` that a credential was given in."""
    fields = {"value": kind, "keyring": "keyring"}
    names = {}
    for way, what in given.items():
        if what is not None:
            field = fields.get(way, f"{kind}_{way}")
            names[way] = sources.get(field, f"--{field.replace('_', '-')}")
    if len(names) > 1:
        raise ConfigError(f"{' and '.join(names.values())} exclude each other: give one of them.")
    for way, name in names.items():
        return _MAKE[way](name, kind, given[way])
    return None


def _from_path(name: str, _kind: str, path: str | os.PathLike[str]) -> Source:
    if not os.fspath(path):
        raise ConfigError(f"{name} names no file.")
    return File(name, Path(path))


def _from_value(name: str, _kind: str, value: str) -> Source:
    if not value.strip():
        raise ConfigError(f"{name} is empty.")
    return _from_text(name, value)


_MAKE: Mapping[str, Callable[[str, str, Any], Source]] = {
    "value": _from_value,
    "file": _from_path,
    "command": lambda name, _kind, argv: Slow(Command(name, argv)),
    "keyring": lambda name, kind, url: Slow(Keyring(name, kind, url)),
}


def _from_text(name: str, value: str) -> Value:
    line = value.rstrip("\r\n")
    if "\n" in line or "\r" in line:
        raise ConfigError(f"{name} holds more than one line; a credential is exactly one.")
    return Value(name, Secret(line))
