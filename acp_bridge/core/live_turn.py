"""A live turn: the state table (``core.turn``) joined with what the turn has shown so far.

The service feeds it what happened and carries out the effects it gets back, in order. The memory
of shown text, open tool calls and open permissions belongs here and not to a connection, since it
must outlive a generation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, assert_never

from acp_bridge.core import effects as fx
from acp_bridge.core import endings
from acp_bridge.core import events as ev
from acp_bridge.core.commands import StartRun
from acp_bridge.core.endings import Ending
from acp_bridge.core.turn import Trigger, TurnState
from acp_bridge.core.turn_base import FOREIGN, TurnBase
from acp_bridge.errors import BridgeError, Detached, GatewayTimeout
from acp_bridge.ids import Json, RunId, SessionId, SessionKey

_OF_REPORT: Final = {
    ev.RunState.FINISHED: Trigger.FINISHED,
    ev.RunState.ABORTED: Trigger.ABORTED,
    ev.RunState.FAILED: Trigger.ERRORED,
    ev.RunState.NOT_TAKEN: Trigger.PROBE_NOT_TAKEN,
    ev.RunState.UNKNOWN: Trigger.PROBE_UNKNOWN,
    ev.RunState.UNTOLD: Trigger.PROBE_UNKNOWN,
    ev.RunState.CUT: Trigger.PROBE_CUT,
    ev.RunState.UNSEEN: Trigger.PROBE_RUNNING,
}


class Turn(TurnBase):
    """One prompt turn. Every public method returns the effects to carry out, in order."""

    @classmethod
    def reattached(
        cls,
        session_id: SessionId,
        run_id: RunId,
        session_key: SessionKey,
        *,
        cwd: str,
        shown: Iterable[tuple[str, Json]],
    ) -> Turn:
        """A turn that an earlier process began and nobody has seen end.

        ``shown`` are its entries in the ledger, each with its kind. It waits for :meth:`link_up`,
        which asks the gateway what became of it; its answer goes to nobody.
        """
        turn = cls(session_id, StartRun(run_id, session_key, ""), cwd=cwd, prompt={})
        turn.state = TurnState.SUSPENDED
        turn.is_over = False
        turn.is_reattached = True
        turn._is_acknowledged = True  # a prompt that may have run is never sent again
        turn._may_be_cut = True
        for kind, payload in shown:
            if kind == "update":
                turn._view.relive([payload])
            elif kind == "prompt":
                turn.command = turn.command._replace(blocks=tuple(payload.get("prompt") or ()))
            elif kind == "resumed":
                turn._is_resumed = True
                turn.run_at_gateway = RunId(payload["runId"])
                turn._view.resumed(turn.run_at_gateway)
        return turn

    @classmethod
    def watched(
        cls,
        session_id: SessionId,
        run_id: RunId,
        session_key: SessionKey,
        *,
        cwd: str,
        is_hidden: bool,
    ) -> Turn:
        """A turn of another client of the session, which has just been noticed. Prompts wait for
        its end, also if it is hidden."""
        prompt = {"prompt": [], "source": "gateway", "note": FOREIGN}
        turn = cls(session_id, StartRun(run_id, session_key, ""), cwd=cwd, prompt=prompt)
        turn.state = TurnState.RUNNING
        turn.is_over = False
        turn.is_foreign = turn._is_acknowledged = True
        turn._is_hidden = is_hidden
        turn._is_link_up = turn._is_recorded = True
        return turn

    # --- before sending ------------------------------------------------------------------

    def begin(self, *, is_link_up: bool) -> list[fx.Effect]:
        """Record the prompt; without a link, wait for one up to the connect deadline."""
        self._is_link_up = is_link_up
        effects: list[fx.Effect] = [fx.Record("prompt", self._prompt)]
        if not is_link_up:
            effects.append(self._arm(fx.DeadlineKind.CONNECT))
        return effects

    def recorded(self) -> list[fx.Effect]:
        """The prompt is in the ledger (or the ledger has failed, which stops no conversation)."""
        self._is_recorded = True
        return self._send_when_ready()

    def grant_slot(self) -> list[fx.Effect]:
        """No other run is under way in this session of the gateway."""
        self._has_slot = True
        return self._send_when_ready()

    def _send_when_ready(self) -> list[fx.Effect]:
        ready = self._is_recorded and self._has_slot and self._is_link_up
        if self.state is not TurnState.NEW or not ready:
            return []
        return self._send()

    # --- the link ------------------------------------------------------------------------

    def link_lost(self, close_code: int | None = None) -> list[fx.Effect]:
        """The connection broke: a sent prompt waits for the next one."""
        self._is_link_up = self._is_abort_under_way = self._is_cut = False
        self._probes = 0
        self._early_end = self._candidate = None
        if self.state.is_final:
            return [fx.Disarm()] if self._needs_abort else []
        if self.state is TurnState.NEW:
            return [self._arm(fx.DeadlineKind.CONNECT)]
        if self.state is TurnState.SENT and not self.is_over:
            self._poison = endings.poisoned(close_code, self._sends)
        self._move(Trigger.LINK_LOST)
        if self.state is TurnState.SUSPENDED:
            return [self._arm(fx.DeadlineKind.RECONNECT)]
        return []

    def link_up(self, *, is_same_gateway: bool = False) -> list[fx.Effect]:
        """A new connection: ask what became of the run, or send what still waits. It may be to a
        gateway that is known not to have been restarted."""
        self._is_link_up = True
        self._may_be_cut = self._may_be_cut or not is_same_gateway
        if self._needs_abort:
            drain = [self._arm(fx.DeadlineKind.DRAIN)] if self.state.is_final else []
            return self._abort() + drain
        if self.state.is_final:
            return []
        self._move(Trigger.LINK_UP)
        effects = self._view.outage_over()
        if self.state is TurnState.NEW:
            return [*effects, fx.Disarm(), *self._send_when_ready()]
        self._probes = 1
        self._tools.assume_no_tool_stream()
        effects += [self._probe(), self._arm(fx.DeadlineKind.PROBE)]
        return effects + self.permissions.link_up()

    def outage(self) -> list[fx.Effect]:
        """The connection has been away for so long that the user is to know."""
        waits = self.state in (TurnState.NEW, TurnState.SUSPENDED)
        return self._view.outage() if waits and not self._is_untold else []

    def stalled(self) -> list[fx.Effect]:
        """Nothing was heard of the run for long: ask what became of it."""
        is_silent = self.state is TurnState.RUNNING and not self.permissions.is_waiting
        return [self._probe()] if is_silent and self._is_link_up else []

    # --- the editor ----------------------------------------------------------------------

    def cancel(self) -> list[fx.Effect]:
        """The editor wants the turn over. Any number of calls has the effect of one."""
        if self.state.is_final or self.state is TurnState.CANCELLING or self.is_foreign:
            return []
        self._move(Trigger.CANCEL)
        if self.state is TurnState.CANCELLED:
            return self._settle(fx.Answer("cancelled"))
        self._is_cancel_wanted = True
        if self.is_over:  # the gateway has not taken it; it was to be sent again
            self._move(Trigger.DEFERRED)
            return self._settle(fx.Answer("cancelled"))
        effects: list[fx.Effect] = [self._arm(fx.DeadlineKind.CANCEL)]
        # Before the acknowledgement an abort could overtake the prompt; it follows then.
        if self._is_link_up and self._is_acknowledged:
            effects += self._abort()
        return effects + self.permissions.deny_all()

    def give_up(self) -> list[fx.Effect]:
        """The process ends: answer now, and let the gateway hear of it if it still can."""
        if self.state is not TurnState.CANCELLING:
            return []
        effects = [] if self._is_abort_under_way or not self._is_link_up else self._abort()
        self._move(Trigger.DEADLINE)
        return effects + self._end(Ending("cancelled", None, None))

    def detach(self) -> list[fx.Effect]:
        """The editor leaves, and the run is to go on: a later process takes it up."""
        if self.state is TurnState.NEW:
            return self.cancel()
        if self.state.is_final or self.state is TurnState.CANCELLING or self.is_foreign:
            return self.give_up()
        self._move(Trigger.DETACHED)
        self.is_over = True  # as far as this process is concerned
        return [fx.Disarm(), fx.Reject(Detached()), fx.Release(self.run_id)]

    # --- the gateway ---------------------------------------------------------------------

    def handle(self, event: ev.RunEvent) -> list[fx.Effect]:
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
                return self._end(endings.refused(event.error))
            case ev.RunAnsweredAtOnce():
                self._move(Trigger.FINISHED)
                return self._end(Ending("end_turn", None, None), snapshot=event.text)
            case ev.RunEnded():
                return self._run_ended(event)
            case ev.AbortAnswered():
                return self._abort_answered(event)
            case ev.RunReported():
                return self._reported(event)
            case _:
                return self._progress(event)

    def _handle_late(self, event: ev.RunEvent) -> list[fx.Effect]:
        """The editor has its answer; only the end of the run itself still matters."""
        if self.is_over:
            return []
        if isinstance(event, ev.RunAccepted):
            self._is_acknowledged = True
            return [] if self._is_abort_under_way else self._abort()
        over = (ev.RunEnded, ev.RunRefused, ev.RunAnsweredAtOnce, ev.RunDeferred, ev.AbortAnswered)
        return self._over() if isinstance(event, over) else []

    def _accepted(self, trigger: Trigger) -> list[fx.Effect]:
        was_running = self.state is TurnState.RUNNING
        self._move(trigger)
        return [] if was_running else self._taken()

    def _taken(self) -> list[fx.Effect]:
        """The gateway has the prompt: no deadline any more, but an abort that waited for this."""
        self._is_acknowledged = True
        if self.state is TurnState.RUNNING:
            return [fx.Disarm()]
        return self._abort_once()

    def _progress(self, event: ev.RunEvent) -> list[fx.Effect]:
        self.doubts = 0
        effects = self._accepted(Trigger.PROGRESS)
        if not self._budget.takes(event):
            return effects + self._view.cut_off()
        if not self._is_probed:
            return effects + self._view.progress(event)
        self._keep_early_news(event)
        return effects

    def _reported(self, event: ev.RunReported) -> list[fx.Effect]:
        if event.run_id != self.run_at_gateway or (event.is_foreign and self._is_resumed):
            return []  # of the run before the gateway's restart, or of somebody else's after it
        if self._is_certain_to_go_on(event):
            event = event._replace(state=ev.RunState.RUNNING)
        if (event.is_partial or event.state is ev.RunState.UNTOLD) and self._may_ask_again():
            # An end without what led to it is kept for the next answer.
            self._early_end = self._early_end or endings.reported_end(event)
            if self._early_end is not None or event.state is ev.RunState.UNTOLD:
                return self._ask_again()
        self._probes = 0
        effects = self._view.missed(event.parts, event.snapshot)
        is_at_work = event.state is ev.RunState.RUNNING
        if is_at_work or self._early_news or self._early_end is not None:
            # Before the news: they are younger.
            effects += self._view.caught_up(event.snapshot) + self._show_early_news()
        if (end := self._early_end) is not None:
            is_partial = event.is_partial or event.state is ev.RunState.UNTOLD
            return effects + self._run_ended(end, is_partial=is_partial)
        return effects + self._believe(event)

    def _believe(self, event: ev.RunReported) -> list[fx.Effect]:
        """What a report means for the turn, beside what it shows."""
        match event.state:
            case ev.RunState.RUNNING:
                self.doubts = 0
                self._may_be_cut = False
                self._move(Trigger.PROBE_RUNNING)
                return self._taken()
            case ev.RunState.NOT_TAKEN if self._may_send_again():
                return self._send_again()
            case ev.RunState.NOT_TAKEN if self.state is TurnState.SENT:
                self._move(Trigger.PROBE_NOT_TAKEN)
                return self._abort() + self._end(endings.unacknowledged(), is_over=False)
            case ev.RunState.CUT | ev.RunState.UNSEEN if self.state is TurnState.PROBING:
                return self._unheard(event)
            case _ if self._is_doubted_again(event.state):
                self._move(Trigger.ERRORED)
                return self._end(endings.denied(), snapshot=event.snapshot)
            case _:
                self._move(_OF_REPORT[event.state])
        if not self.state.is_final:
            return []  # the run's own events went on meanwhile; they know better
        return self._end(endings.report_ending(event), snapshot=event.snapshot)

    def run_seen(self, run_id: RunId) -> list[fx.Effect]:
        """A run that nobody here began is at work in the session. After a restart of the gateway
        it may be this turn's work, which the gateway has taken up again by itself."""
        if self.state is not TurnState.PROBING:
            return []
        self._candidate = run_id
        return self._cut(run_id) if self._is_cut else []

    def _cut(self, resumed_as: RunId | None) -> list[fx.Effect]:
        """The gateway was restarted in the middle of the run, and may go on with it."""
        self._is_cut = True
        if resumed_as is None:
            return [self._arm(fx.DeadlineKind.RESUME)]
        self._is_cut = False
        self._is_resumed = True
        self._probes = 1
        self.run_at_gateway = resumed_as
        effects: list[fx.Effect] = [fx.Record("resumed", {"runId": resumed_as})]
        effects.append(fx.Follow(resumed_as))
        effects += self._view.resumed(resumed_as)
        return [*effects, self._probe(), self._arm(fx.DeadlineKind.PROBE)]

    def _unheard(self, event: ev.RunReported) -> list[fx.Effect]:
        """The run may go on: as another one, or with its end, if that is seen, in a new report."""
        if event.state is ev.RunState.UNSEEN:
            return [*self._view.unseen(), self._arm(fx.DeadlineKind.UNSEEN)]
        return self._cut(event.resumed_as or self._candidate)

    def _may_send_again(self) -> bool:
        return self.state is TurnState.PROBING and not self._is_acknowledged

    def _is_doubted_again(self, state: ev.RunState) -> bool:
        """Whether the gateway has denied twice to know a run that says nothing."""
        is_doubt = state in (ev.RunState.NOT_TAKEN, ev.RunState.UNKNOWN, ev.RunState.CUT)
        if is_doubt and self.state is TurnState.RUNNING:
            self.doubts += 1
        return self.doubts > 1

    # --- permissions ---------------------------------------------------------------------

    def permission_asked(self, asked: ev.PermissionAsked) -> list[fx.Effect]:
        """The gateway asks for a decision within this run."""
        if self.is_foreign:
            return []  # its own client is asked
        if self.state.is_final or self.state is TurnState.CANCELLING:
            return self.permissions.refuse(asked)
        return self._view.begin_message() + self.permissions.asked(asked)

    # --- time ----------------------------------------------------------------------------

    def deadline(
        self, kind: fx.DeadlineKind, serial: int, reason: BridgeError | None = None
    ) -> list[fx.Effect]:
        """A timer fired. ``reason`` says why there is no link, where that is the cause.

        A timer armed for an earlier state is ignored: its serial number is old.
        """
        if serial != self._serial:
            return []
        match kind:
            case fx.DeadlineKind.DRAIN:
                # Still not acknowledged: an abort that might overtake it is better than none.
                return self._abort_once() + self._over()
            case fx.DeadlineKind.LINGER:
                return self._over()
            case fx.DeadlineKind.RESEND:
                return self._send()
            case fx.DeadlineKind.CANCEL:
                self._move(Trigger.DEADLINE)
                return self._end(Ending("cancelled", None, None), is_over=self.is_over)
            case fx.DeadlineKind.CONNECT:
                self._move(Trigger.DEADLINE)
                return self._end(endings.refused(reason or GatewayTimeout()))
            case fx.DeadlineKind.ACKNOWLEDGE:
                return self._unacknowledged()
            case fx.DeadlineKind.PROBE if self._early_end is not None:
                self._probes = 0
                return self._run_ended(self._early_end, is_partial=True)
            case (
                fx.DeadlineKind.RECONNECT
                | fx.DeadlineKind.PROBE
                | fx.DeadlineKind.RESUME
                | fx.DeadlineKind.UNSEEN
            ):
                self._move(Trigger.DEADLINE)
                return self._end(endings.given_up(kind))
            case _:
                assert_never(kind)

    def _unacknowledged(self) -> list[fx.Effect]:
        """Ask for the prompt first. Over a dead link that is not answered either: its own watch
        ends it, and the prompt waits for the next one."""
        if not self._is_asked_about:
            self._is_asked_about = True
            return [self._probe(), self._arm(fx.DeadlineKind.ACKNOWLEDGE)]
        self._move(Trigger.DEADLINE)
        return self._abort() + self._end(endings.untold(), is_over=False)
