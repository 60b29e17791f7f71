"""The values that go into and come out of a ledger.

Times are whole milliseconds, UTC, and always the caller's: a ledger has no clock. Payloads are
JSON objects that the ledger does not interpret, but for two things: large base64 data is stored
once, and adjacent text chunks of a finished run become one. A ledger keeps what a payload is when
it is written: neither what the caller does to it later nor what a reader does to theirs counts.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

LEASE_MS = 10 * 60 * 1000
"""How long a session counts as live after the last change of it."""

# --- what is written -------------------------------------------------------------------------


class NewSession(NamedTuple):
    """Open a session. One that is known keeps its history, its completeness and its owner; its
    key and working directory are replaced by the new ones unless those are empty."""

    session_id: str
    session_key: str
    cwd: str
    at: int
    owner: str | None = None
    """Who may see it; by default the owner that the ledger was opened for."""
    host: str | None = None
    gateway: str | None = None
    complete: bool = True
    """False if a part of the session's history is known to be missing from the start."""


class NewEntry(NamedTuple):
    """Append an entry to its session.

    ``entry_key`` is a stable identity within the session: a second entry with the same one is
    ignored, so that what two sources know is recorded once.
    """

    session_id: str
    kind: str
    payload: dict[str, Any]
    at: int
    run_id: str | None = None
    generation: int | None = None
    entry_key: str | None = None


class RunState(StrEnum):
    """What became of a run."""

    OPEN = "open"
    FINISHED = "finished"
    CANCELLED = "cancelled"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """It was interrupted, and nobody can tell how it ended."""


class RunOpened(NamedTuple):
    """A run begins with the next entry of its session. A run that is known is left as it is."""

    run_id: str
    session_id: str
    at: int


class RunClosed(NamedTuple):
    """A run has ended; the last word counts. Adjacent text chunks of it become one entry each,
    and the entries after them move up. Unknown runs are ignored."""

    run_id: str
    at: int
    state: RunState
    stop_reason: str | None = None
    error_code: str | None = None


class SessionTitle(NamedTuple):
    """Name a session."""

    session_id: str
    title: str
    at: int


class SessionShared(NamedTuple):
    """Let every user of the database see a session, or only its owner again."""

    session_id: str
    shared: bool = True


class Incomplete(NamedTuple):
    """Note that the ledger misses a part of the session. Unknown ids are ignored."""

    session_id: str


class SessionClosed(NamedTuple):
    """Nobody has the session open any more: it may be archived. Unknown ids are ignored."""

    session_id: str


class DeleteSession(NamedTuple):
    """Forget a session with all that belongs to it. Unknown ids are ignored."""

    session_id: str


Change = (
    NewSession
    | NewEntry
    | RunOpened
    | RunClosed
    | SessionTitle
    | SessionShared
    | Incomplete
    | SessionClosed
    | DeleteSession
)

# --- what is read ----------------------------------------------------------------------------


class SessionRecord(NamedTuple):
    """A session as stored."""

    session_id: str
    session_key: str
    cwd: str
    title: str | None
    complete: bool
    """Whether the ledger holds the whole session."""
    created_at: int
    updated_at: int
    entries: int = 0
    """How many entries it has."""
    trimmed: int = 0
    """How many entries were dropped at its beginning."""
    archived: bool = False
    """Whether its entries are kept compressed; they can be read all the same."""
    lease_until: int = 0
    owner: str | None = None
    host: str | None = None
    gateway: str | None = None
    shared: bool = False

    def is_live(self, now: int) -> bool:
        """Whether somebody has the session open, as far as a ledger can tell."""
        return now < self.lease_until


class Entry(NamedTuple):
    """An entry as stored. ``seq`` counts up within the session without gaps, from 1 or from
    behind what was trimmed; it may change until the entry's run has ended."""

    session_id: str
    seq: int
    kind: str
    payload: dict[str, Any]
    at: int
    run_id: str | None = None
    generation: int | None = None
    entry_key: str | None = None


class Run(NamedTuple):
    """A run as stored."""

    run_id: str
    session_id: str
    state: RunState
    opened_at: int
    closed_at: int | None = None
    stop_reason: str | None = None
    error_code: str | None = None


class Replay(NamedTuple):
    """A session with all its entries, oldest first, and its runs in the order they began."""

    session: SessionRecord
    entries: tuple[Entry, ...]
    runs: tuple[Run, ...] = ()


class Page(NamedTuple):
    """Which sessions to list. ``after`` is the ``updated_at`` and ``session_id`` of the last
    session of the page before; ``cwd`` selects the sessions of one directory, however written. A
    page of a ``limit`` of 0 or less is empty."""

    limit: int = 50
    after: tuple[int, str] | None = None
    cwd: str | None = None


class Stats(NamedTuple):
    """How much a ledger holds of what its owner may see."""

    sessions: int
    """Those that are not archived."""
    archived: int
    entries: int
    """Of both."""
    bytes: int
    """Of the sessions that are not archived, as the limits count them."""
    archived_bytes: int
