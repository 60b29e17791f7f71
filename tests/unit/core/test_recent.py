"""What is remembered of names without end."""

from __future__ import annotations

from acp_bridge.core.recent import LIMIT, Recent


def test_it_keeps_as_many_as_the_limit_and_forgets_the_first_past_it() -> None:
    recent: Recent[int, str] = Recent()
    for number in range(LIMIT):
        recent[number] = "a"
    recent[0] = "changed"
    assert (len(recent), recent[0]) == (LIMIT, "changed")
    recent[LIMIT] = "b"
    assert len(recent) == LIMIT
    assert 0 not in recent
    assert recent[LIMIT] == "b"
