"""Each contract is kept by all implementations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger import EventLedger, Limits, open_ledger
from ledger.memory import MemoryLedger

MakeLedger = Callable[..., EventLedger]


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def make_ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeLedger]:
    """Makes empty ledgers with given limits, and closes them."""
    made: list[EventLedger] = []

    def make(limits: Limits, **options: Any) -> EventLedger:
        if request.param == "memory":
            made.append(MemoryLedger(limits, **options))
        elif request.param == "postgres":
            url = request.getfixturevalue("postgres").ledger_database()
            made.append(open_ledger(url, limits=limits, owner="me", **options))
        else:
            url = f"sqlite:///{tmp_path}/{len(made)}.db"
            made.append(open_ledger(url, limits=limits, **options))
        return made[-1]

    yield make
    for ledger in made:
        ledger.close()


@pytest.fixture
def ledger(make_ledger: MakeLedger) -> EventLedger:
    """An empty ledger."""
    return make_ledger(Limits())
