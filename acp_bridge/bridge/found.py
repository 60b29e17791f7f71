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
    is_whole: bool = True
    """Whether nothing was lost on the way to the ledger."""

    @property
    def is_complete(self) -> bool:
        """Whether the ledger has all of it."""
        return self.is_whole and (self.replay is None or self.replay.session.complete)

    @property
    def trimmed(self) -> int:
        """How many entries its limits have dropped at the head."""
        return self.replay.session.trimmed if self.replay is not None else 0
