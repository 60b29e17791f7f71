"""The port to a ledger.

Synchronous on purpose: one writer thread owns all writes (the outbox of the bridge), commits what
has gathered in one transaction and only then shows it. Each method is one transaction. Methods may
be called from any thread, but appends of one session come from one thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ledger.model import Entry, NewEntry, NewSession, Replay, SessionRecord


class EventLedger(Protocol):
    """Append-only history of sessions. Every method may raise ``LedgerError``."""

    def open_session(self, session: NewSession) -> SessionRecord:
        """Create the session, or return the stored one of that id unchanged."""

    def append(self, entries: Sequence[NewEntry]) -> Sequence[Entry]:
        """Append all entries or none, in order. An unknown session raises ``LedgerError``."""

    def mark_incomplete(self, session_id: str) -> None:
        """Note that the ledger misses a part of the session. Unknown ids are ignored."""

    def read(self, session_id: str) -> Replay | None:
        """The session with all its entries, or None."""

    def delete_session(self, session_id: str) -> None:
        """Forget a session; unknown ids are ignored."""

    def close(self) -> None:
        """Release what is held; further calls raise ``LedgerError``."""
