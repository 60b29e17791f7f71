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
_UPLOAD: Final = re.compile(r"\[(?:IMAGE:|Document: )[^\n]*")


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


class StoredPrompt(NamedTuple):
    """How a prompt is stored: texts and places of files, a blank line between them."""

    pieces: tuple[str | None, ...]
    """The texts; None stands for the place of a file, which the gateway chooses."""

    def matches(self, text: str) -> bool:
        """Whether ``text``, without its time, is this prompt. Takes time linear in its length: a
        pattern of a long text would take seconds to make."""
        at = 0
        for index, piece in enumerate(self.pieces):
            if index and not text.startswith("\n\n", at):
                return False
            at += 2 if index else 0
            if piece is not None and not text.startswith(piece, at):
                return False
            found = _UPLOAD.match(text, at) if piece is None else None
            if piece is None and found is None:
                return False
            at = found.end() if found is not None else at + len(piece or "")
        return at == len(text)


def stored_as(parts: Sequence[Json]) -> StoredPrompt:
    """How a prompt of these parts is stored; what is neither text nor file leaves no trace."""
    holders = [(part, part.get("resource")) for part in parts]
    return StoredPrompt(tuple(_piece(*each) for each in holders if _is_kept(*each)))


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


def _is_kept(part: Json, resource: Any) -> bool:
    return isinstance(resource, dict) or isinstance(part.get("text"), str)


def _piece(*holders: Any) -> str | None:
    texts = (each.get("text") for each in holders if isinstance(each, dict))
    return next((text for text in texts if isinstance(text, str)), None)


def _object(block: Any) -> Json:
    found: Json = block
    return found
