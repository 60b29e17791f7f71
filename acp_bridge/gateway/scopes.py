"""The gateway's scopes: which to ask for, and what cannot work without one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from acp_bridge.core.events import Hello

READ = "operator.read"
WRITE = "operator.write"
APPROVALS = "operator.approvals"
ADMIN = "operator.admin"

_IMPLIED = {ADMIN: (READ, WRITE, APPROVALS), WRITE: (READ,)}

_EFFECTS = {
    READ: "answers cannot be received",
    WRITE: "prompts cannot be sent",
    APPROVALS: "requests for permission are not shown, so commands that need one wait or fail",
    ADMIN: "sessions cannot be reset, some of their options not be changed, and the provenance of"
    " prompts is not sent",
}


class MissingScope(NamedTuple):
    """A scope that was not granted, and in half a sentence what cannot work."""

    scope: str
    effect: str


def scopes_to_ask(explicit: Iterable[str] | None, *, is_owner: bool) -> tuple[str, ...]:
    """The scopes for a connection, in the order in which they are signed.

    All that are useful are asked for at once: 2026.6.11 has a device that asks for more later
    wait for an approval. ``is_owner``: the shared token on loopback, whose holder owns the
    gateway's files anyway; only then ``operator.admin`` is among them.
    """
    if explicit is not None:
        return tuple(dict.fromkeys(explicit))
    return (READ, WRITE, APPROVALS, ADMIN) if is_owner else (READ, WRITE, APPROVALS)


def with_implied(scopes: Iterable[str]) -> frozenset[str]:
    """``scopes`` and those that they include: admin includes all, write includes read."""
    granted = set(scopes)
    for scope, implied in _IMPLIED.items():
        if scope in granted:
            granted.update(implied)
    return frozenset(granted)


def missing_scopes(hello: Hello) -> tuple[MissingScope, ...]:
    """What cannot work on this connection, the worst first."""
    return tuple(
        MissingScope(scope, effect)
        for scope, effect in _EFFECTS.items()
        if scope not in hello.scopes
    )
