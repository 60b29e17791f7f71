"""The ledger's file and what lies beside it: private, and taken by one process at a time."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ledger.errors import (
    LedgerBusy,
    LedgerError,
    LedgerFull,
    LedgerGone,
    LedgerReadOnly,
    NotALedger,
)

SIDE_FILES = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside its file, by the endings of the names."""

_POLL_SECONDS = 0.02
_LOOK_SECONDS = 1.0


def prepare(path: Path) -> None:
    """Make the directory (mode 0700) and the file (mode 0600) where they are missing. What is
    there already is left as it is: it may be somebody else's.

    Raises ``NotALedger`` for a path that is no file, and ``LedgerReadOnly`` or ``LedgerFull``.
    """
    try:
        _make_directory(path.parent)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise _unusable(path, error) from error
    check_is_file(path)


def check_is_file(path: Path) -> None:
    """Raises ``NotALedger`` for a path at which something else than a file lies."""
    if path.is_file():
        return
    if path.is_dir():
        raise NotALedger(
            f"{path} is a directory, and the ledger must be a file.",
            hint="Name a file in it, or another one.",
        )
    if path.is_symlink():
        raise NotALedger(
            f"{path} is a link that leads to no file ({os.readlink(path)}).",
            hint="Make the file that it leads to, or remove the link.",
        )
    raise NotALedger(
        f"{path} is a pipe, a socket or a device, and the ledger must be a file.",
        hint="Choose another place with --state-dir or --ledger-url.",
    )


def make_private(path: Path) -> None:
    """Take the rights of others from the ledger's file and what lies beside it."""
    for ending in ("", *SIDE_FILES):
        _make_private(path.with_name(path.name + ending))


class FileWatch:
    """Notices that a path no longer leads to the file that it leads to now: an open file can be
    written for ever after it was removed, and nobody will read it. ``clock`` gives monotonic
    seconds."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path = path
        self._clock = clock
        self._identity = self._now_there()
        self._looked_at = clock()
        self._is_gone = False

    def look_if_due(self) -> None:
        """As :meth:`look`, but only once in a second."""
        if self._is_gone or self._clock() - self._looked_at >= _LOOK_SECONDS:
            self.look()

    def look(self) -> None:
        """Raises ``LedgerGone``, and from then on always: the number of a file that is gone may
        be given to the next."""
        self._looked_at = self._clock()
        try:
            self._is_gone = self._is_gone or self._now_there() != self._identity
        except OSError:
            return  # it cannot be told now; if it matters, the database will tell
        if self._is_gone:
            raise LedgerGone(
                f"The ledger's file was removed or replaced. ({self._path})",
                hint="Leave the file in its place while a bridge is running.",
            )

    def _now_there(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return status.st_dev, status.st_ino


@contextlib.contextmanager
def locked(path: Path, timeout: float) -> Iterator[None]:
    """Hold the lock beside the file, against all other processes that do.

    It ends with the process, however that ends. Raises ``LedgerBusy`` after ``timeout`` seconds.
    """
    try:
        descriptor = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _unusable(path, error) from error
    try:
        deadline = time.monotonic() + timeout
        while not _try_lock(descriptor):
            if time.monotonic() > deadline:
                raise LedgerBusy(
                    f"Another process has been preparing the ledger for {timeout:.0f} seconds "
                    f"({path}).",
                    hint="Look for a process that hangs.",
                )
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _make_directory(directory: Path) -> None:
    if not directory.is_dir():
        if directory.parent != directory:
            _make_directory(directory.parent)
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=0o700)


def _make_private(path: Path) -> None:
    if os.name == "nt":
        return
    with contextlib.suppress(OSError):  # missing, or another user's
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077:
            path.chmod(mode & 0o700)


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            # A file system without locks: SQLite's own, which it has or nothing would work, keep
            # two upgrades apart; only setting a damaged file aside is then less safe.
            return True
        return True


def _unusable(path: Path, error: OSError) -> LedgerError:
    reason = error.strerror or type(error).__name__
    if isinstance(error, NotADirectoryError):
        return NotALedger(
            f"The ledger cannot be at {path}: a part of that path is a file.",
            hint="Choose another place with --state-dir or --ledger-url.",
        )
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return LedgerFull(
            f"There is no space left for the ledger. ({path}: {reason})",
            hint="Free some space, or choose another place with --state-dir.",
        )
    return LedgerReadOnly(
        f"The ledger's directory cannot be written. ({path.parent}: {reason})",
        hint="Check its permissions, or choose another place with --state-dir.",
    )
