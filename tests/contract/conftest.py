"""Each contract is kept by all implementations."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ledger import EventLedger
from ledger.memory import MemoryLedger

IMPLEMENTATIONS: dict[str, Callable[[], EventLedger]] = {"memory": MemoryLedger}


@pytest.fixture(params=IMPLEMENTATIONS)
def ledger(request: pytest.FixtureRequest) -> Iterator[EventLedger]:
    ledger = IMPLEMENTATIONS[request.param]()
    yield ledger
    ledger.close()
