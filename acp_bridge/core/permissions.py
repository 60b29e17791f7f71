"""From an approval of the gateway to a permission request, and from its outcome to a decision.

Only an explicit choice of an option that was offered is a decision; all else is a denial (ACP,
tool calls). The options are the gateway's own decisions, so that allowing once can never become
allowing always.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from acp_bridge.core.events import PermissionAsked
from acp_bridge.core.ports import EditorAnswer
from acp_bridge.ids import Json, SessionId, ToolCallId
from acp_bridge.wire import updates
from acp_bridge.wire.content import cut_middle, text_block, well_formed

DENY: Final = "deny"

_OPTIONS: Final = {
    "allow-once": ("Allow once", "allow_once"),
    "allow-always": ("Allow always", "allow_always"),
    DENY: ("Deny", "reject_once"),
}
"""The gateway's decisions, in the order in which they are offered: name and ACP kind."""

_UNSTATED: Final = ("allow-once", DENY)
"""What is offered when the gateway does not say what it allows."""

_MAX_COMMAND: Final = 16 * 1024
"""Bytes of a command that a dialog shows; the rest stays in the tool call."""


def permission_options(allowed: Sequence[str]) -> list[Json]:
    """The options of a request. A denial is always among them."""
    offered = _offered(allowed)
    return [
        updates.permission_option(decision, name, kind)
        for decision, (name, kind) in _OPTIONS.items()
        if decision in offered
    ]


def permission_params(
    session_id: SessionId, asked: PermissionAsked, tool_call_id: ToolCallId, title: str
) -> Json:
    """The params of ``session/request_permission``.

    The card says what will run, and on which host: the editor's machine is often another one.
    """
    command = cut_middle(asked.command, _MAX_COMMAND)
    details = {"command": command, "cwd": asked.cwd, "host": asked.host}
    call: Json = {
        "toolCallId": tool_call_id,
        "title": title,
        "kind": "execute",
        "status": "pending",
        "rawInput": {
            name: well_formed(value) for name, value in details.items() if value is not None
        },
        "content": [updates.content(text_block(_explain(asked, command)))],
    }
    return updates.permission_request(session_id, call, permission_options(asked.allowed))


def outcome_to_decision(answer: EditorAnswer, allowed: Sequence[str]) -> str:
    """The gateway's decision for the editor's answer."""
    chosen = _chosen(answer.result) if answer.error is None else None
    return chosen if isinstance(chosen, str) and chosen in _offered(allowed) else DENY


def _offered(allowed: Sequence[str]) -> set[str]:
    known = {decision for decision in allowed if decision in _OPTIONS} or {*_UNSTATED}
    return known | {DENY}


def _chosen(result: Any) -> Any:
    outcome = result.get("outcome") if isinstance(result, dict) else None
    if not isinstance(outcome, dict) or outcome.get("outcome") != "selected":
        return None
    return outcome.get("optionId")


def _explain(asked: PermissionAsked, command: str) -> str:
    lines = [command]
    if asked.host:
        lines.append(f"Runs on: {well_formed(asked.host)}")
    if asked.cwd:
        lines.append(f"In: {well_formed(asked.cwd)}")
    if asked.warning:
        lines.append(f"Warning: {well_formed(asked.warning)}")
    return "\n".join(lines)
