"""What every move of a turn uses: its state, its memory, its one timer, and how it ends."""

from __future__ import annotations

from typing import Final

from acp_bridge.core import effects as fx
from acp_bridge.core import endings
from acp_bridge.core import events as ev
from acp_bridge.core.budget import Budget
from acp_bridge.core.commands import AbortRun, ProbeRun, StartRun
from acp_bridge.core.endings import Ending
from acp_bridge.core.open_permissions import OpenPermissions
from acp_bridge.core.tool_calls import ToolCalls
from acp_bridge.core.turn import Trigger, TurnState, next_state
from acp_bridge.core.turn_view import TurnView
from acp_bridge.ids import Json, RunId, SessionId, SessionKey
from acp_bridge.wire import updates

_OF_END: Final = {
    ev.EndKind.FINISHED: Trigger.FINISHED,
    ev.EndKind.ABORTED: Trigger.ABORTED,
    ev.EndKind.FAILED: Trigger.ERRORED,
}
MAX_EARLY: Final = 20_000
"""News of a run that are kept until it is known what was missed before them: of some seconds."""
FOREIGN: Final = "(Another client of this session has sent a prompt.)\n\n"


class TurnBase:
    """The fields of a turn; ``core.live_turn`` makes its moves."""

    def __init__(self, session_id: SessionId, command: StartRun, *, cwd: str, prompt: Json) -> None:
        self.session_id = session_id
        self.command = command
        self.state = TurnState.NEW
        self.is_over = True
        """Whether nothing of this turn runs at the gateway (any more)."""
        self._prompt = prompt
        self._serial = 0
        self.is_reattached = False
        """Whether an earlier process began it."""
        self.is_foreign = False
        """Whether another client's prompt began it: it is only watched."""
        self._is_hidden = False
        self._is_told = False
        self._is_recorded = False
        self._has_slot = False
        self._is_link_up = False
        self._is_acknowledged = False
        self._is_cancel_wanted = False
        self._is_abort_under_way = False
        self._winds_down = False
        self._probes = 0
        """How often the gateway was asked what became of the run since the link is back; 0 once it
        has told."""
        self._early_news: list[ev.RunEvent] = []
        """What the run has shown meanwhile: what was missed is to be shown before it."""
        self._early_end: ev.RunEnded | None = None
        """The run's end, if it came before the probe's answer, which tells what was missed."""
        self._poison: Ending | None = None
        """How a prompt ends that was not taken and is not to be sent again."""
        self.run_at_gateway = command.run_id
        """Another one than the turn's, once the gateway has taken its work up again."""
        self._is_cut = False
        self._may_be_cut = False
        """Whether the gateway may have been restarted since the run was last known to go on."""
        self._is_asked_about = False
        """Whether the gateway was asked for the prompt that it has not acknowledged."""
        self._is_resumed = False
        self._candidate: RunId | None = None
        """A run in the session that may be the turn's own work."""
        self.doubts = 0
        """How often in a row the gateway did not know the silent run."""
        self._resends = 0
        self._sends = 0
        self._budget = Budget()
        self._tools = ToolCalls(cwd)
        self._view = TurnView(command.run_id, self._tools)
        self.permissions = OpenPermissions(
            session_id, command.run_id, self._tools, self._view.between
        )

    @property
    def run_id(self) -> RunId:
        """The run's id; also the idempotency key."""
        return self.command.run_id

    @property
    def session_key(self) -> SessionKey:
        """The gateway's name of the session."""
        return self.command.session_key

    @property
    def _is_probed(self) -> bool:
        """Whether the answer to a probe is under way over this connection."""
        return self._probes > 0

    def _probe(self) -> fx.Effect:
        return fx.Send(ProbeRun(self.run_at_gateway, self.session_key, self.command.blocks))

    def _ask_again(self) -> list[fx.Effect]:
        self._probes += 1
        is_waited_for = self.state is TurnState.PROBING or self._early_end is not None
        return [self._probe(), *([self._arm(fx.DeadlineKind.PROBE)] if is_waited_for else [])]

    def _is_certain_to_go_on(self, report: ev.RunReported) -> bool:
        """2026.9.6 feeds another client's prompt into a run, and then names only that as the one in
        flight. What is at work in the session is this run all the same, without a restart."""
        is_denied = report.state in (ev.RunState.UNKNOWN, ev.RunState.CUT)
        return is_denied and report.is_busy and self._is_acknowledged and not self._may_be_cut

    def _may_ask_again(self) -> bool:
        return self.state is not TurnState.CANCELLING and 0 < self._probes < endings.MAX_PROBES

    def _keep_early_news(self, event: ev.RunEvent) -> None:
        if _is_outdone(self._early_news[-1:], event):
            self._early_news.pop()
        if len(self._early_news) < MAX_EARLY:
            self._early_news.append(event)

    def _show_early_news(self) -> list[fx.Effect]:
        news, self._early_news = self._early_news, []
        return [effect for event in news for effect in self._view.progress(event)]

    def announced(self, effects: list[fx.Effect]) -> list[fx.Effect]:
        """What of the effects of a turn is carried out. One of another client is announced when
        there is something to show of it, and never if it is hidden."""
        if self._is_untold and not self._is_hidden:
            self._is_told = any(isinstance(each, fx.Show) for each in effects)
            effects = [*self._announcement(), *effects] if self._is_told else effects
        if not self._is_untold:
            return effects
        return [each for each in effects if not isinstance(each, fx.Show | fx.Record | fx.Tell)]

    @property
    def _is_untold(self) -> bool:
        return self.is_foreign and not self._is_told

    def _announcement(self) -> list[fx.Effect]:
        update = updates.message_chunk(FOREIGN, f"{self.run_id}:note")
        mark = {"acpBridge": {"from": "another client", "runId": self.run_id}}
        return [fx.Record("prompt", self._prompt), fx.Tell({**update, "_meta": mark})]

    # --- sending -------------------------------------------------------------------------

    def _send(self) -> list[fx.Effect]:
        self._move(Trigger.SENT)
        self.is_over = self._is_asked_about = False
        self._sends += 1
        return [fx.Send(self.command), self._arm(fx.DeadlineKind.ACKNOWLEDGE)]

    def _send_again(self) -> list[fx.Effect]:
        if self._poison is None:
            return self._send()
        self._move(Trigger.ERRORED)
        return self._end(self._poison)

    def _deferred(self) -> list[fx.Effect]:
        self._move(Trigger.DEFERRED)
        self.is_over = True
        if self.state is TurnState.CANCELLED:
            return self._settle(fx.Answer("cancelled"))
        self._resends += 1
        self._sends -= 1  # it was answered, and is to blame for nothing
        return [self._arm(fx.DeadlineKind.RESEND, self._resends)]

    # --- endings -------------------------------------------------------------------------

    def _end(
        self, how: Ending, is_over: bool = True, *, snapshot: str | None = None
    ) -> list[fx.Effect]:
        """Close what is open, show the last text and the notice, answer."""
        self.is_over = is_over
        was_cancelled = self.state is TurnState.CANCELLED
        effects = self._show_early_news()
        effects += self._view.close(failed=self.state is not TurnState.DONE, snapshot=snapshot)
        if how.notice and not (was_cancelled and self._is_cancel_wanted):
            effects += self._view.notice(how.notice)
        elif self._view.is_empty and self.state is TurnState.DONE and not self.is_foreign:
            effects += self._view.notice(endings.NO_REPLY)
        if was_cancelled:
            return effects + self._settle(fx.Answer("cancelled", how.extras))
        if how.error is not None:
            return effects + self._settle(fx.Reject(how.error))
        return effects + self._settle(fx.Answer(how.stop_reason or "end_turn", how.extras))

    def _run_ended(self, event: ev.RunEnded, *, is_partial: bool = False) -> list[fx.Effect]:
        if self._is_probed and self.state is not TurnState.CANCELLING:
            if self._early_end is not None:
                return []
            self._early_end = event
            return [self._arm(fx.DeadlineKind.PROBE)]
        self._move(_OF_END[event.kind])
        effects = self._view.thought(event.thought) if event.thought is not None else []
        # 2026.6.11 keeps a failed run until its second end, and a stopped one for a moment.
        self._winds_down = event.kind is not ev.EndKind.FINISHED
        how = endings.ending(event, is_partial=is_partial)
        return effects + self._end(how, not self._winds_down, snapshot=event.snapshot)

    def _abort_answered(self, event: ev.AbortAnswered) -> list[fx.Effect]:
        self._is_abort_under_way = False
        if event.error is not None or event.aborted:
            # Refused: the deadline decides. Taken: the run's own end follows, with its last text.
            return []
        self._move(Trigger.ABORTED)
        return self._end(Ending("cancelled", None, None))

    def _settle(self, answer: fx.Answer | fx.Reject) -> list[fx.Effect]:
        outcome = fx.Record("outcome", endings.outcome(answer))
        is_left = self.state is TurnState.FAILED and not self._is_link_up
        effects = [*self.permissions.deny_all(is_left=is_left), outcome, answer]
        if self.is_over:
            return [*effects, fx.Disarm(), fx.Release(self.run_id)]
        if self._needs_abort and not self._is_link_up:
            return [*effects, fx.Disarm()]  # the next link brings the abort
        kind = fx.DeadlineKind.LINGER if self._winds_down else fx.DeadlineKind.DRAIN
        return [*effects, self._arm(kind)]

    def _over(self) -> list[fx.Effect]:
        self.is_over = True
        return [fx.Disarm(), fx.Release(self.run_id)]

    @property
    def _needs_abort(self) -> bool:
        """Whether a run that goes on, as far as is known, is to be stopped."""
        return self._is_cancel_wanted and not self.is_over and not self._winds_down

    def _abort_once(self) -> list[fx.Effect]:
        return self._abort() if self._needs_abort and not self._is_abort_under_way else []

    def _abort(self) -> list[fx.Effect]:
        self._is_cancel_wanted = True
        self._is_abort_under_way = True
        return [fx.Send(AbortRun(self.run_at_gateway, self.session_key))]

    # --- state ---------------------------------------------------------------------------

    def _move(self, trigger: Trigger) -> None:
        self.state = next_state(self.state, trigger)

    def _arm(self, kind: fx.DeadlineKind, attempt: int = 0) -> fx.Arm:
        self._serial += 1
        return fx.Arm(kind, self._serial, attempt)


def _is_outdone(before: list[ev.RunEvent], event: ev.RunEvent) -> bool:
    """Whether an event has all that the one before it had: each has the whole text so far."""
    texts = [each for each in (*before, event) if isinstance(each, ev.TextProgress)]
    has_all = len(texts) == 2 and texts[1].snapshot is not None
    return has_all and not any(text.replace for text in texts)
