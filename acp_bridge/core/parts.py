"""A prompt for a gateway that speaks ACP itself: its blocks, made fit for that gateway.

What such a gateway would drop unsaid is refused by name and place, or said in a way that it keeps.
The other way round, ``stored_as`` tells a prompt by the text under which ZeroClaw stores it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from acp_bridge.core.prompt import block_text, refusal
from acp_bridge.errors import PromptTooLarge
from acp_bridge.ids import Json
from acp_bridge.wire.content import inline_data, text_block

MAX_BLOB: Final = 10 * 1024 * 1024
"""Bytes of a file, decoded, that ZeroClaw takes in one part of a prompt (0.8.4)."""

_TIME: Final = re.compile(r"\A\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [^\]\n]{1,40}\] ")
_UPLOAD: Final = r"\[(?:IMAGE:|Document: )[^\n]*"


class Takes(NamedTuple):
    """What a gateway takes in a prompt, as its ``initialize`` says."""

    image: bool = False
    audio: bool = False
    link: bool = True
    """Whether a ``resource_link`` is more than a part that is dropped."""
    max_blob: int | None = None
    """Bytes of a file, decoded."""


ZEROCLAW: Final = Takes(link=False, max_blob=MAX_BLOB)


def prompt_to_parts(blocks: Sequence[Any], takes: Takes) -> tuple[Json, ...]:
    """The parts to send. Raises ``InvalidParams`` or ``PromptTooLarge``, naming the block."""
    return tuple(_part(index, block, takes) for index, block in enumerate(blocks))


def stored_as(parts: Sequence[Json]) -> re.Pattern[str]:
    """Matches the text, without its time, under which a prompt of these parts is stored: texts
    and places of files, a blank line between them."""
    pieces = [_piece(part) for part in parts]
    return re.compile(r"\n\n".join(piece for piece in pieces if piece is not None))


def without_time(text: str) -> str:
    """A stored prompt without the time that ZeroClaw puts before it."""
    return _TIME.sub("", text, count=1)


def has_time(text: str) -> bool:
    """Whether a stored prompt begins with a time."""
    return _TIME.match(text) is not None


def _part(index: int, block: Any, takes: Takes) -> Json:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "image" and not takes.image:
        raise refusal(index, "type", "'image' cannot be sent: this gateway takes no images")
    if kind == "audio" and not takes.audio:
        raise refusal(index, "type", "'audio' cannot be sent: this gateway takes no audio")
    if kind in ("image", "audio", "text"):
        return _object(block)
    if kind == "resource_link" and takes.link:
        return _object(block)
    if kind == "resource":
        return _resource(index, _object(block), takes)
    return text_block(block_text(index, block))


def _resource(index: int, block: Json, takes: Takes) -> Json:
    text = block_text(index, block)  # checks it
    resource = block["resource"]
    if isinstance(resource.get("text"), str):
        # ZeroClaw keeps the text alone; its address is worth a line of it.
        return block if takes.link else {**block, "resource": {**resource, "text": text}}
    blob, url_type = inline_data(resource["blob"])
    size = len(blob) * 3 // 4 - blob[-2:].count("=")
    if takes.max_blob is not None and size > takes.max_blob:
        raise PromptTooLarge(
            f"prompt[{index}].resource.blob has {size:,} bytes; the gateway takes"
            f" {takes.max_blob:,}.",
            hint="Send a smaller file, or a link to it.",
            data={"field": f"prompt[{index}].resource.blob", "size": size, "limit": takes.max_blob},
        )
    named = {"mimeType": url_type} if url_type and "mimeType" not in resource else {}
    return {**block, "resource": {**resource, **named, "blob": blob}}


def _piece(part: Json) -> str | None:
    resource: Any = part.get("resource")
    for holder in (part, resource):
        if isinstance(holder, dict) and isinstance(holder.get("text"), str):
            return re.escape(str(holder["text"]))
    return _UPLOAD if isinstance(resource, dict) else None


def _object(block: Any) -> Json:
    found: Json = block
    return found
