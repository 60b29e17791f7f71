"""Which entries become one when their run has ended.

While an answer streams in, each chunk is an entry, since it must be recorded before it is shown.
Afterwards nobody needs to know in which pieces the text came.

Several writers may record one text, each with its own pieces. Chunks that tell their place in it
(``offset`` and ``until``, in characters) are put together by that, so that no part comes twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ledger.redaction import Redact

MAX_TEXT = 256 * 1024
"""Characters in one merged entry: a replay shows it in one line, and lines must stay short."""

_KINDS = ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk")
_MEMBERS = {"sessionUpdate", "content", "messageId", "offset", "until"}


@dataclass(frozen=True, slots=True)
class Merge:
    """The entries at the positions from ``start`` up to ``stop`` become one with ``payload``."""

    start: int
    stop: int
    payload: dict[str, Any]


class _Chunk(NamedTuple):
    payload: dict[str, Any]
    text: str
    offset: int
    until: int
    """Its place in the text; both are -1 if it does not tell."""

    def continues(self, first: _Chunk, reached: int) -> bool:
        """Whether it goes on where the text that begins with ``first`` has reached, or repeats a
        part of it."""
        if any(
            self.payload.get(name) != first.payload.get(name)
            for name in ("sessionUpdate", "messageId")
        ):
            return False
        if self.until < 0 or reached < 0:
            return self.until == reached
        return first.offset <= self.offset <= reached


def plan_merges(payloads: Sequence[dict[str, Any] | None], redact: Redact) -> list[Merge]:
    """What to merge in a row of entries, given by their payloads; None for an entry that must
    stay as it is. Merges come in order, do not overlap, and take two entries at least."""
    merges: list[Merge] = []
    group: list[_Chunk] = []
    length, reached = 0, -1
    for position, payload in enumerate([*payloads, None]):
        chunk = _plain_chunk(payload)
        if (
            chunk
            and group
            and chunk.continues(group[0], reached)
            and length + len(chunk.text) <= MAX_TEXT
        ):
            group.append(chunk)
            length += len(chunk.text)
            reached = max(reached, chunk.until)
            continue
        if len(group) > 1:
            merges.append(Merge(position - len(group), position, redact(_merged(group))))
        group = [chunk] if chunk else []
        length, reached = (len(chunk.text), chunk.until) if chunk else (0, -1)
    return merges


def _plain_chunk(payload: dict[str, Any] | None) -> _Chunk | None:
    if payload is None or payload.get("sessionUpdate") not in _KINDS:
        return None
    content = payload.get("content")
    if not payload.keys() <= _MEMBERS or not isinstance(content, dict):
        return None
    text = content.get("text")
    if content.keys() == {"type", "text"} and content["type"] == "text" and isinstance(text, str):
        place = [_place(payload.get(name)) for name in ("offset", "until")]
        return _Chunk(payload, text, *(place if -1 not in place else (-1, -1)))
    return None


def _place(value: Any) -> int:
    return value if isinstance(value, int) and value >= 0 else -1


def _merged(group: list[_Chunk]) -> dict[str, Any]:
    payload = {**group[0].payload}
    parts = [group[0].text]
    reached = group[0].until
    for chunk in group[1:]:
        parts.append(chunk.text[max(reached - chunk.offset, 0) :])
        reached = max(reached, chunk.until)
    if reached >= 0:
        payload["until"] = reached
    return {**payload, "content": {"type": "text", "text": "".join(parts)}}
