"""A ledger in memory: for tests, and for a bridge that is to leave nothing behind."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from ledger.errors import LedgerError
from ledger.model import Entry, NewEntry, NewSession, Replay, SessionRecord


class MemoryLedger:
    """Implements ``ledger.port.EventLedger``; everything is forgotten with the object.

    Payloads are kept as they are, not copied: nobody changes one after appending it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: dict[str, SessionRecord] = {}
        self._entries: dict[str, list[Entry]] = {}
        self._is_closed = False

    def open_session(self, session: NewSession) -> SessionRecord:
        with self._lock:
            self._check_open()
            self._entries.setdefault(session.session_id, [])
            return self._sessions.setdefault(
                session.session_id,
                SessionRecord(
                    session_id=session.session_id,
                    session_key=session.session_key,
                    cwd=session.cwd,
                    title=None,
                    complete=True,
                    created_at=session.at,
                    updated_at=session.at,
                ),
            )

    def append(self, entries: Sequence[NewEntry]) -> Sequence[Entry]:
        with self._lock:
            self._check_open()
            for new in entries:
                if new.session_id not in self._sessions:
                    raise LedgerError(f"Unknown session {new.session_id}.")
            return [self._append(new) for new in entries]

    def mark_incomplete(self, session_id: str) -> None:
        with self._lock:
            self._check_open()
            if session_id in self._sessions:
                session = self._sessions[session_id]
                self._sessions[session_id] = replace(session, complete=False)

    def read(self, session_id: str) -> Replay | None:
        with self._lock:
            self._check_open()
            if session_id not in self._sessions:
                return None
            return Replay(self._sessions[session_id], tuple(self._entries[session_id]))

    def delete_session(self, session_id: str) -> None:
        with self._lock:
            self._check_open()
            self._sessions.pop(session_id, None)
            self._entries.pop(session_id, None)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True

    def _append(self, new: NewEntry) -> Entry:
        own = self._entries[new.session_id]
        entry = Entry(
            session_id=new.session_id,
            seq=len(own) + 1,
            kind=new.kind,
            payload=new.payload,
            at=new.at,
            run_id=new.run_id,
            generation=new.generation,
        )
        own.append(entry)
        session = self._sessions[new.session_id]
        self._sessions[new.session_id] = replace(session, updated_at=new.at)
        return entry

    def _check_open(self) -> None:
        if self._is_closed:
            raise LedgerError("The ledger is closed.")
