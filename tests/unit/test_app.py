"""The parts that the bridge is put together from."""

from __future__ import annotations

from acp_bridge.app import new_id


def test_an_id_has_nothing_that_a_gateway_would_mask() -> None:
    ids = {new_id() for _ in range(100)}
    assert len(ids) == 100
    assert {each.isalnum() for each in ids} == {True}
