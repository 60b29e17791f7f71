"""What happens to the rows of one session beside appending: merging, trimming, archiving.

Every function works in the caller's transaction, on a session whose row is locked, and keeps the
counters in its :class:`SessionState`, which the caller writes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, Insert, Table, bindparam, delete, func, insert, select, update

from ledger.archive import pack, unpack
from ledger.blobs import references
from ledger.codec import clean, decode, encode, size
from ledger.errors import LedgerCorrupt
from ledger.merging import plan_merges
from ledger.redaction import Redact
from ledger.retention import ENTRY_OVERHEAD, RUN_OVERHEAD
from ledger.statements import Statement
from ledger.tables import archives, blob_uses, blobs, entries, runs, sessions

Row = dict[str, Any]


@dataclass(slots=True)
class SessionState:
    """What may change in a session's row with every write, while a transaction lasts."""

    session_id: str
    owner: str | None
    shared: bool
    complete: bool
    archived: bool
    trimmed: int
    next_seq: int
    entries: int
    bytes: int
    lease_until: int
    updated_at: int


_ENTRY_COLUMNS = [column for column in entries.c if column.name != "session_id"]
_SAVED = [name for name in SessionState.__slots__ if name not in ("session_id", "owner")]
_NEW = "new_"
"""Before the names of values in an update: those of the columns alone are SQLAlchemy's."""
_this = sessions.c.session_id == bindparam("id")
_select = select(*(sessions.c[name] for name in SessionState.__slots__)).where(_this)
_STATE = Statement(_select.with_for_update())
_STATE_IF_FREE = Statement(_select.with_for_update(skip_locked=True))
_SAVE = Statement(
    update(sessions)
    .where(sessions.c.session_id == bindparam(f"{_NEW}session_id"))
    .values({name: bindparam(f"{_NEW}{name}") for name in _SAVED}),
    lambda *names: attrgetter(*(name.removeprefix(_NEW) for name in names)),
)
_INSERT_ENTRY = Statement(insert(entries).inline())


def locked_state(
    connection: Connection, session_id: str, *, skip_locked: bool = False
) -> SessionState | None:
    """Read a session's row and lock it; None if it is not there (or another process works on it,
    with ``skip_locked``)."""
    statement = _STATE_IF_FREE if skip_locked else _STATE
    row = statement.first(connection, {"id": clean(session_id)})
    return None if row is None else SessionState(*row)


def save(connection: Connection, states: Sequence[SessionState]) -> None:
    """Write back what has changed."""
    for state in states:
        _SAVE.run(connection, state)


def insert_entries(connection: Connection, rows: list[Row]) -> None:
    """Insert rows of ``entries`` with clean texts; the counters are the caller's."""
    if rows:
        _INSERT_ENTRY.run_many(connection, rows)


def insert_new(connection: Connection, table: Table, row: Row) -> bool:
    """Insert a row unless one with its key is there; whether it was new."""
    done = connection.execute(
        _insert_or_ignore(connection, table), row, execution_options={"preserve_rowcount": True}
    )
    return done.rowcount == 1


def _insert_or_ignore(connection: Connection, table: Table) -> Insert:
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table).on_conflict_do_nothing()
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table).on_conflict_do_nothing()


def add_blobs(connection: Connection, state: SessionState, found: Mapping[str, bytes]) -> None:
    """Store blobs that entries of the session refer to; each counts once for the session."""
    for name, data in sorted(found.items()):  # in one order: two writers must not wait crosswise
        insert_new(connection, blobs, {"hash": name, "data": data})
        if insert_new(connection, blob_uses, {"session_id": state.session_id, "hash": name}):
            state.bytes += len(data)


def merge_run(
    connection: Connection, state: SessionState, run_id: str, first_seq: int, redact: Redact
) -> None:
    """Make one entry of adjacent text chunks of the run; the entries behind them move up."""
    rows = _entry_rows(connection, state, entries.c.seq >= first_seq)
    merges = plan_merges([_chunk_payload(row, run_id) for row in rows], redact)
    if not merges:
        return
    start = merges[0].start
    first = rows[start]["seq"]
    for merge in reversed(merges):
        gone = rows[merge.start : merge.stop]
        text = encode(merge.payload)
        merged = {**gone[0], "payload": text, "size": size(text)}
        rows[merge.start : merge.stop] = [merged]
        state.entries -= len(gone) - 1
        state.bytes -= sum(map(cost, gone)) - cost(merged)
    connection.execute(
        delete(entries).where(entries.c.session_id == state.session_id, entries.c.seq >= first)
    )
    moved = [
        {**row, "session_id": state.session_id, "seq": seq}
        for seq, row in enumerate(rows[start:], first)
    ]
    insert_entries(connection, moved)
    state.next_seq = first + len(moved)
    # Other runs may have begun behind what has moved; a lower bound is all that is needed.
    connection.execute(
        update(runs)
        .where(runs.c.session_id == state.session_id, runs.c.first_seq > first)
        .values(first_seq=first)
    )


