"""What was written into a ledger's file that is gone, to be written into the one in its place.

That may be a new one, or a copy of any age: what it has already must not come twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ledger import (
    Change,
    DeleteSession,
    Entry,
    Incomplete,
    NewEntry,
    NewSession,
    Replay,
    RunClosed,
    RunState,
)

_Identity = tuple[str, str | None, int | None, int]


def lacking(
    changes: Sequence[Change], there: Replay | None, opened: NewSession | None
) -> list[Change]:
    """What is to be written of ``changes``, which are the last ones of one session, all in order.

    ``there`` is what the file has of the session, and ``opened`` how the session was opened. A
    session of which something before the changes may be missing is marked as incomplete.
    """
    for number in range(len(changes) - 1, -1, -1):
        if isinstance(change := changes[number], DeleteSession):
            return [change, *lacking(changes[number + 1 :], None, opened)]
    is_whole = begins_whole(changes)
    if there is None:
        begins = [] if is_whole or opened is None else [opened._replace(complete=False)]
        return [*begins, *changes] if begins or is_whole else []
    left = _without(changes, there)
    is_whole = is_whole or len(left) < len(changes)  # what has one of them has all before it
    return left if is_whole else [Incomplete(there.session.session_id), *left]


def begins_whole(changes: Sequence[Change]) -> bool:
    """Whether changes of a session begin with its own beginning."""
    return bool(changes) and isinstance(changes[0], NewSession) and changes[0].complete


def has_taken(entries: Sequence[NewEntry], there: Replay | None) -> bool:
    """Whether the last entries that were written of a session, all at once or not at all, are in
    what the ledger has of it."""
    if there is None:
        return False
    closed = {run.run_id for run in there.runs if run.state is not RunState.OPEN}
    known = Counter((_identity(entry), entry.payload.get("offset")) for entry in there.entries)
    wanted = Counter(
        (_identity(entry), entry.payload.get("offset"))
        for entry in entries
        if entry.run_id not in closed
    )
    return wanted <= known


def _without(changes: Sequence[Change], there: Replay) -> list[Change]:
    """The changes without those that a copy of the file has taken. The entries of a run that is
    closed there may have become one, but they are all there."""
    closed = {run.run_id for run in there.runs if run.state is not RunState.OPEN}
    known = Counter(map(_identity, there.entries))
    left: list[Change] = []
    for change in changes:
        if isinstance(change, NewEntry | RunClosed) and change.run_id in closed:
            continue
        if isinstance(change, NewEntry) and known[_identity(change)] > 0:
            known[_identity(change)] -= 1
            continue
        left.append(change)
    return left


def _identity(entry: NewEntry | Entry) -> _Identity:
    """What tells entries apart, but for their payloads, of which a ledger may have less. Of those
    that are the same the first ones are there."""
    return entry.kind, entry.run_id, entry.generation, entry.at
