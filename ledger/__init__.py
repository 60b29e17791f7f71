"""An append-only event ledger for conversations, usable alone.

Importing this package costs nothing: model, port and errors only.
"""

from ledger.errors import (
    EntryTooLarge,
    LedgerBusy,
    LedgerCorrupt,
    LedgerError,
    SchemaAhead,
    SchemaBehind,
)
from ledger.model import Entry, NewEntry, NewSession, Replay, SessionRecord
from ledger.port import EventLedger

__all__ = [
    "Entry",
    "EntryTooLarge",
    "EventLedger",
    "LedgerBusy",
    "LedgerCorrupt",
    "LedgerError",
    "NewEntry",
    "NewSession",
    "Replay",
    "SchemaAhead",
    "SchemaBehind",
    "SessionRecord",
]
