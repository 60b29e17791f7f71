"""Writes what the outbox shows into the ledger, and keeps what the ledger cannot take just now.

A ledger that is locked, full or away costs no conversation: what it did not take waits here, in
order and bounded, and is written when it answers again. Only what does not fit any more is lost,
and then its session is honestly incomplete. All methods run in the outbox's thread.
"""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from acp_bridge.core.ports import Entry
from acp_bridge.errors import OutcomeUnknown
from acp_bridge.ids import Json
from ledger import (
    Change,
    DeleteSession,
    EventLedger,
    Incomplete,
    LedgerBusy,
    LedgerError,
    NewEntry,
    NewSession,
    RunClosed,
    RunOpened,
    RunState,
    SessionClosed,
    SessionTitle,
    UnknownSession,
)

_log = logging.getLogger(__name__)

MAX_WAITING = 8 * 1024 * 1024
"""Bytes, counted approximately, that may wait for a ledger that does not answer."""
RETRY = 0.25
"""Seconds between two tries while it does not answer: what is shown must not wait for each."""
LOCK_PATIENCE = 2.0
"""Seconds that a lock may last before somebody is told: where several bridges share a ledger they
now and then wait for each other."""
_PAUSE = 0.02


class Waiting(NamedTuple):
    """Changes of one entry."""

    session_id: str
    changes: list[Change]
    weight: int


