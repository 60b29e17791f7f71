"""An approval of the gateway as a permission request, and the editor's answer as a decision.

Doubt denies: only an explicit choice of an option that was offered lets a command run (ACP, tool
calls). The options are the gateway's own decisions under their own names, so that a choice of
*once* can never turn into *always*.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final

from acp_bridge.core.events import PermissionAsked
from acp_bridge.core.ports import EditorAnswer
from acp_bridge.core.tool_text import bounded, one_line
from acp_bridge.ids import Json, SessionId, ToolCallId
from acp_bridge.wire import updates
from acp_bridge.wire.content import cut_middle, text_block

DENY: Final = "deny"

_OPTIONS: Final = (
    updates.permission_option("allow-once", "Allow once", "allow_once"),
    updates.permission_option("allow-always", "Allow always", "allow_always"),
    updates.permission_option(DENY, "Deny", "reject_once"),
)
_UNSAID: Final = frozenset({"allow-once", DENY})
"""What is offered when the gateway does not say what it takes."""

_COMMAND_LIMIT: Final = 16 * 1024
# Controls that could hide a part of a command from the person who decides: C0 without tab and
# newline, DEL, C1, marks and overrides of the writing direction, separators.
_HIDING = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
)


def permission_options(allowed: Collection[str]) -> list[Json]:
    """The options for the decisions that the gateway takes, in a fixed order.

    A denial is always among them. Without any known decision: once or not.
    """
    known = {option["optionId"] for option in _OPTIONS}.intersection(allowed) or _UNSAID
    return [{**option} for option in _OPTIONS if option["optionId"] in {*known, DENY}]


def permission_params(
    session_id: SessionId, asked: PermissionAsked, tool_call_id: ToolCallId, title: str
) -> Json:
    """The params of ``session/request_permission`` for an approval, on its tool call."""
    details = {
        "command": asked.command,
        "cwd": asked.cwd,
        "host": asked.host,
        "warning": asked.warning,
    }
    call = {
        "toolCallId": tool_call_id,
        "title": one_line(title),
        "kind": "execute",
        "status": "pending",
        "rawInput": bounded({name: value for name, value in details.items() if value}),
        "content": [updates.content(text_block(_explain(asked)))],
    }
    return updates.permission_request(session_id, call, permission_options(asked.allowed))


def read_answer(answer: EditorAnswer, asked: PermissionAsked) -> tuple[str, Json]:
    """The decision and what the editor's outcome says beside it.

    The options are ours, or those of the question as the gateway words it.
    """
    if asked.params is None:
        return outcome_to_decision(answer, asked.allowed), {}
    outcome: Any = answer.result.get("outcome") if isinstance(answer.result, dict) else None
    if answer.error is not None or not isinstance(outcome, dict):
        return DENY, {}
    chosen = outcome.get("optionId")
    if outcome.get("outcome") != "selected" or chosen not in asked.allowed:
        return DENY, {}
    known = ("outcome", "optionId")
    return chosen, {name: value for name, value in outcome.items() if name not in known}


def allows(asked: PermissionAsked, decision: str) -> bool:
    """Whether a decision lets the tool run."""
    options = asked.params.get("options") if asked.params is not None else None
    kinds = {
        option.get("optionId"): str(option.get("kind"))
        for option in (options if isinstance(options, list) else ())
        if isinstance(option, dict)
    }
    return kinds.get(decision, decision).startswith("allow")


def outcome_to_decision(answer: EditorAnswer, allowed: Collection[str]) -> str:
    """The gateway's decision for the editor's answer: ``allow-once``, ``allow-always``, ``deny``.

    Cancelled, an error, an unknown outcome, an option that was not offered and anything malformed
    are a denial.
    """
    outcome: Any = answer.result.get("outcome") if isinstance(answer.result, dict) else None
    if answer.error is not None or not isinstance(outcome, dict):
        return DENY
    if outcome.get("outcome") != "selected":
        return DENY
    offered = [option["optionId"] for option in permission_options(allowed)]
    chosen = outcome.get("optionId")
    return chosen if isinstance(chosen, str) and chosen in offered else DENY


def _explain(asked: PermissionAsked) -> str:
    where = f"on the host “{_visible(asked.host)}”" if asked.host else "on the gateway's host"
    place = f", in {_visible(asked.cwd)}" if asked.cwd else ""
    lines = [f"This command will run {where}{place}:"]
    if asked.warning:
        lines.insert(0, f"Warning: {_visible(asked.warning)}")
    return "\n\n".join([*lines, _fenced(_visible(asked.command))])


def _fenced(text: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def _visible(text: str) -> str:
    return _HIDING.sub(lambda match: f"\\u{ord(match[0]):04x}", cut_middle(text, _COMMAND_LIMIT))
