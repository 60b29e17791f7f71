"""Reading: rows to values."""

from __future__ import annotations

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    func,
    or_,
    select,
    true,
)

from ledger.archive import unpack
from ledger.blobs import restore
from ledger.codec import decode
from ledger.errors import LedgerCorrupt
from ledger.model import Entry, Page, Replay, Run, RunState, SessionRecord, Stats
from ledger.paths import normal_path
from ledger.tables import archives, blob_uses, blobs, entries, runs, sessions

_RECORD = [sessions.c[name] for name in SessionRecord._fields]
_RUN = [runs.c[name] for name in Run._fields]


def visible(owner: str | None) -> ColumnElement[bool]:
    """Which sessions an owner may see: their own, nobody's, and shared ones."""
    if owner is None:
        return true()
    mine = sessions.c.owner == owner
    return or_(mine, sessions.c.owner.is_(None), sessions.c.shared)


def replay(connection: Connection, session_id: str, owner: str | None) -> Replay | None:
    """The session with all that belongs to it."""
    this = sessions.c.session_id == session_id
    row = connection.execute(select(*_RECORD).where(this, visible(owner))).first()
    if row is None:
        return None
    record = SessionRecord(**row._mapping)
    try:
        stored = (_archived if record.archived else _entries)(connection, record)
    except (ValueError, KeyError) as error:
        raise LedgerCorrupt(
            f"The entries of session {record.session_id} are damaged.",
            hint="Its history may still be on the gateway.",
        ) from error
    return Replay(record, stored, _runs(connection, record))


def record_by_id_and_key(
    connection: Connection, session_id: str, session_key: str, owner: str | None
) -> SessionRecord | None:
    """The session that has both."""
    both = sessions.c.session_id == session_id, sessions.c.session_key == session_key
    row = connection.execute(select(*_RECORD).where(*both, visible(owner))).first()
    return None if row is None else SessionRecord(**row._mapping)


def record_by_key(
    connection: Connection, session_key: str, owner: str | None
) -> SessionRecord | None:
    """The best session of a key."""
    row = connection.execute(
        select(*_RECORD)
        .where(sessions.c.session_key == session_key, visible(owner))
        .order_by(sessions.c.complete.desc(), sessions.c.updated_at.desc(), sessions.c.session_id)
        .limit(1)
    ).first()
    return None if row is None else SessionRecord(**row._mapping)


def records(connection: Connection, page: Page, owner: str | None) -> list[SessionRecord]:
    """One page of the list."""
    wanted = [visible(owner)]
    if page.cwd is not None:
        wanted.append(sessions.c.folder == normal_path(page.cwd))
    if page.after is not None:
        at, session_id = page.after
        tie = and_(sessions.c.updated_at == at, sessions.c.session_id > session_id)
        wanted.append(or_(sessions.c.updated_at < at, tie))
    rows = connection.execute(
        select(*_RECORD)
        .where(*wanted)
        .order_by(sessions.c.updated_at.desc(), sessions.c.session_id)
        .limit(page.limit)
    )
    return [SessionRecord(**row._mapping) for row in rows]


def stats(connection: Connection, owner: str | None) -> Stats:
    """How much there is."""
    rows = connection.execute(
        select(
            sessions.c.archived,
            func.count(),
            func.sum(sessions.c.entries),
            func.sum(sessions.c.bytes),
        )
        .where(visible(owner))
        .group_by(sessions.c.archived)
    )
    of = {archived: (count, int(many), int(size)) for archived, count, many, size in rows}
    count, many, size = of.get(False, (0, 0, 0))
    archived_count, archived_many, archived_size = of.get(True, (0, 0, 0))
    return Stats(count, archived_count, many + archived_many, size, archived_size)


def _entries(connection: Connection, record: SessionRecord) -> tuple[Entry, ...]:
    session_id = record.session_id
    of = entries.c
    rows = connection.execute(
        select(
            *(of.seq, of.kind, of.payload, of.at),
            *(of.run_id, of.generation, of.entry_key, of.has_blobs),
        )
        .where(entries.c.session_id == session_id)
        .order_by(entries.c.seq)
    ).all()
    found = _blobs(connection, session_id) if any(row.has_blobs for row in rows) else {}
    result = []
    for row in rows:
        # By position: by name it takes longer than all the rest.
        seq, kind, text, *rest, has_blobs = tuple(row)
        payload = decode(text)
        if has_blobs:
            restore(payload, found)
        result.append(Entry(session_id, seq, kind, payload, *rest))
    return tuple(result)


def _archived(connection: Connection, record: SessionRecord) -> tuple[Entry, ...]:
    own = archives.c.session_id == record.session_id
    items = unpack(connection.scalar(select(archives.c.data).where(own)) or b"")
    found = _blobs(connection, record.session_id)
    result = []
    for item in items:
        if item["has_blobs"]:
            restore(item["payload"], found)
        members = {name: item[name] for name in Entry._fields[1:]}
        result.append(Entry(session_id=record.session_id, **members))
    return tuple(result)


def _runs(connection: Connection, record: SessionRecord) -> tuple[Run, ...]:
    rows = connection.execute(
        select(*_RUN)
        .where(runs.c.session_id == record.session_id)
        .order_by(runs.c.opened_at, runs.c.run_id)
    )
    return tuple(Run(**{**row, "state": RunState(row["state"])}) for row in rows.mappings())


def _blobs(connection: Connection, session_id: str) -> dict[str, bytes]:
    rows = connection.execute(
        select(blobs.c.hash, blobs.c.data)
        .join(blob_uses, blob_uses.c.hash == blobs.c.hash)
        .where(blob_uses.c.session_id == session_id)
    )
    return {name: bytes(data) for name, data in rows}
