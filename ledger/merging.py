"""Which entries become one when their run has ended.

While an answer streams in, each chunk is an entry, since it must be recorded before it is shown.
Afterwards nobody needs to know in which pieces the text came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ledger.redaction import Redact

MAX_TEXT = 256 * 1024
"""Characters in one merged entry: a replay shows it in one line, and lines must stay short."""

_KINDS = ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk")
_MEMBERS = {"sessionUpdate", "content", "messageId"}


@dataclass(frozen=True, slots=True)
class Merge:
    """The entries at the positions from ``start`` up to ``stop`` become one with ``payload``."""

    start: int
    stop: int
    payload: dict[str, Any]


class _Chunk(NamedTuple):
    payload: dict[str, Any]
    text: str

    def continues(self, other: _Chunk) -> bool:
        return all(
            self.payload.get(name) == other.payload.get(name)
            for name in ("sessionUpdate", "messageId")
        )


def plan_merges(payloads: Sequence[dict[str, Any] | None], redact: Redact) -> list[Merge]:
    """What to merge in a row of entries, given by their payloads; None for an entry that must
    stay as it is. Merges come in order, do not overlap, and take two entries at least."""
    merges: list[Merge] = []
    group: list[_Chunk] = []
    length = 0
    for position, payload in enumerate([*payloads, None]):
        chunk = _plain_chunk(payload)
        if chunk and group and chunk.continues(group[0]) and length + len(chunk.text) <= MAX_TEXT:
            group.append(chunk)
            length += len(chunk.text)
            continue
        if len(group) > 1:
            merges.append(Merge(position - len(group), position, redact(_merged(group))))
        group = [chunk] if chunk else []
        length = len(chunk.text) if chunk else 0
    return merges


def _plain_chunk(payload: dict[str, Any] | None) -> _Chunk | None:
    if payload is None or payload.get("sessionUpdate") not in _KINDS:
        return None
    content = payload.get("content")
    if not payload.keys() <= _MEMBERS or not isinstance(content, dict):
        return None
    text = content.get("text")
    if content.keys() == {"type", "text"} and content["type"] == "text" and isinstance(text, str):
        return _Chunk(payload, text)
    return None


def _merged(group: list[_Chunk]) -> dict[str, Any]:
    text = "".join(chunk.text for chunk in group)
    return {**group[0].payload, "content": {"type": "text", "text": text}}
