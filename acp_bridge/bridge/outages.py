"""Tells when there has been no link for so long that the user is to know."""

from __future__ import annotations

from collections.abc import Callable

from acp_bridge.bridge.timing import Clock, Timer


class OutageWatch:
    """``patience`` is in seconds; ``on_long`` is called once for each outage that is longer."""

    def __init__(self, clock: Clock, patience: float, on_long: Callable[[], None]) -> None:
        self._clock = clock
        self._patience = patience
        self._on_long = on_long
        self._timer: Timer | None = None
        self.is_long = False

    def away(self) -> None:
        """There is no link, and somebody minds. Again while that lasts does nothing."""
        if self._timer is None and not self.is_long:
            self._timer = self._clock.call_later(self._patience, self._grown)

    def over(self) -> None:
        """There is one again."""
        self.is_long = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _grown(self) -> None:
        self._timer = None
        self.is_long = True
        self._on_long()
