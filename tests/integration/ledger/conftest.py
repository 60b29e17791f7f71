"""Ledgers in files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger import EventLedger, open_ledger

Open = Callable[..., EventLedger]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "ledger.db"


@pytest.fixture
def open_file(path: Path) -> Iterator[Open]:
    """Opens the ledger in ``path``, and closes what is left open."""
    opened: list[EventLedger] = []

    def open_it(**options: Any) -> EventLedger:
        opened.append(open_ledger(f"sqlite:///{path}", **options))
        return opened[-1]

    yield open_it
    for ledger in opened:
        ledger.close()
