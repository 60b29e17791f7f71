"""What waits in the outbox, how heavy it is, and which chunks become one."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from acp_bridge.bridge.recorder import Recorder
from acp_bridge.core.effects import Record
from acp_bridge.core.ports import Entry
from acp_bridge.ids import Json, SessionId
from acp_bridge.wire import jsonrpc
from acp_bridge.wire.updates import session_update
from acp_bridge.wire.weight import weigh_text, width

MAX_TEXT = 256 * 1024
"""Bytes of text in one chunk's line: even escaped at its worst far below any editor's limit, and
enough to bring a long answer in few lines."""

_OVERHEAD = 256
"""Bytes that an object costs beside its text; only the order of magnitude matters."""

_CHUNK_KINDS = {"agent_message_chunk", "agent_thought_chunk", "user_message_chunk"}
_CHUNK_MEMBERS = {"sessionUpdate", "content", "messageId", "_meta"}
_TEXT_MEMBERS = {"type", "text"}


@dataclass(slots=True)
class Item:
    """Something to record, something to show, or both; or only a mark to be told about."""

    weight: int
    message: Json | None = None
    entry: Entry | None = None
    at: int = 0
    recorded: Callable[[], None] | None = None
    shown: Callable[[], None] | None = None
    look: Callable[[Recorder], None] | None = None
    """Called in the outbox's thread, once all before it is recorded."""


class Chunk:
    """A text chunk that is still open for more text of the same message."""

    def __init__(self, update: Json, entry: Entry, at: int, text: str) -> None:
        self._update = update
        self._entry = entry
        self._at = at
        # Grows at linear cost and holds the text compactly, however small the parts are.
        self._text = io.StringIO()
        self._text.write(text)
        self._text_weight = weigh_text(text)

    @property
    def weight(self) -> int:
        """Bytes, approximately."""
        return self._text_weight + _OVERHEAD

    def absorb(self, update: Json, entry: Entry, text: str) -> bool:
        """Take in the text of the next chunk. False, and nothing done, if it belongs to another
        message, run or connection, or would be too much for one line."""
        weight = self._text_weight + weigh_text(text)
        if weight > MAX_TEXT or self._origin != _origin(update, entry):
            return False
        self._text.write(text)
        self._text_weight = weight
        return True

    def finished(self) -> Item:
        """The one update and the one entry that it has become."""
        text = self._text.getvalue()
        update = {**self._update, "content": {"type": "text", "text": text}}
        entry = Entry(
            self._entry.session_id,
            Record(self._entry.record.kind, update),
            self._entry.run_id,
            self._entry.generation,
            offset=self._entry.offset,
        )
        message = update_message(entry.session_id, update)
        return Item(self.weight, message=message, entry=entry, at=self._at)

    @property
    def _origin(self) -> tuple[Any, ...]:
        return _origin(self._update, self._entry)


def update_message(session_id: SessionId, update: Json) -> Json:
    """The notification that shows an update."""
    return jsonrpc.notification("session/update", session_update(session_id, update))


def is_notice(update: Json) -> bool:
    """Whether an update is the bridge's own word, see ``core.turn_view``."""
    return ":notice:" in str(update.get("messageId", ""))


def chunk_text(update: Json, entry: Entry) -> str | None:
    """The text of an update that may be merged and cut: a plain text chunk, recorded as it is."""
    content = update.get("content")
    if (
        update.get("sessionUpdate") in _CHUNK_KINDS
        and update.keys() <= _CHUNK_MEMBERS
        and isinstance(content, dict)
        and content.keys() == _TEXT_MEMBERS
        and content["type"] == "text"
        and entry.record.payload == update
        and entry.key is None
    ):
        text = content["text"]
        return text if isinstance(text, str) else None
    return None


def pieces(text: str) -> Iterator[str]:
    """``text`` in parts of at most ``MAX_TEXT`` bytes, cut between characters."""
    step = MAX_TEXT // width(text)
    for start in range(0, max(len(text), 1), step):
        yield text[start : start + step]


def _origin(update: Json, entry: Entry) -> tuple[Any, ...]:
    told = update["sessionUpdate"], update.get("messageId"), update.get("_meta")
    return (*told, entry.record.kind, entry.run_id, entry.generation)
