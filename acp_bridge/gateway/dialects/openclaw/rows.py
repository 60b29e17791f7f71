"""The rows of a session's transcript, as ``chat.history`` gives them: what each is, which turn it
belongs to, and how a turn ended.

A prompt's row carries ``<run id>:user`` as its idempotency key. Other rows name their run in
2026.9.6 and belong to the prompt above them in 2026.6.11. Measured oddities:

- Rows above 128 KiB are left out and marked ``truncated``, in 2026.6.11 without their key.
- 2026.6.11 writes the prompt once more when it tries the model again.
- 2026.9.6 feeds a second prompt into the running run, whose rows then go on below that prompt.
- A prompt that another session sent is shown as an answer with a ``senderLabel``.
- Of a failed answer the reason is taken out. 2026.6.11 says nothing of it beside a text, 2026.9.6
  puts a sentence with a warning sign before the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from acp_bridge.core.events import EndKind
from acp_bridge.gateway.dialects.openclaw.content import message_text, stop_reason
from acp_bridge.gateway.dialects.openclaw.encode import HISTORY_ROWS
from acp_bridge.gateway.dialects.openclaw.frames import (
    as_count,
    as_list,
    as_object,
    as_text,
    json_size,
)
from acp_bridge.ids import Json, RunId

HISTORY_BYTES = 6 * 1024 * 1024 - 128 * 1024
"""A history of this size may have been cut: the gateway gives 6 MiB, and a row has 128 KiB."""

_USER = ":user"
_RESTARTED = "[System] Your previous turn was interrupted by a gateway restart"
_WARNING = "⚠️"
_NO_REPLY = "The agent run failed before producing a reply."
"""What both versions say of a failed answer without any text of its own."""


@dataclass(slots=True)
class Turn:
    """The rows of one turn; without a prompt if that lies before the part that we have, or never
    was."""

    run_id: RunId | None
    prompt: Json | None = None
    rows: list[Json] = field(default_factory=list)
    """Answers and results of tools, in order."""


class Ending(NamedTuple):
    """How a turn ended, by its last answer."""

    kind: EndKind
    stop_reason: str | None = None
    """The ACP stop reason of a finished turn."""
    error: str | None = None
    """Why a failed turn failed, where the transcript says it."""


def transcript_rows(history: Json, whole_rows: Mapping[str, Json]) -> list[Json]:
    """The rows of a history, oldest first, with the whole rows in place of those left out."""
    rows = map(as_object, as_list(history.get("messages")))
    return [whole_rows.get(row_id(row) or "", row) for row in rows]


def is_cut(history: Json) -> bool:
    """Whether older rows may be missing at the head of a history. Only 2026.9.6 says."""
    has_more = history.get("hasMore")
    if isinstance(has_more, bool):
        return has_more
    rows = as_list(history.get("messages"))
    return len(rows) >= HISTORY_ROWS or json_size(rows) >= HISTORY_BYTES


def next_offset(history: Json) -> int | None:
    """Where the rows go on that are older than these."""
    offset = as_count(history.get("nextOffset"))
    return offset if history.get("hasMore") is True and offset else None


def with_older(history: Json, page: Json) -> Json:
    """A history with a page of older rows before its own. Rows that came in between have moved
    others from page to page: each is taken once."""
    rows = [as_object(row) for row in as_list(history.get("messages"))]
    known = {row_id(row) for row in rows} - {None}
    older = [as_object(row) for row in as_list(page.get("messages"))]
    older = [row for row in older if row_id(row) not in known]
    return {**history, "messages": older + rows, "hasMore": page.get("hasMore")}


def turns(rows: Iterable[Json]) -> list[Turn]:
    """The turns, in the order in which they began."""
    sorter = _Sorter()
    for row in rows:
        if is_prompt(row):
            sorter.prompt(row)
        elif as_text(row.get("role")) in {"assistant", "toolResult"}:
            sorter.other(row)
    return sorter.turns


def ending(rows: Iterable[Json]) -> Ending | None:
    """How a turn with these rows ended; None if it is open, or was cut off."""
    answers = [row for row in rows if row.get("role") == "assistant"]
    if not answers:
        return None
    last = answers[-1]
    if is_abort(last) or last.get("stopReason") == "aborted":
        return Ending(EndKind.ABORTED)
    if _has_failed(last):
        return Ending(EndKind.FAILED, error=_why_and_text(last)[0])
    reason = stop_reason(last.get("stopReason"))
    return Ending(EndKind.FINISHED, reason) if reason else None


def is_restart(prompt: Json) -> bool:
    """Whether the gateway itself wrote the prompt, to go on with what its restart has cut."""
    return (message_text(prompt) or "").startswith(_RESTARTED)


def said(row: Json) -> str:
    """The text of an answer, without what the gateway says of its failure."""
    return _why_and_text(row)[1]


def content(row: Json) -> list[Json]:
    """The parts of an answer, in order, its text as in :func:`said`."""
    parts = [as_object(part) for part in as_list(row.get("content"))]
    if parts and not _has_failed(row):
        return parts
    return [{"type": "text", "text": said(row)}, *(p for p in parts if p.get("type") != "text")]


def is_prompt(row: Json) -> bool:
    """Whether a row is a prompt, by whomever."""
    if row.get("role") == "assistant":
        return as_text(row.get("senderLabel")) is not None
    return row.get("role") == "user"


def is_reset(row: Json) -> bool:
    """Whether the session began anew here: 2026.9.6 keeps no row before it, 2026.6.11 no mark."""
    return row.get("role") == "system" and _note(row).get("kind") == "reset"


def is_abort(row: Json) -> bool:
    """Whether 2026.9.6 wrote this answer for an abort: it holds the whole text of its run."""
    return as_object(row.get("openclawAbort")).get("aborted") is True


def is_left_out(row: Json) -> bool:
    """Whether the row's text was too long for the history."""
    return _note(row).get("truncated") is True


