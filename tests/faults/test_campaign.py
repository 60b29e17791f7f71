"""A small campaign, for each change; ``python -m tests.faults`` runs the large one."""

from __future__ import annotations

import os

import pytest

from tests.faults.campaign import campaign
from tests.faults.conversation import PIPED_PATIENCE, hold
from tests.faults.judge import judge
from tests.faults.plan import plan_of
from tests.faults.rig import piped_bridge

RUNS = int(os.environ.get("ACP_BRIDGE_FAULT_RUNS", "400"))
BATCHES = 8
PIPED = max(RUNS // 25, 1)


@pytest.mark.faults
@pytest.mark.timeout(600)
@pytest.mark.parametrize("batch", range(BATCHES))
def test_nothing_is_lost_doubled_or_left_unanswered(batch: int) -> None:
    size = RUNS // BATCHES
    # In a process of its own: gateways that die at any moment leave sockets and tasks behind.
    figures = campaign(batch * size, size, jobs=1, progress=lambda *_: None)

    assert figures.failures == {}, "repeat one with python -m tests.faults --seed N --runs 1 -v"
    assert figures.faults.total() >= size // 2


@pytest.mark.faults
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(1_000, 1_000 + PIPED))
async def test_the_command_loses_nothing_either(seed: int) -> None:
    story = await hold(plan_of(seed), piped_bridge, patience=PIPED_PATIENCE)

    assert judge(story, scale=1.0) == []


def test_a_seed_decides_all_of_a_run() -> None:
    assert plan_of(7) == plan_of(7)
    assert plan_of(7) != plan_of(8)
