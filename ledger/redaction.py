"""Keeping out what must not be stored: a hook of the caller, who knows what that is.

It sees every payload and title before it is written. Adjacent chunks of a text that become one
entry are seen again: what must not be kept may have come in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ledger.model import Change, NewEntry, SessionTitle

Redact = Callable[[Any], Any]
"""Gives a JSON value without what must not be kept: the same object if there is nothing of it."""


def keep_all(value: Any) -> Any:
    """The hook that takes nothing out."""
    return value


def redacted(changes: Sequence[Change], redact: Redact) -> Sequence[Change]:
    """The changes as they may be stored."""
    return changes if redact is keep_all else [_redacted(change, redact) for change in changes]


def _redacted(change: Change, redact: Redact) -> Change:
    if isinstance(change, NewEntry):
        payload = redact(change.payload)
        return change if payload is change.payload else change._replace(payload=payload)
    if isinstance(change, SessionTitle):
        return change._replace(title=redact(change.title))
    return change
