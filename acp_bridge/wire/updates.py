"""Builders for the session updates and the permission request of ACP v1.

They give the ``update`` object of a ``session/update`` notification, with standard fields only.
Optional members that are None are left out, since in an update that means *unchanged*.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from acp_bridge.ids import Json, SessionId, ToolCallId
from acp_bridge.wire.content import text_block, well_formed

PLAN_PRIORITIES: Final = frozenset({"high", "medium", "low"})
PLAN_STATUSES: Final = frozenset({"pending", "in_progress", "completed"})


def session_update(session_id: SessionId, update: Json) -> Json:
    """The params of a ``session/update`` notification."""
    return {"sessionId": session_id, "update": update}


def message_chunk(text: str, message_id: str) -> Json:
    """More of the agent's answer. Chunks with one ``message_id`` are one message."""
    return _chunk("agent_message_chunk", text_block(text), message_id)


def thought_chunk(text: str, message_id: str) -> Json:
    """More of the model's reasoning."""
    return _chunk("agent_thought_chunk", text_block(text), message_id)


def user_chunk(block: Json, message_id: str) -> Json:
    """One block of what the user sent, for a replay."""
    return _chunk("user_message_chunk", block, message_id)


def tool_call(
    tool_call_id: ToolCallId,
    title: str,
    *,
    kind: str,
    status: str,
    content: Sequence[Json] = (),
    locations: Sequence[Json] = (),
    raw_input: Any = None,
) -> Json:
    """A new tool call; ``content`` are tool contents, see :func:`content` and :func:`diff`."""
    update: Json = {
        "sessionUpdate": "tool_call",
        "toolCallId": tool_call_id,
        "title": title,
        "kind": kind,
        "status": status,
    }
    if content:
        update["content"] = [*content]
    if locations:
        update["locations"] = [*locations]
    if raw_input is not None:
        update["rawInput"] = raw_input
    return update


def tool_call_update(
    tool_call_id: ToolCallId,
    *,
    status: str | None = None,
    title: str | None = None,
    kind: str | None = None,
    content: Sequence[Json] | None = None,
    locations: Sequence[Json] | None = None,
    raw_input: Any = None,
    raw_output: Any = None,
) -> Json:
    """What changed in a tool call. ``content`` and ``locations`` replace what was there."""
    changed = {
        "status": status,
        "title": title,
        "kind": kind,
        "content": None if content is None else [*content],
        "locations": None if locations is None else [*locations],
        "rawInput": raw_input,
        "rawOutput": raw_output,
    }
    return {
        "sessionUpdate": "tool_call_update",
        "toolCallId": tool_call_id,
        **{name: value for name, value in changed.items() if value is not None},
    }


def content(block: Json) -> Json:
    """A content block as the content of a tool call."""
    return {"type": "content", "content": block}


def diff(path: str, old_text: str | None, new_text: str) -> Json:
    """A change of a file as the content of a tool call. ``path`` is absolute; ``old_text`` is
    None for a new file."""
    return {"type": "diff", "path": path, "oldText": old_text, "newText": new_text}


def plan(entries: Iterable[Json]) -> Json:
    """The whole plan: the editor replaces what it had (ACP, agent plan).

    An entry without text is left out; an unknown status counts as pending, an unknown priority as
    medium, so that one odd entry does not cost the editor the plan.
    """
    return {
        "sessionUpdate": "plan",
        "entries": [
            {
                "content": well_formed(entry["content"]),
                "priority": _one_of(PLAN_PRIORITIES, entry.get("priority"), "medium"),
                "status": _one_of(PLAN_STATUSES, entry.get("status"), "pending"),
            }
            for entry in entries
            if isinstance(entry.get("content"), str) and entry["content"].strip()
        ],
    }


def usage(used: int, size: int, cost_usd: float | None = None) -> Json:
    """Tokens in use and tokens of the context window, both at least 0; the cost so far in USD."""
    update: Json = {"sessionUpdate": "usage_update", "used": max(used, 0), "size": max(size, 0)}
    if cost_usd is not None:
        update["cost"] = {"amount": cost_usd, "currency": "USD"}
    return update


def usage_of(update: Json) -> tuple[int, int, float | None]:
    """The numbers of a :func:`usage` update."""
    cost = update.get("cost")
    return update["used"], update["size"], cost["amount"] if cost else None


def session_info(title: str | None, updated_at: str | None) -> Json:
    """What is new about the session; ``updated_at`` is ISO 8601. None means unchanged."""
    changed = {
        "title": None if title is None else well_formed(title),
        "updatedAt": updated_at,
    }
    return {
        "sessionUpdate": "session_info_update",
        **{name: value for name, value in changed.items() if value is not None},
    }


def config_options(options: Iterable[Json]) -> Json:
    """The whole list of config options, as the answer to ``session/new`` has it."""
    return {"sessionUpdate": "config_option_update", "configOptions": [*options]}


def current_mode(mode_id: str) -> Json:
    """Another mode holds; it is one of those that the session was opened with."""
    return {"sessionUpdate": "current_mode_update", "currentModeId": mode_id}


def available_commands(commands: Iterable[Json]) -> Json:
    """The whole list of slash commands."""
    return {"sessionUpdate": "available_commands_update", "availableCommands": [*commands]}


def permission_option(option_id: str, name: str, kind: str) -> Json:
    """One way to answer a permission request."""
    return {"optionId": option_id, "name": name, "kind": kind}


def permission_request(session_id: SessionId, call: Json, options: Sequence[Json]) -> Json:
    """The params of ``session/request_permission``. ``call`` has the fields of a tool call update,
    without ``sessionUpdate``."""
    return {"sessionId": session_id, "toolCall": call, "options": [*options]}


def _chunk(kind: str, block: Json, message_id: str) -> Json:
    return {"sessionUpdate": kind, "content": block, "messageId": message_id}


def _one_of(known: frozenset[str], value: Any, default: str) -> str:
    return value if isinstance(value, str) and value in known else default
