"""The gateway's events and answers, turned into the bridge's events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, assert_never

from acp_bridge.core.commands import AbortRun, AnswerPermission, StartRun
from acp_bridge.core.events import (
    SESSION_CONFLICT,
    AbortAnswered,
    EndKind,
    GatewayEvent,
    GatewayStopping,
    OptionsChanged,
    PermissionAsked,
    PermissionClosed,
    PermissionSettled,
    RunAccepted,
    RunAnsweredAtOnce,
    RunDeferred,
    RunEnded,
    RunRefused,
    RunSeen,
    SessionChanged,
    TextProgress,
    ThoughtProgress,
    Unreadable,
)
from acp_bridge.errors import BridgeError
from acp_bridge.gateway.dialects.openclaw.content import (
    message_text,
    message_thought,
    stop_reason,
)
from acp_bridge.gateway.dialects.openclaw.frames import (
    Event,
    as_count,
    as_id,
    as_list,
    as_object,
    as_text,
)
from acp_bridge.gateway.dialects.openclaw.options import row_to_event
from acp_bridge.gateway.dialects.openclaw.refusals import is_for_restart
from acp_bridge.gateway.dialects.openclaw.streams import agent_event, tool_event
from acp_bridge.ids import ApprovalId, Json, RunId, SessionKey, ToolCallId

_CONFLICT: Final = "reply session initialization conflicted"
"""What 2026.6.11 says, and only in words, of a session whose record it has in two versions."""


def event_to_events(event: Event) -> list[GatewayEvent]:
    """What an event frame means; empty for all that does not concern the bridge."""
    read = _EVENTS.get(event.name)
    return read(event.payload) if read else []


def ack_to_event(command: StartRun, payload: Json) -> GatewayEvent | None:
    """What the answer to ``chat.send`` means.

    None for the status ``ok``: the run is over already, and how it went has to be asked.
    """
    run_id = as_id(payload.get("runId"))
    status = as_text(payload.get("status"))
    if run_id is None and "runIds" in payload:
        # A stop command, which starts no run and gets no event (measured: "/stop" when idle).
        return RunAnsweredAtOnce(command.run_id, _stopped(payload))
    if run_id is not None and run_id != command.run_id:
        return RunDeferred(command.run_id)
    if status == "ok":
        return None
    if status in {"timeout", "error"}:
        return RunEnded(
            command.run_id,
            EndKind.FAILED,
            error=as_text(payload.get("error")) or as_text(payload.get("summary")),
            error_kind="timeout" if status == "timeout" else None,
            detail=payload,
        )
    return RunAccepted(command.run_id)


def abort_to_event(command: AbortRun, payload: Json) -> AbortAnswered:
    """What the answer to ``chat.abort`` means."""
    return AbortAnswered(command.run_id, aborted=payload.get("aborted") is True)


def failure_to_event(
    command: StartRun | AbortRun | AnswerPermission, error: BridgeError
) -> GatewayEvent:
    """How a run command failed."""
    match command:
        case StartRun() if is_for_restart(error):
            return RunDeferred(command.run_id)
        case StartRun():
            return RunRefused(command.run_id, error)
        case AbortRun():
            return AbortAnswered(command.run_id, aborted=False, error=error)
        case AnswerPermission():
            return PermissionSettled(command.approval_id, error)
        case _:
            assert_never(command)


def approval_to_event(payload: Json, server_ms: float | None) -> PermissionAsked | Unreadable:
    """One approval that waits for a decision.

    ``server_ms``: the gateway's clock, for an approval that was made some time ago.
    """
    approval_id = as_id(payload.get("id"))
    if approval_id is None:
        return Unreadable("approval without an id")
    request = as_object(payload.get("request"))
    run_id = as_id(request.get("runId"))
    key = as_id(request.get("sessionKey"))
    call = as_id(request.get("toolCallId"))
    return PermissionAsked(
        approval_id=ApprovalId(approval_id),
        run_id=RunId(run_id) if run_id else None,
        session_key=SessionKey(key) if key else None,
        tool_call_id=ToolCallId(call) if call else None,
        command=as_text(request.get("command")) or as_text(request.get("commandPreview")) or "",
        cwd=as_text(request.get("cwd")),
        host=as_text(request.get("host")),
        allowed=tuple(d for d in as_list(request.get("allowedDecisions")) if isinstance(d, str)),
        expires_in=_expires_in(payload, server_ms),
        warning=as_text(request.get("warningText")),
        waited=_waited(payload, server_ms),
    )


def session_to_event(key: object, row: Json) -> SessionChanged | None:
    """The token counts in a session's row, or None if it has no fresh ones."""
    used, size, cost = session_usage(row)
    session_key = as_id(key)
    if session_key is None or used is None:
        return None
    return SessionChanged(SessionKey(session_key), used, size, cost)


def session_usage(row: Json) -> tuple[int | None, int | None, float | None]:
    """Tokens used, tokens that fit, and cost in US dollars; stale counts are None."""
    used = as_count(row.get("totalTokens")) if row.get("totalTokensFresh") is True else None
    size = as_count(row.get("contextTokens")) or None
    cost = row.get("estimatedCostUsd")
    if isinstance(cost, bool) or not isinstance(cost, int | float):
        return used, size, None
    return used, size, float(cost)


def _stopped(payload: Json) -> str:
    count = len(as_list(payload.get("runIds")))
    if payload.get("aborted") is not True:
        return "Nothing was running."
    return f"Stopped {count} run{'' if count == 1 else 's'}."


def _expires_in(payload: Json, server_ms: float | None) -> float | None:
    expires = as_count(payload.get("expiresAtMs"))
    now = server_ms if server_ms is not None else as_count(payload.get("createdAtMs"))
    return None if expires is None or now is None else max(0.0, (expires - now) / 1000)


