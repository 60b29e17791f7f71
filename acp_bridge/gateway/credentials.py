"""Where the gateway's token and password come from.

Options win over ``ACP_BRIDGE_*``, these over ``OPENCLAW_GATEWAY_*`` (or, for a gateway that speaks
ACP, ``ZEROCLAW_ACP_BRIDGE_TOKEN``); the first of the three that
offers anything is used alone, so that a token of one gateway never travels to another one. Files
are read anew for each connection: a rotated token needs no restart.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from acp_bridge.errors import ConfigError
from acp_bridge.gateway.secret import AuthMaterial, Secret

__all__ = ["AuthMaterial", "Credentials", "Secret"]

MAX_FILE_BYTES = 16 * 1024
"""A credential is one short line; anything larger is the wrong file."""

NO_SOURCES: Mapping[str, str] = {}

_HAS_MODES = os.name == "posix"
_OURS = "ACP_BRIDGE"
OPENCLAW = "OPENCLAW_GATEWAY"
ZEROCLAW = "ZEROCLAW_ACP_BRIDGE"
"""Begin the variables that each gateway's own tools read."""


@dataclass(frozen=True, slots=True)
class _Origin:
    """One place that a credential is read from."""

    name: str
    value: Secret | None = None
    path: str | None = None

    @property
    def label(self) -> str:
        return self.name if self.path is None else f"{self.name} {self.path}"

    def read(self) -> Secret:
        if self.path is not None:
            raw = read_private_file(self.name, self.path)
            return Secret(_one_line(self.label, raw))
        return self.value or Secret("")


@dataclass(frozen=True, slots=True)
class Credentials:
    """The configured way to authenticate; :meth:`current` reads it."""

    token: _Origin | None = None
    password: _Origin | None = None
    kept: Path | None = None
    """A file that may hold the token of a pairing."""
    learn: Callable[[str], None] = lambda _value: None
    """Told each value that is read, so that the log can keep it out of every line."""

    @classmethod
    def from_options(
        cls,
        *,
        token: str | None,
        token_file: str | os.PathLike[str] | None,
        password: str | None,
        password_file: str | os.PathLike[str] | None,
        environ: Mapping[str, str],
        sources: Mapping[str, str] = NO_SOURCES,
        learn: Callable[[str], None] = lambda _value: None,
        foreign: str = OPENCLAW,
    ) -> Credentials:
        """Choose the origins; files are not read yet. ``foreign`` begins the variables of the kind
        of gateway's own tools, which are asked last. ``sources`` names the flag or variable that
        each option was given by, where that is not the flag of its name.

        Raises ``ConfigError`` for two origins of one credential, and for an empty or many-lined
        value.
        """
        given = cls(
            token=_from_option("token", token, token_file, sources),
            password=_from_option("password", password, password_file, sources),
            learn=learn,
        )
        for prefix in (_OURS, foreign):
            if given.token or given.password:
                break
            given = replace(
                given,
                token=_from_environment(f"{prefix}_TOKEN", environ),
                password=_from_environment(f"{prefix}_PASSWORD", environ),
            )
        return given

    def or_kept(self, path: Path) -> Credentials:
        """These, or if there is no token among them the one in ``path``, as soon as there is."""
        return self if self.token or self.password else replace(self, kept=path)

    def current(self) -> AuthMaterial:
        """The credentials as they are now.

        Raises ``ConfigError`` with one sentence for each way in which a file can be wrong.
        """
        token = self.token
        if token is None and self.kept is not None and self.kept.exists():
            token = _Origin("the pairing's", path=str(self.kept))
        origins = [origin for origin in (token, self.password) if origin]
        return AuthMaterial(
            token=self._read(token),
            password=self._read(self.password),
            source=" and ".join(origin.label for origin in origins) or "no credential",
        )

    def _read(self, origin: _Origin | None) -> Secret | None:
        if origin is None:
            return None
        secret = origin.read()
        self.learn(secret.reveal())
        return secret


def _from_option(
    kind: str,
    value: str | None,
    path: str | os.PathLike[str] | None,
    sources: Mapping[str, str],
) -> _Origin | None:
    name = sources.get(kind, f"--{kind}")
    file_name = sources.get(f"{kind}_file", f"--{kind}-file")
    if value is not None and path is not None:
        raise ConfigError(f"{name} and {file_name} exclude each other: give one of them.")
    if path is not None:
        if not os.fspath(path):
            raise ConfigError(f"{file_name} names no file.")
        return _Origin(file_name, path=os.fspath(path))
    if value is None:
        return None
    if not value.strip():
        raise ConfigError(f"{name} is empty.")
    return _from_text(name, value)


def _from_environment(name: str, environ: Mapping[str, str]) -> _Origin | None:
    value = environ.get(name, "")
    return _from_text(name, value) if value.strip() else None


def _from_text(name: str, value: str) -> _Origin:
    line = value.rstrip("\r\n")
    if "\n" in line or "\r" in line:
        raise ConfigError(f"{name} holds more than one line; a credential is exactly one.")
    return _Origin(name, value=Secret(line))


def read_private_file(name: str, path: str) -> bytes:
    """The content of a file that holds a secret; ``name`` is the option that names it.

    Raises ``ConfigError`` with a sentence of its own for each way in which the file is wrong:
    missing, unreadable, not regular, open to other users, larger than 16 KiB.
    """
    file = Path(path).expanduser()
    label = f"{name} {path}"
    try:
        # Without O_NONBLOCK the opening of a pipe would wait for its writer.
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        raise ConfigError(f"{label} does not exist.") from None
    except OSError as error:
        raise ConfigError(f"{label} cannot be read: {error.strerror}.") from None
    try:
        _check_kind(label, file, os.fstat(descriptor))
        raw = os.read(descriptor, MAX_FILE_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(raw) > MAX_FILE_BYTES:
        raise ConfigError(f"{label} is larger than 16 KiB: it is the wrong file.")
    return raw


def _check_kind(label: str, file: Path, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise ConfigError(f"{label} is a directory, not a file.")
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError(f"{label} is not a regular file.")
    if _HAS_MODES and status.st_mode & 0o066:
        fix = f"chmod 600 {shlex.quote(str(file))}"
        raise ConfigError(f"{label} is open to other users; run: {fix}", hint=fix)


def _one_line(label: str, raw: bytes) -> str:
    try:
        text = raw.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise ConfigError(f"{label} is not UTF-8 text.") from None
    if not text.strip():
        raise ConfigError(f"{label} is empty.")
    lines = text.splitlines()
    if len(lines) > 1:
        raise ConfigError(f"{label} holds {len(lines)} lines; a credential is exactly one.")
    return text
