"""Starts turns, feeds them, and carries out their effects in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from acp_bridge.bridge.approvals import Approvals
from acp_bridge.bridge.outages import OutageWatch
from acp_bridge.bridge.outbox_items import update_message
from acp_bridge.bridge.stalls import StallWatch
from acp_bridge.bridge.timing import Clock, Deadlines, Timer
from acp_bridge.core import effects as fx
from acp_bridge.core import events as ev
from acp_bridge.core.commands import StartRun
from acp_bridge.core.live_turn import Turn
from acp_bridge.core.ports import Ask, Editor, EditorAnswer, Entry, Outbox, Responder
from acp_bridge.core.sessions import Session
from acp_bridge.core.turn import TurnState
from acp_bridge.core.turns import Turns
from acp_bridge.errors import BridgeError, GatewayError, LocalProtocolError
from acp_bridge.gateway.port import Gateway
from acp_bridge.ids import ApprovalId, Generation, Json, RunId, SessionId

log = logging.getLogger(__name__)


class Prompting:
    """The turns of this process, and everything that hangs on them.

    ``on_answered`` is called after a turn's answer is queued. Tasks run in ``tasks``.
    """

    def __init__(
        self,
        *,
        gateway: Gateway,
        outbox: Outbox,
        editor: Editor,
        clock: Clock,
        deadlines: Deadlines,
        tasks: asyncio.TaskGroup,
        on_answered: Callable[[Turn], None],
        shows_foreign: bool,
    ) -> None:
        self.turns = Turns()
        self._own_runs: set[RunId] = set()
        """All that were begun in this process; their late news are nobody else's."""
        self._shows_foreign = shows_foreign
        self._gateway = gateway
        self._outbox = outbox
        self._editor = editor
        self._clock = clock
        self._deadlines = deadlines
        self._tasks = tasks
        self._on_answered = on_answered
        self._generation: Generation | None = None
        self._boot_id: str | None = None
        self._outage = OutageWatch(clock, deadlines.outage, self._tell_outage)
        self._stalls = StallWatch(clock, deadlines.stall, self._stalled)
        self._responders: dict[RunId, Responder] = {}
        self._timers: dict[RunId, Timer] = {}
        self._asks: dict[ApprovalId, tuple[Turn, Ask]] = {}
        self._expiries: dict[ApprovalId, Timer] = {}
        self._approvals = Approvals(clock)
        self._unconfirmed: set[ApprovalId] = set()
        """Questions from before a reconnect of which the gateway has not said that they wait."""
        self._answer_waiters: list[asyncio.Future[None]] = []
        self._all_answered = asyncio.Event()
        self._all_answered.set()
        self._carriers: dict[type[fx.Effect], Callable[[Turn, Any], None]] = {
            fx.Record: self._record,
            fx.Send: self._send,
            fx.Show: self._show,
            fx.Tell: self._tell,
            fx.Answer: self._answer,
            fx.Reject: self._reject,
            fx.Arm: self._arm,
            fx.Disarm: lambda turn, _effect: self._disarm(turn),
            fx.AskPermission: self._ask,
            fx.WithdrawPermission: lambda _turn, effect: self._withdraw(effect),
            fx.Follow: self._follow,
            fx.Release: lambda turn, _effect: self._release(turn),
        }

    # --- the editor ----------------------------------------------------------------------

    def start(self, session: Session, command: StartRun, prompt: Json, respond: Responder) -> None:
        """Begin a turn. A live one of the same session is cancelled first, unless it is of another
        process, which may still wait for it: then it is waited for."""
        earlier = self.turns.live(session.session_id)
        if earlier is not None and not earlier.is_reattached:
            self.carry_out(earlier, earlier.cancel())
        turn = Turn(session.session_id, command, cwd=session.cwd, prompt=prompt)
        self._responders[turn.run_id] = respond
        self._all_answered.clear()
        may_run = self.turns.add(turn)
        log.info("prompt", extra={"fields": _ids(turn)})
        self.carry_out(turn, turn.begin(is_link_up=self._generation is not None))
        if may_run:
            self.carry_out(turn, turn.grant_slot())
        self._mind_outage(turn)

    def join(self, turn: Turn) -> None:
        """Take up a turn that an earlier process began. What it shows comes after whatever is
        being answered now."""
        self.turns.add(turn)
        self.turns.follow(turn.run_at_gateway, turn)
        self._own_runs |= {turn.run_id, turn.run_at_gateway}
        log.info("turn taken up", extra={"fields": _ids(turn)})
        if self._generation is not None:
            loop = asyncio.get_running_loop()
            loop.call_soon(lambda: self.carry_out(turn, turn.link_up()))
        else:
            self._mind_outage(turn)

    def _mind_outage(self, turn: Turn) -> None:
        """Tell a turn that begins without a link of that; one that never was is away since now."""
        if self._outage.is_long:
            self.carry_out(turn, turn.outage())
        elif self._generation is None:
            self._outage.away()

    def cancel(self, session_id: SessionId) -> None:
        """End the session's live turn as cancelled; silent when there is none."""
        if (turn := self.turns.live(session_id)) is not None:
            self.carry_out(turn, turn.cancel())

    def leave(self, session_id: SessionId) -> None:
        """The editor closes the session: its turn is cancelled, but for one that another process
        began and may still wait for."""
        if (turn := self.turns.live(session_id)) is not None:
            self._leave(turn, detach=False)

    def forget(self, session_id: SessionId) -> None:
        """The session is closed: other clients' turns in it are shown and recorded no more."""
        for turn in self.turns:
            if turn.is_foreign and turn.session_id == session_id:
                self.carry_out(turn, [fx.Disarm(), fx.Release(turn.run_id)])

    def _leave(self, turn: Turn, *, detach: bool) -> None:
        self.carry_out(turn, turn.detach() if detach or turn.is_reattached else turn.cancel())

    def cancel_prompt(self, respond: Responder) -> None:
        """End the turn of exactly this request."""
        for turn in self.turns:
            if self._responders.get(turn.run_id) is respond:
                self.carry_out(turn, turn.cancel())

    async def stop(self, grace: float, *, detach: bool) -> None:
        """End all turns of this process. With ``detach`` their runs go on at the gateway; else
        those that were begun here are cancelled, by the gateway's word or after ``grace``
        seconds."""
        for turn in reversed(list(self.turns)):  # what waits for another turn is not to begin now
            self._leave(turn, detach=detach)
        try:
            async with asyncio.timeout(grace):
                await self._all_answered.wait()
        except TimeoutError:
            for turn in self.turns:
                self.carry_out(turn, turn.give_up())

    async def answered(self, session_id: SessionId) -> None:
        """Return when no turn of the session waits for its answer any more."""
        while self.turns.live(session_id) is not None:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._answer_waiters.append(waiter)
            await waiter

    # --- the gateway ---------------------------------------------------------------------

    def link_up(self, generation: Generation, boot_id: str | None) -> None:
        """A new connection, to the start of the gateway that has this id, if it has one."""
        self._generation = generation
        is_same, self._boot_id = boot_id is not None and boot_id == self._boot_id, boot_id
        self._unconfirmed = set(self._asks)
        self._outage.over()
        for turn in self.turns:
            self._stalls.heard(turn.run_id)
            self.carry_out(turn, turn.link_up(is_same_gateway=is_same))
        for turn in self._approvals.turns():
            self.carry_out(turn, turn.permissions.deny_left())

    def link_lost(self, event: ev.LinkLost) -> None:
        """The connection is gone."""
        self._generation = None
        self._outage.away()
        for turn in self.turns:
            self.carry_out(turn, turn.link_lost(event.close_code))

    def _tell_outage(self) -> None:
        for turn in self.turns:
            self.carry_out(turn, turn.outage())

    def _stalled(self, run_id: RunId) -> None:
        if (turn := self.turns.by_run(run_id)) is not None:
            self.carry_out(turn, turn.stalled())

    def run_event(self, event: ev.RunEvent) -> None:
        """An event of a run; one without a turn is late or foreign, and is dropped here."""
        turn = self.turns.by_run(event.run_id)
        if turn is None:
            return
        try:
            effects = turn.handle(event)
        except LocalProtocolError as error:
            log.warning("event out of place", extra={"fields": {**_ids(turn), "why": str(error)}})
            return
        if turn.doubts:
            self._stalls.doubt(turn.run_id)
        else:
            self._stalls.heard(turn.run_id)
        self.carry_out(turn, effects)

    def run_seen(self, seen: ev.RunSeen, session: Session) -> None:
        """A run that was not begun here is at work in one of our sessions of the gateway."""
        if self.turns.has(run_id := seen.run_id) or run_id in self._own_runs:
            return
        turn = self.turns.running_with_key(session.session_key)
        if turn is not None and turn.state is TurnState.PROBING:
            # Perhaps this turn's own work; only what the gateway can tell of is taken for it.
            self.carry_out(turn, [] if seen.is_beginning else turn.run_seen(run_id))
        elif self.turns.can_watch(session.session_key):
            foreign = Turn.watched(
                session.session_id,
                run_id,
                session.session_key,
                cwd=session.cwd,
                is_hidden=not self._shows_foreign,
            )
            self.turns.add(foreign)
            self._stalls.heard(run_id)

    def permission_asked(self, asked: ev.PermissionAsked, turn: Turn) -> None:
        """An approval that seems to belong to this turn."""
        if self._approvals.take(asked, turn):
            self.carry_out(turn, turn.permission_asked(asked))

    def permission_event(
        self, event: ev.PermissionClosed | ev.PermissionSettled | ev.ApprovalsListed
    ) -> None:
        """What the gateway says of approvals: one was resolved, perhaps by another client; our
        decision was answered; or, after a reconnect, which ones still wait."""
        if isinstance(event, ev.ApprovalsListed):
            gone, self._unconfirmed = self._unconfirmed - event.waiting, set()
            for turn, approval_id in [
                (self._approvals.turn_of(each), each) for each in sorted(gone)
            ]:
                if turn is not None:
                    self.carry_out(turn, turn.permissions.gone(approval_id))
            return
        turn = self._approvals.settled(event.approval_id)
        if turn is None:
            return
        if isinstance(event, ev.PermissionSettled):
            self.carry_out(turn, turn.permissions.settled(event))
        else:
            self.carry_out(turn, turn.permissions.closed(event.approval_id, event.decision))

    # --- effects -------------------------------------------------------------------------

    def carry_out(self, turn: Turn, effects: list[fx.Effect]) -> None:
        """Do what a move wants, in order."""
        for effect in turn.announced(effects):
            self._carriers[type(effect)](turn, effect)

    def _send(self, turn: Turn, send: fx.Send) -> None:
        if isinstance(send.command, StartRun):
            self._own_runs.add(turn.run_id)
            self._stalls.heard(turn.run_id)
            self._approvals.turn_sent(turn)
        self._gateway.submit(send.command)

    def _show(self, turn: Turn, show: fx.Show) -> None:
        entry = self._entry(turn, fx.Record("update", show.update))
        entry = entry._replace(key=show.key, offset=show.offset)
        self._outbox.put_update(show.update, entry)

    def _tell(self, turn: Turn, tell: fx.Tell) -> None:
        message = update_message(turn.session_id, tell.update)
        self._outbox.put_message(message, session_id=turn.session_id)

    def _answer(self, turn: Turn, answer: fx.Answer) -> None:
        if responder := self._responders.pop(turn.run_id, None):
            responder.result({**answer.extras, "stopReason": answer.stop_reason})
        self._answered(turn, answer.stop_reason)

    def _reject(self, turn: Turn, reject: fx.Reject) -> None:
        reject.error.data.setdefault("runId", turn.run_id)
        if responder := self._responders.pop(turn.run_id, None):
            responder.error(reject.error)
        self._answered(turn, reject.error.code)

    def _entry(self, turn: Turn, record: fx.Record) -> Entry:
        return Entry(turn.session_id, record, turn.run_id, self._generation)

    def _record(self, turn: Turn, record: fx.Record) -> None:
        done = None
        if record.kind == "prompt":
            # The prompt goes to the gateway only when no crash can lose it any more.
            done = partial(self._recorded, turn)
        entry = self._entry(turn, record)
        if record.kind in ("permission", "decision"):  # perhaps asked by two processes at once
            again = ":corrected" if record.payload.get("corrects") else ""
            entry = entry._replace(key=f"{record.kind}:{record.payload['approvalId']}{again}")
        self._outbox.put_record(entry, done)

    def _recorded(self, turn: Turn) -> None:
        self.carry_out(turn, turn.recorded())

    def _answered(self, turn: Turn, how: str) -> None:
        log.info("prompt answered", extra={"fields": {**_ids(turn), "how": how}})
        if not self._responders:
            self._all_answered.set()
        waiters, self._answer_waiters = self._answer_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._on_answered(turn)

    def _arm(self, turn: Turn, arm: fx.Arm) -> None:
        self._disarm(turn)
        if arm.kind is fx.DeadlineKind.CONNECT:
            self._tasks.create_task(self._wait_link(turn, arm))
            return
        fire = partial(self._fire, turn, arm)
        self._timers[turn.run_id] = self._clock.call_later(self._deadlines.of(arm), fire)

    def _disarm(self, turn: Turn) -> None:
        timer = self._timers.pop(turn.run_id, None)
        if timer is not None:
            timer.cancel()

    def _fire(self, turn: Turn, arm: fx.Arm, reason: BridgeError | None = None) -> None:
        self.carry_out(turn, turn.deadline(arm.kind, arm.serial, reason))

    async def _wait_link(self, turn: Turn, arm: fx.Arm) -> None:
        """A prompt is an act of the user, so the gateway is tried at once, and a refusal that
        waiting cannot heal ends the waiting. A session without a link had one when it was made,
        perhaps in an earlier process: that is waited for like any that was lost."""
        try:
            await self._gateway.wait_hello(self._deadlines.reconnect)
        except GatewayError as error:
            self._fire(turn, arm, error)

    def _ask(self, turn: Turn, effect: fx.AskPermission) -> None:
        approval_id = effect.asked.approval_id
        asked = {"approvalId": approval_id, **effect.params}
        self._record(turn, fx.Record("permission", asked))
        ask = self._editor.ask(
            "session/request_permission",
            effect.params,
            partial(self._permission_answered, turn, approval_id),
            session_id=turn.session_id,
        )
        self._asks[approval_id] = (turn, ask)
        if effect.asked.expires_in is not None:
            self._expiries[approval_id] = self._clock.call_later(
                max(effect.asked.expires_in, 0.0), partial(self._expired, turn, approval_id)
            )

    def _permission_answered(
        self, turn: Turn, approval_id: ApprovalId, answer: EditorAnswer
    ) -> None:
        self._forget_ask(approval_id)
        is_up = self._generation is not None
        self.carry_out(turn, turn.permissions.answered(approval_id, answer, is_link_up=is_up))

    def _expired(self, turn: Turn, approval_id: ApprovalId) -> None:
        self.carry_out(turn, turn.permissions.expired(approval_id))

    def _withdraw(self, effect: fx.WithdrawPermission) -> None:
        approval_id = effect.approval_id
        asked = self._asks.get(approval_id)
        self._forget_ask(approval_id)
        if asked is not None:
            asked[1].withdraw()

    def _forget_ask(self, approval_id: ApprovalId) -> None:
        self._asks.pop(approval_id, None)
        expiry = self._expiries.pop(approval_id, None)
        if expiry is not None:
            expiry.cancel()

    def _follow(self, turn: Turn, follow: fx.Follow) -> None:
        self._own_runs.add(follow.run_id)
        self.turns.follow(follow.run_id, turn)

    def _release(self, turn: Turn) -> None:
        self._stalls.forget(turn.run_id)
        self._approvals.release(turn)
        if (following := self.turns.release(turn)) is not None:
            self.carry_out(following, following.grant_slot())


def _ids(turn: Turn) -> dict[str, str]:
    return {"session_id": turn.session_id, "run_id": turn.run_id}
