"""How a scripted editor answers ``session/request_permission``.

A policy gets the request's parameters and returns the body of the answer (``result`` or
``error``), or None to leave the request open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Params = dict[str, Any]
PermissionPolicy = Callable[[Params], dict[str, Any] | None]


def selected(option_id: str) -> dict[str, Any]:
    """The answer that chooses an option."""
    return {"result": {"outcome": {"outcome": "selected", "optionId": option_id}}}


def choose(kind: str) -> PermissionPolicy:
    """Choose the option of a kind, such as ``allow_once``; fails when it is not offered."""

    def policy(params: Params) -> dict[str, Any]:
        matching = [o["optionId"] for o in params["options"] if o["kind"] == kind]
        assert matching, f"no option of kind {kind} among {params['options']}"
        return selected(matching[0])

    return policy


allow_once = choose("allow_once")
reject_once = choose("reject_once")


def cancelled(params: Params) -> dict[str, Any]:
    """The user closed the question."""
    return {"result": {"outcome": {"outcome": "cancelled"}}}


def fail(params: Params) -> dict[str, Any]:
    """The editor cannot ask."""
    return {"error": {"code": -32603, "message": "no window to ask in"}}


def never(params: Params) -> None:
    """Nobody answers."""
