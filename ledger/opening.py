"""Opening a ledger, in whatever state it is found.

A local file is put right at once: made, upgraded, or, if it is damaged, set aside and begun anew.
All that happens under a lock beside the file and after a second look, since an editor starts a
bridge for each window, and several may come upon the same file at the same time.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

from sqlalchemy import Engine

from ledger.engine import (
    FilePlace,
    ServerPlace,
    file_engine,
    has_log,
    login_name,
    place_of,
    server_engine,
    sqlite_connection,
)
from ledger.errors import LedgerError, LedgerMissing, LedgerReadOnly, LedgerUnreadable
from ledger.failures import told_of
from ledger.files import FileWatch, check_is_file, locked, make_private, prepare
from ledger.frozen import is_frozen
from ledger.health import Content, Finding, set_aside
from ledger.network import is_network_path as is_on_network
from ledger.redaction import Redact, keep_all
from ledger.retention import Limits
from ledger.schema import (
    UPGRADE_SECONDS,
    Standing,
    ahead,
    behind,
    found_in,
    found_version,
    standing,
    unusable,
    upgrade_file,
)
from ledger.sql import SqlLedger

_log = logging.getLogger(__name__)


def open_ledger(
    url: str,
    *,
    limits: Limits | None = None,
    owner: str | None = None,
    host: str | None = None,
    lock_timeout: float = 5.0,
    redact: Redact = keep_all,
    is_network_path: Callable[[Path], bool] = is_on_network,
    read_only: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> SqlLedger:
    """See ``ledger.open_ledger``."""
    place = place_of(url)
    watch, frozen = None, False
    with told_of(place, reading=read_only):
        if isinstance(place, FilePlace):
            frozen = not read_only and place.path.is_file() and is_frozen(place.path)
            if read_only or frozen:
                version = _looked_up(place, lock_timeout)
            else:
                version = _put_right(place, lock_timeout, uses_wal=not is_network_path(place.path))
            watch = FileWatch(place.path, clock)
            is_only_read = read_only or frozen or standing(version) is Standing.AHEAD
            engine = file_engine(place.path, lock_timeout=lock_timeout, read_only=is_only_read)
        else:
            engine = server_engine(place, lock_timeout=lock_timeout)
            version = _checked(engine, place)
            owner = owner or login_name()
    refusal: Callable[[], LedgerError] | None = partial(_only_read, place) if read_only else None
    if frozen:
        refusal = partial(_frozen, place)
    if standing(version) is Standing.AHEAD:
        refusal = partial(ahead, place, version)
        _log.warning("%s", ahead(place, version))
    return SqlLedger(
        engine,
        place=place,
        limits=limits or Limits(),
        owner=owner,
        host=host,
        redact=redact,
        refusal=refusal,
        watch=watch,
    )


def _checked(engine: Engine, place: ServerPlace) -> str:
    """The version of a shared database, which is never changed unasked."""
    with ExitStack() as on_failure:
        on_failure.callback(engine.dispose)
        with engine.connect() as connection:
            version = found_version(connection)
        if version is None or standing(version) is Standing.BEHIND:
            raise behind(place, version)
        on_failure.pop_all()
    return version


def _only_read(place: FilePlace | ServerPlace) -> LedgerError:
    return LedgerReadOnly(
        f"The ledger was opened for reading alone. ({place})",
        hint="Open it without read_only.",
    )


def _frozen(place: FilePlace | ServerPlace) -> LedgerError:
    return LedgerReadOnly(
        f"The ledger is on a file system that is read-only: it is only read. ({place})",
        hint="Make the file system writable and start the bridge again, or choose another place "
        "with --state-dir.",
    )


def _looked_up(place: FilePlace, lock_timeout: float) -> str:
    """The version of an SQLite file, of which nothing is changed."""
    missing = LedgerMissing(
        f"There is no ledger at {place} yet.",
        hint="It is made when an editor opens its first session. If there should be one, name its "
        "place with --state-dir or --ledger-url.",
    )
    if not place.path.exists() and not place.path.is_symlink():
        raise missing
    check_is_file(place.path)
    try:
        found = found_in(place, lock_timeout, may_write=False)
    except sqlite3.OperationalError as error:
        if not (is_frozen(place.path) and has_log(place.path)):
            raise
        raise LedgerUnreadable(
            f"A part of the ledger is in the log beside it, and on a file system that is read-only "
            f"that cannot be read. ({place}: {error})",
            hint="Make the file system writable, or copy the file with those beside it to another "
            "place, and name that with --state-dir or --ledger-url.",
        ) from error
    if found.content is Content.NOTHING:
        raise missing
    if found.content is Content.DAMAGED:
        raise unusable(place, found)
    if found.version is None or standing(found.version) is Standing.BEHIND:
        raise behind(place, found.version)
    return found.version


def _put_right(place: FilePlace, lock_timeout: float, *, uses_wal: bool) -> str:
    """Make an SQLite file usable in whatever state it is; returns the version it then has."""
    prepare(place.path)
    journal_mode = "wal" if uses_wal else "delete"
    if not uses_wal:
        _log.warning(
            "the ledger %s is on a network file system, where it is slower and less safe; "
            "choose a local place with --state-dir",
            place,
        )
    found = found_in(place, lock_timeout)
    make_private(place.path)
    version = _usable_version(found, journal_mode)
    if version is not None:
        return version
    with locked(place.path, UPGRADE_SECONDS):
        found = found_in(place, lock_timeout)
        version = _usable_version(found, journal_mode)
        if version is not None:
            return version
        if found.content is Content.DAMAGED:
            _set_aside(place, found)
        _set_journal_mode(place.path, journal_mode, lock_timeout)
        _, version = upgrade_file(place)
    return version


def _usable_version(found: Finding, journal_mode: str) -> str | None:
    """The version, if the file can be used as it is."""
    current = standing(found.version)
    if current is Standing.AHEAD:
        return found.version
    is_usable = current is Standing.CURRENT and found.journal_mode == journal_mode
    return found.version if is_usable else None


def _set_aside(place: FilePlace, found: Finding) -> None:
    aside = set_aside(place.path)
    prepare(place.path)
    _log.warning(
        "the ledger %s was damaged (%s) and is now %s; a new one was begun",
        place,
        found.reason,
        aside.name,
    )


def _set_journal_mode(path: Path, mode: str, lock_timeout: float) -> None:
    with closing(sqlite_connection(path, lock_timeout=lock_timeout)) as connection:
        try:
            connection.execute(f"PRAGMA journal_mode = {mode}")
        except sqlite3.OperationalError:
            # Others have it open, in another mode. A log without shared memory is unsafe; a file
            # without a log only slower.
            if mode == "delete":
                raise
