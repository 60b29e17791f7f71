"""Tells of a ledger that does not take what is said: once for one trouble.

A disk that is full takes a small change now and then, and a server that is overloaded as well. So a
trouble is over when there was none for a minute: it is told that it is there and that it is over,
and not what happens in between.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ledger import LedgerBusy, LedgerError

_log = logging.getLogger(__name__)

LOCK_PATIENCE = 2.0
"""Seconds that a lock may last before somebody is told: where several bridges share a ledger they
now and then wait for each other."""
CALM = 60.0
"""Seconds without a failure after which a trouble is over."""


class Trouble:
    """Of one ledger. ``clock`` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failing_since: float | None = None
        self._failed_at = 0.0
        self._is_told = False

    @property
    def is_told(self) -> bool:
        """Whether somebody was told of it, and not yet that it is over."""
        return self._is_told

    @property
    def rest(self) -> float | None:
        """Seconds after which it is over; None if nobody was told, or it still lasts."""
        if not self._is_told or self._failing_since is not None:
            return None
        return max(0.0, self._failed_at + CALM - self._clock())

    def failed(self, error: LedgerError) -> None:
        """The ledger has not taken something."""
        now = self._clock()
        if self._failing_since is None:
            self._failing_since = now
        is_passing = isinstance(error, LedgerBusy) and now - self._failing_since < LOCK_PATIENCE
        if not is_passing:
            self._failed_at = now
        is_news = not self._is_told and not is_passing
        self._is_told = self._is_told or is_news
        level = logging.WARNING if is_news else logging.DEBUG
        fields = {"reason": error.message, "hint": error.hint}
        _log.log(level, "the conversation is not recorded", extra={"fields": fields})

    def worked(self) -> None:
        """The ledger has taken all that there was."""
        self._failing_since = None
        self.look()

    def look(self) -> None:
        """Tell that it is over, if it is."""
        if self.rest == 0.0:
            self.ended()

    def ended(self) -> None:
        """Nothing more will come: it is over if the ledger has taken what came last."""
        if self.rest is not None:
            self._is_told = False
            _log.warning("the conversation is recorded again")
