"""Reading files that hold secrets: only such as nobody else could have written or can read.

A file is regular and no symbolic link, belongs to us or to root, and gives others no rights. The
checks are made on the open file, so that nothing can be put in its place between them and the
reading. Where there are no such modes (Windows) only its kind and size are looked at, and where
they mean nothing the user can say so (:func:`check_modes`).
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
from pathlib import Path

from acp_bridge.errors import ConfigError

MAX_BYTES = 16 * 1024
"""A credential is one short line; anything larger is the wrong file."""
OTHERS_MAY_NOTHING = 0o077
OTHERS_MAY_ENTER = 0o066
"""Rights that a file must not give; whether others may run a credential does not matter."""
OTHERS_MAY_READ = 0o022
"""Likewise of a file that steers us without holding a secret."""

_HAS_MODES = os.name == "posix"
_ROOT = 0
_modes_count = True


def check_modes(wanted: bool) -> None:
    """Whether files may be refused for the rights that they give to others, in the whole process:
    there are file systems (FAT, a Windows disk in WSL) where all files have the same."""
    global _modes_count  # the user's word, which holds wherever a file with a secret is read
    _modes_count = wanted


def read_credential(path: Path, label: str) -> str:
    """The one line in ``path``, without its line end and a byte order mark.

    Raises ``ConfigError`` with one sentence for each way in which the file can be wrong; ``label``
    begins it.
    """
    raw = read_private(path, label, forbidden=OTHERS_MAY_ENTER, limit=MAX_BYTES)
    return one_line(raw, label)


def read_private(path: Path, label: str, *, forbidden: int, limit: int) -> bytes:
    """What ``path`` holds, at most ``limit`` bytes, if it has none of the ``forbidden`` rights.

    Raises ``ConfigError``, and ``FileNotFoundError`` as its cause if there is no such file.
    """
    # Without O_NONBLOCK the opening of a pipe would wait for its writer.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0))
    except FileNotFoundError as error:
        raise ConfigError(f"{label} does not exist.") from error
    except OSError as error:
        raise _unopened(path, label, error) from None
    try:
        _check(path, label, os.fstat(descriptor), forbidden)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            raw = file.read(limit + 1)
    except OSError as error:
        raise ConfigError(f"{label} cannot be read: {error.strerror}.") from None
    finally:
        os.close(descriptor)
    if len(raw) > limit:
        raise ConfigError(f"{label} is larger than {limit // 1024} KiB.")
    return raw


def read_linked(path: Path, label: str, *, forbidden: int, limit: int) -> bytes:
    """As :func:`read_private`, of the file that ``path`` leads to: people keep their configuration
    elsewhere and link it to its place."""
    return read_private(Path(os.path.realpath(path)), label, forbidden=forbidden, limit=limit)


def one_line(raw: bytes, label: str) -> str:
    """``raw`` as text of one line. Raises ``ConfigError``."""
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


def _unopened(path: Path, label: str, error: OSError) -> ConfigError:
    if error.errno == errno.ELOOP and path.is_symlink():
        return ConfigError(
            f"{label} is a symbolic link, which others may turn elsewhere.",
            hint=f"Name the file that it leads to: {os.path.realpath(path)}",
        )
    if error.errno == errno.ENXIO:  # a socket
        return ConfigError(f"{label} is not a regular file.")
    return ConfigError(f"{label} cannot be read: {error.strerror}.")


def _check(path: Path, label: str, status: os.stat_result, forbidden: int) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise ConfigError(f"{label} is a directory, not a file.")
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError(f"{label} is not a regular file.")
    if not _HAS_MODES:
        return
    quoted = shlex.quote(str(path))
    if status.st_uid not in (os.geteuid(), _ROOT):
        fix = f"chown {os.geteuid()} {quoted}"
        raise ConfigError(
            f"{label} belongs to another user (number {status.st_uid}).",
            hint=f"If you trust what it holds, take it over: {fix}",
        )
    if _modes_count and status.st_mode & forbidden:
        fix = f"chmod {'go-w' if forbidden == OTHERS_MAY_READ else '600'} {quoted}"
        raise ConfigError(f"{label} is open to other users; run: {fix}", hint=fix)
