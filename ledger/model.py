"""The values that go into and come out of a ledger. Times are whole milliseconds, UTC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session to be opened."""

    session_id: str
    session_key: str
    cwd: str
    at: int


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session as stored."""

    session_id: str
    session_key: str
    cwd: str
    title: str | None
    complete: bool
    """Whether the ledger holds the whole session."""
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry to be appended."""

    session_id: str
    kind: str
    payload: dict[str, Any]
    at: int
    run_id: str | None = None
    generation: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry as stored; ``seq`` starts at 1 in each session and has no gaps."""

    session_id: str
    seq: int
    kind: str
    payload: dict[str, Any]
    at: int
    run_id: str | None
    generation: int | None


@dataclass(frozen=True, slots=True)
class Replay:
    """All entries of a session, oldest first."""

    session: SessionRecord
    entries: tuple[Entry, ...]
