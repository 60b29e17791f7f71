"""How long things may take, and the clock they are measured with."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from acp_bridge.core.effects import Arm, DeadlineKind


class Timer(Protocol):
    """A call that has been put off."""

    def cancel(self) -> None:
        """Don't call. No-op after the call."""


class Clock(Protocol):
    """Monotonic time and timers; the event loop's, or a hand-driven one in tests."""

    def time(self) -> float:
        """Monotonic seconds."""

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        """Call ``callback`` after ``delay`` seconds."""


class Deadlines(NamedTuple):
    """Seconds."""

    connect: float = 30.0
    """How long a call may wait for the gateway (``--connect-timeout``)."""
    acknowledge: float = 60.0
    """The gateway acknowledges in milliseconds; a minute means that it hangs."""
    resend_first: float = 0.2
    resend_most: float = 2.0
    """A prompt that was not taken is sent again after this, doubling."""
    cancel: float = 1.5
    """The editor hears ``cancelled`` within 2 s whatever the gateway does."""
    reconnect: float = 1_800.0
    """How long a prompt waits for the link to come back (``--reconnect-window``)."""
    outage: float = 3.0
    """A link that is away for longer is told of in the thread."""
    stall: float = 60.0
    """After this silence the gateway is asked about a run (``--stall-timeout``); 0 is never."""
    probe: float = 30.0
    resume: float = 20.0
    """How long a run that a restart of the gateway has cut is given to go on by itself: 2026.9.6
    takes it up after 3 s, 2026.6.11 after 8 s."""
    drain: float = 10.0
    """How long the next prompt waits for the end of a cancelled run that nobody confirms."""
    linger: float = 1.0
    """How long the next prompt waits after a run that failed or was stopped. 2026.6.11 sends a
    second end some 200 ms after a failed run's first, and answers a prompt that comes in between
    under a later run; after a stopped one it refuses the next for a moment ("conflicted")."""

    options: float = 1.0
    """How long the opening of a session waits for what may be chosen in it."""

    def of(self, arm: Arm) -> float:
        """The length of a deadline."""
        match arm.kind:
            case DeadlineKind.CONNECT:
                return self.connect
            case DeadlineKind.ACKNOWLEDGE:
                return self.acknowledge
            case DeadlineKind.RESEND:
                return min(self.resend_first * 2.0 ** (arm.attempt - 1), self.resend_most)
            case DeadlineKind.CANCEL:
                return self.cancel
            case DeadlineKind.RECONNECT | DeadlineKind.UNSEEN:
                return self.reconnect
            case DeadlineKind.PROBE:
                return self.probe
            case DeadlineKind.RESUME:
                return self.resume
            case DeadlineKind.DRAIN:
                return self.drain
            case DeadlineKind.LINGER:
                return self.linger
