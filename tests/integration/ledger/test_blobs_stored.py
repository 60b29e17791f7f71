"""Images and other large base64 data are stored once, and go with the last that uses them."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import func, select

from ledger import (
    LEASE_MS,
    DeleteSession,
    LedgerCorrupt,
    Limits,
    NewEntry,
    RunClosed,
    RunOpened,
    RunState,
    open_ledger,
)
from ledger.sql import SqlLedger
from ledger.tables import blobs, entries
from tests.support.ledgers import chunk, entry, replay, session

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer

pytestmark = pytest.mark.integration

LIMITS = Limits(max_sessions=3, max_events_per_session=16)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlLedger]:
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.ledger_database()
    else:
        url = f"sqlite:///{tmp_path}/ledger.db"
    ledger = open_ledger(url, limits=LIMITS)
    assert isinstance(ledger, SqlLedger)
    yield ledger
    ledger.close()


def image(number: int) -> dict[str, Any]:
    data = base64.b64encode(bytes([number]) * 30_000).decode()
    return {"content": {"type": "image", "mimeType": "image/png", "data": data}}


def shown(number: int, session_id: str = "s1", at: int = 2000) -> NewEntry:
    return NewEntry(session_id, "update", image(number), at, run_id="r1")


def stored(ledger: SqlLedger) -> int:
    """How many blobs the database holds."""
    with ledger._engine.connect() as connection:
        return connection.scalar(select(func.count()).select_from(blobs)) or 0


def longest_payload(ledger: SqlLedger) -> int:
    with ledger._engine.connect() as connection:
        return connection.scalar(select(func.max(func.length(entries.c.payload)))) or 0


def images(ledger: SqlLedger, session_id: str = "s1") -> list[Any]:
    return [e.payload for e in replay(ledger, session_id).entries if "content" in e.payload]


def test_the_same_image_is_stored_once_and_comes_back_everywhere(ledger: SqlLedger) -> None:
    ledger.write([session("s1"), session("s2"), shown(1), shown(1), shown(2)])
    ledger.write([shown(1, "s2")])
    assert stored(ledger) == 2
    assert longest_payload(ledger) < 300
    assert images(ledger) == [image(1), image(1), image(2)]
    assert images(ledger, "s2") == [image(1)]


def test_an_image_counts_once_for_its_session(ledger: SqlLedger) -> None:
    ledger.write([session()])
    before = ledger.stats().bytes
    ledger.write([shown(1)])
    assert 30_000 < ledger.stats().bytes - before < 31_000
    ledger.write([shown(1)])
    assert ledger.stats().bytes - before < 31_000


def test_an_image_goes_with_the_last_session_that_uses_it(ledger: SqlLedger) -> None:
    ledger.write([session("s1"), session("s2"), shown(1), shown(2), shown(1, "s2")])
    ledger.write([DeleteSession("s1")])
    assert stored(ledger) == 1
    assert images(ledger, "s2") == [image(1)]
    ledger.write([DeleteSession("s2")])
    assert stored(ledger) == 0


def test_an_image_goes_with_the_head_that_is_trimmed_unless_it_is_used_later(
    ledger: SqlLedger,
) -> None:
    ledger.write([session(), shown(1), shown(2), *(entry(str(n)) for n in range(12)), shown(1)])
    assert stored(ledger) == 2
    ledger.write([entry("more"), entry("and more")])
    assert replay(ledger).session.trimmed == 2
    assert stored(ledger) == 1
    assert images(ledger) == [image(1)]


def test_merging_and_archiving_leave_images_as_they_are(ledger: SqlLedger) -> None:
    ledger.write([session(), RunOpened("r1", "s1", 2000), chunk("a"), chunk("b"), shown(1)])
    ledger.write([chunk("c"), chunk("d"), RunClosed("r1", 2000, RunState.FINISHED)])
    before = images(ledger)
    assert before == [chunk("ab").payload, image(1), chunk("cd").payload]
    ledger.write([session(f"later{n}", 10 * LEASE_MS) for n in range(3)])
    assert replay(ledger).session.archived
    assert images(ledger) == before
    assert stored(ledger) == 1
    ledger.write([shown(1, at=10 * LEASE_MS), shown(3, at=10 * LEASE_MS)])
    assert images(ledger) == [*before, image(1), image(3)]
    assert stored(ledger) == 2


def test_a_lost_image_is_told_and_not_left_out(ledger: SqlLedger) -> None:
    ledger.write([session(), shown(1)])
    with ledger._engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM blob_uses")
    with pytest.raises(LedgerCorrupt, match="s1"):
        ledger.read("s1")
