"""A dictionary that forgets: for what is remembered of peers that may name things without end."""

from __future__ import annotations

from typing import TypeVar

LIMIT = 5_000
"""As many as the sessions of a process."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Recent(dict[_Key, _Value]):
    """Keeps ``LIMIT`` items at most; what was put in first goes first."""

    def __setitem__(self, key: _Key, value: _Value) -> None:
        if len(self) >= LIMIT and key not in self:
            del self[next(iter(self))]
        super().__setitem__(key, value)
