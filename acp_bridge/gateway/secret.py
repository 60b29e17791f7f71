"""Values that must never be seen: a wrapper for them, and what a connection authenticates with."""

from __future__ import annotations

from dataclasses import dataclass


class Secret:
    """A string that shows itself to nobody: neither ``repr``, ``str`` nor a log has its value."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value, to be put on the wire or into a private file and nowhere else."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


@dataclass(frozen=True, slots=True)
class AuthMaterial:
    """What the user configured to authenticate with."""

    token: Secret | None
    password: Secret | None
    source: str
    """Where it comes from, for messages: an option with its path, or a variable."""
