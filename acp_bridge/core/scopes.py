"""What the bridge cannot do with the scopes that the gateway granted."""

from __future__ import annotations

from collections.abc import Iterator, Set

_NEEDED_FOR = {
    "operator.read": "answers cannot be shown.",
    "operator.write": "prompts cannot be sent.",
    "operator.approvals": "commands that need an approval will fail or wait for another client.",
}


def what_is_missing(granted: Set[str]) -> Iterator[tuple[str, str]]:
    """Pairs of a missing scope and what can't work without it.

    ``operator.admin`` implies all, ``operator.write`` implies read (measured on both versions).
    """
    if "operator.admin" in granted:
        return
    implied = set(granted) | ({"operator.read"} if "operator.write" in granted else set())
    for scope, consequence in _NEEDED_FOR.items():
        if scope not in implied:
            yield scope, consequence
