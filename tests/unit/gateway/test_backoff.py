"""Waits between attempts grow, differ from bridge to bridge, and stay bounded."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.gateway.backoff import CAP, START, reconnect_delay


def test_waits_double_from_half_a_second_to_thirty() -> None:
    whole = [reconnect_delay(attempt, 0.0) for attempt in range(1, 9)]
    assert whole == [0.5, 1, 2, 4, 8, 16, 30, 30]


@pytest.mark.requirement("C049", "C050")
@given(attempt=st.integers(1, 10**6), random=st.floats(0, 1))
def test_chance_takes_at_most_half_and_nothing_exceeds_the_cap(attempt: int, random: float) -> None:
    whole = reconnect_delay(attempt, 0.0)
    assert START / 2 <= whole / 2 <= reconnect_delay(attempt, random) <= whole <= CAP


def test_the_gateways_own_wish_is_the_least() -> None:
    assert reconnect_delay(1, 1.0, minimum=2.5) == 2.5
    assert reconnect_delay(5, 0.0, minimum=2.5) == 8


def test_a_start_that_succeeds_at_once_never_loads_the_library() -> None:
    check = "import sys, acp_bridge.gateway.client; sys.exit('tenacity' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
