"""Notices runs that have been silent for long, so that the gateway can be asked about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from acp_bridge.bridge.timing import Clock, Timer
from acp_bridge.ids import RunId

DOUBT: Final = 5.0
"""Seconds until a run is asked about again that the gateway did not know."""


class StallWatch:
    """Calls ``ask`` for each run that was not heard of for ``timeout`` seconds, and again after
    that time; never if it is 0."""

    def __init__(self, clock: Clock, timeout: float, ask: Callable[[RunId], None]) -> None:
        self._clock = clock
        self._timeout = timeout
        self._ask = ask
        self._due: dict[RunId, float] = {}
        self._timer: Timer | None = None

    def heard(self, run_id: RunId) -> None:
        """There is news of the run."""
        self._watch(run_id, self._timeout)

    def doubt(self, run_id: RunId) -> None:
        """The gateway does not know the run: it is to be asked once more, soon."""
        self._watch(run_id, min(DOUBT, self._timeout))

    def forget(self, run_id: RunId) -> None:
        """The run is over."""
        self._due.pop(run_id, None)
        if not self._due and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _watch(self, run_id: RunId, seconds: float) -> None:
        if not self._timeout:
            return
        self._due[run_id] = self._clock.time() + seconds
        if self._timer is None or seconds < self._timeout:
            self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        wait = max(min(self._due.values()) - self._clock.time(), 0.0)
        self._timer = self._clock.call_later(wait, self._look)

    def _look(self) -> None:
        self._timer = None
        now = self._clock.time()
        for run_id in [each for each, due in self._due.items() if due <= now]:
            self._due[run_id] = now + self._timeout
            self._ask(run_id)
        if self._due:
            self._arm()
