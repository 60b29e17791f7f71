"""A ledger in memory: for tests, and for a bridge that is to leave nothing behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import assert_never

from ledger.checking import checked, checked_page, checked_text, cleaned
from ledger.codec import clean, encode, size
from ledger.errors import EntryTooLarge, LedgerClosed, UnknownSession
from ledger.memory_session import MemorySession
from ledger.model import (
    Change,
    DeleteSession,
    Incomplete,
    NewEntry,
    NewSession,
    Page,
    Replay,
    RunClosed,
    RunOpened,
    SessionClosed,
    SessionRecord,
    SessionShared,
    SessionTitle,
    Stats,
)
from ledger.paths import normal_path
from ledger.redaction import Redact, keep_all, redacted
from ledger.retention import (
    ENTRY_OVERHEAD,
    Limits,
    archives_to_delete,
    entries_to_trim,
    headroom,
    sessions_to_archive,
)


class MemoryLedger:
    """Implements ``ledger.port.EventLedger``; everything is forgotten with the object.

    All sessions are those of one owner. Payloads are kept as text, as in a database.
    """

    def __init__(self, limits: Limits | None = None, *, redact: Redact = keep_all) -> None:
        self._limits = limits or Limits()
        self._redact = redact
        self._lock = threading.Lock()
        self._sessions: dict[str, MemorySession] = {}
        self._allowance = 0
        self._is_closed = False

    def write(self, changes: Sequence[Change]) -> None:
        with self._lock:
            self._check_open()
            changes = [cleaned(change) for change in redacted(checked(changes), self._redact)]
            self._check_sessions(changes)
            texts = [self._text(change) for change in changes]
            for change, text in zip(changes, texts, strict=True):
                self._apply(change, text)
            self._trim(changes)
            self._allowance -= sum(size(text) + ENTRY_OVERHEAD for text in texts if text)
            times = [at for change in changes if (at := getattr(change, "at", None)) is not None]
            if times and self._allowance <= 0:
                self._keep_limits(max(times))

    def read(self, session_id: str) -> Replay | None:
        with self._lock:
            self._check_open()
            session = self._sessions.get(checked_text(session_id))
            return None if session is None else session.replay()

    def find(self, session_id: str, session_key: str) -> SessionRecord | None:
        session_id, session_key = checked_text(session_id), checked_text(session_key)
        found = self._select(lambda record: record.session_id == session_id)
        return next((record for record in found if record.session_key == session_key), None)

    def find_by_key(self, session_key: str) -> SessionRecord | None:
        session_key = checked_text(session_key)
        found = self._select(lambda record: record.session_key == session_key)
        return min(found, key=lambda record: (not record.complete, _age(record)), default=None)

    def list_sessions(self, page: Page) -> list[SessionRecord]:
        page = checked_page(page)
        cwd = None if page.cwd is None else clean(normal_path(page.cwd))
        after = None if page.after is None else (-page.after[0], clean(page.after[1]))
        found = self._select(
            lambda record: (
                (cwd is None or normal_path(record.cwd) == cwd)
                and (after is None or _age(record) > after)
            )
        )
        return sorted(found, key=_age)[: max(0, page.limit)]

    def stats(self) -> Stats:
        with self._lock:
            self._check_open()
            active = self._of(archived=False)
            archived = self._of(archived=True)
            return Stats(
                sessions=len(active),
                archived=len(archived),
                entries=sum(session.record.entries for session in active + archived),
                bytes=sum(session.bytes for session in active),
                archived_bytes=sum(session.bytes for session in archived),
            )

    def confirm(self) -> None:
        self._check_open()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True

    def _select(self, is_wanted: Callable[[SessionRecord], bool]) -> list[SessionRecord]:
        with self._lock:
            self._check_open()
            records = (session.record for session in self._sessions.values())
            return [record for record in records if is_wanted(record)]

    def _of(self, *, archived: bool) -> list[MemorySession]:
        sessions = self._sessions.values()
        return [session for session in sessions if session.record.archived == archived]

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

    def _text(self, change: Change) -> str:
        """The payload as it is kept; none is empty."""
        if not isinstance(change, NewEntry):
            return ""
        text = encode(change.payload)
        if size(text) > self._limits.max_bytes:
            raise EntryTooLarge(
                f"An entry of {size(text)} bytes is larger than the ledger may be.",
                hint="Raise --max-bytes.",
            )
        return text

    def _apply(self, change: Change, text: str) -> None:
        match change:
            case NewSession():
                self._open(change)
            case NewEntry():
                self._sessions[change.session_id].append(change, text)
            case RunOpened() | RunClosed():
                self._apply_to_run(change)
            case SessionTitle():
                self._sessions[change.session_id].change(title=change.title)
                self._sessions[change.session_id].touch(change.at)
            case SessionShared():
                self._sessions[change.session_id].change(shared=change.shared)
            case Incomplete():
                self._mark(change.session_id, complete=False)
            case SessionClosed():
                self._mark(change.session_id, lease_until=0)
            case DeleteSession():
                self._sessions.pop(change.session_id, None)
            case _:
                assert_never(change)

    def _open(self, new: NewSession) -> None:
        if known := self._sessions.get(new.session_id):
            known.open_again(new)
        else:
            self._sessions[new.session_id] = MemorySession(new, self._redact)
            self._allowance = 0  # so that the number of sessions is looked at

    def _mark(self, session_id: str, **values: bool | int) -> None:
        if session := self._sessions.get(session_id):
            session.change(**values)

    def _apply_to_run(self, change: RunOpened | RunClosed) -> None:
        owner = self._session_of_run(change.run_id)
        if isinstance(change, RunOpened):
            self._sessions[change.session_id].open_run(change, is_new=owner is None)
        elif owner is not None:
            owner.close_run(change)

    def _session_of_run(self, run_id: str) -> MemorySession | None:
        return next((s for s in self._sessions.values() if s.has_run(run_id)), None)

    def _trim(self, changes: Sequence[Change]) -> None:
        closed = {change.run_id for change in changes if isinstance(change, RunClosed)}
        names = {change.session_id for change in changes if not isinstance(change, RunClosed)}
        for name, session in self._sessions.items():
            if name in names or any(map(session.has_run, closed)):
                count = entries_to_trim(session.record.entries, self._limits)
                if count and not session.has_open_run:
                    session.trim(count)

    def _keep_limits(self, now: int) -> None:
        active = [session.usage(now) for session in self._of(archived=False)]
        chosen = sessions_to_archive(active, self._limits)
        for name in chosen:
            self._sessions[name].archive()
        archived = [session.usage(now) for session in self._of(archived=True)]
        for name in archives_to_delete(archived, self._limits):
            del self._sessions[name]
        left = [usage for usage in active if usage.session_id not in chosen]
        self._allowance = headroom(left, self._limits)


def _age(record: SessionRecord) -> tuple[int, str]:
    return -record.updated_at, record.session_id
