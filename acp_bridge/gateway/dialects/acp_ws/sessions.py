"""The gateway's sessions on one connection: each has to be made or restored there before its use.

A session of an earlier connection is restored when it is first needed: with ``session/resume``,
which shows nothing, or with ``session/load`` where it must be known how many turns are stored; its
replay is kept from the editor. As long as an orphan (``memory``) may be at work in a session, that
session is only looked into and closed again, so that no second agent writes its history.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, Final

from acp_bridge.core.events import RunReported, RunState
from acp_bridge.core.parts import StoredPrompt
from acp_bridge.core.transcript import Transcript
from acp_bridge.errors import BridgeError, GatewayTimeout, SessionBusy, SessionNotFound
from acp_bridge.gateway.dialects.acp_ws import history
from acp_bridge.gateway.dialects.acp_ws.handshake import Traits, as_object
from acp_bridge.gateway.dialects.acp_ws.memory import Flight, Memory, can_be_found, find_turn
from acp_bridge.gateway.dialects.acp_ws.outgoing import Outgoing
from acp_bridge.gateway.dialects.acp_ws.refusals import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    SESSION_LIMIT,
    number,
    request_refusal,
)
from acp_bridge.ids import Json, RunId, SessionKey
from acp_bridge.wire.weight import weigh

RESTORE_TIMEOUT: Final = 30.0
CLOSE_TIMEOUT: Final = 10.0
LOOKS: Final = (1.0, 2.0, 4.0, 8.0, 15.0)
"""Seconds between two looks for an orphan's end; the last one repeats. Each look makes the gateway
build an agent."""
MAX_REPLAY: Final = 64 * 1024 * 1024
"""Bytes of one replay, counted approximately, that are kept; a longer one counts as trimmed."""

Then = Callable[[BridgeError | None, Transcript | None], None]
"""Goes on when a session is there, with its replay where there was one; or says why it is not."""


class State(StrEnum):
    """Of a session on this connection."""

    RESTORING = "restoring"
    READY = "ready"
    CLOSING = "closing"


@dataclass(slots=True)
class Seat:
    """One session on this connection."""

    state: State = State.RESTORING
    waiting: list[Then] = field(default_factory=list)
    replay: list[Json] = field(default_factory=list)
    replay_bytes: int = 0
    is_trimmed: bool = False
    transcript: Transcript | None = None
    """Of its restoration, as long as nothing was added to it."""
    extras: Json = field(default_factory=dict)
    """What the gateway's answer says for the editor, as it holds now."""
    used: int = 0


