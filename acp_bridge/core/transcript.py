"""A session as the gateway's own transcript tells it, in words that fit every dialect.

It is poorer than what an editor was shown live (no plans, no progress, no diffs), but it knows
turns that no bridge saw: of other clients, and ends that fell into a gap.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from acp_bridge.core.commands import Attachment
from acp_bridge.ids import NOTHING, Json, RunId, ToolCallId

UNSEEN_FOR: Final = 1_800.0
"""Seconds after its last word in which a run may still be at work at a gateway that does not tell;
one that was never seen to end is given up then."""


class SaidText(NamedTuple):
    """One segment of the answer."""

    text: str


class SaidThought(NamedTuple):
    """One thought of the model."""

    text: str


class UsedTool(NamedTuple):
    """One tool call, with its result where the transcript has it."""

    tool_call_id: ToolCallId
    name: str | None
    args: object
    output: str | None
    """None: the transcript has no result (yet)."""
    failed: bool
    details: Json = NOTHING


Part = SaidText | SaidThought | UsedTool


class PastTurn(NamedTuple):
    """One prompt and what was done for it, in order."""

    run_id: RunId | None
    """The run, where the transcript names it; None for a turn that no key identifies."""
    at: int | None
    """When the prompt was written down, in UTC milliseconds."""
    prompt: str
    """The user's text as the gateway keeps it, without what was wrapped around it; empty for a
    turn whose prompt the gateway does not show."""
    attachments: tuple[Attachment, ...]
    """Without content where the gateway keeps it to itself."""
    parts: tuple[Part, ...]
    stop_reason: str | None
    """An ACP stop reason; None while the turn is open, or if it ended without one."""
    error: str | None
    is_system: bool = False
    """Whether the gateway itself wrote the prompt, as when it resumes work after a restart."""


class Transcript(NamedTuple):
    """All turns that the gateway still has, oldest first."""

    turns: tuple[PastTurn, ...]
    running: RunId | None
    """The run in flight."""
    running_text: str | None
    """Its text so far."""
    is_whole: bool
    """Whether the transcript reaches back to the session's beginning."""
    is_nameless: bool = False
    """Whether the gateway keeps no names of runs: its turns are known by their prompts."""
