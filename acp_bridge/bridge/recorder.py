"""Writes what the outbox shows into the ledger, and keeps what the ledger cannot take just now.

A ledger that is locked, full or away costs no conversation: what it did not take waits here, in
order and bounded, and is written when it answers again. Only what does not fit any more is lost,
and then its session is honestly incomplete. What it did take is kept until a look has shown that
the ledger's file is still in its place, and otherwise written again, into the file that is there
then. All methods run in the outbox's thread.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from acp_bridge.bridge.rewriting import begins_whole, lacking
from acp_bridge.bridge.trouble import Trouble
from acp_bridge.core.ports import Entry, Unrecorded
from acp_bridge.core.recent import Recent
from acp_bridge.core.replay import Recorded
from acp_bridge.errors import OutcomeUnknown
from acp_bridge.ids import Json, RunId
from ledger import (
    Change,
    DeleteSession,
    EventLedger,
    Incomplete,
    LedgerError,
    LedgerGone,
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
LOOK = 1.0
"""Seconds between two looks whether what was written is in its place."""
MAX_UNCONFIRMED = 1024 * 1024
"""Bytes, counted approximately, after which it is looked at once."""
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
        self._names: Recent[str, str] = Recent()
        """Sessions that the ledger has under another id than the editor."""
        self._waiting: deque[Waiting] = deque()
        self._weight = 0
        self._opened: Recent[str, NewSession] = Recent()
        """How each session was opened, in case the ledger loses it."""
        self._unconfirmed: list[Waiting] = []
        """What was written since the last look whether the ledger's file is in its place."""
        self._unconfirmed_weight = 0
        self._looked_at = clock()
        self._is_gone = False
        """Whether what is not confirmed went into a file that is gone."""
        self._lost: set[str] = set()
        """Sessions that miss something, which the ledger has not taken note of yet."""
        self._tried_at = 0.0
        self._trouble = Trouble(clock)

    @property
    def is_behind(self) -> bool:
        """Whether something waits for the ledger."""
        return bool(self._waiting) or self._is_gone

    @property
    def patience(self) -> float | None:
        """Seconds after which ``retry`` should be called though nothing new has come."""
        if self.is_behind:
            return RETRY
        return LOOK if self._unconfirmed else self._trouble.rest

    def record(self, entries: Iterable[tuple[Entry, int, int]]) -> None:
        """Write entries, each with its time (UTC milliseconds) and its weight (bytes), or keep
        them for later. Never raises."""
        new = [self._changes(*each) for each in entries]
        if not new:
            return
        is_due = not self.is_behind or self._clock() - self._tried_at >= RETRY
        self._waiting.extend(new)
        self._weight += sum(each.weight for each in new)
        if is_due:
            self._drain()
        self._bound()
        self._confirm_if_due()

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
        """Try again with what waits, and look after what was written last."""
        if self.is_behind and self._clock() - self._tried_at >= RETRY:
            self._drain()
        self._confirm_if_due()
        self._trouble.look()

    def unrecorded(self, session_id: str) -> Unrecorded:
        """What of a session is not in the ledger, or not in the file that is in its place now."""
        name = self._names.get(session_id, session_id)
        written = self._unconfirmed if self._is_gone else []
        changes = [
            change
            for each in (*written, *self._waiting)
            if each.session_id == name
            for change in each.changes
        ]
        entries = [
            Recorded(new.kind, new.payload, RunId(new.run_id) if new.run_id else None, new.at)
            for new in changes
            if isinstance(new, NewEntry)
        ]
        return Unrecorded(entries, name not in self._lost and Incomplete(name) not in changes)

    def finish(self, patience: float, pause: Callable[[float], object]) -> None:
        """Write what waits, and look whether it is there, for at most ``patience`` seconds: there
        is no later. A lock is often free again in a moment. ``pause`` waits for the given
        seconds."""
        until = self._clock() + patience
        while not self._has_finished() and self._clock() < until:
            pause(_PAUSE)
        if not self.is_behind:
            self._trouble.ended()
        elif not self._trouble.is_told:
            fields = {"updates": len(self._waiting) + len(self._unconfirmed)}
            _log.warning("the end of the conversation is not recorded", extra={"fields": fields})

    def _has_finished(self) -> bool:
        if self.is_behind:
            self._drain()
        return not self.is_behind and self._confirm()

    def _drain(self) -> None:
        self._tried_at = self._clock()
        error = self._attempt()
        if isinstance(error, LedgerGone):
            error = self._attempt()  # with the file that is there now
        if error is not None and error.is_retryable:
            self._trouble.failed(error)
            return
        batch = self._waiting
        self._waiting, self._weight = deque(), 0
        if error is not None:
            self._one_by_one(batch, error)
        else:
            self._keep(batch)
            self._trouble.worked()
        self._lost = {each for each in self._lost if self._write([Incomplete(each)]) is not None}

    def _attempt(self) -> LedgerError | None:
        """Write all that waits; first, if the file was lost, what that had taken since the last
        look."""
        if self._is_gone and (error := self._take_back()):
            return error
        return self._write([change for each in self._waiting for change in each.changes])

    def _one_by_one(self, batch: Iterable[Waiting], error: LedgerError) -> None:
        """A fault of one session must not cost the record of the others."""
        by_session = _by_session(batch)
        back: list[Waiting] = []
        for session_id, own in by_session.items():
            failure = error if len(by_session) == 1 else self._written(own)
            if isinstance(failure, UnknownSession) and session_id in self._opened:
                # Another process deleted the session. What is said now is kept; what came before
                # is not there, and the session says so.
                opening = self._opened[session_id]._replace(complete=False)
                failure = self._written(own._replace(changes=[opening, *own.changes]))
            if failure is not None:
                self._trouble.failed(failure)
                if failure.is_retryable:
                    back.append(own)
                else:
                    self._lost.add(session_id)
        self._waiting.extendleft(reversed(back))
        self._weight += sum(each.weight for each in back)

    # --- a file that is gone ---------------------------------------------------------------

    def _confirm_if_due(self) -> None:
        is_much = self._unconfirmed_weight > MAX_UNCONFIRMED
        if self._unconfirmed and (is_much or self._clock() - self._looked_at >= LOOK):
            self._confirm()

    def _confirm(self) -> bool:
        """Look whether what was written last is where it will be sought, and otherwise write it
        there. Whether nothing is left to do."""
        self._looked_at = self._clock()
        if not self._unconfirmed:
            return True
        try:
            self._ledger.confirm()
        except LedgerGone:
            self._is_gone = True
            self._drain()
            return False
        except LedgerError as error:
            _log.debug("the ledger cannot be looked at: %s", error)
            return True
        self._unconfirmed, self._unconfirmed_weight = [], 0
        return True

    def _keep(self, written: Iterable[Waiting]) -> None:
        for each in written:
            self._unconfirmed.append(each)
            self._unconfirmed_weight += each.weight

    def _take_back(self) -> LedgerError | None:
        """Let what was written into a file that is gone wait again, but for what is in the file
        that is there now. What else that lacks of a session is not known."""
        lost, waiting = _by_session(self._unconfirmed), _by_session(self._waiting)
        idle = self._opened.keys() - lost.keys() - waiting.keys()
        back = [Waiting(each, [Incomplete(each)], 0) for each in idle]
        try:
            for session_id, own in {**_without_changes(waiting), **lost}.items():
                there = self._ledger.read(session_id)
                begins = not own.changes and begins_whole(waiting[session_id].changes)
                opened = None if begins else self._opened.get(session_id)
                back.append(own._replace(changes=lacking(own.changes, there, opened)))
        except LedgerError as error:
            return error
        self._waiting.extendleft(reversed(back))
        self._weight += sum(each.weight for each in back)
        self._unconfirmed, self._unconfirmed_weight = [], 0
        self._is_gone = False
        return None

    # --- writing ---------------------------------------------------------------------------

    def _written(self, each: Waiting) -> LedgerError | None:
        """Write what is of one session."""
        error = self._write(each.changes)
        if error is None or isinstance(error, LedgerGone):  # in the latter case it is taken back
            self._keep([each])
            return None
        return error

    def _write(self, changes: list[Change]) -> LedgerError | None:
        try:
            self._ledger.write(changes)
        except LedgerGone as error:
            self._is_gone = True
            return error
        except LedgerError as error:
            return error
        return None

    def _bound(self) -> None:
        while self._weight > MAX_WAITING and self._waiting:
            oldest = self._waiting.popleft()
            self._weight -= oldest.weight
            self._lost.add(oldest.session_id)


def _by_session(batch: Iterable[Waiting]) -> dict[str, Waiting]:
    """All changes of each session in one."""
    found: dict[str, Waiting] = {}
    for each in batch:
        before = found.get(each.session_id)
        if before is not None:
            each = Waiting(
                each.session_id, [*before.changes, *each.changes], before.weight + each.weight
            )
        found[each.session_id] = each
    return found


def _without_changes(sessions: dict[str, Waiting]) -> dict[str, Waiting]:
    return {session_id: Waiting(session_id, [], 0) for session_id in sessions}


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
