"""The gateway's questions to the editor, over one connection.

Their ids begin at ``zc-out-0`` on every connection, so the bridge's own names for them carry the
generation: a late answer to a question of an older connection must never decide another one.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from acp_bridge.core.commands import AnswerPeer, AnswerPermission
from acp_bridge.core.events import PermissionAsked
from acp_bridge.gateway.dialects.acp_ws.handshake import as_object
from acp_bridge.ids import NOTHING, ApprovalId, Generation, Json, RunId, SessionKey
from acp_bridge.wire.jsonrpc import MessageId

CANCELLED: Final[Json] = {"outcome": {"outcome": "cancelled"}}

_WITH_EDIT: Final = "reject_with_edit"
_REPLACEMENT: Final = "replacementContent"
_KINDS: Final = frozenset({"allow_once", "allow_always", "reject_once", "reject_always"})
_APPROVAL: Final = "approval-"
"""Begins the tool call of a question that the gateway answers itself after its own time."""


class _Open(NamedTuple):
    message_id: MessageId
    is_permission: bool
    session_key: SessionKey | None
    options: dict[str, str] = NOTHING
    """Ids and kinds, as the gateway names them."""


class Questions:
    """The questions that wait for an answer."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._open: dict[ApprovalId, _Open] = {}

    def name(self, message_id: MessageId) -> ApprovalId:
        """The bridge's name of a question."""
        return ApprovalId(f"{self._generation}:{message_id}")

    def is_open(self, message_id: MessageId) -> bool:
        """Whether a question of this id waits already."""
        return self.name(message_id) in self._open

    def permission(
        self,
        message_id: MessageId,
        params: Json,
        run_id: RunId,
        session_key: SessionKey,
        seconds: float | None,
    ) -> PermissionAsked:
        """Note a request for permission; ``seconds`` is how long the gateway waits."""
        given = params.get("options")
        options = [each for each in given if _is_option(each)] if isinstance(given, list) else []
        kinds = {option["optionId"]: option["kind"] for option in options}
        name = self.name(message_id)
        self._open[name] = _Open(message_id, True, session_key, kinds)
        call = as_object(params.get("toolCall"))
        is_timed = str(call.get("toolCallId", "")).startswith(_APPROVAL)
        return PermissionAsked(
            approval_id=name,
            run_id=run_id,
            session_key=session_key,
            tool_call_id=None,
            command="",
            cwd=None,
            host=None,
            allowed=tuple(kinds),
            expires_in=seconds if is_timed else None,
            params={**params, "options": [_for_strict(option) for option in options]},
        )

    def other(self, message_id: MessageId, session_key: SessionKey | None) -> ApprovalId:
        """Note a request that the bridge does not interpret."""
        name = self.name(message_id)
        self._open[name] = _Open(message_id, False, session_key)
        return name

    def answer(self, command: AnswerPermission | AnswerPeer) -> Json | None:
        """The answer's message; None for a question that does not wait on this connection."""
        is_permission = isinstance(command, AnswerPermission)
        name = command.approval_id if isinstance(command, AnswerPermission) else command.ask_id
        question = self._open.get(name)
        if question is None or question.is_permission is not is_permission:
            return None
        del self._open[name]
        if isinstance(command, AnswerPermission):
            return _message(question, result=_outcome(command, question.options))
        if command.error is not None:
            return _message(question, error=command.error)
        return _message(question, result=command.result)

    def give_up(self) -> list[Json]:
        """The bridge leaves: cancel what waits, or the run would hang until the gateway's own time
        is over, an hour by default."""
        waiting, self._open = list(self._open.values()), {}
        error = {"code": -32800, "message": "The editor has left."}
        return [
            _message(each, result=CANCELLED) if each.is_permission else _message(each, error=error)
            for each in waiting
        ]


def _outcome(command: AnswerPermission, options: dict[str, str]) -> Json:
    chosen, details = command.decision, command.details
    if chosen not in options:  # a denial of ours
        return CANCELLED
    if options[chosen] == _WITH_EDIT and not isinstance(details.get(_REPLACEMENT), str):
        # Without a text the gateway would take an empty one for the tool's result.
        chosen = next((name for name, kind in options.items() if kind == "reject_once"), chosen)
    return {"outcome": {"outcome": "selected", "optionId": chosen, **details}}


def _for_strict(option: Json) -> Json:
    """An option with a kind that ACP knows; the gateway's own stays beside it."""
    if option["kind"] in _KINDS:
        return option
    meta = {**as_object(option.get("_meta")), "zeroclaw": {"kind": option["kind"]}}
    return {**option, "kind": "reject_once", "_meta": meta}


def _is_option(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(value.get(name), str) for name in ("optionId", "name", "kind")
    )


def _message(question: _Open, **body: Any) -> Json:
    return {"jsonrpc": "2.0", "id": question.message_id, **body}
