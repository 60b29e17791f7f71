"""The approvals of one turn that are not settled yet.

A decision is the editor's explicit choice of an offered option, and nothing else: everything
doubtful is a denial. A decision taken while the link is down waits for the next link, unless the
turn was cancelled or ended first: then the gateway hears a denial. Recorded is what the gateway was
told, when it is told, and what it made of that if it says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from acp_bridge.core.commands import AnswerPermission
from acp_bridge.core.effects import (
    AskPermission,
    Effect,
    Record,
    Send,
    Show,
    WithdrawPermission,
)
from acp_bridge.core.events import PermissionAsked, PermissionSettled, ToolStarted
from acp_bridge.core.permissions import DENY, allows, permission_params, read_answer
from acp_bridge.core.ports import EditorAnswer
from acp_bridge.core.tool_calls import APPROVAL, ToolCalls
from acp_bridge.ids import NOTHING, ApprovalId, Json, RunId, SessionId, ToolCallId
from acp_bridge.wire import updates

MAX_OPEN: Final = 100
"""Approvals of one turn that may wait for the editor at once. One more is denied: nobody can answer
so many, and each is a dialog."""
MAX_ASKED: Final = 5_000
"""Approvals that one turn may ask for."""


@dataclass(slots=True)
class _Open:
    asked: PermissionAsked
    decision: str | None = None
    details: Json = field(default_factory=dict)
    sends: int = 0


class OpenPermissions:
    """What was asked, what was decided, what the gateway has not confirmed. ``say`` shows a line in
    the middle of the turn; its second argument names it."""

    def __init__(
        self,
        session_id: SessionId,
        run_id: RunId,
        tools: ToolCalls,
        say: Callable[[str, str], list[Effect]],
    ) -> None:
        self._session_id = session_id
        self._run_id = run_id
        self._tools = tools
        self._say = say
        self._open: dict[ApprovalId, _Open] = {}
        self._known: set[ApprovalId] = set()
        self._tells_too_many = False
        self.left: dict[ApprovalId, str] = {}
        """What the turn's end has left, until the gateway says that it is settled; with the
        decision that was recorded."""
        self._denied_late: set[ApprovalId] = set()
        self._cards: dict[ApprovalId, ToolCallId] = {}
        """Cards that were made for a question as the gateway words it."""

    @property
    def is_waiting(self) -> bool:
        """Whether the run waits for a decision."""
        return any(permission.decision is None for permission in self._open.values())

    def asked(self, asked: PermissionAsked) -> list[Effect]:
        """Ask the editor, once per approval: the gateway may announce one over two streams, and
        once more after a reconnect."""
        if asked.approval_id in self._known:
            return []
        if len(self._open) >= MAX_OPEN or len(self._known) >= MAX_ASKED:
            return self._too_many(asked.approval_id)
        self._known.add(asked.approval_id)
        self._open[asked.approval_id] = _Open(asked)
        if asked.params is not None:
            return self._ask_as_worded(asked, asked.params)
        tool_call_id = asked.tool_call_id or self._tools.match_command(asked.command)
        effects: list[Effect] = []
        if tool_call_id is None or self._tools.title_of(tool_call_id) is None:
            # An editor shows a permission on a card; without one of the gateway's we make it.
            tool_call_id = tool_call_id or ToolCallId(f"{APPROVAL}{asked.approval_id}")
            card = ToolStarted(self._run_id, tool_call_id, "exec", {"command": asked.command})
            effects += [Show(update) for update in self._tools.feed(card)]
        title = self._tools.title_of(tool_call_id) or asked.command
        params = permission_params(self._session_id, asked, tool_call_id, title)
        return [*effects, AskPermission(asked, tool_call_id, params)]

    def _ask_as_worded(self, asked: PermissionAsked, params: Json) -> list[Effect]:
        """The question has a call of its own, which is over with the answer."""
        given = params.get("toolCall")
        call: Json = given if isinstance(given, dict) else {}
        tool_call_id = ToolCallId(str(call.get("toolCallId") or f"{APPROVAL}{asked.approval_id}"))
        effects: list[Effect] = []
        if self._tools.title_of(tool_call_id) is None:
            card = {"title": "Permission", "kind": "other", "status": "pending", **call}
            effects = self._card({**card, "sessionUpdate": "tool_call"}, tool_call_id)
            self._cards[asked.approval_id] = tool_call_id
        call = {**call, "toolCallId": tool_call_id}
        params = {**params, "toolCall": call, "sessionId": self._session_id}
        return [*effects, AskPermission(asked, tool_call_id, params)]

    def _card_over(self, approval_id: ApprovalId, *, failed: bool) -> list[Effect]:
        tool_call_id = self._cards.pop(approval_id, None)
        if tool_call_id is None:
            return []
        status = "failed" if failed else "completed"
        return self._card(updates.tool_call_update(tool_call_id, status=status), tool_call_id)

    def _card(self, update: Json, tool_call_id: ToolCallId) -> list[Effect]:
        update = {**update, "toolCallId": tool_call_id}
        self._tools.adopt(update)
        return [Show(update)]

    def _too_many(self, approval_id: ApprovalId) -> list[Effect]:
        is_told, self._tells_too_many = self._tells_too_many, True
        text = "The agent asks for too many approvals at once; those that are too many are denied."
        told = [] if is_told else self._say(text, "too many approvals")
        return told + self._decide(approval_id, DENY)

    def refuse(self, asked: PermissionAsked) -> list[Effect]:
        """Deny at once: the turn no longer runs for the editor."""
        if asked.approval_id in self.left:
            return []
        self._known.add(asked.approval_id)
        self.left[asked.approval_id] = DENY
        return self._decide(asked.approval_id, DENY)

    def answered(
        self, approval_id: ApprovalId, answer: EditorAnswer, *, is_link_up: bool
    ) -> list[Effect]:
        """The editor's answer; without a link it waits for :meth:`link_up`."""
        permission = self._open.get(approval_id)
        if permission is None or permission.decision is not None:
            return []
        permission.decision, permission.details = read_answer(answer, permission.asked)
        is_allowed = allows(permission.asked, permission.decision)
        effects = self._card_over(approval_id, failed=not is_allowed)
        return effects + (self._deliver(approval_id, permission) if is_link_up else [])

    def link_up(self) -> list[Effect]:
        """Deliver the decisions that the gateway has not confirmed."""
        effects: list[Effect] = []
        for approval_id, permission in self._open.items():
            effects += self._deliver(approval_id, permission)
        return effects

    def closed(self, approval_id: ApprovalId, decision: str | None) -> list[Effect]:
        """Resolved at the gateway; withdraw the question if it is still open in the editor."""
        permission = self._open.pop(approval_id, None)
        told = self.left.pop(approval_id, None)
        if permission is not None and permission.decision is None:
            effects: list[Effect] = [WithdrawPermission(approval_id)]
            effects += self._card_over(approval_id, failed=True)
            return [*effects, _outcome(approval_id, decision or "elsewhere")]
        if permission is not None:
            told = permission.decision
        return self._corrected(approval_id, told, decision)

    def _corrected(
        self, approval_id: ApprovalId, told: str | None, decision: str | None
    ) -> list[Effect]:
        if told is None or decision is None or decision == told:
            return []
        return [_outcome(approval_id, decision, corrects=True)]

    def gone(self, approval_id: ApprovalId) -> list[Effect]:
        """After a reconnect the gateway does not wait for this decision any more."""
        effects = self.closed(approval_id, None)
        if not effects:
            return []
        text = "This approval was answered elsewhere or expired while the connection was lost."
        return [*effects, *self._say(text, f"gone:{approval_id}")]

    def settled(self, event: PermissionSettled) -> list[Effect]:
        """The gateway took our decision, or did not: one explanation, no second try. One that was
        delivered again after a gap may be refused because it had arrived before."""
        permission = self._open.pop(event.approval_id, None)
        told = self.left.pop(event.approval_id, None)
        if event.approval_id in self._denied_late and event.error is None:
            return self._corrected(event.approval_id, told, DENY)
        if permission is None or event.error is None or permission.sends > 1:
            return []
        text = f"The gateway did not take the answer to this approval: {event.error.message}"
        return self._say(text, f"refused:{event.approval_id}")

    def expired(self, approval_id: ApprovalId) -> list[Effect]:
        """Nobody answered within the gateway's own time: that is a denial, and it is said."""
        permission = self._open.get(approval_id)
        if permission is None or permission.decision is not None:
            return []
        del self._open[approval_id]
        text = "Nobody answered the approval in time, so it counts as denied."
        return [
            WithdrawPermission(approval_id),
            _outcome(approval_id, "expired"),
            *self._card_over(approval_id, failed=True),
            *self._say(text, f"expired:{approval_id}"),
            *self._decide(approval_id, DENY),
        ]

    def deny_all(self, *, is_left: bool = False) -> list[Effect]:
        """The turn ends: no allow may reach the gateway after this. With ``is_left`` the run may
        go on without us, and what it waits for is not decided."""
        effects: list[Effect] = []
        for approval_id, permission in self._open.items():
            if permission.decision is None:
                effects.append(WithdrawPermission(approval_id))
            if is_left:
                continue
            if permission.decision is None or not permission.sends:
                permission.decision = DENY
                effects += [_outcome(approval_id, DENY), *self._decide(approval_id, DENY)]
            self.left[approval_id] = permission.decision
        self._open.clear()
        return effects

    def deny_left(self) -> list[Effect]:
        """A new link: deny what the turn has left, which the gateway may still wait for."""
        self._denied_late |= self.left.keys()
        return [effect for approval_id in self.left for effect in self._decide(approval_id, DENY)]

    def _deliver(self, approval_id: ApprovalId, permission: _Open) -> list[Effect]:
        if permission.decision is None:
            return []
        permission.sends += 1
        told = [_outcome(approval_id, permission.decision)] if permission.sends == 1 else []
        return [*told, *self._decide(approval_id, permission.decision, permission.details)]

    def _decide(
        self, approval_id: ApprovalId, decision: str, details: Json = NOTHING
    ) -> list[Effect]:
        return [Send(AnswerPermission(approval_id, decision, details))]


def _outcome(approval_id: ApprovalId, decision: str, *, corrects: bool = False) -> Record:
    """What a replay tells of the question; the question itself means nothing any more then.
    ``corrects``: it is not what was recorded first."""
    payload = {"approvalId": approval_id, "decision": decision}
    return Record("decision", {**payload, "corrects": True} if corrects else payload)
