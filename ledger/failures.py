"""What databases raise, as errors of the ledger: each cause its own sentence, and what helps."""

from __future__ import annotations

import errno
import re
import shlex
import sqlite3
from typing import Protocol

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from ledger.errors import (
    BadLedgerUrl,
    EntryTooLarge,
    LedgerBusy,
    LedgerCorrupt,
    LedgerError,
    LedgerFull,
    LedgerReadOnly,
    LedgerRefused,
    LedgerUnreachable,
    LedgerUnreadable,
    NotALedger,
    SchemaBehind,
)


class Place(Protocol):
    """Where a ledger is; as text, for a sentence."""

    @property
    def shown_url(self) -> str:
        """The whole URL, without passwords."""


def migrate_hint(place: Place) -> str:
    """The command that prepares or upgrades the ledger at ``place``."""
    return f"Run: acp-bridge ledger migrate --ledger-url {shlex.quote(place.shown_url)}"


_Kind = tuple[type[LedgerError], str, str | None]

_BUSY: _Kind = (
    LedgerBusy,
    "Another process keeps the ledger locked.",
    "It is tried again; if it lasts, look for a process that hangs.",
)
_CORRUPT: _Kind = (
    LedgerCorrupt,
    "The ledger is damaged.",
    "Start the bridge again: it sets a damaged file aside and begins a new one.",
)
_FULL: _Kind = (
    LedgerFull,
    "There is no space left for the ledger.",
    "Free some space, or choose another place with --state-dir.",
)
_READ_ONLY: _Kind = (
    LedgerReadOnly,
    "The ledger cannot be written.",
    "Check the permissions of the file and of its directory, or choose another place with "
    "--state-dir.",
)
_UNREADABLE: _Kind = (
    LedgerUnreadable,
    "The ledger cannot be read.",
    "Check that the file and its directory are there, and their permissions.",
)
_INTERRUPTED: _Kind = (
    LedgerUnreadable,
    "A process was interrupted while it wrote the ledger, which must be undone before it is read.",
    "Start the bridge once, or let acp-bridge ledger migrate do it.",
)
_TOO_LARGE: _Kind = (EntryTooLarge, "An entry is larger than the database takes.", None)
_UNKNOWN: _Kind = (LedgerError, "The ledger failed.", None)

_OF_SQLITE: dict[str, _Kind] = {
    "SQLITE_BUSY": _BUSY,
    "SQLITE_LOCKED": _BUSY,
    "SQLITE_PROTOCOL": _BUSY,
    "SQLITE_CORRUPT": _CORRUPT,
    "SQLITE_NOTADB": _CORRUPT,
    "SQLITE_FULL": _FULL,
    "SQLITE_READONLY": _READ_ONLY,
    "SQLITE_READONLY_RECOVERY": _INTERRUPTED,
    "SQLITE_READONLY_ROLLBACK": _INTERRUPTED,
    "SQLITE_PERM": _READ_ONLY,
    "SQLITE_CANTOPEN": _READ_ONLY,
    "SQLITE_TOOBIG": _TOO_LARGE,
}
"""By the extended result code, or the primary one, which begins its name."""

_OF_ERRNO: dict[int, _Kind] = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EACCES: _READ_ONLY,
    errno.EPERM: _READ_ONLY,
    errno.EROFS: _READ_ONLY,
}

_UNREACHABLE: _Kind = (
    LedgerUnreachable,
    "There is no connection to the ledger's database server.",
    "Check --ledger-url, and that the server runs and lets this user in from this machine.",
)
_UNAVAILABLE: _Kind = (
    LedgerUnreachable,
    "The ledger's database server takes no more connections now.",
    "It is tried again; if it lasts, look whether the server is starting, stopping or full.",
)
_BAD_OPTION: _Kind = (
    BadLedgerUrl,
    "A part of the ledger's URL is nothing that PostgreSQL's driver takes.",
    "Correct in --ledger-url what the message names.",
)
_REFUSED: _Kind = (
    LedgerRefused,
    "The ledger's database server refuses the connection.",
    "Check the user, the password and the name of the database in --ledger-url.",
)
_OF_SQLSTATE: dict[str, _Kind] = {
    "08": _UNREACHABLE,
    "57P": _UNREACHABLE,
    "28": _REFUSED,
    "3D": _REFUSED,
    "42501": (
        LedgerRefused,
        "The database user may not do that with the ledger's tables.",
        "Let the owner of the tables grant it.",
    ),
    "42P01": (SchemaBehind, "The database has no ledger yet.", None),
    "42P07": (
        NotALedger,
        "Another program has a table in the database by a name that the ledger needs.",
        "Give the ledger a database of its own, and name that with --ledger-url.",
    ),
    "42703": (
        NotALedger,
        "A table in the database has the name of one of the ledger's, and other columns.",
        "Give the ledger a database of its own, and name that with --ledger-url.",
    ),
    "55P03": _BUSY,
    "57014": _BUSY,
    "40": _BUSY,
    "53100": _FULL,
    "53": _UNREACHABLE,
    "25006": _READ_ONLY,
    "XX001": _CORRUPT,
    "XX002": _CORRUPT,
}
"""By the beginning of PostgreSQL's code, the longest that fits."""

