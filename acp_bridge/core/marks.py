"""What a gateway that speaks ACP says of a chunk of text beside the text itself."""

from __future__ import annotations

from typing import NamedTuple

from acp_bridge.ids import NOTHING, Json


class Marks(NamedTuple):
    """The members of a chunk that are not its text."""

    message_id: str | None = None
    """The gateway's name of the message that the text belongs to."""
    extras: Json = NOTHING
    """Other members; under ``content`` those of its content."""


def marked(update: Json, marks: Marks | None) -> Json:
    """A chunk of ours with what the gateway says of it.

    The gateway's name of the message goes under ``_meta``: ours tells whose text it is, and where
    it belongs, also in a later process.
    """
    if marks is None:
        return update
    extras = dict(marks.extras)
    inner, meta = extras.pop("content", NOTHING), extras.get("_meta")
    if marks.message_id is not None:
        ours = {"acpBridge": {"messageId": marks.message_id}}
        extras["_meta"] = {**(meta if isinstance(meta, dict) else {}), **ours}
    return {**extras, **update, "content": {**inner, **update["content"]}}
