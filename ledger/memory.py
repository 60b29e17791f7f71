"""A ledger in memory: for tests, and for a bridge that is to leave nothing behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from ledger.errors import LedgerClosed, UnknownSession
from ledger.merging import plan_merges
from ledger.model import (
    LEASE_MS,
    Change,
    DeleteSession,
    Entry,
    Incomplete,
    NewEntry,
    NewSession,
    Page,
    Replay,
    Run,
    RunClosed,
    RunOpened,
    RunState,
    SessionClosed,
    SessionRecord,
    SessionShared,
    SessionTitle,
    Stats,
)
from ledger.paths import normal_path


@dataclass
class _Session:
    record: SessionRecord
    entries: list[Entry] = field(default_factory=list)
    runs: dict[str, Run] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)

    def touch(self, at: int) -> None:
        self.record = replace(
            self.record,
            updated_at=max(self.record.updated_at, at),
            lease_until=max(self.record.lease_until, at + LEASE_MS),
        )


class MemoryLedger:
    """Implements ``ledger.port.EventLedger``; everything is forgotten with the object.

    All sessions are those of one owner. Payloads are kept as they are, not copied: nobody changes
    one after handing it over.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: dict[str, _Session] = {}
        self._is_closed = False

    def write(self, changes: Sequence[Change]) -> None:
        with self._lock:
            self._check_open()
            self._check_sessions(changes)
            for change in changes:
                self._apply(change)

    def read(self, session_id: str) -> Replay | None:
        with self._lock:
            self._check_open()
            session = self._sessions.get(session_id)
            if session is None:
                return None
            return Replay(session.record, tuple(session.entries), tuple(session.runs.values()))

    def find(self, session_id: str, session_key: str) -> SessionRecord | None:
        found = self._select(lambda record: record.session_id == session_id)
        return next((record for record in found if record.session_key == session_key), None)

    def find_by_key(self, session_key: str) -> SessionRecord | None:
        found = self._select(lambda record: record.session_key == session_key)
        return min(found, key=lambda record: (not record.complete, _age(record)), default=None)

    def list_sessions(self, page: Page) -> list[SessionRecord]:
        cwd = None if page.cwd is None else normal_path(page.cwd)
        after = None if page.after is None else (-page.after[0], page.after[1])
        found = self._select(
            lambda record: (
                (cwd is None or normal_path(record.cwd) == cwd)
                and (after is None or _age(record) > after)
            )
        )
        return sorted(found, key=_age)[: page.limit]

    def stats(self) -> Stats:
        found = self._select(lambda record: True)
        entries = sum(record.entries for record in found)
        return Stats(len(found), 0, entries, 0, 0)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True

    def _select(self, is_wanted: Callable[[SessionRecord], bool]) -> list[SessionRecord]:
        with self._lock:
            self._check_open()
            records = (session.record for session in self._sessions.values())
            return [record for record in records if is_wanted(record)]

    def _check_open(self) -> None:
        if self._is_closed:
            raise LedgerClosed("The ledger is closed.")

    def _check_sessions(self, changes: Sequence[Change]) -> None:
        """Refuse what cannot be done before anything is done."""
        made: set[str] = set()
        gone: set[str] = set()
        for change in changes:
            match change:
                case NewSession():
                    made.add(change.session_id)
                    gone.discard(change.session_id)
                case DeleteSession():
                    gone.add(change.session_id)
                    made.discard(change.session_id)
                case NewEntry() | RunOpened() | SessionTitle() | SessionShared():
                    name = change.session_id
                    if name in gone or (name not in self._sessions and name not in made):
                        raise UnknownSession(f"The ledger has no session {name}.")
                case RunClosed() | Incomplete() | SessionClosed():
                    pass

    def _apply(self, change: Change) -> None:
        match change:
            case NewSession():
                self._open(change)
            case NewEntry():
                _append(self._sessions[change.session_id], change)
            case RunOpened():
                self._open_run(change)
            case RunClosed():
                self._close_run(change)
            case SessionTitle():
                session = self._sessions[change.session_id]
                session.record = replace(session.record, title=change.title)
                session.touch(change.at)
            case SessionShared():
                session = self._sessions[change.session_id]
                session.record = replace(session.record, shared=change.shared)
            case Incomplete():
                self._change(change.session_id, complete=False)
            case SessionClosed():
                self._change(change.session_id, lease_until=0)
            case DeleteSession():
                self._sessions.pop(change.session_id, None)
            case _:
                assert_never(change)

    def _change(self, session_id: str, **values: bool | int) -> None:
        if session := self._sessions.get(session_id):
            session.record = replace(session.record, **values)  # type: ignore[arg-type]  # by name

    def _open(self, new: NewSession) -> None:
        known = self._sessions.get(new.session_id)
        if known is None:
            self._sessions[new.session_id] = _Session(_new_record(new))
            return
        old = known.record
        known.record = replace(
            old,
            session_key=new.session_key or old.session_key,
            cwd=new.cwd or old.cwd,
            lease_until=max(old.lease_until, new.at + LEASE_MS),
        )

    def _open_run(self, change: RunOpened) -> None:
        session = self._sessions[change.session_id]
        if self._session_of_run(change.run_id) is None:
            run = Run(change.run_id, change.session_id, RunState.OPEN, change.at)
            session.runs[change.run_id] = run
        session.touch(change.at)

    def _close_run(self, change: RunClosed) -> None:
        session = self._session_of_run(change.run_id)
        if session is None:
            return
        session.runs[change.run_id] = replace(
            session.runs[change.run_id],
            state=change.state,
            closed_at=change.at,
            stop_reason=change.stop_reason,
            error_code=change.error_code,
        )
        _merge(session, change.run_id)
        session.touch(change.at)

    def _session_of_run(self, run_id: str) -> _Session | None:
        return next((s for s in self._sessions.values() if run_id in s.runs), None)


def _age(record: SessionRecord) -> tuple[int, str]:
    return -record.updated_at, record.session_id


def _new_record(new: NewSession) -> SessionRecord:
    return SessionRecord(
        session_id=new.session_id,
        session_key=new.session_key,
        cwd=new.cwd,
        title=None,
        complete=new.complete,
        created_at=new.at,
        updated_at=new.at,
        lease_until=new.at + LEASE_MS,
        owner=new.owner,
        host=new.host,
        gateway=new.gateway,
    )


def _append(session: _Session, new: NewEntry) -> None:
    if new.entry_key is None or new.entry_key not in session.keys:
        seq = session.record.trimmed + len(session.entries) + 1
        session.entries.append(_entry(new, seq))
        session.record = replace(session.record, entries=len(session.entries))
    if new.entry_key is not None:
        session.keys.add(new.entry_key)
    session.touch(new.at)


def _entry(new: NewEntry, seq: int) -> Entry:
    return Entry(
        session_id=new.session_id,
        seq=seq,
        kind=new.kind,
        payload=new.payload,
        at=new.at,
        run_id=new.run_id,
        generation=new.generation,
        entry_key=new.entry_key,
    )


def _merge(session: _Session, run_id: str) -> None:
    entries = session.entries
    may_merge = [
        entry.payload
        if (entry.kind, entry.run_id, entry.entry_key) == ("update", run_id, None)
        else None
        for entry in entries
    ]
    for merge in reversed(plan_merges(may_merge)):
        entries[merge.start : merge.stop] = [replace(entries[merge.start], payload=merge.payload)]
    first = session.record.trimmed + 1
    session.entries = [
        entry if entry.seq == seq else replace(entry, seq=seq)
        for seq, entry in enumerate(entries, first)
    ]
    session.record = replace(session.record, entries=len(entries))
