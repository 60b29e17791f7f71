"""Where a ledger is, and connections to it.

SQLite: the connection is given to SQLAlchemy ready-made, in a mode in which the driver opens no
transactions of its own. A transaction that will write takes the write lock at once
(``IMMEDIATE``): one that reads first and then wants to write may be refused without waiting.
"""

from __future__ import annotations

import getpass
import ipaddress
import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import QueuePool

from ledger.errors import BadLedgerUrl, DriverMissing
from ledger.frozen import is_frozen

SQLITE = "sqlite"
POSTGRES = "postgresql+psycopg"

_URL_HINT = "Write sqlite:////absolute/path/ledger.db or postgresql+psycopg://user@host/database."
IMMEDIATE = {"begin": "BEGIN IMMEDIATE"}
"""Execution options of a connection to a file: its transactions will write."""
MANUAL = {"begin": None}
"""Its transactions are begun and ended by the driver alone."""

_SECRETS = ("password", "sslpassword")
"""Options of a URL that must not be shown."""

_CONNECT_SECONDS = 5
_KEEPALIVE = {
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 15_000,  # milliseconds
}
"""A connection whose way was lost ends after some 15 seconds, and not after the system's hours."""
_LOGS = ("-wal", "-journal")
"""What holds a part of an SQLite file's content, by the endings of the names."""
_WAL_LIMIT = 4 * 1024 * 1024
"""Bytes that the write-ahead log keeps on the disk when it has been emptied."""


@dataclass(frozen=True, slots=True)
class FilePlace:
    """A ledger in an SQLite file."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    @property
    def shown_url(self) -> str:
        return f"{SQLITE}:///{self.path}"


@dataclass(frozen=True, slots=True)
class ServerPlace:
    """A ledger in a PostgreSQL database."""

    url: URL

    def __str__(self) -> str:
        return self.url.set(query={}).render_as_string(hide_password=True)

    @property
    def shown_url(self) -> str:
        return self.url.difference_update_query(_SECRETS).render_as_string(hide_password=True)


def place_of(url: object) -> FilePlace | ServerPlace:
    """Read a ledger's URL. Raises ``BadLedgerUrl``; its message never shows a password."""
    if not isinstance(url, str):
        raise BadLedgerUrl(
            f"A ledger's URL is a text, and not of the type {type(url).__name__}.", hint=_URL_HINT
        )
    if url.startswith(f"{SQLITE}:"):
        return FilePlace(_sqlite_path(url))
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise BadLedgerUrl("The ledger's URL cannot be read.", hint=_URL_HINT) from error
    if parsed.drivername in ("postgresql", POSTGRES):
        return ServerPlace(parsed.set(drivername=POSTGRES))
    raise BadLedgerUrl(
        f"A ledger cannot be kept in {parsed.drivername!r}; SQLite and PostgreSQL can be used.",
        hint=_URL_HINT,
    )


def _sqlite_path(url: str) -> Path:
    """What follows the three slashes, letter for letter: nobody thinks of escapes in a path."""
    before, slashes, path = url.partition(":///")
    if before != SQLITE or not slashes or not path or path == ":memory:":
        raise BadLedgerUrl(
            "The ledger's URL names no file.",
            hint=f"{_URL_HINT} A ledger that is to leave nothing behind: --ledger memory",
        )
    if "?" in path:
        raise BadLedgerUrl("The URL of an SQLite ledger takes no options.", hint=_URL_HINT)
    return Path(os.path.abspath(path))


def file_engine(
    path: Path, *, lock_timeout: float, read_only: bool = False, foreign_keys: bool = True
) -> Engine:
    """An engine for an SQLite file that exists. ``lock_timeout`` is in seconds."""

    def connect() -> sqlite3.Connection:
        return sqlite_connection(
            path, lock_timeout=lock_timeout, read_only=read_only, foreign_keys=foreign_keys
        )

    engine = create_engine(
        "sqlite://", creator=connect, poolclass=QueuePool, hide_parameters=True, pool_size=4
    )
    event.listen(engine, "begin", _begin)
    return engine


def sqlite_connection(
    path: Path, *, lock_timeout: float, read_only: bool = False, foreign_keys: bool = True
) -> sqlite3.Connection:
    """A connection that begins no transactions by itself and may go from thread to thread.

    With ``read_only`` nothing on the disk is other afterwards than it was before.
    """
    # Not "rwc": the file is made with rights of its own. One that may not write would leave behind
    # the log that it has to make; one that may would empty a log that is there into the file.
    # Where nobody can write, no log can be made, and none is needed.
    mode = "ro" if read_only and has_log(path) else "rw"
    if read_only and mode == "rw" and is_frozen(path):
        mode = "ro&immutable=1"
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode={mode}",
        uri=True,
        timeout=lock_timeout,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        for pragma in (
            f"foreign_keys = {foreign_keys:d}",
            "synchronous = NORMAL",
            f"journal_size_limit = {_WAL_LIMIT}",
            f"query_only = {read_only:d}",
        ):
            connection.execute(f"PRAGMA {pragma}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def has_log(path: Path) -> bool:
    """Whether a part of an SQLite file's content may be beside it."""
    return any(path.with_name(path.name + ending).exists() for ending in _LOGS)


def _begin(connection: Connection) -> None:
    if statement := connection.get_execution_options().get("begin", "BEGIN"):
        raw: Any = connection.connection.driver_connection
        raw.execute(statement)


def server_engine(place: ServerPlace, *, lock_timeout: float) -> Engine:
    """An engine for a PostgreSQL database. Raises ``DriverMissing``.

    Off this machine the connection must be encrypted, unless the URL says otherwise (``sslmode``).
    """
    arguments: dict[str, Any] = {
        name: value for name, value in _KEEPALIVE.items() if name not in place.url.query
    }
    if "connect_timeout" not in place.url.query:
        arguments["connect_timeout"] = _CONNECT_SECONDS
    if "sslmode" not in place.url.query and not _is_local(place.url):
        arguments["sslmode"] = "require"
    try:
        engine = create_engine(
            place.url,
            connect_args=arguments,
            hide_parameters=True,
            pool_pre_ping=True,  # a server that was restarted meanwhile costs no write
            pool_size=4,
        )
    except ImportError as error:
        raise DriverMissing(
            "The driver for PostgreSQL is not installed.",
            hint='Install it with: pip install "acp-gateway-bridge[postgres]"',
        ) from error

    def limit_waiting(connection: Any, _: Any) -> None:
        connection.execute(f"SET lock_timeout = {int(lock_timeout * 1000)}")
        connection.commit()

    event.listen(engine, "connect", limit_waiting)
    return engine


def _is_local(url: URL) -> bool:
    """Whether every server that the URL may lead to is this machine."""
    named = url.query.get("host", ())
    hosts = [named] if isinstance(named, str) else list(named)
    if url.host:
        hosts.append(url.host)
    if not hosts:  # libpq then asks the environment, and else takes the local socket
        hosts = [os.environ.get("PGHOST") or "localhost"]
    addresses = url.query.get("hostaddr") or os.environ.get("PGHOSTADDR") or ()
    hosts += [addresses] if isinstance(addresses, str) else addresses
    return all(_is_local_host(host) for entry in hosts for host in entry.split(","))


def _is_local_host(host: str) -> bool:
    name = host.strip("[]")
    if name.startswith(("/", "@")) or name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        # SQLAlchemy writes a host of several as "name:port".
        head, _, port = name.rpartition(":")
        return port.isdigit() and _is_local_host(head)


def login_name() -> str:
    """Who runs this process, as the default owner of sessions in a shared database."""
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        return "unknown"
