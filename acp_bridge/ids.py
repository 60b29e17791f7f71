"""The names of things, each with a type of its own, so that they cannot be mixed up."""

from __future__ import annotations

from typing import Any, Final, NewType

SessionId = NewType("SessionId", str)
"""A session's name towards the editor; ours, stable."""

SessionKey = NewType("SessionKey", str)
"""A session's name towards the gateway. The gateway may answer with another spelling of it."""

RunId = NewType("RunId", str)
"""The gateway's work for one turn; also the idempotency key of the prompt that started it."""

ToolCallId = NewType("ToolCallId", str)
ApprovalId = NewType("ApprovalId", str)

Generation = NewType("Generation", int)
"""Number of one gateway connection; grows by one with each hello."""

MAX_ID: Final = 1_024
"""Characters of an id, a key or a label that are taken from either side; no real one has a tenth of
that, and they are kept by the thousand."""

Json = dict[str, Any]
"""One JSON object."""

NOTHING: Final[Json] = {}
"""The default of members that are JSON objects; nobody ever puts anything in."""
