"""What a write costs, counted in the steps of SQLite's own machine: no clock, no noise."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import pytest

from ledger import Change, Limits, RunOpened
from ledger.sql import SqlLedger
from tests.integration.ledger.conftest import Open
from tests.support.ledgers import chunk, entry, session

pytestmark = pytest.mark.integration


def steps(ledger: SqlLedger, changes: Sequence[Change]) -> int:
    """How many instructions a write takes."""
    assert ledger._kept is not None
    raw: Any = ledger._kept.connection.driver_connection
    assert isinstance(raw, sqlite3.Connection)
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return 0

    raw.set_progress_handler(step, 1)
    try:
        ledger.write(changes)
    finally:
        raw.set_progress_handler(None, 1)
    return count


@pytest.mark.requirement("C068")
def test_an_entry_costs_the_same_however_long_the_history_is(open_file: Open) -> None:
    ledger = open_file(limits=Limits(max_events_per_session=10**6, max_bytes=10**9))
    assert isinstance(ledger, SqlLedger)
    ledger.write([session("s1"), session("s2"), RunOpened("r1", "s1", 2000)])
    cost: dict[int, int] = {}
    length = 0
    for wanted in (100, 5_000, 50_000):
        ledger.write([chunk(f"chunk {number}") for number in range(length, wanted)])
        length = wanted
        cost[wanted] = steps(ledger, [chunk("one more")])
        # Another session's entry is not dearer either.
        assert steps(ledger, [entry("x", "s2", run_id="r1")]) <= 2 * cost[100]
    assert cost[50_000] <= 2 * cost[100]


@pytest.mark.requirement("C068")
def test_an_entry_costs_the_same_however_many_sessions_there_are(open_file: Open) -> None:
    ledger = open_file(limits=Limits(max_sessions=10**6))
    assert isinstance(ledger, SqlLedger)
    ledger.write([session()])
    ledger.write([entry("first")])
    alone = steps(ledger, [entry("one")])
    ledger.write([session(f"other{number}") for number in range(2000)])
    assert steps(ledger, [entry("two")]) <= 2 * alone


def test_a_group_is_one_transaction(open_file: Open) -> None:
    ledger = open_file()
    assert isinstance(ledger, SqlLedger)
    ledger.write([session()])
    single = steps(ledger, [entry("one")])
    assert steps(ledger, [entry(str(number)) for number in range(50)]) < 25 * single
