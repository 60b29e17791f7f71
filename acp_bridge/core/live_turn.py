"""A live turn: the state table (``core.turn``) joined with what the turn has shown so far.

The service feeds it what happened and carries out the effects it gets back, in order. The memory
of shown text, open tool calls and open permissions belongs here and not to a connection, since it
must outlive a generation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from acp_bridge.core import endings
from acp_bridge.core import events as ev
from acp_bridge.core.commands import AbortRun, ProbeRun, StartRun
from acp_bridge.core.effects import (
    Answer,
    Arm,
    DeadlineKind,
    Disarm,
    Effect,
    Record,
    Reject,
    Release,
    Send,
)
from acp_bridge.core.open_permissions import OpenPermissions
from acp_bridge.core.ports import EditorAnswer
from acp_bridge.core.tool_calls import ToolCalls
from acp_bridge.core.turn import Trigger, TurnState, next_state
from acp_bridge.core.turn_view import TurnView
from acp_bridge.errors import BridgeError, GatewayTimeout
from acp_bridge.ids import ApprovalId, Json, RunId, SessionId, SessionKey


class Turn:
    """One prompt turn. Every public method returns the effects to carry out, in order."""

    def __init__(self, session_id: SessionId, command: StartRun, *, cwd: str, prompt: Json) -> None:
        self.session_id = session_id
        self.command = command
        self.state = TurnState.NEW
        self.is_over = True
        """Whether nothing of this turn runs at the gateway (any more)."""
        self._prompt = prompt
        self._serial = 0
        self._is_recorded = False
        self._has_slot = False
        self._is_link_up = False
        self._is_acknowledged = False
        self._is_cancel_wanted = False
        self._is_abort_under_way = False
        self._winds_down = False
        self._is_probed = False
        """Whether the answer to a probe is under way over this connection."""
        self._early_end: ev.RunEnded | None = None
        """The run's end, if it came before the probe's answer, which tells what was missed."""
        self._poison: endings.Ending | None = None
        """How a prompt ends that was not taken and is not to be sent again."""
        self._resends = 0
        self._sends = 0
        self._tools = ToolCalls(cwd)
        self._view = TurnView(command.run_id, self._tools)
        self._permissions = OpenPermissions(session_id, command.run_id, self._tools)

    @classmethod
    def reattached(
        cls,
        session_id: SessionId,
        run_id: RunId,
        session_key: SessionKey,
        *,
        cwd: str,
        shown: Iterable[Json],
    ) -> Turn:
        """A turn that an earlier process began and nobody has seen end.

        ``shown`` are the updates that were shown of it. It waits for :meth:`link_up`, which asks
        the gateway what became of it; its answer goes to nobody.
        """
        turn = cls(session_id, StartRun(run_id, session_key, ""), cwd=cwd, prompt={})
        turn.state = TurnState.SUSPENDED
        turn.is_over = False
        turn._is_acknowledged = True  # a prompt that may have run is never sent again
        turn._view.relive(shown)
        return turn

    @property
    def run_id(self) -> RunId:
        """The run's id; also the idempotency key."""
        return self.command.run_id

    @property
    def session_key(self) -> SessionKey:
        """The gateway's name of the session."""
        return self.command.session_key

    # --- before sending ------------------------------------------------------------------

    def begin(self, *, is_link_up: bool) -> list[Effect]:
        """Record the prompt; without a link, wait for one up to the connect deadline."""
        self._is_link_up = is_link_up
        wait = [] if is_link_up else [self._arm(DeadlineKind.CONNECT)]
        return [Record("prompt", self._prompt), *wait]

    def recorded(self) -> list[Effect]:
        """The prompt is in the ledger (or the ledger has failed, which stops no conversation)."""
        self._is_recorded = True
        return self._send_when_ready()

    def grant_slot(self) -> list[Effect]:
        """No other run is under way in this session of the gateway."""
        self._has_slot = True
        return self._send_when_ready()

    def _send_when_ready(self) -> list[Effect]:
        ready = self._is_recorded and self._has_slot and self._is_link_up
        if self.state is not TurnState.NEW or not ready:
            return []
        return self._send()

    def _send(self) -> list[Effect]:
        self._move(Trigger.SENT)
        self.is_over = False
        self._sends += 1
        return [Send(self.command), self._arm(DeadlineKind.ACKNOWLEDGE)]

    # --- the link ------------------------------------------------------------------------

    def link_lost(self, close_code: int | None = None) -> list[Effect]:
        """The connection broke: a sent prompt waits for the next one."""
        self._is_link_up = self._is_abort_under_way = self._is_probed = False
        self._early_end = None
        if self.state.is_final:
            return [Disarm()] if self._needs_abort else []
        if self.state is TurnState.NEW:
            return [self._arm(DeadlineKind.CONNECT)]
        if self.state is TurnState.SENT and not self.is_over:
            self._poison = endings.poisoned(close_code, self._sends)
        self._move(Trigger.LINK_LOST)
        if self.state is TurnState.SUSPENDED:
            return [self._arm(DeadlineKind.RECONNECT)]
        return []

    def link_up(self) -> list[Effect]:
        """A new connection: ask what became of the run, or send what still waits."""
        self._is_link_up = True
        if self._needs_abort:
            return self._abort() + ([self._arm(DeadlineKind.DRAIN)] if self.state.is_final else [])
        if self.state.is_final:
            return []
        self._move(Trigger.LINK_UP)
        if self.state is TurnState.NEW:
            return [Disarm(), *self._send_when_ready()]
        self._is_probed = True
        self._tools.assume_no_tool_stream()
        probe = ProbeRun(self.run_id, self.session_key)
        return [Send(probe), self._arm(DeadlineKind.PROBE), *self._permissions.link_up()]

    # --- the editor ----------------------------------------------------------------------

    def cancel(self) -> list[Effect]:
        """The editor wants the turn over. Any number of calls has the effect of one."""
        if self.state.is_final or self.state is TurnState.CANCELLING:
            return []
        self._move(Trigger.CANCEL)
        if self.state is TurnState.CANCELLED:
            return self._settle(Answer("cancelled"))
        self._is_cancel_wanted = True
        if self.is_over:  # the gateway has not taken it; it was to be sent again
            self._move(Trigger.DEFERRED)
            return self._settle(Answer("cancelled"))
        effects: list[Effect] = [self._arm(DeadlineKind.CANCEL)]
        # Before the acknowledgement an abort could overtake the prompt; it follows then.
        if self._is_link_up and self._is_acknowledged:
            effects += self._abort()
        return effects + self._permissions.deny_all()

    def give_up(self) -> list[Effect]:
        """The process ends: answer now, and let the gateway hear of it if it still can."""
        if self.state is not TurnState.CANCELLING:
            return []
        effects = [] if self._is_abort_under_way or not self._is_link_up else self._abort()
        self._move(Trigger.DEADLINE)
        return effects + self._end(endings.CANCELLED)

    def permission_answered(self, approval_id: ApprovalId, answer: EditorAnswer) -> list[Effect]:
        """The editor answered ``session/request_permission``."""
        return self._permissions.answered(approval_id, answer, is_link_up=self._is_link_up)

    def permission_expired(self, approval_id: ApprovalId) -> list[Effect]:
        """The gateway's own deadline for an open permission has passed."""
        return self._permissions.expired(approval_id)

    # --- the gateway ---------------------------------------------------------------------

    def handle(self, event: ev.RunEvent) -> list[Effect]:
        """An event of this run. Raises ``IllegalTransition`` for one that cannot come now."""
        if self.state.is_final:
            return self._handle_late(event)
        match event:
            case ev.RunAccepted():
                return self._accepted(Trigger.ACCEPTED)
            case ev.RunDeferred():
                return self._deferred()
            case ev.RunRefused():
                self._move(Trigger.ERRORED)
                return self._end(endings.failure(event.error))
            case ev.RunAnsweredAtOnce():
                self._move(Trigger.FINISHED)
                return self._end(endings.Ending("end_turn", None, None), snapshot=event.text)
            case ev.RunEnded():
                return self._run_ended(event)
            case ev.AbortAnswered():
                return self._abort_answered(event)
            case ev.RunReported():
                return self._reported(event)
            case _:
                return self._progress(event)

    def _handle_late(self, event: ev.RunEvent) -> list[Effect]:
        """The editor has its answer; only the end of the run itself still matters."""
        if self.is_over:
            return []
        if isinstance(event, ev.RunAccepted):
            self._is_acknowledged = True
            return [] if self._is_abort_under_way else self._abort()
        over = (ev.RunEnded, ev.RunRefused, ev.RunAnsweredAtOnce, ev.RunDeferred, ev.AbortAnswered)
        return self._over() if isinstance(event, over) else []

    def _accepted(self, trigger: Trigger) -> list[Effect]:
        was_running = self.state is TurnState.RUNNING
        self._move(trigger)
        return [] if was_running else self._taken()

    def _taken(self) -> list[Effect]:
        """The gateway has the prompt: no deadline any more, but an abort that waited for this."""
        self._is_acknowledged = True
        if self.state is TurnState.RUNNING:
            return [Disarm()]
        return self._abort_once()

    @property
    def _needs_abort(self) -> bool:
        """Whether a run that goes on, as far as is known, is to be stopped."""
        return self._is_cancel_wanted and not self.is_over and not self._winds_down

    def _deferred(self) -> list[Effect]:
        self._move(Trigger.DEFERRED)
        self.is_over = True
        if self.state is TurnState.CANCELLED:
            return self._settle(Answer("cancelled"))
        self._resends += 1
        return [self._arm(DeadlineKind.RESEND, self._resends)]

    def _run_ended(self, event: ev.RunEnded) -> list[Effect]:
        if self._is_probed and self.state is not TurnState.CANCELLING:
            if self._early_end is not None:
                return []
            self._early_end = event
            return [self._arm(DeadlineKind.PROBE)]
        self._move(endings.TRIGGER_OF_END[event.kind])
        effects = self._view.thought(event.thought) if event.thought is not None else []
        # 2026.6.11 keeps a failed run until its second end, and a stopped one for a moment.
        self._winds_down = event.kind is not ev.EndKind.FINISHED
        return effects + self._end(
            endings.ending(event), not self._winds_down, snapshot=event.snapshot
        )

    def _abort_answered(self, event: ev.AbortAnswered) -> list[Effect]:
        self._is_abort_under_way = False
        if event.error is not None or event.aborted:
            # Refused: the deadline decides. Taken: the run's own end follows, with its last text.
            return []
        self._move(Trigger.ABORTED)
        return self._end(endings.CANCELLED)

    def _progress(self, event: ev.RunEvent) -> list[Effect]:
        return self._accepted(Trigger.PROGRESS) + self._view.progress(event)

    def _reported(self, event: ev.RunReported) -> list[Effect]:
        self._is_probed = False
        effects = self._view.ended_tools(event.ended_tools)
        if self._early_end is not None:
            effects += self._view.caught_up(event.snapshot)
            return effects + self._run_ended(self._early_end)
        may_send_again = self.state is TurnState.PROBING and not self._is_acknowledged
        if event.state is ev.RunState.NOT_TAKEN and may_send_again:
            if self._poison is None:
                return effects + self._send()
            self._move(Trigger.ERRORED)
            return effects + self._end(self._poison)
        self._move(endings.TRIGGER_OF_REPORT[event.state])
        if event.state is ev.RunState.RUNNING:
            return self._taken() + effects + self._view.caught_up(event.snapshot)
        if not self.state.is_final:
            return effects  # the run's own events went on meanwhile; they know better
        return effects + self._end(endings.report_ending(event), snapshot=event.snapshot)

    # --- permissions ---------------------------------------------------------------------

    def permission_asked(self, asked: ev.PermissionAsked) -> list[Effect]:
        """The gateway asks for a decision within this run."""
        if self.state.is_final or self.state is TurnState.CANCELLING:
            return self._permissions.refuse(asked)
        return self._view.begin_message() + self._permissions.asked(asked)

    def permission_closed(self, event: ev.PermissionClosed) -> list[Effect]:
        """The gateway says that an approval was resolved."""
        return self._permissions.closed(event.approval_id, event.decision)

    def permission_settled(self, event: ev.PermissionSettled) -> list[Effect]:
        """The gateway answered our decision."""
        return self._permissions.settled(event)

    # --- time ----------------------------------------------------------------------------

    def deadline(
        self, kind: DeadlineKind, serial: int, reason: BridgeError | None = None
    ) -> list[Effect]:
        """A timer fired. ``reason`` says why there is no link, where that is the cause.

        A timer armed for an earlier state is ignored: its serial number is old.
        """
        if serial != self._serial:
            return []
        match kind:
            case DeadlineKind.DRAIN:
                # Still not acknowledged: an abort that might overtake it is better than none.
                return self._abort_once() + self._over()
            case DeadlineKind.LINGER:
                return self._over()
            case DeadlineKind.RESEND:
                return self._send()
            case DeadlineKind.CANCEL:
                self._move(Trigger.DEADLINE)
                return self._end(endings.CANCELLED, is_over=self.is_over)
            case DeadlineKind.CONNECT:
                self._move(Trigger.DEADLINE)
                return self._end(endings.failure(reason or GatewayTimeout()))
            case DeadlineKind.ACKNOWLEDGE:
                self._move(Trigger.DEADLINE)
                return self._abort() + self._end(endings.unacknowledged(), False)
            case DeadlineKind.PROBE if self._early_end is not None:
                self._is_probed = False
                return self._run_ended(self._early_end)
            case DeadlineKind.RECONNECT | DeadlineKind.PROBE:
                self._move(Trigger.DEADLINE)
                return self._end(endings.lost())
            case _:
                assert_never(kind)

    # --- endings -------------------------------------------------------------------------

    def _end(
        self, how: endings.Ending, is_over: bool = True, *, snapshot: str | None = None
    ) -> list[Effect]:
        """Close what is open, show the last text and the notice, answer."""
        self.is_over = is_over
        was_cancelled = self.state is TurnState.CANCELLED
        effects = self._view.close(failed=self.state is not TurnState.DONE, snapshot=snapshot)
        if how.notice and not (was_cancelled and self._is_cancel_wanted):
            effects += self._view.notice(how.notice)
        elif self._view.is_empty and self.state is TurnState.DONE:
            effects += self._view.notice(endings.NO_REPLY)
        if was_cancelled:
            return effects + self._settle(Answer("cancelled"))
        if how.error is not None:
            return effects + self._settle(Reject(how.error))
        return effects + self._settle(Answer(how.stop_reason or "end_turn"))

    def _settle(self, answer: Answer | Reject) -> list[Effect]:
        outcome = Record("outcome", endings.outcome(answer))
        effects: list[Effect] = [*self._permissions.deny_all(), outcome, answer]
        if self.is_over:
            return [*effects, Disarm(), Release(self.run_id)]
        if self._needs_abort and not self._is_link_up:
            return [*effects, Disarm()]  # the next link brings the abort
        kind = DeadlineKind.LINGER if self._winds_down else DeadlineKind.DRAIN
        return [*effects, self._arm(kind)]

    def _over(self) -> list[Effect]:
        self.is_over = True
        return [Disarm(), Release(self.run_id)]

    def _abort_once(self) -> list[Effect]:
        return self._abort() if self._needs_abort and not self._is_abort_under_way else []

    def _abort(self) -> list[Effect]:
        self._is_cancel_wanted = True
        self._is_abort_under_way = True
        return [Send(AbortRun(self.run_id, self.session_key))]

    def _move(self, trigger: Trigger) -> None:
        self.state = next_state(self.state, trigger)

    def _arm(self, kind: DeadlineKind, attempt: int = 0) -> Arm:
        self._serial += 1
        return Arm(kind, self._serial, attempt)
