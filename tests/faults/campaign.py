"""Runs many seeds, in several processes, and adds up what was found."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Final

from tests.faults.conversation import hold
from tests.faults.judge import BROKEN, CATEGORIES, Finding, judge
from tests.faults.plan import plan_of

BATCH: Final = 100
"""Seeds that a process gets at a time."""
AT_ONCE: Final = 4
"""Runs of a process that wait for each other's pauses."""


@dataclass
class Figures:
    """What a number of runs amounted to."""

    runs: int = 0
    prompts: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    found: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CATEGORIES, 0))
    failures: dict[int, list[Finding]] = field(default_factory=dict)
    """Findings by seed."""

    def add(self, other: Figures) -> None:
        self.runs += other.runs
        self.prompts += other.prompts
        self.faults += other.faults
        for category, amount in other.found.items():
            self.found[category] += amount
        self.failures.update(other.failures)

    def fail(self, seed: int, findings: list[Finding]) -> None:
        self.failures[seed] = findings
        for finding in findings:
            self.found[finding.category] += finding.amount


def campaign(
    first: int, runs: int, jobs: int, *, progress: Callable[[int, int, int], None]
) -> Figures:
    """The figures of ``runs`` seeds from ``first`` on."""
    end = first + runs
    batches = [range(at, min(at + BATCH, end)) for at in range(first, end, BATCH)]
    figures = Figures()
    # Fresh processes: this one may have threads.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(run_here, batch) for batch in batches]):
            figures.add(done.result())
            progress(figures.runs, runs, len(figures.failures))
    return figures


def run_here(seeds: Iterable[int]) -> Figures:
    """The figures of some seeds, run in this process."""
    logging.getLogger("acp_bridge").setLevel(logging.CRITICAL)
    logging.getLogger("websockets").setLevel(logging.CRITICAL)
    return asyncio.run(_run_all(seeds))


async def _run_all(seeds: Iterable[int]) -> Figures:
    figures = Figures()
    waiting = iter(seeds)

    async def work() -> None:
        for seed in waiting:
            await _run(seed, figures)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return figures


async def _run(seed: int, figures: Figures) -> None:
    plan = plan_of(seed)
    figures.runs += 1
    figures.prompts += len(plan.prompts)
    try:
        story = await hold(plan)
    except Exception as error:
        figures.fail(seed, [Finding(BROKEN, repr(error))])
        return
    figures.faults += story.faults
    if findings := judge(story):
        figures.fail(seed, findings)
