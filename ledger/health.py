"""What lies where an SQLite ledger should be, told without changing it; and putting it aside."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from pathlib import Path

from ledger.engine import sqlite_connection
from ledger.failures import is_damage
from ledger.files import SIDE_FILES
from ledger.tables import metadata

VERSION_TABLE = "ledger_version"

_TABLES = {VERSION_TABLE, "sessions", "entries", "runs", "archives", "blobs", "blob_uses"}
"""What every version of a ledger has."""

_MAGIC = b"SQLite format 3\0"
_FORMATS = {1, 2}
_HEADER = len(_MAGIC) + 4
"""The header up to the format for writing and the one for reading; SQLite takes a file of another
one for read-only, or for none of its own."""


class Content(Enum):
    """What a file holds."""

    NOTHING = auto()
    LEDGER = auto()
    FOREIGN = auto()
    """A database of something else."""
    DAMAGED = auto()
    """A damaged database, or none at all."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found in a file."""

    content: Content
    version: str | None = None
    journal_mode: str = ""
    reason: str = ""
    """How the damage shows."""
    is_database: bool = True
    """Whether it looks like a file of SQLite's at all, if it is damaged."""


def inspect(
    path: Path, *, lock_timeout: float, is_current: Callable[[str], bool], may_write: bool
) -> Finding:
    """Look into a file, which must exist. Raises ``sqlite3.Error`` if that cannot be done.
    ``is_current`` tells of a version whether its tables have just the columns that this code knows.

    Reading only, so that a damaged file stays byte for byte what it is: a connection that may
    write would move what is in its write-ahead log into the file, right or wrong. Only with
    ``may_write`` is undone what a crash has left half written, if it cannot be read otherwise.
    """
    with path.open("rb") as file:
        begin = file.read(_HEADER)
    if not begin:
        return Finding(Content.NOTHING)
    if not begin.startswith(_MAGIC) or not set(begin[len(_MAGIC) + 2 :]) <= _FORMATS:
        return Finding(Content.DAMAGED, reason="file is not a database", is_database=False)
    try:
        return _look_into(path, lock_timeout, is_current, read_only=True)
    except sqlite3.OperationalError:
        if not may_write:
            raise
        # What a crash left in the rollback journal has to be undone first, which is writing.
        return _look_into(path, lock_timeout, is_current, read_only=False)


def _look_into(
    path: Path, lock_timeout: float, is_current: Callable[[str], bool], *, read_only: bool
) -> Finding:
    try:
        with closing(
            sqlite_connection(path, lock_timeout=lock_timeout, read_only=read_only)
        ) as connection:
            return _content(connection, is_current)
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        if is_damage(error):
            return Finding(Content.DAMAGED, reason=str(error))
        raise


def _content(connection: sqlite3.Connection, is_current: Callable[[str], bool]) -> Finding:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if tables and not _is_of_ledger(tables):
        return Finding(Content.FOREIGN)
    [problem] = connection.execute("PRAGMA quick_check(1)").fetchone()
    if problem != "ok":
        return Finding(Content.DAMAGED, reason=" ".join(problem.split()))
    if not tables:
        return Finding(Content.NOTHING)
    if missing := _TABLES - tables:
        return Finding(Content.DAMAGED, reason=f"no table {min(missing)}")
    row = connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone()  # noqa: S608 - a constant
    if row is None:
        return Finding(Content.DAMAGED, reason="no version")
    if is_current(row[0]):
        # The check above does not read the words of the schema: a bad one shows when it is used.
        for table in metadata.tables.values():
            connection.execute(f"SELECT {', '.join(table.c.keys())} FROM {table.name} LIMIT 0")  # noqa: S608 - constants
    [mode] = connection.execute("PRAGMA journal_mode").fetchone()
    return Finding(Content.LEDGER, row[0], mode)


def _is_of_ledger(tables: set[str]) -> bool:
    """Whether tables are those of a ledger, of which some may be lost. Most of their names are
    common words: without the one that is not, all of the others are wanted."""
    if VERSION_TABLE in tables:
        return len(tables & _TABLES) > len(_TABLES) // 2
    return tables >= _TABLES - {VERSION_TABLE}


def set_aside(path: Path) -> Path:
    """Rename a file with all that SQLite keeps beside it; returns the new path."""
    now = datetime.now(UTC)
    aside = path.with_name(f"{path.name}.damaged-{now:%Y%m%dT%H%M%S%f}Z")
    # The file itself last: beside a new file an old log would be taken for its own.
    for ending in (*reversed(SIDE_FILES), ""):
        old = path.with_name(path.name + ending)
        if os.path.lexists(old):
            old.rename(aside.with_name(aside.name + ending))
    return aside
