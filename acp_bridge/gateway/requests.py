"""Requests in flight: their ids, what they were for, and until when an answer is waited for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

Context = TypeVar("Context")


@dataclass(frozen=True, slots=True)
class _Pending(Generic[Context]):
    context: Context
    deadline: float | None


class Requests(Generic[Context]):
    """The unanswered requests of one connection; each has a context of the caller's.

    Times are monotonic seconds, given by the caller. Ids are unique within the connection.
    """

    def __init__(self) -> None:
        self._last = 0
        self._pending: dict[str, _Pending[Context]] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def open(self, context: Context, *, now: float, timeout: float | None) -> str:
        """A new id. ``timeout`` in seconds; None waits as long as the connection lasts."""
        self._last += 1
        request_id = str(self._last)
        deadline = None if timeout is None else now + timeout
        self._pending[request_id] = _Pending(context, deadline)
        return request_id

    def close(self, request_id: object) -> Context | None:
        """What the answered request was for; None for an id that waits for no answer (any more)."""
        pending = self._pending.pop(request_id, None) if isinstance(request_id, str) else None
        return None if pending is None else pending.context

    def expire(self, now: float) -> list[Context]:
        """Close the requests whose time is up, oldest first."""
        late = [
            request_id
            for request_id, pending in self._pending.items()
            if pending.deadline is not None and pending.deadline <= now
        ]
        return [self._pending.pop(request_id).context for request_id in late]
