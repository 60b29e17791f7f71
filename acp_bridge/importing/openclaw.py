"""Brings sessions of OpenClaw's into the ledger, one transaction a session.

It can be repeated: what is there already stays, and only what came later is added.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from acp_bridge.importing.openclaw_entries import (
    event_changes,
    imported_up_to,
    is_state,
    session_changes,
)
from acp_bridge.importing.openclaw_files import OldSession, Skipped
from ledger import BadValue, EntryTooLarge, EventLedger, LedgerRefused, NewEntry

STATE: Final = "titles, usage, commands and modes, which are asked for afresh"
OWN: Final = "events of sessions that this bridge has recorded itself"


@dataclass(slots=True)
class Report:
    """What an import did, or would do."""

    sessions: int = 0
    """Those that were read; a session of two files counts once."""
    incomplete: int = 0
    new: int = 0
    continued: int = 0
    """Those that an earlier import had, and that have grown since."""
    unchanged: int = 0
    events: int = 0
    entries: int = 0
    """Those that were written."""
    skipped: Skipped = field(default_factory=Skipped)


def import_sessions(
    sessions: Iterable[OldSession], ledger: EventLedger, report: Report, *, now: int, dry_run: bool
) -> None:
    """Write the sessions and count. ``now`` is the time, in UTC milliseconds.

    Raises ``LedgerError`` if the ledger cannot be used; what was written by then stays, and the
    import can be repeated.
    """
    seen: set[str] = set()
    for session in sessions:
        if session.session_id in seen:
            continue  # the older file's copy of it
        seen.add(session.session_id)
        report.sessions += 1
        report.incomplete += not session.complete
        report.events += len(session.events)
        report.skipped[STATE] += sum(map(is_state, session.events))
        _import(session, ledger, report, now, dry_run=dry_run)


def _import(
    session: OldSession, ledger: EventLedger, report: Report, now: int, *, dry_run: bool
) -> None:
    known = ledger.read(session.session_id)
    last = imported_up_to(known.entries) if known is not None else None
    if known is not None and known.entries and last is None:
        report.skipped[OWN] += sum(not is_state(event) for event in session.events)
        return
    changes = (
        session_changes(session, now)
        if known is None
        else event_changes(session, -1 if last is None else last, now)
    )
    if not changes:
        report.unchanged += 1
        return
    if not dry_run:
        try:
            ledger.write(changes)
        except (BadValue, EntryTooLarge, LedgerRefused) as error:
            reason = f"events of the session {session.session_id}: {error.message}"
            report.skipped[reason] += len(session.events)
            return
    if known is None:
        report.new += 1
    else:
        report.continued += 1
    report.entries += sum(isinstance(change, NewEntry) for change in changes)
