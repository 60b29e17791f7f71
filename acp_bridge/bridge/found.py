"""What the ledger has of a session that is to be opened."""

from __future__ import annotations

from typing import NamedTuple

from acp_bridge.core.replay import Recorded
from ledger import LedgerError, Replay


class Found(NamedTuple):
    """What the ledger has of a session."""

    replay: Replay | None
    entries: list[Recorded]
    failure: LedgerError | None = None
    """Why the ledger could not be read."""

    @property
    def is_complete(self) -> bool:
        """Whether the ledger has all of it."""
        return self.replay is None or self.replay.session.complete

    @property
    def trimmed(self) -> int:
        """How many entries its limits have dropped at the head."""
        return self.replay.session.trimmed if self.replay is not None else 0
