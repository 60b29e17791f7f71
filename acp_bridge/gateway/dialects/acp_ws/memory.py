"""What is known of the gateway's sessions beyond one connection.

ZeroClaw goes on with a run whose connection ends, unseen, and stores it only if it ends well; it
cannot be asked. So the memory holds the runs that may still be at work there (*orphans*), and how
many turns of a session were stored before, so that an orphan's turn can be told from an earlier one
with the same prompt.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from acp_bridge.core.events import RunReported
from acp_bridge.core.parts import without_time
from acp_bridge.core.recent import Recent
from acp_bridge.core.transcript import PastTurn, Transcript
from acp_bridge.ids import Json, RunId, SessionKey

PATIENCE: Final = 1_800.0
"""Seconds after which an orphan that was never seen to end is given up: the gateway has stored
nothing of it by then, and may never do so."""


class Flight(NamedTuple):
    """A run that was sent over some connection."""

    run_id: RunId
    stored_as: re.Pattern[str]
    """Matches its prompt in the gateway's store."""
    stored_before: int | None
    """How many turns of the session were stored before it; None if nobody has looked."""
    lost_at: float | None = None
    """When its connection was found to be gone, in monotonic seconds."""


class Memory:
    """Sessions and runs over all connections to one gateway."""

    def __init__(self) -> None:
        self.capabilities: Json = {}
        """What the editor can do, in ACP's own shape."""
        self.stored: Recent[SessionKey, int] = Recent()
        """How many turns the gateway has stored, of sessions where that is known."""
        self.flying: dict[SessionKey, Flight] = {}
        """The runs of the present connection."""
        self.orphans: dict[SessionKey, Flight] = {}
        """Runs that may go on unseen; at most one a session."""
        self.directories: Recent[SessionKey, str] = Recent()
        """The working directory of sessions that were made here."""
        self.reports: dict[RunId, RunReported] = {}
        """What became of orphans that nobody has asked for yet."""
        self.unsent: set[RunId] = set()
        """Runs that waited for their session when the connection ended."""
        self.waiting: set[RunId] = set()
        """Runs that wait for their session over the present connection."""

    def begin(self, now: float) -> None:
        """A new connection: what flew over the last one is an orphan now."""
        for key, flight in self.flying.items():
            self.orphans[key] = flight._replace(lost_at=now)
        self.flying.clear()
        self.unsent, self.waiting = self.unsent | self.waiting, set()

    def ended(self, key: SessionKey, *, is_stored: bool) -> None:
        """A run's end was seen."""
        self.flying.pop(key, None)
        if is_stored and key in self.stored:
            self.stored[key] += 1

    def expire(self, now: float) -> list[tuple[SessionKey, Flight]]:
        """Give up the orphans that nobody will hear of any more."""
        late = [
            (key, orphan)
            for key, orphan in self.orphans.items()
            if orphan.lost_at is not None and now - orphan.lost_at >= PATIENCE
        ]
        for key, _ in late:
            del self.orphans[key]
        return late


def can_be_found(orphan: Flight, transcript: Transcript) -> bool:
    """Whether the orphan's turn can be told from earlier ones; not where nobody has counted those,
    or where the gateway has dropped some of them."""
    before = orphan.stored_before
    return before is not None and before <= len(transcript.turns)


def find_turn(orphan: Flight, transcript: Transcript) -> PastTurn | None:
    """The orphan's turn in what the gateway has stored; None if it is not there (yet)."""
    if not can_be_found(orphan, transcript):
        return None
    turns = transcript.turns
    fresh = turns[orphan.stored_before or 0 :]
    found = [t for t in fresh if orphan.stored_as.fullmatch(without_time(t.prompt))]
    return found[-1] if found else None
