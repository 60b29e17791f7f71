"""Time that moves when the test says so."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class HandTimer:
    """A call that has been put off; see ``HandClock``."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class HandClock:
    """Monotonic seconds and timers, moved by hand."""

    def __init__(self) -> None:
        self._now = 1_000.0
        self._order = itertools.count()
        self._timers: list[tuple[float, int, HandTimer]] = []

    def time(self) -> float:
        return self._now

    def call_later(self, delay: float, callback: Callable[[], None]) -> HandTimer:
        timer = HandTimer(callback)
        heapq.heappush(self._timers, (self._now + delay, next(self._order), timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Move on, and fire what falls due, in order."""
        end = self._now + seconds
        while self._timers and self._timers[0][0] <= end:
            self._now, _, timer = heapq.heappop(self._timers)
            if timer.callback is not None:
                timer.callback()
        self._now = end

    @property
    def pending(self) -> int:
        """Timers that will still fire."""
        return sum(timer.callback is not None for _, _, timer in self._timers)
