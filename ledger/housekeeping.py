"""Keeping a database within its limits: archiving sessions, and deleting archives."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, func, select, true

from ledger.retention import Limits, Usage, archives_to_delete, headroom, sessions_to_archive
from ledger.tables import sessions
from ledger.upkeep import archive, delete_session, locked_state, save


def keep_limits(connection: Connection, *, owner: str | None, limits: Limits, now: int) -> int:
    """Archive and delete what the limits demand, of this owner's sessions alone. Returns how many
    bytes may be written until that is to be done again."""
    active = _usages(connection, owner, now, archived=False)
    chosen = sessions_to_archive(active, limits)
    for session_id in chosen:
        state = locked_state(connection, session_id, skip_locked=True)
        if state is not None and not state.archived and state.lease_until <= now:
            archive(connection, state)
            save(connection, [state])
    if _archived_bytes(connection, owner) > limits.max_bytes:
        archived = _usages(connection, owner, now, archived=True)
        for session_id in archives_to_delete(archived, limits):
            if locked_state(connection, session_id, skip_locked=True) is not None:
                delete_session(connection, session_id)
    left = [usage for usage in active if usage.session_id not in set(chosen)]
    return headroom(left, limits)


def _usages(connection: Connection, owner: str | None, now: int, *, archived: bool) -> list[Usage]:
    is_live = sessions.c.lease_until > now
    rows = connection.execute(
        select(sessions.c.session_id, sessions.c.updated_at, sessions.c.bytes, is_live).where(
            _of(owner), sessions.c.archived == archived
        )
    )
    return [Usage(*row) for row in rows]


def _archived_bytes(connection: Connection, owner: str | None) -> int:
    total = select(func.sum(sessions.c.bytes)).where(_of(owner), sessions.c.archived)
    return int(connection.scalar(total) or 0)


def _of(owner: str | None) -> ColumnElement[bool]:
    return true() if owner is None else sessions.c.owner == owner
