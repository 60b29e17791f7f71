"""What can go wrong with a ledger. Each error is a sentence, and most carry a hint what to do.

LedgerError                 message, hint, is_retryable
├── BadLedgerUrl            no URL that a ledger can have
├── DriverMissing           the database's driver is not installed
├── LedgerUnreachable       no answer from the server                     retryable
├── LedgerRefused           the server does not let us in, or not do that
├── LedgerReadOnly          file, directory or server cannot be written
├── LedgerUnreadable        file or directory cannot be read
├── LedgerMissing           there is no ledger yet, and none was to be made
├── LedgerGone              the file was removed or replaced while it was open   retryable
├── NotALedger              something else lies where the ledger should be
├── LedgerCorrupt           the data is damaged
├── LedgerFull              no space left                                 retryable
├── LedgerBusy              another process holds the lock for too long   retryable
├── SchemaBehind            the database is older than the code
├── SchemaAhead             the database is newer than the code
├── UnknownSession          a change of a session that is not there
├── BadValue                a change or a question holds what no ledger takes
├── EntryTooLarge           one entry is larger than the ledger may be
└── LedgerClosed            used after ``close``
"""

from __future__ import annotations

from typing import ClassVar


class LedgerError(Exception):
    """The ledger failed.

    Nothing of the call was done. ``hint`` says what would help.
    """

    is_retryable: ClassVar[bool] = False
    """Whether the same call may succeed later although nobody did anything about it."""

    def __init__(self, message: str | None = None, *, hint: str | None = None) -> None:
        # Without a message the class's own sentence is the text.
        self.message = message or str(type(self).__doc__).partition("\n")[0]
        self.hint = hint
        super().__init__(self.message)


class BadLedgerUrl(LedgerError):
    """The URL names no kind of database that a ledger can be kept in."""


class DriverMissing(LedgerError):
    """The Python package that talks to this kind of database is not installed."""


class LedgerUnreachable(LedgerError):
    """The database server does not answer, or the connection to it broke."""

    is_retryable = True


class LedgerRefused(LedgerError):
    """The database server refuses the user, the database or the operation."""


class LedgerReadOnly(LedgerError):
    """The ledger's file, directory or server cannot be written."""


class LedgerUnreadable(LedgerError):
    """The ledger's file or directory cannot be read."""


class LedgerMissing(LedgerError):
    """There is no ledger yet, and none was to be made."""


class LedgerGone(LedgerError):
    """The ledger's file was removed or replaced.

    What was written since then may be lost. To go on, close the ledger and open it again.
    """

    is_retryable = True


class NotALedger(LedgerError):
    """Where the ledger should be lies something else, which is left alone."""


class LedgerCorrupt(LedgerError):
    """The ledger's data is damaged."""


class LedgerFull(LedgerError):
    """There is no space left for the ledger."""

    is_retryable = True


class LedgerBusy(LedgerError):
    """The ledger was locked by another process for longer than this one may wait."""

    is_retryable = True


class SchemaBehind(LedgerError):
    """The database is older than the code, and is not upgraded without being asked to."""


class SchemaAhead(LedgerError):
    """The database is newer than the code, which therefore only reads it."""


class UnknownSession(LedgerError):
    """A change belongs to a session that the ledger does not have (or not for this owner)."""


class BadValue(LedgerError):
    """A change or a question holds a value that no ledger takes."""


class EntryTooLarge(LedgerError):
    """One entry is larger than the whole ledger may be."""


class LedgerClosed(LedgerError):
    """The ledger was used after it had been closed."""
