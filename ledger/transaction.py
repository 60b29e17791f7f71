"""Changes to rows: what one call of ``write`` does within its transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from sqlalchemy import Connection, bindparam, insert, select, update

from ledger.appending import entry_row
from ledger.codec import clean
from ledger.errors import LedgerRefused, UnknownSession
from ledger.model import (
    LEASE_MS,
    Change,
    DeleteSession,
    Incomplete,
    NewEntry,
    NewSession,
    RunClosed,
    RunOpened,
    RunState,
    SessionClosed,
    SessionShared,
    SessionTitle,
)
from ledger.paths import normal_path
from ledger.redaction import Redact
from ledger.retention import RUN_OVERHEAD, SESSION_OVERHEAD, Limits, entries_to_trim
from ledger.tables import entries, runs, sessions
from ledger.upkeep import (
    Row,
    SessionState,
    add_blobs,
    cost,
    delete_session,
    has_open_run,
    insert_entries,
    insert_new,
    locked_state,
    merge_run,
    save,
    trim,
    unarchive,
)

_RUN = select(runs.c.session_id, runs.c.first_seq).where(runs.c.run_id == bindparam("run"))
_KEYED = select(entries.c.seq).where(
    entries.c.session_id == bindparam("session"), entries.c.entry_key == bindparam("key")
)


class Transaction:
    """Applies changes on a connection that is in a transaction with the right to write."""

    def __init__(
        self,
        connection: Connection,
        *,
        owner: str | None,
        host: str | None,
        limits: Limits,
        redact: Redact,
    ) -> None:
        self._connection = connection
        self._owner = owner
        self._host = host
        self._limits = limits
        self._redact = redact
        self._states: dict[str, SessionState] = {}
        self._not_ours: set[str] = set()
        self._changed: set[str] = set()
        self._new_entries: list[Row] = []
        self.bytes = 0
        """How much was added."""
        self.has_new_session = False

    def apply(self, changes: Sequence[Change]) -> None:
        """Make all changes. Raises ``LedgerError``; the caller then rolls back."""
        self._load(changes)
        for change in changes:
            self._apply(change)
        self._flush()
        changed = [self._states[name] for name in sorted(self._changed & self._states.keys())]
        for state in changed:
            count = entries_to_trim(state.entries, self._limits)
            if count and not has_open_run(self._connection, state):
                trim(self._connection, state, count)
        save(self._connection, changed)

    def _load(self, changes: Sequence[Change]) -> None:
        """Read and lock the rows of all sessions that the changes are of."""
        names = {clean(c.session_id) for c in changes if not isinstance(c, RunClosed)}
        for change in changes:
            if isinstance(change, RunClosed):
                of_run = self._connection.execute(_RUN, {"run": change.run_id}).first()
                names |= {of_run.session_id} if of_run else set()
        # In one order, so that two writers do not wait for each other crosswise.
        for name in sorted(names):
            state = locked_state(self._connection, name)
            if state is None:
                continue
            if state.shared or None in (self._owner, state.owner) or state.owner == self._owner:
                self._states[name] = state
            else:
                self._not_ours.add(name)

    def _apply(self, change: Change) -> None:
        match change:
            case NewSession():
                self._open(change)
            case NewEntry():
                self._append(change)
            case RunOpened():
                self._open_run(change)
            case RunClosed():
                self._close_run(change)
            case SessionTitle():
                self._touched(change.session_id, change.at)
                self._update(change.session_id, title=change.title)
            case SessionShared():
                self._owned(change.session_id).shared = change.shared
            case Incomplete() | SessionClosed():
                self._mark(change)
            case DeleteSession():
                self._delete(change.session_id)
            case _:
                assert_never(change)

    def _state(self, session_id: str) -> SessionState:
        state = self._states.get(clean(session_id))
        if state is None:
            raise UnknownSession(f"The ledger has no session {session_id}.")
        self._changed.add(state.session_id)
        return state

    def _owned(self, session_id: str) -> SessionState:
        state = self._state(session_id)
        if None not in (self._owner, state.owner) and state.owner != self._owner:
            raise LedgerRefused(f"The session {session_id} belongs to {state.owner}.")
        return state

    def _touched(self, session_id: str, at: int) -> SessionState:
        state = self._state(session_id)
        state.updated_at = max(state.updated_at, at)
        state.lease_until = max(state.lease_until, at + LEASE_MS)
        return state

    def _open(self, new: NewSession) -> None:
        name = clean(new.session_id)
        if name in self._not_ours:
            raise LedgerRefused(f"The session {new.session_id} belongs to somebody else.")
        if name not in self._states:
            self._insert(new)
            return
        state = self._state(new.session_id)
        state.lease_until = max(state.lease_until, new.at + LEASE_MS)
        if new.session_key:
            self._update(new.session_id, session_key=new.session_key)
        if new.cwd:
            self._update(new.session_id, cwd=new.cwd, folder=normal_path(new.cwd))

    def _update(self, session_id: str, **values: str) -> None:
        self._connection.execute(
            update(sessions).where(sessions.c.session_id == session_id).values(values)
        )

    def _insert(self, new: NewSession) -> None:
        state = SessionState(
            session_id=clean(new.session_id),
            owner=new.owner or self._owner,
            shared=False,
            complete=new.complete,
            archived=False,
            trimmed=0,
            next_seq=1,
            entries=0,
            bytes=SESSION_OVERHEAD,
            lease_until=new.at + LEASE_MS,
            updated_at=new.at,
        )
        row = {name: getattr(state, name) for name in SessionState.__slots__}
        row |= {
            "session_key": new.session_key,
            "cwd": new.cwd,
            "folder": normal_path(new.cwd),
            "host": new.host or self._host,
            "gateway": new.gateway,
            "created_at": new.at,
        }
        self._connection.execute(insert(sessions), row)
        self._states[state.session_id] = state
        self.has_new_session = True

    def _append(self, new: NewEntry) -> None:
        state = self._going_on(new.session_id, new.at)
        if new.entry_key is not None and self._has_entry(state, clean(new.entry_key)):
            return
        row, blobs = entry_row(new, self._limits)
        before = state.bytes
        if blobs:
            add_blobs(self._connection, state, blobs)
        row["seq"] = state.next_seq
        self._new_entries.append(row)
        state.next_seq += 1
        state.entries += 1
        state.bytes += cost(row)
        self.bytes += state.bytes - before

    def _going_on(self, session_id: str, at: int) -> SessionState:
        """A session that gets more: if it was archived, it is not any more."""
        state = self._touched(session_id, at)
        if state.archived:
            unarchive(self._connection, state)
        return state

    def _has_entry(self, state: SessionState, entry_key: str) -> bool:
        identity = (state.session_id, entry_key)
        if any((row["session_id"], row["entry_key"]) == identity for row in self._new_entries):
            return True
        return (
            self._connection.scalar(_KEYED, {"session": state.session_id, "key": entry_key})
            is not None
        )

    def _open_run(self, change: RunOpened) -> None:
        state = self._going_on(change.session_id, change.at)
        row = {
            "run_id": change.run_id,
            "session_id": change.session_id,
            "state": RunState.OPEN.value,
            "opened_at": change.at,
            "first_seq": state.next_seq,
        }
        if insert_new(self._connection, runs, row):
            state.bytes += RUN_OVERHEAD

    def _close_run(self, change: RunClosed) -> None:
        self._flush()
        run = self._connection.execute(_RUN, {"run": change.run_id}).first()
        if run is None or run.session_id not in self._states:
            return
        state = self._going_on(run.session_id, change.at)
        self._connection.execute(
            update(runs)
            .where(runs.c.run_id == change.run_id)
            .values(
                state=change.state.value,
                closed_at=change.at,
                stop_reason=change.stop_reason,
                error_code=change.error_code,
            )
        )
        merge_run(self._connection, state, clean(change.run_id), run.first_seq, self._redact)

    def _mark(self, change: Incomplete | SessionClosed) -> None:
        if clean(change.session_id) not in self._states:
            return
        state = self._state(change.session_id)
        if isinstance(change, Incomplete):
            state.complete = False
        else:
            state.lease_until = 0

    def _delete(self, session_id: str) -> None:
        if clean(session_id) not in self._states:
            return
        state = self._owned(session_id)
        self._flush()
        delete_session(self._connection, state.session_id)
        del self._states[state.session_id]

    def _flush(self) -> None:
        insert_entries(self._connection, self._new_entries)
        self._new_entries = []
