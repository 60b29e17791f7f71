"""What is to go when a ledger has grown beyond its limits. Pure: from counts to names.

Nothing is lost at first: a session beyond the limits is *archived*, that is compressed. Only when
the archives alone are more than a ledger may hold does the oldest of them go. A live session
stays as it is, whatever the limits say; only its head may go if it is too long, and never while a
run of it is open.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

ENTRY_OVERHEAD = 64
RUN_OVERHEAD = 128
SESSION_OVERHEAD = 512
"""Bytes that a row costs beside its text, approximately."""

_BLOCKS = 16


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a ledger holds: for each owner, where there are several.

    ``max_bytes`` is what the sessions that are not archived may have together, and again what the
    archives may have; it counts contents, not the size of a file.
    """

    max_sessions: int = 200
    max_events_per_session: int = 5000
    max_bytes: int = 16 * 1024 * 1024

    def __post_init__(self) -> None:
        if min(self.max_sessions, self.max_events_per_session) < 1 or self.max_bytes < 1024:
            raise ValueError("a ledger holds at least 1 session, 1 event and 1024 bytes")


@dataclass(frozen=True, slots=True)
class Usage:
    """What a session costs."""

    session_id: str
    updated_at: int
    bytes: int
    is_live: bool


def sessions_to_archive(active: Iterable[Usage], limits: Limits) -> list[str]:
    """Of the sessions that are not archived those that must be, in the order in which it is to be
    done: not live, least recently updated first, and no more than the limits demand."""
    oldest_first = sorted(active, key=lambda usage: (usage.updated_at, usage.session_id))
    too_many = len(oldest_first) - limits.max_sessions
    too_much = sum(usage.bytes for usage in oldest_first) - limits.max_bytes
    chosen: list[str] = []
    for usage in oldest_first:
        if too_many <= 0 and too_much <= 0:
            break
        if not usage.is_live:
            chosen.append(usage.session_id)
            too_many -= 1
            too_much -= usage.bytes
    return chosen


def archives_to_delete(archived: Iterable[Usage], limits: Limits) -> list[str]:
    """Of the archived sessions those that must go altogether, oldest first."""
    oldest_first = sorted(archived, key=lambda usage: (usage.updated_at, usage.session_id))
    too_much = sum(usage.bytes for usage in oldest_first) - limits.max_bytes
    chosen: list[str] = []
    for usage in oldest_first:
        if too_much <= 0:
            break
        if not usage.is_live:
            chosen.append(usage.session_id)
            too_much -= usage.bytes
    return chosen


def entries_to_trim(entries: int, limits: Limits) -> int:
    """How many entries to drop at the head of a session that has ``entries`` of them.

    Some more than must go, so that it is not to be done again for the next entry.
    """
    too_many = entries - limits.max_events_per_session
    return too_many + limits.max_events_per_session // _BLOCKS if too_many > 0 else 0


def headroom(active: Sequence[Usage], limits: Limits) -> int:
    """Bytes that may be written before the limits have to be looked at again.

    Not all that are left: other processes may write to the same ledger.
    """
    left = limits.max_bytes - sum(usage.bytes for usage in active)
    step = limits.max_bytes // _BLOCKS // 4
    # Not zero either when live sessions alone are over the limit and nothing can be done.
    return min(max(left, step // 4), step)
