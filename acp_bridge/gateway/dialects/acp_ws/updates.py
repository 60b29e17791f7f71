"""From the gateway's session updates to events; their shapes are mended where ACP needs it.

Unknown kinds and unknown members pass as they are. Text goes the way of every text of the bridge,
so that it is recorded and shown again like any other.
"""

from __future__ import annotations

from typing import Any, Final

from acp_bridge.core.events import GatewayEvent, TextProgress, ThoughtProgress, Unreadable, Updated
from acp_bridge.core.marks import Marks
from acp_bridge.core.recent import Recent
from acp_bridge.gateway.dialects.acp_ws.handshake import as_object
from acp_bridge.ids import MAX_ID, Json, RunId
from acp_bridge.wire.updates import PLAN_PRIORITIES, PLAN_STATUSES

_KINDS: Final = frozenset(
    {
        "read",
        "edit",
        "delete",
        "move",
        "search",
        "execute",
        "think",
        "fetch",
        "switch_mode",
        "other",
    }
)
_CHUNKS: Final = ("agent_message_chunk", "agent_thought_chunk")
_CHUNK: Final = frozenset({"sessionUpdate", "content", "messageId"})
_TEXT: Final = frozenset({"type", "text"})
_STATUSES: Final = frozenset({"pending", "in_progress", "completed", "failed"})
_UNIQUE: Final = 16
"""Characters from which on the name of a tool call is taken to be unique: providers of models that
count their calls begin anew in each turn."""
_REPEATED: Final = "turn-cancelled-"
"""Begins the name of the card that ends every cancelled turn of a session."""


class RunUpdates:
    """The updates of one run."""

    def __init__(self, run_id: RunId) -> None:
        self._run_id = run_id
        self._cards: Recent[str, None] = Recent()
        self.has_text = False
        """Whether anything was said."""

    def events(self, update: Json) -> list[GatewayEvent]:
        """What an update says."""
        kind = update.get("sessionUpdate")
        text = _text(update)
        if kind == "agent_message_chunk" and text is not None:
            self.has_text = self.has_text or bool(text)
        if kind in _CHUNKS and text is not None:
            return [self._chunk(update, text)]
        if kind in ("tool_call", "tool_call_update"):
            return [self._tool(update)]
        if kind == "plan":
            return [Updated(self._run_id, mended_plan(update))]
        if kind == "user_message_chunk":
            return []  # ACP: an agent does not repeat what the user has just said
        if kind in _CHUNKS and not isinstance(update.get("content"), dict):
            return [Unreadable("a chunk without content")]
        return [Updated(self._run_id, update)]

    def _chunk(self, update: Json, text: str) -> GatewayEvent:
        marks = _marks(update)
        if not text and marks is not None and marks.extras:
            return Updated(self._run_id, update)  # there is no text to put them to
        if update["sessionUpdate"] == "agent_thought_chunk":
            return ThoughtProgress(self._run_id, text, None, marks)
        return TextProgress(self._run_id, text, replace=False, snapshot=None, marks=marks)

    def _tool(self, update: Json) -> GatewayEvent:
        call_id = update.get("toolCallId")
        if not isinstance(call_id, str) or len(call_id) > MAX_ID:
            return Unreadable("a tool call without a toolCallId")
        mended = mended_tool({**update, "toolCallId": tool_name(call_id, self._run_id)})
        if call_id not in self._cards and mended["sessionUpdate"] == "tool_call_update":
            mended = mended_tool({**mended, "sessionUpdate": "tool_call"})
        self._cards[call_id] = None
        return Updated(self._run_id, mended)


def tool_name(call_id: str, run_id: RunId) -> str:
    """A name for a tool call that no other turn of the session uses (ACP, tool calls)."""
    is_unique = len(call_id) >= _UNIQUE and not call_id.startswith(_REPEATED)
    return call_id if is_unique else f"{call_id}~{run_id[:8]}"


def mended_tool(update: Json) -> Json:
    """A tool call with what ACP wants of one: a title where it begins, and known words."""
    mended = {**update}
    if update["sessionUpdate"] == "tool_call" and not isinstance(update.get("title"), str):
        name = update.get("name")
        mended["title"] = name if isinstance(name, str) and name else "tool"
    _keep_known(mended, "kind", _KINDS, "other")
    _keep_known(mended, "status", _STATUSES, None)
    return mended


def mended_plan(update: Json) -> Json:
    """A plan whose entries all have text and known words."""
    entries = update.get("entries")
    return {
        **update,
        "entries": [
            {
                **entry,
                "priority": _one_of(PLAN_PRIORITIES, entry.get("priority"), "medium"),
                "status": _one_of(PLAN_STATUSES, entry.get("status"), "pending"),
            }
            for entry in (entries if isinstance(entries, list) else ())
            if isinstance(entry, dict) and isinstance(entry.get("content"), str)
        ],
    }


def _keep_known(update: Json, name: str, known: frozenset[str], otherwise: str | None) -> None:
    value = update.get(name)
    if name not in update or (isinstance(value, str) and value in known):
        return
    if otherwise is None:
        del update[name]
    else:
        update[name] = otherwise


def _one_of(known: frozenset[str], value: Any, default: str) -> str:
    return value if isinstance(value, str) and value in known else default


def _marks(update: Json) -> Marks | None:
    inner = {name: value for name, value in update["content"].items() if name not in _TEXT}
    extras = {name: value for name, value in update.items() if name not in _CHUNK}
    message_id = update.get("messageId") if isinstance(update.get("messageId"), str) else None
    if inner:
        extras["content"] = inner
    return Marks(message_id, extras) if message_id or extras else None


def _text(update: Json) -> str | None:
    content = as_object(update.get("content"))
    text = content.get("text")
    return text if content.get("type") == "text" and isinstance(text, str) else None
