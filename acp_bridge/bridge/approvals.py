"""Remembers which turn every approval of this process belongs to, also when the turn is over.

2026.6.11 names only the session of an approval, keeps one that a stopped run has left, and lists
it after each reconnect. It must not be asked again, and never within another turn.
"""

from __future__ import annotations

from typing import Final

from acp_bridge.bridge.timing import Clock
from acp_bridge.core.events import PermissionAsked
from acp_bridge.core.live_turn import Turn
from acp_bridge.ids import ApprovalId, RunId

MAX_KNOWN: Final = 5_000
"""Approvals that are remembered. A guard against leaks: they expire at the gateway long before."""
_SLACK: Final = 1.0
"""Seconds by which the gateway's clock may seem to be off."""


class Approvals:
    """Whose they are, and which the gateway has not settled, as far as is known."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[ApprovalId, RunId] = {}
        self._unsettled: dict[ApprovalId, Turn] = {}
        self._sent_at: dict[RunId, float] = {}

    def turn_sent(self, turn: Turn) -> None:
        """The turn's prompt goes to the gateway: what was asked before is not of it."""
        self._sent_at.setdefault(turn.run_id, self._clock.time())

    def take(self, asked: PermissionAsked, turn: Turn) -> bool:
        """Whether a question is this turn's, as it seems to be. One that was another turn's stays
        that, whatever became of it."""
        owner = self._known.get(asked.approval_id)
        if owner is None and asked.run_id is None and self._is_older(asked, turn):
            return False
        if owner is not None and owner != turn.run_id:
            return False
        for known in (self._known, self._unsettled):
            if len(known) >= MAX_KNOWN and asked.approval_id not in known:
                del known[next(iter(known))]
        self._known[asked.approval_id] = turn.run_id
        self._unsettled[asked.approval_id] = turn
        return True

    def _is_older(self, asked: PermissionAsked, turn: Turn) -> bool:
        sent_at = self._sent_at.get(turn.run_id)
        if sent_at is None or asked.waited is None:
            return False
        return asked.waited > self._clock.time() - sent_at + _SLACK

    def turn_of(self, approval_id: ApprovalId) -> Turn | None:
        """The turn of an approval that is not settled, as far as is known."""
        return self._unsettled.get(approval_id)

    def settled(self, approval_id: ApprovalId) -> Turn | None:
        """The gateway does not wait for it any more, or has answered our decision. Returns its
        turn, if that is news."""
        return self._unsettled.pop(approval_id, None)

    def turns(self) -> list[Turn]:
        """The turns of what is not settled, also those that are over."""
        return list({turn.run_id: turn for turn in self._unsettled.values()}.values())

    def release(self, turn: Turn) -> None:
        """The turn is over: of it only what it has left at the gateway matters."""
        self._sent_at.pop(turn.run_id, None)
        for key in [key for key, owner in self._unsettled.items() if owner is turn]:
            if key not in turn.permissions.left:
                del self._unsettled[key]
