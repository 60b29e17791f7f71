"""Scopes are asked for in full at once, and what lacks is said in words."""

from __future__ import annotations

import pytest

from acp_bridge.gateway.memory import memory_hello
from acp_bridge.gateway.scopes import missing_scopes, scopes_to_ask, with_implied

READ, WRITE = "operator.read", "operator.write"
APPROVALS, ADMIN = "operator.approvals", "operator.admin"


def test_all_useful_scopes_are_asked_for_and_admin_only_by_an_owner() -> None:
    assert scopes_to_ask(None, is_owner=False) == (READ, WRITE, APPROVALS)
    assert scopes_to_ask(None, is_owner=True) == (READ, WRITE, APPROVALS, ADMIN)


def test_explicit_scopes_are_taken_as_they_are_once_each() -> None:
    assert scopes_to_ask([WRITE, READ, WRITE], is_owner=True) == (WRITE, READ)
    assert scopes_to_ask([], is_owner=True) == ()


def test_admin_includes_all_and_write_includes_read() -> None:
    assert with_implied([ADMIN]) == {READ, WRITE, APPROVALS, ADMIN}
    assert with_implied([WRITE, "other"]) == {READ, WRITE, "other"}
    assert with_implied([]) == frozenset()


@pytest.mark.requirement("C012")
def test_what_cannot_work_is_told_the_worst_first() -> None:
    assert missing_scopes(memory_hello()) == ()
    lacking = missing_scopes(memory_hello(scopes=frozenset({READ})))
    assert [missing.scope for missing in lacking] == [WRITE, APPROVALS, ADMIN]
    assert "prompts cannot be sent" in lacking[0].effect
    assert len(missing_scopes(memory_hello(scopes=frozenset()))) == 4