class Seats:
    """All sessions of one connection."""

    def __init__(self, outgoing: Outgoing, memory: Memory, is_busy: Callable[[SessionKey], bool]):
        self.traits = Traits()
        self._outgoing = outgoing
        self._memory = memory
        self._is_busy = is_busy
        self._seats: dict[SessionKey, Seat] = {}
        self._uses = 0
        self._looks: dict[SessionKey, tuple[float, int]] = {}
        """When to look next for an orphan's end, and how often that was done."""
        self._probed: set[RunId] = set()
        self._told_unseen: set[RunId] = set()

    # --- using ---------------------------------------------------------------------------

    def opened(self, key: SessionKey, extras: Json) -> None:
        """The gateway has just made this session."""
        self._memory.stored[key] = 0
        self._seats[key] = Seat(State.READY, extras=dict(extras))

    def noted(self, key: SessionKey, update: Json) -> None:
        """Modes and options are told with an opening, and what has changed since."""
        seat, kind = self._seats.get(key), update.get("sessionUpdate")
        modes = seat.extras.get("modes") if seat is not None else None
        if seat is not None and kind == "config_option_update":
            seat.extras["configOptions"] = update.get("configOptions")
        elif seat is not None and kind == "current_mode_update" and isinstance(modes, dict):
            current = update.get("currentModeId")
            seat.extras["modes"] = {**modes, "currentModeId": current}

    def ready(self, key: SessionKey) -> Seat | None:
        """The session, if it can be used at once."""
        seat = self._seats.get(key)
        return seat if seat is not None and seat.state is State.READY else None

    def attach(self, key: SessionKey, then: Then) -> None:
        """Go on when the session is there."""
        seat = self._seats.get(key)
        if seat is not None and seat.state is State.READY:
            self._uses += 1
            seat.used = self._uses
            then(None, seat.transcript)
        elif seat is not None:
            seat.waiting.append(then)
        else:
            seat = self._seats[key] = Seat(waiting=[then])
            self._restore(key, seat)

    def close(self, key: SessionKey, then: Callable[[], None] = lambda: None) -> None:
        """Let the gateway forget the session; it stays stored there."""
        seat = self.ready(key)
        if seat is None:
            return
        if not self.traits.can_close:
            self._left(key, then)
            return
        seat.state = State.CLOSING
        self._outgoing.request(
            "session/close",
            {"sessionId": key},
            lambda _result, _error: self._left(key, then),
            timeout=CLOSE_TIMEOUT,
        )

    def left(self, key: SessionKey) -> None:
        """The gateway does not have the session at hand any more."""
        self._seats.pop(key, None)

    def make_room(self, then: Callable[[], None]) -> bool:
        """Close the idle session that was not used for longest, and go on; whether there is one."""
        idle = [
            (seat.used, key)
            for key, seat in self._seats.items()
            if seat.state is State.READY and not self._is_busy(key)
        ]
        if not idle or not self.traits.can_resume:
            return False
        self.close(min(idle)[1], then)
        return True

    # --- what the gateway says of them ---------------------------------------------------

    def takes(self, key: SessionKey, update: Json) -> bool:
        """Whether an update belongs to a restoration, and not to the editor."""
        seat = self._seats.get(key)
        if seat is None or seat.state is State.READY:
            return False
        seat.replay_bytes += weigh(update)
        if seat.replay_bytes <= MAX_REPLAY:
            seat.replay.append(update)
        else:
            seat.is_trimmed = True
        return True

    def trimmed(self, key: SessionKey) -> bool:
        """The gateway has dropped old turns; whether that was told of a restoration."""
        seat = self._seats.get(key)
        if seat is None or seat.state is State.READY:
            self._memory.stored.pop(key, None)
            return False
        seat.is_trimmed = True
        return True

    # --- orphans -------------------------------------------------------------------------

    def begin(self, traits: Traits) -> None:
        """The connection is open: look for the orphans of the ones before it."""
        self.traits = traits
        for key in list(self._memory.orphans):
            self.attach(key, _nothing)

    def probe(self, run_id: RunId, key: SessionKey, prompt: StoredPrompt | None) -> None:
        """Report what became of a run of an earlier connection, now and when it changes.

        ``prompt`` matches the run's in the store. A run of an earlier process may be an orphan too:
        whoever asks has looked whether it is stored.
        """
        self._probed.add(run_id)
        report = self._memory.reports.pop(run_id, None)
        orphan = self._memory.orphans.get(key)
        if report is not None:
            self._outgoing.emit(report)
        elif run_id in self._memory.unsent:
            self._memory.unsent.discard(run_id)
            self._outgoing.emit(RunReported(run_id, RunState.NOT_TAKEN))
        elif orphan is None and prompt is not None and self._may_be_at_work(key):
            now, before = self._outgoing.now, self._memory.stored[key]
            self._memory.orphans[key] = Flight(run_id, prompt, before, now)
            self._look_later(key)
            self.close(key)
            self._tell_unseen(run_id)
        elif orphan is None or orphan.run_id != run_id:
            self._outgoing.emit(RunReported(run_id, RunState.UNKNOWN))
        elif key in self._looks:
            self._tell_unseen(run_id)

    def tick(self) -> None:
        """Look again for orphans whose time has come, and give up those that are too old."""
        now = self._outgoing.now
        self._hasten()
        for key, orphan in self._memory.expire(now):
            self._looks.pop(key, None)
            self._report(RunReported(orphan.run_id, RunState.UNKNOWN))
        for key in [key for key, (at, _) in self._looks.items() if at <= now]:
            if key not in self._memory.orphans:
                del self._looks[key]
            elif key not in self._seats:
                self.attach(key, _nothing)

    def _hasten(self) -> None:
        """What is stored of a process that is gone will not change any more: look at once."""
        for key, (_, count) in self._looks.items():
            orphan = self._memory.orphans.get(key)
            if orphan is not None and self._memory.is_gone(orphan):
                self._looks[key] = (self._outgoing.now, count)

    # --- inside --------------------------------------------------------------------------

    def _restore(self, key: SessionKey, seat: Seat) -> None:
        traits, memory = self.traits, self._memory
        if not traits.can_load and not traits.can_resume:
            hint = "Begin a new session: this agent keeps none beyond a connection."
            self._failed(key, SessionNotFound("The gateway has lost the session.", hint=hint))
            return
        is_look = key not in memory.stored or key in memory.orphans
        loads = traits.can_load and (is_look or not traits.can_resume)
        seat.replay.clear()
        opening = memory.openings.get(key, {"cwd": "/", "mcpServers": []})
        seat.replay_bytes = 0
        method = "session/load" if loads else "session/resume"
        on_answer = partial(self._restored, key, method)
        params = {**opening, "sessionId": key}
        self._outgoing.request(method, params, on_answer, timeout=RESTORE_TIMEOUT)

    def _restored(self, key: SessionKey, method: str, result: Any, error: Json | None) -> None:
        seat = self._seats[key]
        is_zeroclaw = self.traits.is_zeroclaw
        if result is None and error is None:
            self._failed(key, GatewayTimeout())
            return
        if error is not None and number(error) == METHOD_NOT_FOUND:
            self.traits = self.traits.without(method)
            self._restore(key, seat)  # in the other way, if there is one
            return
        is_active = error is not None and is_zeroclaw and number(error) == INVALID_PARAMS
        if error is not None and not is_active:
            if number(error) == SESSION_LIMIT and self.make_room(lambda: self._restore(key, seat)):
                return
            self._failed(key, request_refusal(method, error, is_zeroclaw=is_zeroclaw))
            return
        if method == "session/load" and error is None:
            seat.transcript = history.read_transcript(seat.replay, is_whole=not seat.is_trimmed)
        seat.replay.clear()
        seat.extras = dict(as_object(result))
        seat.state = State.READY
        orphan = self._memory.orphans.get(key)
        if orphan is not None and not self._is_settled(key, orphan, seat.transcript):
            self._leave_to_orphan(key, seat)
            return
        if seat.transcript is not None:
            self._memory.stored[key] = len(seat.transcript.turns)
        waiting, seat.waiting = seat.waiting, []
        for then in waiting:
            then(None, seat.transcript)

    def _failed(self, key: SessionKey, error: BridgeError) -> None:
        seat = self._seats.pop(key)
        orphan = self._memory.orphans.get(key)
        if orphan is not None and isinstance(error, SessionNotFound):
            self._lost(key, orphan)
        elif orphan is not None:
            self._look_later(key)
        for then in seat.waiting:
            then(error, None)

    def _left(self, key: SessionKey, then: Callable[[], None]) -> None:
        seat = self._seats.pop(key, None)
        then()
        for each in seat.waiting if seat is not None else ():
            self.attach(key, each)

    def _may_be_at_work(self, key: SessionKey) -> bool:
        is_idle = self.ready(key) is not None and not self._is_busy(key)
        return self.traits.is_zeroclaw and is_idle and key in self._memory.stored

    def _is_settled(self, key: SessionKey, orphan: Flight, transcript: Transcript | None) -> bool:
        """Whether the orphan is known to be over, or nothing more can be known of it."""
        turn = find_turn(orphan, transcript) if transcript is not None else None
        if turn is not None:
            del self._memory.orphans[key]
            named = history.named_tools(turn, orphan.run_id)
            text = history.whole_text(turn)
            report = RunReported(
                orphan.run_id, RunState.FINISHED, text, stop_reason="end_turn", parts=named.parts
            )
            self._report(report)
            return True
        is_readable = transcript is not None and can_be_found(orphan, transcript)
        if self.traits.is_zeroclaw and is_readable and not self._memory.is_gone(orphan):
            if orphan.run_id in self._probed:
                self._tell_unseen(orphan.run_id)
            return False
        self._lost(key, orphan)
        return True

    def _leave_to_orphan(self, key: SessionKey, seat: Seat) -> None:
        waiting, seat.waiting = seat.waiting, []
        self._look_later(key)
        busy = SessionBusy(
            "The gateway may still be at work on the prompt before this one: its connection was"
            " lost, and it goes on where it can be neither seen nor stopped.",
            hint="Send the prompt again when that work is done, or begin a new session.",
        )
        for then in waiting:
            then(busy, seat.transcript)
        self.close(key)

    def _look_later(self, key: SessionKey) -> None:
        _, count = self._looks.get(key, (0.0, 0))
        delay = LOOKS[min(count, len(LOOKS) - 1)]
        self._looks[key] = (self._outgoing.now + delay, count + 1)

    def _lost(self, key: SessionKey, orphan: Flight) -> None:
        del self._memory.orphans[key]
        self._report(RunReported(orphan.run_id, RunState.UNKNOWN))

    def _tell_unseen(self, run_id: RunId) -> None:
        if run_id not in self._told_unseen:
            self._told_unseen.add(run_id)
            self._outgoing.emit(RunReported(run_id, RunState.UNSEEN))

    def _report(self, report: RunReported) -> None:
        if report.run_id in self._probed:
            self._outgoing.emit(report)
        else:
            self._memory.reports[report.run_id] = report


def _nothing(_error: BridgeError | None, _transcript: Transcript | None) -> None:
    return
