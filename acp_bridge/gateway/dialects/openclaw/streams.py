"""The gateway's ``agent`` events: what a run does besides answering.

The answer's text is taken from ``chat`` events alone; the stream ``assistant`` repeats it, each
segment on its own. ``lifecycle`` repeats the endings, and sometimes knows the cause of one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from acp_bridge.core.events import (
    CommandOutput,
    GatewayEvent,
    ItemChanged,
    PermissionAsked,
    PlanChanged,
    ThoughtProgress,
    ToolEnded,
    ToolProgress,
    ToolStarted,
    Unreadable,
)
from acp_bridge.gateway.dialects.openclaw.frames import Event, as_id, as_list, as_object, as_text
from acp_bridge.ids import ApprovalId, Json, RunId, SessionKey, ToolCallId

_FAILED = frozenset({"failed", "error", "denied", "blocked", "timeout"})

_PLAN_STATUS = {
    "pending": "pending",
    "inprogress": "in_progress",
    "active": "in_progress",
    "running": "in_progress",
    "completed": "completed",
    "complete": "completed",
    "done": "completed",
}
_PLAN_PRIORITIES = frozenset({"high", "medium", "low"})


def agent_event(payload: Json) -> list[GatewayEvent]:
    """One ``agent`` event of any stream; streams that tell nothing new give nothing."""
    stream = payload.get("stream")
    read = _STREAMS.get(stream) if isinstance(stream, str) else None
    if read is None:
        return []
    run_id = as_id(payload.get("runId"))
    if run_id is None:
        return [Unreadable("agent event without a run")]
    return read(RunId(run_id), as_object(payload.get("data")), payload)


def lifecycle_error(event: Event) -> tuple[RunId, str] | None:
    """The run and the sentence of a failure told by the stream ``lifecycle``."""
    if event.name != "agent" or event.payload.get("stream") != "lifecycle":
        return None
    data = as_object(event.payload.get("data"))
    run_id, error = as_id(event.payload.get("runId")), as_text(data.get("error"))
    if data.get("phase") != "error" or not run_id or not error:
        return None
    return RunId(run_id), error


def tool_event(run_id: RunId, data: Json, payload: Json) -> list[GatewayEvent]:
    """The stream ``tool``, sent to the connection that sent the prompt and to subscribers."""
    call = as_id(data.get("toolCallId"))
    if call is None:
        return [Unreadable("tool event without a tool call")]
    tool_call_id = ToolCallId(call)
    name = as_text(data.get("name"))
    match data.get("phase"):
        case "start":
            return [ToolStarted(run_id, tool_call_id, name, data.get("args"))]
        case "update":
            return [ToolProgress(run_id, tool_call_id, name, data.get("partialResult"))]
        case "result":
            failed = data.get("isError") is True
            return [ToolEnded(run_id, tool_call_id, name, failed, data.get("result"))]
        case _:
            return []


def _item(run_id: RunId, data: Json, payload: Json) -> list[GatewayEvent]:
    call = as_id(data.get("toolCallId"))
    phase = as_text(data.get("phase"))
    if call is None or phase not in {"start", "update", "end"}:
        return []  # such as ``preamble``, which repeats text of the answer
    texts = (data.get(field) for field in ("progressText", "summary", "error"))
    return [
        ItemChanged(
            run_id=run_id,
            tool_call_id=ToolCallId(call),
            phase=phase,
            kind=as_text(data.get("kind")) or "tool",
            name=as_text(data.get("name")),
            title=as_text(data.get("title")),
            failed=_is_in(data.get("status"), _FAILED),
            text=next((text for each in texts if (text := as_text(each))), None),
        )
    ]


def _command_output(run_id: RunId, data: Json, payload: Json) -> list[GatewayEvent]:
    call = as_id(data.get("toolCallId"))
    if call is None:
        return []
    exit_code = data.get("exitCode")
    return [
        CommandOutput(
            run_id=run_id,
            tool_call_id=ToolCallId(call),
            name=as_text(data.get("name")),
            title=as_text(data.get("title")),
            output=as_text(data.get("output")) or "",
            is_end=data.get("phase") == "end",
            exit_code=exit_code if type(exit_code) is int else None,
            cwd=as_text(data.get("cwd")),
        )
    ]


def _thinking(run_id: RunId, data: Json, payload: Json) -> list[GatewayEvent]:
    delta = as_text(data.get("delta"))
    snapshot = as_text(data.get("text"))
    return [ThoughtProgress(run_id, delta, snapshot)] if delta or snapshot else []


def _plan(run_id: RunId, data: Json, payload: Json) -> list[GatewayEvent]:
    if not isinstance(data.get("steps"), list):
        return []
    entries = (_plan_entry(step) for step in data["steps"])
    return [PlanChanged(run_id, tuple(entry for entry in entries if entry))]


def _plan_entry(step: object) -> Json | None:
    """A step is a string or an object; fields and status differ between the gateway's plugins."""
    fields = {"step": step} if isinstance(step, str) else as_object(step)
    texts = (as_text(fields.get(field)) for field in ("step", "text", "title", "content"))
    content = next((text for text in texts if text and text.strip()), None)
    if content is None:
        return None
    status = str(fields.get("status")).lower().replace("_", "").replace("-", "")
    priority = fields.get("priority")
    return {
        "content": content,
        "priority": priority if _is_in(priority, _PLAN_PRIORITIES) else "medium",
        "status": _PLAN_STATUS.get(status, "pending"),
    }


def _approval(run_id: RunId, data: Json, payload: Json) -> list[GatewayEvent]:
    approval = as_id(data.get("approvalId"))
    if approval is None or data.get("phase") != "requested":
        return []
    call = as_id(data.get("toolCallId"))
    key = as_id(payload.get("sessionKey"))
    return [
        PermissionAsked(
            approval_id=ApprovalId(approval),
            run_id=run_id,
            session_key=SessionKey(key) if key else None,
            tool_call_id=ToolCallId(call) if call else None,
            command=as_text(data.get("command")) or as_text(data.get("title")) or "",
            cwd=as_text(data.get("cwd")),
            host=as_text(data.get("host")),
            allowed=tuple(d for d in as_list(data.get("allowedDecisions")) if isinstance(d, str)),
            expires_in=None,
        )
    ]


def _is_in(value: Any, names: frozenset[str]) -> bool:
    return isinstance(value, str) and value in names


_STREAMS: dict[str, Callable[[RunId, Json, Json], list[GatewayEvent]]] = {
    "tool": tool_event,
    "item": _item,
    "command_output": _command_output,
    "thinking": _thinking,
    "plan": _plan,
    "approval": _approval,
}
