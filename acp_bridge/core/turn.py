"""The states of a prompt turn, and the table of its moves.

A turn is one ``session/prompt`` from arrival to answer. ``core.live_turn`` makes the moves; each
returns effects (``core.effects``), plain values that the service carries out in order.

Columns of the table, in words:

* ``sent``: the prompt is recorded, the link is up, no other run is under way in the session.
* ``accepted``, ``deferred``: the gateway's acknowledgement. *Deferred* means that it named another
  run, so the prompt was not taken (OpenClaw 2026.6.11 does so for the text of a run that is still
  registered): the same command is sent again under the same key until it is taken.
* ``progress``: anything that the run shows. It may overtake the acknowledgement.
* ``finished``, ``aborted``, ``errored``: the end of the run, from an event or from a probe. The
  first end wins: a final state takes no event, and the table of turns drops what comes later.
* ``probe running`` … ``probe not taken``: what the gateway said after a reconnect.
* ``deadline``: the timer of the state fired.

Decisions:

* After a cancel request the only possible end is CANCELLED. The editor has its answer when the
  gateway confirms, or at the cancel deadline. One abort reaches the gateway, after the
  acknowledgement if that is still out; if the link breaks before the abort is answered it is sent
  again over the next one.
* A prompt never runs twice. After a reconnect it is sent again only if it was never acknowledged
  *and* the gateway, alive, says that it has not taken it. Otherwise the turn fails with
  ``OutcomeUnknown``.
* ``detached``: the editor leaves and the run goes on. The turn has no ending then, so that a later
  process takes it up.
* A dot raises ``IllegalTransition`` and changes nothing.

Whether the *run* is over at the gateway is a small fact beside the state (``is_over``): a turn may
be answered while its run still winds down, and until then no other prompt of the session may be
sent, since the gateway would feed it into the dying run (2026.9.6) or lose it (2026.6.11).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from acp_bridge.errors import IllegalTransition


class TurnState(StrEnum):
    """Where a turn stands."""

    NEW = "new"
    """Accepted from the editor, not yet sent."""
    SENT = "sent"
    """On the wire, not acknowledged."""
    RUNNING = "running"
    """The gateway works on it."""
    CANCELLING = "cancelling"
    """The editor wants it over."""
    SUSPENDED = "suspended"
    """Sent, connection lost."""
    PROBING = "probing"
    """Connected again, asking what became of it."""
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        """Whether the editor has its answer."""
        return self in (TurnState.DONE, TurnState.CANCELLED, TurnState.FAILED)


class Trigger(StrEnum):
    """What can happen to a turn."""

    SENT = "sent"
    ACCEPTED = "accepted"
    DEFERRED = "deferred"
    PROGRESS = "progress"
    FINISHED = "finished"
    ABORTED = "aborted"
    ERRORED = "errored"
    CANCEL = "cancel requested"
    LINK_LOST = "link lost"
    LINK_UP = "link up"
    PROBE_RUNNING = "probe: running"
    PROBE_NOT_TAKEN = "probe: not taken"
    PROBE_UNKNOWN = "probe: unknown"
    PROBE_CUT = "probe: cut by a restart"
    DEADLINE = "deadline"
    DETACHED = "detached"


S = TurnState
T = Trigger

TABLE: Final[dict[TurnState, dict[Trigger, TurnState]]] = {
    S.NEW: {
        T.SENT: S.SENT,
        T.ERRORED: S.FAILED,
        T.CANCEL: S.CANCELLED,
        T.LINK_LOST: S.NEW,
        T.LINK_UP: S.NEW,
        T.DEADLINE: S.FAILED,
    },
    S.SENT: {
        T.SENT: S.SENT,
        T.ACCEPTED: S.RUNNING,
        T.DEFERRED: S.SENT,
        T.PROGRESS: S.RUNNING,
        T.FINISHED: S.DONE,
        T.ABORTED: S.CANCELLED,
        T.ERRORED: S.FAILED,
        T.CANCEL: S.CANCELLING,
        T.LINK_LOST: S.SUSPENDED,
        T.PROBE_RUNNING: S.RUNNING,
        T.PROBE_NOT_TAKEN: S.FAILED,
        T.PROBE_UNKNOWN: S.SENT,
        T.PROBE_CUT: S.SENT,
        T.DEADLINE: S.FAILED,
        T.DETACHED: S.FAILED,
    },
    S.RUNNING: {
        T.ACCEPTED: S.RUNNING,
        T.PROGRESS: S.RUNNING,
        T.FINISHED: S.DONE,
        T.ABORTED: S.CANCELLED,
        T.ERRORED: S.FAILED,
        T.CANCEL: S.CANCELLING,
        T.LINK_LOST: S.SUSPENDED,
        T.PROBE_RUNNING: S.RUNNING,
        T.PROBE_NOT_TAKEN: S.RUNNING,
        T.PROBE_UNKNOWN: S.RUNNING,
        T.PROBE_CUT: S.RUNNING,
        T.DETACHED: S.FAILED,
    },
    S.CANCELLING: {
        T.ACCEPTED: S.CANCELLING,
        T.DEFERRED: S.CANCELLED,
        T.PROGRESS: S.CANCELLING,
        T.FINISHED: S.CANCELLED,
        T.ABORTED: S.CANCELLED,
        T.ERRORED: S.CANCELLED,
        T.CANCEL: S.CANCELLING,
        T.LINK_LOST: S.CANCELLING,
        T.LINK_UP: S.CANCELLING,
        T.PROBE_RUNNING: S.CANCELLING,
        T.PROBE_NOT_TAKEN: S.CANCELLED,
        T.PROBE_UNKNOWN: S.CANCELLED,
        T.PROBE_CUT: S.CANCELLED,
        T.DEADLINE: S.CANCELLED,
    },
    S.SUSPENDED: {
        T.CANCEL: S.CANCELLING,
        T.LINK_UP: S.PROBING,
        T.DEADLINE: S.FAILED,
        T.DETACHED: S.FAILED,
    },
    S.PROBING: {
        T.SENT: S.SENT,
        T.PROGRESS: S.RUNNING,
        T.FINISHED: S.DONE,
        T.ABORTED: S.CANCELLED,
        T.ERRORED: S.FAILED,
        T.CANCEL: S.CANCELLING,
        T.LINK_LOST: S.SUSPENDED,
        T.PROBE_RUNNING: S.RUNNING,
        T.PROBE_NOT_TAKEN: S.FAILED,
        T.PROBE_UNKNOWN: S.FAILED,
        T.PROBE_CUT: S.PROBING,
        T.DEADLINE: S.FAILED,
        T.DETACHED: S.FAILED,
    },
    S.DONE: {},
    S.CANCELLED: {},
    S.FAILED: {},
}
"""State → trigger → next state. ``PROBING`` with ``sent`` is the one re-send: never acknowledged,
not taken."""


def next_state(state: TurnState, trigger: Trigger) -> TurnState:
    """The table's answer. Raises ``IllegalTransition`` for a pair that it does not have."""
    try:
        return TABLE[state][trigger]
    except KeyError:
        raise IllegalTransition(f"a turn in state {state.name} has no move {trigger!s}") from None
