"""The table of turns: by session, by run, and one run at a time per session of the gateway.

Two ACP sessions may share one session key (option ``--session``), so the order of runs hangs on
the key: the gateway must never have two prompts of one key at once (2026.9.6 feeds the second
into the first, 2026.6.11 may refuse it).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from acp_bridge.core.live_turn import Turn
from acp_bridge.ids import RunId, SessionId, SessionKey

MAX_TURNS: Final = 50
"""Turns of one session of the gateway, from which on those of other clients are not watched: no
clients begin so many at once."""


class Turns:
    """All turns that still have something to do."""

    def __init__(self) -> None:
        self._by_run: dict[RunId, Turn] = {}
        self._by_session: dict[SessionId, Turn] = {}
        self._by_other_name: dict[RunId, Turn] = {}
        """Turns whose work the gateway has taken up as another run."""
        self._queues: dict[SessionKey, deque[Turn]] = {}

    def add(self, turn: Turn) -> bool:
        """Enter a turn; it becomes its session's live one, unless it is another client's. True if
        it may run at once."""
        self._by_run[turn.run_id] = turn
        if not turn.is_foreign:
            self._by_session[turn.session_id] = turn
        queue = self._queues.setdefault(turn.session_key, deque())
        queue.append(turn)
        return queue[0] is turn

    def release(self, turn: Turn) -> Turn | None:
        """The turn's run is over. Returns the turn that may run next, if that changes."""
        self._by_run.pop(turn.run_id, None)
        for name in [name for name, owner in self._by_other_name.items() if owner is turn]:
            del self._by_other_name[name]
        if self._by_session.get(turn.session_id) is turn:
            del self._by_session[turn.session_id]
        queue = self._queues.get(turn.session_key)
        if queue is None or turn not in queue:
            return None
        was_first = queue[0] is turn
        queue.remove(turn)
        if not queue:
            del self._queues[turn.session_key]
            return None
        return queue[0] if was_first else None

    def live(self, session_id: SessionId) -> Turn | None:
        """The session's turn that the editor still waits for, or None."""
        turn = self._by_session.get(session_id)
        return None if turn is None or turn.state.is_final else turn

    def by_run(self, run_id: RunId) -> Turn | None:
        """The turn of a run; None for one that has no turn any more, or never had one here."""
        return self._by_run.get(run_id) or self._by_other_name.get(run_id)

    def follow(self, run_id: RunId, turn: Turn) -> None:
        """The turn's work goes on as that run."""
        self._by_other_name[run_id] = turn

    def has(self, run_id: RunId) -> bool:
        """Whether a turn of this process has that run."""
        return self.by_run(run_id) is not None

    def running_with_key(self, session_key: SessionKey) -> Turn | None:
        """The turn whose run is at the gateway in this session, or None."""
        queue = self._queues.get(session_key)
        return queue[0] if queue and not queue[0].is_over else None

    def can_watch(self, session_key: SessionKey) -> bool:
        """Whether one more turn of another client is kept of this session of the gateway."""
        return len(self._queues.get(session_key, ())) < MAX_TURNS

    def __iter__(self) -> Iterator[Turn]:
        return iter(list(self._by_run.values()))

    def __len__(self) -> int:
        return len(self._by_run)