class Recorder:
    """The only writer of a ledger. ``clock`` gives monotonic seconds."""

    def __init__(self, ledger: EventLedger, clock: Callable[[], float]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._names: dict[str, str] = {}
        """Sessions that the ledger has under another id than the editor."""
        self._waiting: deque[Waiting] = deque()
        self._weight = 0
        self._opened: dict[str, NewSession] = {}
        """How each session was opened, in case the ledger loses it."""
        self._lost: set[str] = set()
        self._tried_at = 0.0
        self._failing_since: float | None = None
        self._has_warned = False

    @property
    def is_behind(self) -> bool:
        """Whether something waits for the ledger."""
        return bool(self._waiting)

    def record(self, entries: Iterable[tuple[Entry, int, int]]) -> None:
        """Write entries, each with its time (UTC milliseconds) and its weight (bytes), or keep
        them for later. Never raises."""
        new = [self._changes(*each) for each in entries]
        if not new:
            return
        is_due = not self._waiting or self._clock() - self._tried_at >= RETRY
        self._waiting.extend(new)
        self._weight += sum(each.weight for each in new)
        if is_due:
            self._drain()
        self._bound()

    def _changes(self, entry: Entry, at: int, weight: int) -> Waiting:
        if entry.record.kind == "session" and (name := entry.record.payload.get("ledger_id")):
            self._names[entry.session_id] = name
        session_id = self._names.get(entry.session_id, entry.session_id)
        changes = changes_of(session_id, entry, at)
        for change in changes:
            if isinstance(change, NewSession):
                self._opened[session_id] = change
            elif isinstance(change, DeleteSession):
                self._opened.pop(session_id, None)
        return Waiting(session_id, changes, weight)

    def retry(self) -> None:
        """Try again with what waits."""
        if self._waiting and self._clock() - self._tried_at >= RETRY:
            self._drain()

    def finish(self, patience: float, pause: Callable[[float], object]) -> None:
        """Write what waits, for at most ``patience`` seconds: there is no later. A lock is often
        free again in a moment. ``pause`` waits for the given seconds."""
        until = self._clock() + patience
        while self._waiting:
            self._drain()
            if self._clock() >= until:
                break
            if self._waiting:
                pause(_PAUSE)
        if self._waiting and not self._has_warned:
            fields = {"updates": len(self._waiting)}
            _log.warning("the end of the conversation is not recorded", extra={"fields": fields})

    def _drain(self) -> None:
        self._tried_at = self._clock()
        batch = list(self._waiting)
        error = self._written([change for each in batch for change in each.changes])
        if error is not None and error.is_retryable:
            return
        self._waiting.clear()
        self._weight = 0
        if error is not None:
            self._one_by_one(batch, error)
        else:
            self._failing_since = None
            if self._has_warned:
                self._has_warned = False
                _log.warning("the conversation is recorded again")
        for session_id in self._lost:
            self._written([Incomplete(session_id)])
        self._lost.clear()

    def _one_by_one(self, batch: list[Waiting], error: LedgerError) -> None:
        """A fault of one session must not cost the record of the others."""
        by_session: dict[str, list[Change]] = {}
        for each in batch:
            by_session.setdefault(each.session_id, []).extend(each.changes)
        for session_id, own in by_session.items():
            if isinstance(error, UnknownSession) and session_id in self._opened:
                # The file was replaced, or another process deleted the session. What is said now
                # is kept; what came before is not there, and the session says so.
                own = [self._opened[session_id]._replace(complete=False), *own]
                if self._written(own) is None:
                    continue
            if len(by_session) == 1 or self._written(own) is not None:
                with contextlib.suppress(LedgerError):
                    self._ledger.write([Incomplete(session_id)])

    def _written(self, changes: list[Change]) -> LedgerError | None:
        try:
            self._ledger.write(changes)
        except LedgerError as error:
            self._tell(error)
            return error
        return None

    def _tell(self, error: LedgerError) -> None:
        now = self._clock()
        if self._failing_since is None:
            self._failing_since = now
        is_passing = isinstance(error, LedgerBusy) and now - self._failing_since < LOCK_PATIENCE
        is_news = not self._has_warned and not is_passing
        self._has_warned = self._has_warned or is_news
        level = logging.WARNING if is_news else logging.DEBUG
        fields = {"reason": error.message, "hint": error.hint}
        _log.log(level, "the conversation is not recorded", extra={"fields": fields})

    def _bound(self) -> None:
        while self._weight > MAX_WAITING and self._waiting:
            oldest = self._waiting.popleft()
            self._weight -= oldest.weight
            self._lost.add(oldest.session_id)


def changes_of(session_id: str, entry: Entry, at: int) -> list[Change]:
    """The changes that an entry of the service means to the ledger's session.

    A prompt also opens its run, and an outcome closes it. News of a session as a whole are no
    entries.
    """
    record = entry.record
    if record.kind in _SESSION_NEWS:
        return [_SESSION_NEWS[record.kind](session_id, record.payload, at)]
    payload = record.payload
    if entry.offset is not None:
        until = entry.offset + len(payload["content"]["text"])
        payload = {**payload, "offset": entry.offset, "until": until}
    new = NewEntry(
        session_id=session_id,
        kind=record.kind,
        payload=payload,
        at=at,
        run_id=entry.run_id,
        generation=entry.generation,
        entry_key=entry.key,
    )
    if entry.run_id is None:
        return [new]
    if new.kind == "prompt":
        return [RunOpened(entry.run_id, session_id, at), new]
    if new.kind == "outcome":
        return [new, _run_closed(entry.run_id, at, new.payload)]
    return [new]


def _new_session(session_id: str, payload: Json, at: int) -> NewSession:
    return NewSession(
        session_id,
        payload["session_key"],
        payload["cwd"],
        at,
        gateway=payload.get("gateway"),
        complete=payload.get("complete", True),
    )


_SESSION_NEWS: dict[str, Callable[[str, Any, int], Change]] = {
    "session": _new_session,
    "title": lambda session_id, payload, at: SessionTitle(session_id, payload["title"], at),
    "incomplete": lambda session_id, _payload, _at: Incomplete(session_id),
    "closed": lambda session_id, _payload, _at: SessionClosed(session_id),
    "deleted": lambda session_id, _payload, _at: DeleteSession(session_id),
}


def _run_closed(run_id: str, at: int, outcome: Json) -> RunClosed:
    if "error" in outcome:
        code = outcome["error"].get("data", {}).get("code")
        state = RunState.UNKNOWN if code == OutcomeUnknown.code else RunState.FAILED
        return RunClosed(run_id, at, state, error_code=code)
    stop_reason = outcome["stop_reason"]
    state = RunState.CANCELLED if stop_reason == "cancelled" else RunState.FINISHED
    return RunClosed(run_id, at, state, stop_reason=stop_reason)
