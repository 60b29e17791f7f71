"""What one connection brought that could not be read: counted, and logged now and then."""

from __future__ import annotations

import logging
from typing import Final

from acp_bridge.ids import Generation

log = logging.getLogger(__name__)

QUIET: Final = 60.0
"""Seconds between two lines of the log: a gateway that sends nothing else must not fill it."""


class Unread:
    """The count of one connection; times are monotonic seconds."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._told_at: float | None = None
        self.count = 0

    def note(self, reason: str, now: float) -> None:
        """One more; ``reason`` is ours and holds nothing of what was sent."""
        self.count += 1
        if self._told_at is None or now - self._told_at >= QUIET:
            self._told_at = now
            self._tell("a frame of the gateway cannot be read", reason=reason)

    def ended(self) -> None:
        """The connection is over."""
        if self.count:
            self._tell("frames of a connection could not be read")

    def _tell(self, phrase: str, **more: str) -> None:
        fields = {"generation": self._generation, "count": self.count, **more}
        log.info(phrase, extra={"fields": fields})