_IS_BAD_OPTION = re.compile(
    r"(?:connection is bad: )?"
    r"(?:invalid |bad value for |could not parse network address|Received non-integer )"
)
_IS_PASSING = re.compile(
    r"starting up|shutting down|recovery|not (?:yet )?accepting connections|too many|"
    r"connection slots"
)
_IS_REFUSAL = re.compile(r"FATAL:|no password supplied")
"""A server that was reached and says no. Its words may be in another language, but for FATAL."""

_CONFLICTS = ("40", "23505", "23503")


class told_of:  # noqa: N801 - reads as what it does
    """Turn what the database raises into ``LedgerError``; ``place`` says where it was, and
    ``reading`` that nothing was to be written."""

    def __init__(self, place: Place, *, reading: bool = False) -> None:
        self._place = place
        self._reading = reading

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (SQLAlchemyError, sqlite3.Error, UnicodeDecodeError, OSError)):
            raise ledger_error(error, self._place, reading=self._reading) from error


def ledger_error(error: Exception, place: Place, *, reading: bool = False) -> LedgerError:
    """The error of the ledger for one of the database; see :class:`told_of`."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
    found = _kind(cause)
    kind, sentence, hint = _UNREADABLE if reading and found is _READ_ONLY else found
    if kind is SchemaBehind:
        hint = migrate_hint(place)
    return kind(f"{sentence} ({place}: {_detail(cause)})", hint=hint)


def _detail(cause: BaseException) -> str:
    """The driver's first line: SQLAlchemy's own text holds the statement, and the driver's for a
    text that is no UTF-8 holds the text."""
    if _is_undecodable(cause):
        return "a text is no UTF-8"
    return next(iter(str(cause).strip().splitlines()), type(cause).__name__)


def is_conflict(error: Exception) -> bool:
    """Whether the transaction lost against another one and may simply be tried again."""
    return isinstance(error, DBAPIError) and _sqlstate(error.orig).startswith(_CONFLICTS)


def is_damage(error: sqlite3.Error | UnicodeDecodeError) -> bool:
    """Whether SQLite says that a file is damaged, or none of its own; asked of a query that is
    known to be right."""
    if isinstance(error, UnicodeDecodeError):
        return True
    return _of_sqlite(error) is _CORRUPT or error.sqlite_errorname == "SQLITE_ERROR"


def _kind(cause: BaseException) -> _Kind:
    if _is_undecodable(cause):
        return _CORRUPT
    if isinstance(cause, sqlite3.Error):
        return _of_sqlite(cause)
    if isinstance(cause, OSError):
        return _OF_ERRNO.get(cause.errno or 0, _UNKNOWN)
    state = _sqlstate(cause)
    fitting = [start for start in _OF_SQLSTATE if state.startswith(start)]
    if fitting:
        return _OF_SQLSTATE[max(fitting, key=len)]
    return _UNKNOWN if state else _of_connecting(cause)


def _of_connecting(cause: BaseException) -> _Kind:
    """psycopg gives no code for what goes wrong before it is connected; there are only its words,
    and those of the server."""
    text = str(cause)
    if _IS_BAD_OPTION.match(text):
        return _BAD_OPTION
    if not any(base.__name__ == "OperationalError" for base in type(cause).__mro__):
        return _UNKNOWN
    if not _IS_REFUSAL.search(text):
        return _UNREACHABLE
    return _UNAVAILABLE if _IS_PASSING.search(text) else _REFUSED


def _of_sqlite(error: sqlite3.Error) -> _Kind:
    name: str = getattr(error, "sqlite_errorname", "")
    if _is_undecodable(error):
        return _CORRUPT
    primary = "_".join(name.split("_")[:2])
    if name == "SQLITE_IOERR_WRITE":
        return _FULL
    return _OF_SQLITE.get(name) or _OF_SQLITE.get(primary, _UNKNOWN)


def _is_undecodable(error: BaseException) -> bool:
    if isinstance(error, UnicodeDecodeError):
        return True
    # The only error of this kind that is the driver's own and so has no code of SQLite.
    return isinstance(error, sqlite3.OperationalError) and not hasattr(error, "sqlite_errorname")


def _sqlstate(error: BaseException | None) -> str:
    return getattr(error, "sqlstate", None) or ""
