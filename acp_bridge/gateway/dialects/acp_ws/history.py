"""The gateway's replay of a session as a transcript.

ZeroClaw sends one update for each stored message: no thoughts, no plans, no cancelled or failed
turns, the user's text behind a time, results of tools without their names.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from acp_bridge.core.parts import has_time, without_time
from acp_bridge.core.transcript import PastTurn, SaidText, SaidThought, Transcript, UsedTool
from acp_bridge.gateway.dialects.acp_ws.handshake import as_object
from acp_bridge.gateway.dialects.acp_ws.updates import tool_name
from acp_bridge.ids import Json, RunId, ToolCallId

_TIME_LENGTH = len("YYYY-MM-DD HH:MM:SS UTC")


def read_transcript(updates: Iterable[Json], *, is_whole: bool) -> Transcript:
    """The transcript of a replay; ``is_whole`` unless the gateway said that it dropped turns."""
    turns: list[_Turn] = []
    for update in updates:
        kind = update.get("sessionUpdate")
        if kind == "user_message_chunk":
            text = _text(update) or ""
            if not turns or turns[-1].parts or has_time(text):
                turns.append(_Turn(text))
            else:
                turns[-1].prompt += f"\n\n{text}"
        elif turns:
            turns[-1].take(str(kind), update)
    past = tuple(turn.past() for turn in turns)
    return Transcript(past, None, None, is_whole=is_whole, is_nameless=True)


def whole_text(turn: PastTurn) -> str:
    """All that the agent said in a turn."""
    return "\n\n".join(part.text for part in turn.parts if isinstance(part, SaidText))


def named_tools(turn: PastTurn, run_id: RunId) -> PastTurn:
    """The turn with the names that its tool calls have when they are seen live."""
    parts = tuple(
        part._replace(tool_call_id=ToolCallId(tool_name(part.tool_call_id, run_id)))
        if isinstance(part, UsedTool)
        else part
        for part in turn.parts
    )
    return turn._replace(run_id=run_id, parts=parts)


class _Turn:
    def __init__(self, prompt: str) -> None:
        self.prompt = prompt
        self.parts: list[SaidText | SaidThought | UsedTool] = []

    def take(self, kind: str, update: Json) -> None:
        text = _text(update)
        if kind == "agent_message_chunk" and text:
            self.parts.append(SaidText(text))
        elif kind == "agent_thought_chunk" and text:
            self.parts.append(SaidThought(text))
        elif kind in ("tool_call", "tool_call_update"):
            self._tool(update)

    def past(self) -> PastTurn:
        return PastTurn(
            run_id=None,
            at=_time(self.prompt),
            prompt=without_time(self.prompt),
            attachments=(),
            parts=tuple(self.parts),
            stop_reason="end_turn",  # nothing else is stored
            error=None,
        )

    def _tool(self, update: Json) -> None:
        call_id = ToolCallId(str(update.get("toolCallId")))
        name = update.get("name") or update.get("title")
        output, failed = _output(update), update.get("status") == "failed"
        for place, part in enumerate(self.parts):
            if isinstance(part, UsedTool) and part.tool_call_id == call_id:
                self.parts[place] = part._replace(
                    output=part.output if output is None else output, failed=failed
                )
                return
        shown = name if isinstance(name, str) else None
        ended = output if output is not None or "rawInput" in update else ""
        self.parts.append(UsedTool(call_id, shown, update.get("rawInput"), ended, failed))


def _text(update: Json) -> str | None:
    text = as_object(update.get("content")).get("text")
    return text if isinstance(text, str) else None


def _output(update: Json) -> str | None:
    raw = update.get("rawOutput")
    if isinstance(raw, str):
        return raw
    contents: Any = update.get("content")
    texts = [
        as_object(as_object(each).get("content")).get("text")
        for each in (contents if isinstance(contents, list) else ())
    ]
    found = [text for text in texts if isinstance(text, str)]
    return "\n".join(found) if found else None


def _time(prompt: str) -> int | None:
    """When the prompt was stored, in UTC milliseconds; only UTC is told without doubt."""
    if not has_time(prompt):
        return None
    stamp = prompt[1 : 1 + _TIME_LENGTH]
    try:
        moment = datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(moment.timestamp() * 1000)
