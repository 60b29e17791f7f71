"""What one connection has heard: later events are told by it from those that say nothing new."""

from __future__ import annotations

from typing import Final

from acp_bridge.core.events import (
    EndKind,
    GatewayEvent,
    OptionsChanged,
    RunEnded,
    SessionChanged,
    ToolEnded,
    ToolProgress,
    ToolStarted,
)
from acp_bridge.core.recent import Recent
from acp_bridge.gateway.dialects.openclaw.decode import event_to_events, is_beginning, run_seen
from acp_bridge.gateway.dialects.openclaw.frames import Event
from acp_bridge.gateway.dialects.openclaw.streams import lifecycle_error
from acp_bridge.ids import RunId, SessionKey
from acp_bridge.wire.content import cut_middle
from acp_bridge.wire.weight import weigh

_CAUSE_LIMIT: Final = 8 * 1024
_TOLD_LIMIT: Final = 16 * 1024


class Hearing:
    """Reads the event frames of one connection, in their order. What it has forgotten of a gateway
    that names runs without end is told once more."""

    def __init__(self) -> None:
        self._tool_runs: Recent[RunId, None] = Recent()
        self._known_runs: Recent[RunId, None] = Recent()
        self._begun_runs: Recent[RunId, None] = Recent()
        """Of other clients; they have shown nothing yet."""
        self._told: Recent[tuple[type, SessionKey], SessionChanged | OptionsChanged] = Recent()
        self._causes: Recent[RunId, str] = Recent()
        """Errors of runs that have not ended yet."""

    def expect(self, run_id: RunId) -> None:
        """The run was begun over this connection, or asked about: its events are no surprise."""
        self._known_runs[run_id] = None

    def events(self, frame: Event) -> list[GatewayEvent]:
        """What is new in a frame, with what is known of why a run ended."""
        if error := lifecycle_error(frame):
            self._causes[error[0]] = cut_middle(error[1], _CAUSE_LIMIT)
        events = event_to_events(frame)
        kept = [self._with_cause(frame, each) for each in events if self._is_new(frame, each)]
        seen = run_seen(frame)
        if seen is None or seen.run_id in self._known_runs:
            return kept
        if events:
            self._known_runs[seen.run_id] = None
            kept.insert(0, seen)
        elif is_beginning(frame) and seen.run_id not in self._begun_runs:
            self._begun_runs[seen.run_id] = None
            kept.insert(0, seen._replace(is_beginning=True))
        return kept

    def _is_new(self, frame: Event, event: GatewayEvent) -> bool:
        """A subscribed connection that also sent the prompt might get each tool event twice, and
        every tool event repeats the session's row."""
        if isinstance(event, ToolStarted | ToolProgress | ToolEnded):
            if frame.name == "agent":
                self._tool_runs[event.run_id] = None
            else:
                return event.run_id not in self._tool_runs
        if isinstance(event, SessionChanged | OptionsChanged):
            about = type(event), event.session_key
            if self._told.get(about) == event:
                return False
            if weigh(event) <= _TOLD_LIMIT:
                self._told[about] = event
        return True

    def _with_cause(self, frame: Event, event: GatewayEvent) -> GatewayEvent:
        """Tell a run that failed from one that was stopped.

        2026.9.6 ends a run whose model said nothing with ``chat aborted``, and says why only in
        ``lifecycle``. A run that a client stopped has the stop reason ``rpc``.
        """
        if not isinstance(event, RunEnded):
            return event
        cause = self._causes.pop(event.run_id, None)
        is_stopped = frame.payload.get("stopReason") == "rpc" or event.error is not None
        if event.kind is EndKind.ABORTED and cause and not is_stopped:
            return event._replace(kind=EndKind.FAILED, error=cause)
        return event
