"""Files that only their owner may read, written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

if sys.platform != "win32":
    import fcntl


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes that do the same from ``path``; waits for the one that has it.

    Raises ``OSError`` if the file for the lock, beside ``path``, cannot be made. Without effect on
    Windows.
    """
    if sys.platform == "win32":
        yield
        return
    lock = path.with_name(f".{path.name}.lock")
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def make_private_directory(directory: Path) -> None:
    """Make ``directory`` and what is missing above it, mode 0700 from the start."""
    if not directory.is_dir():
        if directory.parent != directory:
            make_private_directory(directory.parent)
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=0o700)


def write_new(path: Path, content: bytes) -> None:
    """Make ``path`` with mode 0600; what is there already stays untouched.

    Of two processes that do this at once exactly one succeeds, and nobody ever sees half a file.
    """
    temporary = _temporary(path, content)
    try:
        with contextlib.suppress(FileExistsError):
            _claim(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def replace(path: Path, content: bytes) -> None:
    """Write ``path`` with mode 0600, replacing what was there in one step."""
    temporary = _temporary(path, content)
    try:
        temporary.replace(path)
    except OSError:
        temporary.unlink()
        raise


def _temporary(path: Path, content: bytes) -> Path:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError:
        Path(name).unlink()
        raise
    return Path(name)


def _claim(temporary: Path, path: Path) -> None:
    if os.name == "nt":
        temporary.rename(path)  # Windows: refuses an existing target
        return
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        raise
    except OSError:
        # A file system without hard links: the exclusive creation still lets only one win.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(temporary.read_bytes())
