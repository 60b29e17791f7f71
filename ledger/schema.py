"""Which version the tables of a database have, and bringing them to the one of this code.

Revisions are numbered: their ids are four digits that count up, so that an old version can tell a
newer database from an older one without knowing its revisions. Alembic is imported only to run
them, since that takes longer than everything else at the start.

A local file is upgraded when it is opened; a database that is shared only by :func:`upgrade`.
"""

from __future__ import annotations

import io
import os
import sqlite3
from contextlib import closing
from enum import Enum, auto
from importlib.resources import files
from pathlib import Path

from sqlalchemy import Column, Connection, MetaData, String, Table, inspect, text

from ledger.engine import IMMEDIATE, FilePlace, ServerPlace, file_engine, place_of, server_engine
from ledger.errors import LedgerCorrupt, LedgerError, NotALedger, SchemaAhead, SchemaBehind
from ledger.failures import migrate_hint, told_of
from ledger.files import locked, make_private, prepare
from ledger.health import VERSION_TABLE, Content, Finding
from ledger.health import inspect as inspect_file
from ledger.tables import metadata

HEAD = "0001"
"""The revision that this code was written for."""

UPGRADE_SECONDS = 60.0
"""How long to wait for another process that upgrades the same database."""

_ADVISORY_LOCK = 0x6C6564676572  # "ledger"


class Standing(Enum):
    """How a database's version compares with the code's."""

    NONE = auto()
    BEHIND = auto()
    CURRENT = auto()
    AHEAD = auto()


def standing(version: str | None) -> Standing:
    """Compare a version found in a database with the code's."""
    if version is None:
        return Standing.NONE
    if version == HEAD:
        return Standing.CURRENT
    return Standing.BEHIND if version < HEAD else Standing.AHEAD


def found_version(connection: Connection) -> str | None:
    """The version of the database's tables; None if there are none."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}"))  # noqa: S608 - a constant
    return None if found is None else str(found)


def ahead(place: FilePlace | ServerPlace, version: str) -> SchemaAhead:
    """The error for a database that is newer than the code."""
    return SchemaAhead(
        f"The ledger has schema {version}, and this version knows {HEAD}: it is only read. "
        f"({place})",
        hint="Use the newer acp-bridge, or another ledger (--state-dir, --ledger-url).",
    )


def behind(place: FilePlace | ServerPlace, version: str | None) -> SchemaBehind:
    """The error for a database that is older than the code, or empty."""
    has = f"has schema {version}" if version else "has no ledger yet"
    return SchemaBehind(
        f"The database {has}, and this version needs {HEAD}. ({place})", hint=migrate_hint(place)
    )


def found_in(place: FilePlace, lock_timeout: float, *, may_write: bool = True) -> Finding:
    """What is in an SQLite file that exists. ``lock_timeout`` is in seconds; for ``may_write`` see
    ``ledger.health.inspect``.

    Raises ``NotALedger`` for a database of another program, and ``sqlite3.Error`` if one cannot
    look into the file.
    """
    found = inspect_file(
        place.path,
        lock_timeout=lock_timeout,
        is_current=lambda version: standing(version) is Standing.CURRENT,
        may_write=may_write,
    )
    if found.content is Content.FOREIGN:
        raise _foreign(place)
    return found


def unusable(place: FilePlace, found: Finding) -> LedgerError:
    """The error for a damaged file that is left as it is."""
    if not found.is_database:
        return NotALedger(
            f"{place} is no database.",
            hint="Choose another place with --state-dir or --ledger-url, or move the file away.",
        )
    return LedgerCorrupt(
        f"The ledger is damaged. ({place}: {found.reason})",
        hint="Move the file away or choose another place with --state-dir or --ledger-url; a "
        "bridge that is started on it sets it aside and begins a new one.",
    )


def _foreign(place: FilePlace) -> NotALedger:
    return NotALedger(
        f"{place} is a database of something else, which is left alone.",
        hint="Choose another place with --state-dir or --ledger-url.",
    )


def upgrade(url: str) -> tuple[str | None, str]:
    """Bring a database to this code's version: the version it had (None: it was empty), and the
    one it has. A no-op if they are the same. A file that holds anything but a ledger is left as it
    is.

    Raises ``LedgerError``, such as ``NotALedger`` or ``LedgerCorrupt``.
    """
    place = place_of(url)
    with told_of(place):
        if isinstance(place, ServerPlace):
            return _upgrade_server(place)
        prepare(place.path)
        _check_usable(place)  # before a lock is left beside the file of another program
        with locked(place.path, UPGRADE_SECONDS):
            _check_usable(place)
            make_private(place.path)
            return upgrade_file(place)


def _check_usable(place: FilePlace) -> None:
    found = found_in(place, UPGRADE_SECONDS)
    if found.content is Content.DAMAGED:
        raise unusable(place, found)


def upgrade_file(place: FilePlace) -> tuple[str | None, str]:
    """As :func:`upgrade`, for an SQLite file that the caller has locked. A copy of what it was is
    left beside it.

    One transaction: a process that is killed leaves the old version or the new one.
    """
    # Without foreign keys: a table that is made anew would take its dependents with it.
    engine = file_engine(place.path, lock_timeout=UPGRADE_SECONDS, foreign_keys=False)
    try:
        with engine.connect().execution_options(**IMMEDIATE) as connection, connection.begin():
            before = found_version(connection)
            match standing(before):
                case Standing.CURRENT:
                    pass
                case Standing.AHEAD:
                    raise ahead(place, str(before))
                case Standing.BEHIND:
                    _back_up(place.path, str(before))
                    _run_revisions(connection)
                case Standing.NONE:
                    if inspect(connection).get_table_names():
                        raise _foreign(place)
                    _make(connection)
            if connection.exec_driver_sql("PRAGMA foreign_key_check").first():
                raise LedgerCorrupt(f"The ledger's tables contradict each other. ({place})")
    finally:
        engine.dispose()
    return before, HEAD


def _make(connection: Connection) -> None:
    """Make the tables of this code's version in an empty database.

    They are the ones that the revisions lead to (a test compares them). Alembic is spared: it
    would double the time and the memory of a first start.
    """
    metadata.create_all(connection)
    version = Table(VERSION_TABLE, MetaData(), Column("version_num", String(32), primary_key=True))
    version.create(connection)
    connection.execute(version.insert().values(version_num=HEAD))


def _upgrade_server(place: ServerPlace) -> tuple[str | None, str]:
    engine = server_engine(place, lock_timeout=UPGRADE_SECONDS)
    try:
        with engine.begin() as connection:
            lock = text("SELECT pg_advisory_xact_lock(:key)")
            connection.execute(lock, {"key": _ADVISORY_LOCK})
            before = found_version(connection)
            if standing(before) is Standing.AHEAD:
                raise ahead(place, str(before))
            if standing(before) is not Standing.CURRENT:
                _run_revisions(connection)
    finally:
        engine.dispose()
    return before, HEAD


def scripts() -> Path:
    """The folder of the revisions: in the package when installed, beside it in a checkout."""
    package = Path(str(files("ledger")))
    installed = package / "migrations"
    return installed if installed.is_dir() else package.parent / "migrations"


def _run_revisions(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config(stdout=io.StringIO())  # nothing of ours is Alembic's to print
    config.set_main_option("script_location", str(scripts()).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _back_up(path: Path, version: str) -> None:
    backup = path.with_name(f"{path.name}.backup-{version}")
    unfinished = backup.with_name(backup.name + ".part")
    os.close(os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600))
    with (
        closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(unfinished)) as target,
    ):
        source.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")  # one file that holds everything
    unfinished.replace(backup)
