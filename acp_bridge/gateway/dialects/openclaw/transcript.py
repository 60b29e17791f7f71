"""From the rows of ``chat.history`` to the turns of a session.

What the gateways show there is a projection of what they keep. Their wrappings for the model (a
header with the time and the sender, internal context) are taken off; what remains of ours is the
working directory before a prompt. Measured losses:

- 2026.6.11 drops the call of a tool from an answer that has text too; its result is still there.
- Files of a prompt are named, but their contents are not given; those that an ACP bridge has sent
  are not even named.
- 2026.9.6 says only in ``activity``, beside the rows, that a command failed by its exit code.
- A prompt that 2026.9.6 has accepted but not begun is in ``pendingInputs``, not among the rows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from acp_bridge.core.commands import Attachment
from acp_bridge.core.events import EndKind
from acp_bridge.core.prompt import without_cwd
from acp_bridge.core.transcript import (
    Part,
    PastTurn,
    SaidText,
    SaidThought,
    Transcript,
    UsedTool,
)
from acp_bridge.gateway.dialects.openclaw.content import message_text
from acp_bridge.gateway.dialects.openclaw.frames import as_count, as_list, as_object, as_text
from acp_bridge.gateway.dialects.openclaw.rows import (
    Ending,
    Turn,
    content,
    ending,
    is_abort,
    is_cut,
    is_reset,
    is_restart,
    media,
    steered_run,
    transcript_rows,
    turns,
)
from acp_bridge.ids import Json, RunId, ToolCallId

UNEXPLAINED = "The run failed; the gateway does not say why."

_NO_CAPTION = "[User sent media without caption]"
"""What 2026.6.11 writes for a prompt that is nothing but files."""
_STORED_NAME = re.compile(r"(?P<stem>.+)---[0-9a-f-]{36}(?P<suffix>\.[^.]*)?")
"""A file's name in the gateway's store; one that came without a name has the id alone."""


def read_transcript(history: Json, wait: Json, whole_rows: Mapping[str, Json]) -> Transcript | None:
    """The transcript; None if the gateway has no such session.

    ``wait`` is what ``agent.wait`` says of the run in flight, ``whole_rows`` are rows that the
    history left out, by their id.
    """
    if not as_text(history.get("sessionId")):
        return None
    rows, has_reset = _since_reset(transcript_rows(history, whole_rows))
    found = turns(rows)
    pending = _pending(history, {turn.run_id for turn in found})
    running, text = _running(history, wait, pending)
    failed = failed_calls(history)
    past = [_past(turn, failed, is_running=_is(turn.run_id, running)) for turn in found]
    if past and not _is(past[-1].run_id, running):
        past[-1] = _with_session(past[-1], as_object(history.get("sessionInfo")))
    return Transcript(
        turns=(*past, *pending),
        running=running,
        running_text=text,
        is_whole=has_reset or not is_cut(history),
    )


def _since_reset(rows: list[Json]) -> tuple[list[Json], bool]:
    for index in range(len(rows) - 1, -1, -1):
        if is_reset(rows[index]):
            return rows[index + 1 :], True
    return rows, False


def _running(
    history: Json, wait: Json, pending: Iterable[PastTurn]
) -> tuple[RunId | None, str | None]:
    """The run in flight and its text. One that the gateway has begun again after a restart waits
    among the pending inputs for a while."""
    in_flight = as_object(history.get("inFlightRun"))
    run_id = as_text(in_flight.get("runId"))
    if run_id and as_text(wait.get("status")) not in {"ok", "error"}:
        return RunId(run_id), as_text(in_flight.get("text"))
    if as_object(history.get("sessionInfo")).get("hasActiveRun") is True:
        waiting = (turn.run_id for turn in pending if turn.stop_reason is None)
        return next((each for each in waiting if each), None), None
    return None, None


def _is(run_id: RunId | None, running: RunId | None) -> bool:
    return run_id is not None and run_id == running


def _past(turn: Turn, failed: Collection[str], *, is_running: bool) -> PastTurn:
    past = _begun(turn.prompt or {}, turn.run_id, at=_time([turn.prompt or {}, *turn.rows]))
    past = past._replace(parts=read_parts(turn.rows, failed))
    end = ending(turn.rows)
    if is_running:
        return past
    if end is None:
        is_steered = not turn.rows and steered_run(turn.prompt or {})
        return past._replace(stop_reason="end_turn" if is_steered else None)
    return _with_ending(past, end)


def _with_ending(past: PastTurn, end: Ending) -> PastTurn:
    if end.kind is EndKind.FAILED:
        return past._replace(error=end.error or UNEXPLAINED)
    return past._replace(stop_reason=end.stop_reason or "cancelled")


def _with_session(newest: PastTurn, session: Json) -> PastTurn:
    """2026.6.11 writes no row for an abort during a tool call; the session says it."""
    is_open = newest.stop_reason is None and newest.error is None
    if not is_open or session.get("hasActiveRun") is not False:
        return newest
    match session.get("status"):
        case "killed":
            return newest._replace(stop_reason="cancelled")
        case "failed":
            return newest._replace(error=UNEXPLAINED)
        case _:
            return newest


def _pending(history: Json, known: Collection[RunId | None]) -> tuple[PastTurn, ...]:
    found: dict[str, PastTurn] = {}
    for each in as_list(as_object(history.get("pendingInputs")).get("items")):
        item = as_object(each)
        run_id = as_text(item.get("runId"))
        if run_id and run_id not in known:
            past = _begun(as_object(item.get("message")), RunId(run_id), at=_time([item]))
            is_cancelled = item.get("state") == "cancelled"
            found[run_id] = past._replace(stop_reason="cancelled" if is_cancelled else None)
    return tuple(found.values())


def _begun(prompt: Json, run_id: RunId | None, *, at: int | None) -> PastTurn:
    """A turn as its prompt tells it."""
    text = without_cwd(message_text(prompt) or "")
    files = _attachments(prompt)
    return PastTurn(
        run_id=run_id,
        at=at,
        prompt="" if files and text == _NO_CAPTION else text,
        attachments=files,
        parts=(),
        stop_reason=None,
        error=None,
        is_system=is_restart(prompt),
    )


def _time(rows: Iterable[Json]) -> int | None:
    """The time of the first row that has one."""
    names = ("timestamp", "acceptedAt")
    times = (as_count(row.get(name)) for row in rows for name in names)
    return next((time for time in times if time is not None), None)


def _attachments(prompt: Json) -> tuple[Attachment, ...]:
    files = [(each.get("contentType"), each.get("fileName")) for each in media(prompt)]
    if not files:
        types, paths = as_list(prompt.get("MediaTypes")), as_list(prompt.get("MediaPaths"))
        files = [(kind, _sent_name(path)) for kind, path in zip(types, paths, strict=False)]
    return tuple(_attachment(as_text(kind), as_text(name)) for kind, name in files)


def _attachment(mime_type: str | None, name: str | None) -> Attachment:
    mime_type = mime_type or "application/octet-stream"
    kind = "image" if mime_type.startswith("image/") else "file"
    return Attachment(kind, mime_type, "", name)


def _sent_name(path: object) -> str | None:
    """The name that a file was sent with, from where 2026.6.11 has stored it."""
    stored = re.split(r"[/\\]", path)[-1] if isinstance(path, str) else ""
    name = _STORED_NAME.fullmatch(stored)
    return name["stem"] + (name["suffix"] or "") if name else None


def failed_calls(history: Json) -> frozenset[str]:
    """The calls that 2026.9.6 calls failed, whatever their results say."""
    return frozenset(
        call
        for note in as_list(history.get("activity"))
        for item in map(as_object, as_list(as_object(note).get("items")))
        if item.get("status") == "failed" and (call := as_text(item.get("toolCallId")))
    )


def read_parts(rows: Iterable[Json], failed: Collection[str]) -> tuple[Part, ...]:
    """What was done in one turn, in order. ``failed`` are :func:`failed_calls`."""
    parts = _Parts(failed)
    for row in rows:
        parts.add(row)
    return parts.told()


class _Parts:
    """Puts together what was done in a turn. A text has no blanks at its end, as the live one."""

    def __init__(self, failed: Collection[str]) -> None:
        self._failed = failed
        self._parts: list[SaidText | SaidThought | ToolCallId] = []
        self._tools: dict[ToolCallId, UsedTool] = {}
        self._texts: list[str] = []
        """Texts that make one segment."""

    def add(self, row: Json) -> None:
        """One answer or result."""
        if row.get("role") == "toolResult":
            self._end_tool(row)
        elif is_abort(row):
            self._say_rest(message_text(row) or "")
        else:
            for part in content(row):
                self._add_part(part)
        self._end_segment()

    def told(self) -> tuple[Part, ...]:
        """All parts, in order."""
        return tuple(self._tools[part] if isinstance(part, str) else part for part in self._parts)

    def _add_part(self, part: Json) -> None:
        match part.get("type"):
            case "text":
                self._texts.append(as_text(part.get("text")) or "")
            case "thinking":
                self._end_segment()
                thought = (as_text(part.get("thinking")) or "").rstrip()
                if thought:
                    self._parts.append(SaidThought(thought))
            case "toolCall":
                self._end_segment()
                if call := as_text(part.get("id")):
                    self._begin_tool(call, as_text(part.get("name")), part.get("arguments"))
            case _:
                pass

    def _begin_tool(self, call: str, name: str | None, args: object) -> UsedTool:
        call_id = ToolCallId(call)
        if call_id not in self._tools:
            self._parts.append(call_id)
            self._tools[call_id] = UsedTool(call_id, name, args, output=None, failed=False)
        return self._tools[call_id]

    def _end_tool(self, row: Json) -> None:
        call = as_text(row.get("toolCallId"))
        if call is None:
            return
        begun = self._begin_tool(call, as_text(row.get("toolName")), None)
        self._tools[begun.tool_call_id] = begun._replace(
            output=message_text(row) or "",
            failed=row.get("isError") is True or call in self._failed,
            details=as_object(row.get("details")),
        )

    def _say_rest(self, whole: str) -> None:
        """An aborted run's whole text is written once more; only its end is new."""
        said = "\n\n".join(part.text for part in self._parts if isinstance(part, SaidText))
        if not said.startswith(whole):
            self._texts.append(whole.removeprefix(said).lstrip("\n") if said else whole)

    def _end_segment(self) -> None:
        text = "\n".join(self._texts).rstrip()
        self._texts.clear()
        if text:
            self._parts.append(SaidText(text))