def _chunk_payload(row: Row, run_id: str) -> dict[str, Any] | None:
    if (row["kind"], row["run_id"], row["entry_key"]) != ("update", run_id, None):
        return None
    return None if row["has_blobs"] else decode(row["payload"])


def has_open_run(connection: Connection, state: SessionState) -> bool:
    """Whether a run of the session has not ended."""
    found = select(runs.c.run_id).where(
        runs.c.session_id == state.session_id, runs.c.closed_at.is_(None)
    )
    return connection.scalar(found.limit(1)) is not None


def trim(connection: Connection, state: SessionState, count: int) -> None:
    """Drop the first ``count`` entries, and the runs that ended before the first one left."""
    below = entries.c.seq <= state.trimmed + count
    rows = _entry_rows(connection, state, below)
    own = entries.c.session_id == state.session_id
    connection.execute(delete(entries).where(own, below))
    state.trimmed += len(rows)
    state.entries -= len(rows)
    state.bytes -= sum(map(cost, rows))
    state.complete = False
    oldest = connection.scalar(select(func.min(entries.c.at)).where(own))
    if oldest is not None:
        ended = runs.c.session_id == state.session_id, runs.c.closed_at < oldest
        state.bytes -= connection.execute(delete(runs).where(*ended)).rowcount * RUN_OVERHEAD
    dropped = set().union(*(references(decode(r["payload"])) for r in rows if r["has_blobs"]))
    if dropped:
        left = _entry_rows(connection, state, entries.c.has_blobs)
        used = set().union(*(references(decode(row["payload"])) for row in left))
        _stop_using(connection, state, dropped - used)


def archive(connection: Connection, state: SessionState) -> None:
    """Compress the session's entries."""
    rows = _entry_rows(connection, state)
    data = pack({**row, "payload": decode(row["payload"])} for row in rows)
    connection.execute(delete(entries).where(entries.c.session_id == state.session_id))
    connection.execute(insert(archives), {"session_id": state.session_id, "data": data})
    state.bytes += len(data) - sum(map(cost, rows))
    state.archived = True


def unarchive(connection: Connection, state: SessionState) -> None:
    """Undo :func:`archive`, for a session that goes on."""
    own = archives.c.session_id == state.session_id
    data = connection.scalar(select(archives.c.data).where(own)) or b""
    try:
        unpacked = unpack(data)
    except ValueError as error:
        raise LedgerCorrupt(f"The archive of session {state.session_id} is damaged.") from error
    known = [column.name for column in _ENTRY_COLUMNS]  # a newer version may have packed more
    rows = [
        {name: item.get(name) for name in known}
        | {"session_id": state.session_id, "payload": encode(item["payload"])}
        for item in unpacked
    ]
    insert_entries(connection, rows)
    connection.execute(delete(archives).where(own))
    state.bytes += sum(map(cost, rows)) - len(data)
    state.archived = False


def delete_session(connection: Connection, session_id: str) -> None:
    """Delete a session with all that belongs to it, and blobs that nobody else uses."""
    own = blob_uses.c.session_id == session_id
    used = set(connection.scalars(select(blob_uses.c.hash).where(own)))
    connection.execute(delete(sessions).where(sessions.c.session_id == session_id))
    _drop_unused(connection, used)


def _stop_using(connection: Connection, state: SessionState, names: set[str]) -> None:
    own = blob_uses.c.session_id == state.session_id, blob_uses.c.hash.in_(names)
    length = select(func.sum(func.length(blobs.c.data))).where(blobs.c.hash.in_(names))
    state.bytes -= connection.scalar(length) or 0
    connection.execute(delete(blob_uses).where(*own))
    _drop_unused(connection, names)


def _drop_unused(connection: Connection, names: Iterable[str]) -> None:
    is_used = select(blob_uses.c.hash).where(blob_uses.c.hash == blobs.c.hash).exists()
    for name in sorted(names):
        connection.execute(delete(blobs).where(blobs.c.hash == name, ~is_used))


def _entry_rows(connection: Connection, state: SessionState, *where: Any) -> list[Row]:
    own = select(*_ENTRY_COLUMNS).where(entries.c.session_id == state.session_id, *where)
    return [dict(row) for row in connection.execute(own.order_by(entries.c.seq)).mappings()]


def cost(row: Row) -> int:
    """Bytes that an entry counts for."""
    return int(row["size"]) + ENTRY_OVERHEAD
