"""What is known of the gateway's sessions beyond one connection.

ZeroClaw goes on with a run whose connection ends, unseen, and stores it only if it ends well; it
cannot be asked, but a process that is gone takes its runs with it. So the memory holds the runs
that may still be at work there (*orphans*), with the process that took each, and how many turns of
a session were stored before, so that an orphan's turn can be told from an earlier one with the
same prompt.
"""

from __future__ import annotations

from typing import NamedTuple

from acp_bridge.core.events import RunReported
from acp_bridge.core.parts import StoredPrompt, without_time
from acp_bridge.core.recent import Recent
from acp_bridge.core.transcript import UNSEEN_FOR, PastTurn, Transcript
from acp_bridge.ids import Json, RunId, SessionKey


class Process(NamedTuple):
    """One process of the gateway."""

    pid: int
    uptime: int
    """Seconds, when it was asked."""

    def is_after(self, earlier: Process) -> bool:
        """Whether this is another one than the one that was asked earlier: in a container each has
        the same number, but begins anew to count."""
        return self.pid != earlier.pid or self.uptime < earlier.uptime


class Flight(NamedTuple):
    """A run that was sent over some connection."""

    run_id: RunId
    stored_as: StoredPrompt
    """Its prompt in the gateway's store."""
    stored_before: int | None
    """How many turns of the session were stored before it; None if nobody has looked."""
    lost_at: float | None = None
    """When its connection was found to be gone, in monotonic seconds."""
    process: Process | None = None
    """The process that has taken it, where the gateway has told."""


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
        self.openings: Recent[SessionKey, Json] = Recent()
        """What the editor said of a session when it opened it, as the parameters with which it is
        restored; they may hold secrets."""
        self.reports: dict[RunId, RunReported] = {}
        """What became of orphans that nobody has asked for yet."""
        self.unsent: set[RunId] = set()
        """Runs that waited for their session when the connection ended."""
        self.waiting: set[RunId] = set()
        """Runs that wait for their session over the present connection."""
        self.connection = 0
        """Counts the connections."""
        self._process: Process | None = None
        """The one behind the present connection, where it has told."""

    def begin(self, now: float) -> None:
        """A new connection: what flew over the last one is an orphan now."""
        for key, flight in self.flying.items():
            self.orphans[key] = flight._replace(lost_at=now, process=self._process)
        self.flying.clear()
        self.connection += 1
        self._process = None
        self.unsent, self.waiting = self.unsent | self.waiting, set()

    def learned(self, process: Process, connection: int) -> None:
        """Which process is behind a connection."""
        if connection == self.connection:
            self._process = process

    def is_gone(self, orphan: Flight) -> bool:
        """Whether the process that had the orphan is known to be no more."""
        before, present = orphan.process, self._process
        return before is not None and present is not None and present.is_after(before)

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
            if orphan.lost_at is not None and now - orphan.lost_at >= UNSEEN_FOR
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
    found = [t for t in fresh if orphan.stored_as.matches(without_time(t.prompt))]
    return found[-1] if found else None
