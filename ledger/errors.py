"""What can go wrong with a ledger.

LedgerError
├── SchemaBehind / SchemaAhead     the database and the code differ
├── LedgerBusy                     retryable
├── LedgerCorrupt
└── EntryTooLarge
"""


class LedgerError(Exception):
    """The ledger failed."""


class SchemaBehind(LedgerError):
    """The database is older than the code."""


class SchemaAhead(LedgerError):
    """The database is newer than the code."""


class LedgerBusy(LedgerError):
    """The ledger is locked; trying again may help."""


class LedgerCorrupt(LedgerError):
    """The ledger's file is damaged."""


class EntryTooLarge(LedgerError):
    """One entry is larger than the ledger takes."""
