"""Several processes on one ledger: no error, no gap, nothing twice."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ledger import EventLedger, RunState, open_ledger
from tests.support.ledger_worker import (
    OWNER,
    SHARED,
    next_line,
    run_workers,
    shared_count,
    start_worker,
    tell_to_go,
)
from tests.support.ledgers import replay

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer

PROCESSES = [f"p{number}" for number in range(8)]
ENTRIES = 2000

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(240),
    pytest.mark.requirement("C065", "C066"),
]


def assert_whole(ledger: EventLedger) -> None:
    """Every entry of every process is there once, in order, and the counters agree."""
    for name in PROCESSES:
        found = replay(ledger, name)
        assert [entry.payload["number"] for entry in found.entries] == list(range(ENTRIES))
        assert [entry.seq for entry in found.entries] == list(range(1, ENTRIES + 1))
        assert found.session.entries == ENTRIES
        assert [run.state for run in found.runs] == [RunState.FINISHED]
    shared = replay(ledger, SHARED).entries
    assert [entry.seq for entry in shared] == list(range(1, len(shared) + 1))
    for name in PROCESSES:
        numbers = [e.payload["number"] for e in shared if e.payload["from"] == name]
        assert numbers == sorted(set(numbers))
        assert len(numbers) == shared_count(ENTRIES)
    assert ledger.stats().entries == len(PROCESSES) * ENTRIES + len(shared)


def test_processes_share_a_file_that_was_not_there_when_they_started(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/home/ledger.db"
    assert run_workers(url, PROCESSES, ENTRIES) == ""
    ledger = open_ledger(url)
    assert_whole(ledger)
    ledger.close()
    assert {file.name for file in (tmp_path / "home").iterdir()} == {"ledger.db", "ledger.db.lock"}


@pytest.mark.parametrize("after", [1, 4, 9, 30])
def test_what_was_written_survives_the_death_of_its_writer(tmp_path: Path, after: int) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    with start_worker(url, "p0", 5000) as worker:
        tell_to_go(worker)
        said = [next_line(worker) for _ in range(after + 1)]
        worker.kill()
        rest = worker.stdout.read().split() if worker.stdout else []
    written = int([*said, *rest][-1])
    ledger = open_ledger(url)
    found = replay(ledger, "p0")
    numbers = [entry.payload["number"] for entry in found.entries]
    assert numbers == list(range(len(numbers)))
    assert written <= len(numbers) == found.session.entries
    assert [run.state for run in found.runs] == [RunState.OPEN]
    ledger.close()


@pytest.mark.requirement("C071")
def test_of_processes_that_find_a_damaged_file_one_sets_it_aside(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(b"garbage" * 1000)
    told = run_workers(f"sqlite:///{path}", PROCESSES, 100)
    assert told.count("was damaged") == 1
    [aside] = tmp_path.glob("ledger.db.damaged-*")
    assert aside.read_bytes() == b"garbage" * 1000
    ledger = open_ledger(f"sqlite:///{path}")
    assert [len(replay(ledger, name).entries) for name in PROCESSES] == [100] * len(PROCESSES)
    ledger.close()


@pytest.mark.postgres
def test_processes_share_a_database_on_a_server(postgres: PostgresServer) -> None:
    url = postgres.ledger_database()
    assert run_workers(url, PROCESSES, ENTRIES) == ""
    ledger = open_ledger(url, owner=OWNER)
    assert_whole(ledger)
    ledger.close()
