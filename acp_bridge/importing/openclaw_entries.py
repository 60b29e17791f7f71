"""From a session of OpenClaw's to changes of the ledger. Pure.

OpenClaw records updates as they were shown. Here a prompt is an entry of its own that begins its
run, the run has an end, and the text of a message is one entry. Each entry's key tells which
events are in it, so that a second import takes only what is new.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from acp_bridge.core.prompt import PREFIX, prompt_title
from acp_bridge.core.replay import STATE
from acp_bridge.core.turn_view import text_of
from acp_bridge.ids import Json
from acp_bridge.importing.openclaw_files import OldEvent, OldSession
from acp_bridge.wire.updates import message_chunk
from ledger import (
    Change,
    Entry,
    NewEntry,
    NewSession,
    RunClosed,
    RunOpened,
    RunState,
    SessionClosed,
    SessionTitle,
)

_KEY: Final = re.compile(r"openclaw:\d+-(\d+)")
_JOINED: Final = frozenset({"agent_message_chunk", "agent_thought_chunk"})
_CHUNKS: Final = _JOINED | {"user_message_chunk"}
_PLAIN: Final = frozenset({"sessionUpdate", "content", "messageId"})
_MAX_TEXT: Final = 256 * 1024
_END: Final = "end_turn"
"""OpenClaw does not record how a turn ended."""


@dataclass(slots=True)
class _Row:
    """An entry in the making, of the events from ``first`` to ``last``."""

    first: int
    last: int
    at: int
    kind: str
    run_id: str | None
    payload: Json
    parts: list[str] | None = None
    """The pieces of its text, if more may follow."""

    def entry(self, session_id: str, ending: str = "") -> NewEntry:
        payload = self.payload
        if self.parts is not None:
            payload = {**payload, "content": {"type": "text", "text": "".join(self.parts)}}
        if payload.get("sessionUpdate") in _CHUNKS and not payload.get("messageId"):
            # OpenClaw names no messages, and editors that go by the name would join them all.
            payload = {**payload, "messageId": f"openclaw:{session_id}:{self.first}"}
        key = f"openclaw:{self.first}-{self.last}{ending}"
        return NewEntry(session_id, self.kind, payload, self.at, run_id=self.run_id, entry_key=key)


def imported_up_to(entries: Iterable[Entry]) -> int | None:
    """The last event that an earlier import took; None if there was none."""
    found = [
        int(match[1])
        for entry in entries
        if (match := _KEY.match(entry.entry_key or "")) is not None
    ]
    return max(found, default=None)


def is_state(event: OldEvent) -> bool:
    """Whether the event only tells what is asked for afresh when a session is opened."""
    return event.update["sessionUpdate"] in STATE


def session_changes(session: OldSession, now: int) -> list[Change]:
    """The changes that make the session. ``now`` is in UTC milliseconds."""
    name = session.session_id
    changes: list[Change] = [
        NewSession(
            name, session.session_key, session.cwd, session.created_at, complete=session.complete
        ),
        *event_changes(session, -1, now),
    ]
    title = _title(session)
    if title is not None:
        changes.append(SessionTitle(name, title, session.updated_at))
    return [*changes, SessionClosed(name)]


def event_changes(session: OldSession, after: int, now: int) -> list[Change]:
    """The changes that the events behind ``after`` mean, and a line that says where they are from;
    none if there are none to keep. ``now`` is in UTC milliseconds."""
    events = [event for event in session.events if event.seq > after and not is_state(event)]
    rows = list(_rows(events))
    last_of = {row.run_id: index for index, row in enumerate(rows) if row.run_id is not None}
    changes: list[Change] = []
    for index, row in enumerate(rows):
        if row.kind == "prompt" and row.run_id is not None:
            changes.append(RunOpened(row.run_id, session.session_id, row.at))
        changes.append(row.entry(session.session_id))
        if row.run_id is not None and last_of[row.run_id] == index:
            end = _Row(row.last, row.last, row.at, "outcome", row.run_id, {"stop_reason": _END})
            changes.append(end.entry(session.session_id, ":end"))
            changes.append(RunClosed(row.run_id, row.at, RunState.FINISHED, stop_reason=_END))
    if rows:
        changes.append(_mark(session, rows[-1].last, now).entry(session.session_id, ":imported"))
    return changes


def _mark(session: OldSession, last: int, now: int) -> _Row:
    day = datetime.fromtimestamp(now / 1000, UTC).date()
    text = f"(Imported from OpenClaw's ledger on {day}.)"
    if not session.complete:
        text = f"(Imported from OpenClaw's ledger, which had not all of it, on {day}.)"
    update = message_chunk(text, f"openclaw:{session.session_id}:{last}:imported")
    return _Row(last, last, session.updated_at, "update", None, update)


def _rows(events: Sequence[OldEvent]) -> list[_Row]:
    prompts = _prompts(events)
    rows: list[_Row] = []
    for event in events:
        # The prompt may have been recorded behind the first of the answer; it stands before it.
        if event.run_id in prompts:
            rows.append(prompts.pop(event.run_id))
        if _is_prompt(event):
            continue
        if not rows or not _joins(rows[-1], event):
            text = text_of(event.update) if _is_plain(event.update) else None
            rows.append(
                _Row(
                    event.seq,
                    event.seq,
                    event.at,
                    "update",
                    event.run_id,
                    event.update,
                    None if text is None else [text],
                )
            )
    return rows


def _prompts(events: Iterable[OldEvent]) -> dict[str | None, _Row]:
    found: dict[str | None, _Row] = {}
    for event in events:
        if not _is_prompt(event):
            continue
        block = event.update.get("content")
        row = found.get(event.run_id)
        if row is None:
            payload: Json = {"prompt": [block], "source": "openclaw"}
            found[event.run_id] = _Row(
                event.seq, event.seq, event.at, "prompt", event.run_id, payload
            )
        else:
            row.payload["prompt"].append(block)
            row.last = event.seq
    return found


def _is_prompt(event: OldEvent) -> bool:
    return event.update["sessionUpdate"] == "user_message_chunk" and event.run_id is not None


def _joins(row: _Row, event: OldEvent) -> bool:
    """Whether the event continues the row's text; it is then in it."""
    text = text_of(event.update) if _is_plain(event.update) else None
    if text is None or row.parts is None or row.run_id != event.run_id:
        return False
    if any(row.payload.get(n) != event.update.get(n) for n in ("sessionUpdate", "messageId")):
        return False
    if sum(map(len, row.parts)) + len(text) > _MAX_TEXT:
        return False
    row.parts.append(text)
    row.last = event.seq
    return True


def _is_plain(update: Json) -> bool:
    content = update.get("content")
    return (
        update["sessionUpdate"] in _JOINED
        and update.keys() <= _PLAIN
        and isinstance(content, dict)
        and content.keys() == {"type", "text"}
    )


def _title(session: OldSession) -> str | None:
    events = session.events
    named = [
        event.update.get("title")
        for event in events
        if event.update["sessionUpdate"] == "session_info_update"
    ]
    # Most are no titles: the session's key, or a prompt with the directory before it.
    titles = [title for title in named if isinstance(title, str) and _is_title(title, session)]
    if titles:
        return titles[-1]
    first = next(iter(_prompts(events).values()), None)
    return None if first is None else prompt_title(first.payload["prompt"])


def _is_title(text: str, session: OldSession) -> bool:
    is_key = session.session_id in text or text == session.session_key
    return bool(text.strip()) and not is_key and not text.startswith(PREFIX)
