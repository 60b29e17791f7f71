"""The sessions that the ACP demo gateway has stored, and their condensed replay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from acp_bridge.ids import Json


@dataclass(slots=True)
class StoredSession:
    """One row of the store: only turns that ended well get in, each as a whole."""

    session_id: str
    agent: str
    workspace: str
    rows: list[Json] = field(default_factory=list)
    plan: list[Json] | None = None

    def keep(self, turn: list[Json]) -> None:
        """Store the rows of a turn."""
        self.rows += turn


def user_row(text: str, at: float) -> Json:
    """The user's message; the agent keeps it behind the time, in seconds since the epoch."""
    moment = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return {"role": "user", "text": f"[{moment}] {text}"}


def assistant_row(text: str, calls: list[Json]) -> Json:
    """One answer of the model, with the tool calls it made: ``id``, ``name`` and ``args``."""
    return {"role": "assistant", "text": text, "calls": calls}


def tool_row(tool_call_id: str, output: str) -> Json:
    """The result of a tool call."""
    return {"role": "tool", "id": tool_call_id, "output": output}


def replay(rows: list[Json]) -> Iterator[Json]:
    """The updates that ``session/load`` sends: one for each message, and no more is kept."""
    for row in rows:
        match row["role"]:
            case "user":
                yield _chunk("user_message_chunk", row["text"])
            case "assistant":
                if row["text"]:
                    yield _chunk("agent_message_chunk", row["text"])
                for call in row["calls"]:
                    yield tool_call(call["id"], call["name"], call["args"], status="completed")
            case _:
                yield {
                    "sessionUpdate": "tool_call_update",
                    "toolCallId": row["id"],
                    "status": "completed",
                    **_output(row["output"]),
                }


def tool_call(tool_call_id: str, name: str, args: Json, *, status: str = "pending") -> Json:
    """The update that begins a tool call."""
    raw, diff = edit_shape(name, args)
    content: Json = {"content": [diff]} if diff else {}
    return {
        "sessionUpdate": "tool_call",
        "toolCallId": tool_call_id,
        "name": name,
        "title": name,
        "kind": kind(name),
        "rawInput": raw,
        "status": status,
        **content,
    }


def tool_end(tool_call_id: str, name: str, output: str, *extra: Json, **more: str) -> Json:
    """The update that ends a tool call; ``extra`` are contents beside the text. Its status says
    ``completed`` whatever happened, unless ``more`` says otherwise."""
    ended: Json = {
        "sessionUpdate": "tool_call_update",
        "toolCallId": tool_call_id,
        "name": name,
        "title": name,
        "kind": kind(name),
        "status": "completed",
        **_output(output),
        **more,
    }
    ended["content"] = [*ended["content"], *extra]
    return ended


def edit_shape(name: str, args: Json) -> tuple[Json, Json | None]:
    """The input of a tool as it is shown, and the diff of the two edit tools."""
    if name == "file_edit":
        raw = {key: args.get(key, "") for key in ("path", "oldText", "newText")}
    elif name == "file_write":
        raw = {key: args.get(key, "") for key in ("path", "newText")}
    else:
        return args, None
    return raw, {"type": "diff", **raw}


def kind(name: str) -> str:
    """The kind of a tool: ``read``, ``search`` and ``fetch`` are never used."""
    if name in ("shell", "ask_user", "delegate"):
        return "execute"
    return "edit" if name in ("file_edit", "file_write") else "other"


def _chunk(name: str, text: str) -> Json:
    return {"sessionUpdate": name, "content": {"type": "text", "text": text}}


def _output(output: str) -> Json:
    text = {"type": "text", "text": output}
    return {
        "rawOutput": output,
        "body": output,
        "content": [{"type": "content", "content": text}],
    }