def _waited(payload: Json, server_ms: float | None) -> float | None:
    created = as_count(payload.get("createdAtMs"))
    return None if created is None or server_ms is None else max(0.0, (server_ms - created) / 1000)


def is_beginning(frame: Event) -> bool:
    """Whether an event tells that a run is at work, before it has anything to show."""
    if frame.name == "chat":
        return frame.payload.get("state") == "status"
    phase = as_object(frame.payload.get("data")).get("phase")
    return frame.payload.get("stream") == "lifecycle" and phase == "start"


def run_seen(frame: Event) -> RunSeen | None:
    """Whose event it is."""
    if frame.name not in ("chat", "agent"):
        return None
    payload = frame.payload
    run_id, key = as_id(payload.get("runId")), as_id(payload.get("sessionKey"))
    return RunSeen(RunId(run_id), SessionKey(key)) if run_id and key else None


def _chat(payload: Json) -> list[GatewayEvent]:
    run_id = as_id(payload.get("runId"))
    if run_id is None:
        return [Unreadable("chat event without a run")]
    match payload.get("state"):
        case "delta":
            return _delta(RunId(run_id), payload)
        case "final":
            return [_ended(RunId(run_id), EndKind.FINISHED, payload), *_command_done(payload)]
        case "aborted":
            return [_ended(RunId(run_id), EndKind.ABORTED, payload)]
        case "error":
            return [_failed(RunId(run_id), payload)]
        case "status":
            return []
        case _:
            return [Unreadable("chat event of unknown state")]


def _delta(run_id: RunId, payload: Json) -> list[GatewayEvent]:
    message = payload.get("message")
    events: list[GatewayEvent] = []
    if thought := message_thought(message):
        events.append(ThoughtProgress(run_id, None, thought))
    replace = payload.get("replace") is True
    delta = payload.get("deltaText")
    snapshot = message_text(message)
    if isinstance(delta, str) or snapshot is not None:
        text = delta if isinstance(delta, str) else None
        events.append(TextProgress(run_id, text, replace, snapshot))
    return events


def _ended(run_id: RunId, kind: EndKind, payload: Json) -> RunEnded:
    message = payload.get("message")
    reason = payload.get("stopReason") or as_object(message).get("stopReason")
    return RunEnded(
        run_id,
        kind,
        snapshot=message_text(message),
        thought=message_thought(message),
        stop_reason=stop_reason(reason) if kind is EndKind.FINISHED else None,
        error=as_text(payload.get("errorMessage")),
    )


def _command_done(payload: Json) -> list[GatewayEvent]:
    """A slash command is all in one event. 2026.6.11 tells in no other way that ``/think high``
    has changed the session's row (measured)."""
    key = as_id(payload.get("sessionKey"))
    is_alone = (as_count(payload.get("seq")) or 0) <= 1
    return [OptionsChanged(SessionKey(key), (payload.get("runId"),))] if key and is_alone else []


def _failed(run_id: RunId, payload: Json) -> RunEnded:
    # The message of a failed run is the error once more, not the run's text.
    names = ("errorMessage", "errorKind", "errorDetail", "stopReason")
    why = as_object(payload.get("errorDetail"))  # 2026.9.6 says the kind there, and finer
    kind = as_text(payload.get("errorKind")) or as_text(why.get("failoverReason"))
    error = as_text(payload.get("errorMessage")) or message_text(payload.get("message"))
    if kind in (None, "unknown") and _CONFLICT in (error or ""):
        kind = SESSION_CONFLICT
    return RunEnded(
        run_id,
        EndKind.FAILED,
        stop_reason=stop_reason(payload.get("stopReason")),
        error=error,
        error_kind=kind,
        detail={name: payload[name] for name in names if name in payload},
    )


def _agent(payload: Json) -> list[GatewayEvent]:
    return agent_event(payload) + _row_of(payload)


def _session_tool(payload: Json) -> list[GatewayEvent]:
    run_id = as_id(payload.get("runId"))
    if run_id is None:
        return [Unreadable("tool event without a run")]
    data = as_object(payload.get("data"))
    return tool_event(RunId(run_id), data, payload) + _row_of(payload)


def _sessions_changed(payload: Json) -> list[GatewayEvent]:
    """2026.6.11 has some rows' fields in the event itself."""
    row = as_object(payload.get("session")) or payload
    key = payload.get("sessionKey")
    return [event for event in (session_to_event(key, row), row_to_event(key, row)) if event]


def _row_of(payload: Json) -> list[GatewayEvent]:
    """Tool events carry the session's row along."""
    row = as_object(payload.get("session"))
    changed = session_to_event(payload.get("sessionKey"), row) if row else None
    return [changed] if changed else []


def _approval_requested(payload: Json) -> list[GatewayEvent]:
    return [approval_to_event(payload, None)]


def _approval_resolved(payload: Json) -> list[GatewayEvent]:
    approval_id = as_id(payload.get("id"))
    if approval_id is None:
        return [Unreadable("approval without an id")]
    return [PermissionClosed(ApprovalId(approval_id), as_text(payload.get("decision")))]


def _shutdown(payload: Json) -> list[GatewayEvent]:
    return [GatewayStopping(as_text(payload.get("reason")) or "no reason given")]


_EVENTS: dict[str, Callable[[Json], list[GatewayEvent]]] = {
    "chat": _chat,
    "agent": _agent,
    "session.tool": _session_tool,
    "sessions.changed": _sessions_changed,
    "exec.approval.requested": _approval_requested,
    "exec.approval.resolved": _approval_resolved,
    "shutdown": _shutdown,
}
