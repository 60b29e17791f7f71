"""The port to a ledger.

Synchronous on purpose: one writer thread owns all writes (the outbox of the bridge), commits what
has gathered in one transaction and only then shows it. Each method is one transaction, and may be
called from any thread; changes of one session come from one thread at a time.

All writing is one method that takes changes as values: what belongs together is committed
together, in the order in which it happened, and a ledger that fails has done nothing at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ledger.model import Change, Page, Replay, SessionRecord, Stats


class EventLedger(Protocol):
    """Append-only history of sessions. Every method may raise ``LedgerError``.

    Reads show what the ledger's owner may see: sessions of their own, sessions of nobody, and
    those that are shared.
    """

    def write(self, changes: Sequence[Change]) -> None:
        """Make all changes or none, in order.

        Raises ``UnknownSession`` if one belongs to a session that is not there (those that say
        otherwise excepted), ``EntryTooLarge``, and whatever the database does to it.
        """

    def read(self, session_id: str) -> Replay | None:
        """The session with all its entries and runs, archived or not; None if there is none."""

    def find(self, session_id: str, session_key: str) -> SessionRecord | None:
        """The session that has both this id and this key."""

    def find_by_key(self, session_key: str) -> SessionRecord | None:
        """The session to show for a key: a complete one rather than another, then the one that
        was updated last."""

    def list_sessions(self, page: Page) -> list[SessionRecord]:
        """Sessions, archived ones too, updated last first; equal times are ordered by id."""

    def confirm(self) -> None:
        """Look whether all that was written is where it will be sought. Raises ``LedgerGone`` if
        the ledger's file is not in its place any more. Costs next to nothing."""

    def stats(self) -> Stats:
        """How much there is."""

    def close(self) -> None:
        """Release what is held; further calls raise ``LedgerClosed``. Closing again is allowed."""
