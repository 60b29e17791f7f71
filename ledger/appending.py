"""Appending entries to a session with two statements: what nearly every write is.

Each line to the editor waits for it. Reading the session's row first, as other changes need it,
would be a third of what it costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, case, or_, update

from ledger.blobs import extract
from ledger.codec import clean, encode, size
from ledger.errors import EntryTooLarge
from ledger.model import LEASE_MS, Change, NewEntry
from ledger.retention import Limits
from ledger.statements import Statement
from ledger.tables import sessions
from ledger.upkeep import Row, cost, insert_entries


def _later(name: str) -> Any:
    column: Any = sessions.c[name]
    new: Any = bindparam(f"new_{name}")
    return case((column < new, new), else_=column)


_OWNER = bindparam("this_owner", type_=sessions.c.owner.type)
_ADVANCE = Statement(
    update(sessions)
    .where(
        sessions.c.session_id == bindparam("this_session_id"),
        ~sessions.c.archived,
        sessions.c.entries <= bindparam("most_before"),
        or_(
            sessions.c.shared,
            sessions.c.owner.is_(None),
            _OWNER.is_(None),
            sessions.c.owner == _OWNER,
        ),
    )
    .values(
        next_seq=sessions.c.next_seq + bindparam("more_entries"),
        entries=sessions.c.entries + bindparam("more_entries"),
        bytes=sessions.c.bytes + bindparam("more_bytes"),
        updated_at=_later("updated_at"),
        lease_until=_later("lease_until"),
    )
    .returning(sessions.c.next_seq)
)


def entry_row(new: NewEntry, limits: Limits) -> tuple[Row, dict[str, bytes]]:
    """The row of an entry, but for its number; and the blobs that were taken out of it.

    Raises ``EntryTooLarge``.
    """
    text = encode(new.payload)
    if size(text) > limits.max_bytes:
        raise EntryTooLarge(
            f"An entry of {size(text)} bytes is larger than the ledger may be.",
            hint="Raise --max-bytes.",
        )
    text, blobs = extract(text)
    row = {
        "session_id": clean(new.session_id),
        "at": new.at,
        "kind": clean(new.kind),
        "run_id": new.run_id and clean(new.run_id),
        "generation": new.generation,
        "entry_key": new.entry_key and clean(new.entry_key),
        "has_blobs": bool(blobs),
        "size": size(text),
        "payload": text,
    }
    return row, blobs


def append(
    connection: Connection, changes: Sequence[Change], *, owner: str | None, limits: Limits
) -> int | None:
    """Append entries to a session. Returns the bytes that were added, or None, with nothing
    done, if the changes are anything else, or more is to be done to the session than that.

    Raises ``EntryTooLarge``.
    """
    if not connection.dialect.update_returning or not _are_plain(changes):
        return None
    made = [entry_row(new, limits) for new in changes if isinstance(new, NewEntry)]
    if any(blobs for _, blobs in made):
        return None
    rows = [row for row, _ in made]
    added = sum(map(cost, rows))
    latest = max(row["at"] for row in rows)
    found = _ADVANCE.first(
        connection,
        {
            "this_session_id": rows[0]["session_id"],
            "this_owner": owner,
            "most_before": limits.max_events_per_session - len(rows),
            "more_entries": len(rows),
            "more_bytes": added,
            "new_updated_at": latest,
            "new_lease_until": latest + LEASE_MS,
        },
    )
    if found is None:
        return None
    for seq, row in enumerate(rows, found[0] - len(rows)):
        row["seq"] = seq
    insert_entries(connection, rows)
    return added


def _are_plain(changes: Sequence[Change]) -> bool:
    """Whether all are entries of one session that need not be looked for before."""
    return all(
        type(change) is NewEntry
        and change.entry_key is None
        and change.session_id == changes[0].session_id  # type: ignore[union-attr]  # one of them
        for change in changes
    )