def row_id(row: Json) -> str | None:
    """The row's name for ``chat.message.get``."""
    return as_text(_note(row).get("id"))


def run_of(row: Json) -> str | None:
    """The run that an answer or a result names."""
    return as_text(_note(row).get("runId"))


def prompt_key(row: Json) -> str | None:
    """The idempotency key of a prompt's row."""
    return as_text(row.get("idempotencyKey")) or as_text(_note(row).get("idempotencyKey"))


def steered_run(row: Json) -> str | None:
    """The run that a prompt was fed into, if it got none of its own."""
    return as_text(_note(row).get("steerTargetRunId"))


def media(row: Json) -> list[Json]:
    """What 2026.9.6 notes of the files that came with a prompt."""
    return [as_object(each) for each in as_list(_note(row).get("media"))]


def _has_failed(row: Json) -> bool:
    return row.get("stopReason") == "error"


def _why_and_text(row: Json) -> tuple[str | None, str]:
    text = message_text(row) or ""
    if not _has_failed(row):
        return None, text
    if text == _NO_REPLY:
        return text, ""
    if text.startswith(_WARNING):
        why, _, rest = text.partition("\n\n")
        return why, rest
    return as_text(row.get("errorMessage")), text


def _note(row: Json) -> Json:
    return as_object(row.get("__openclaw"))


def _prompt_run(row: Json) -> RunId | None:
    key = prompt_key(row)
    return RunId(key.removesuffix(_USER)) if key and key.endswith(_USER) else None


class _Sorter:
    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self._by_run: dict[str, Turn] = {}
        self._open: Turn | None = None
        """The turn of the newest prompt."""

    def prompt(self, row: Json) -> None:
        run_id = _prompt_run(row)
        turn = self._by_run.get(run_id) if run_id else None
        if turn is None:
            turn = self._begin(run_id)
        turn.prompt = turn.prompt or row
        self._open = turn

    def other(self, row: Json) -> None:
        run_id = run_of(row)
        if run_id is None:
            self._open = self._open or self._begin(None)
            self._open.rows.append(row)
            return
        turn = self._by_run.get(run_id)
        if turn is None and self._open and self._open.run_id is None:
            turn = self._name(self._open, RunId(run_id))
        turn = turn or self._begin(RunId(run_id))
        turn.rows.append(row)

    def _begin(self, run_id: RunId | None) -> Turn:
        turn = Turn(run_id)
        self.turns.append(turn)
        return self._name(turn, run_id) if run_id else turn

    def _name(self, turn: Turn, run_id: RunId) -> Turn:
        """A prompt without a key has its run's name from the first answer that has one."""
        turn.run_id = run_id
        self._by_run[run_id] = turn
        return turn
