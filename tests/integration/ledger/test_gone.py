"""A ledger's file that is removed or replaced while it is open."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from ledger import EventLedger, LedgerError, LedgerGone, LedgerReadOnly, LedgerUnreadable, Page
from ledger.engine import FilePlace, sqlite_connection
from ledger.failures import told_of
from tests.integration.ledger.conftest import Open
from tests.support.clock import HandClock
from tests.support.ledgers import entry, session, texts

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.name == "nt", reason="Windows keeps files that are open"),
]


def remove(path: Path) -> None:
    for file in path.parent.iterdir():
        file.unlink()


def replace(path: Path) -> None:
    other = path.with_name("other.db")
    shutil.copy(path, other)
    other.replace(path)


def set_aside(path: Path) -> None:
    path.rename(path.with_name("ledger.db.damaged-now"))


def remove_all(path: Path) -> None:
    shutil.rmtree(path.parent)


WAYS = [remove, replace, set_aside, remove_all]


@pytest.mark.parametrize("go", WAYS)
def test_a_write_into_a_file_that_is_gone_is_refused_within_a_second(
    path: Path, open_file: Open, go: Callable[[Path], None]
) -> None:
    clock = HandClock()
    ledger = open_file(clock=clock.time)
    ledger.write([session(), entry("one")])
    go(path)
    clock.advance(1.0)
    for _ in range(2):
        with pytest.raises(LedgerGone, match="was removed or replaced") as caught:
            ledger.write([entry("two")])
        assert caught.value.is_retryable
        assert caught.value.hint is not None
        assert str(path) in str(caught.value)
    ledger.close()
    again = open_file(clock=clock.time)
    again.write([session(), entry("three")])
    assert texts(again)[-1] == "three"


@pytest.mark.parametrize("go", WAYS)
def test_no_read_shows_a_file_that_is_gone(
    path: Path, open_file: Open, go: Callable[[Path], None]
) -> None:
    ledger = open_file(clock=HandClock().time)
    ledger.write([session(), entry("one")])
    assert texts(ledger) == ["one"]
    go(path)
    reads: list[Callable[[EventLedger], object]] = [
        lambda asked: asked.read("s1"),
        lambda asked: asked.find("s1", "agent:s1"),
        lambda asked: asked.find_by_key("agent:s1"),
        lambda asked: asked.list_sessions(Page()),
        lambda asked: asked.stats(),
        lambda asked: asked.confirm(),
    ]
    for read in reads:
        with pytest.raises(LedgerGone):
            read(ledger)
    with pytest.raises(LedgerGone):  # once noticed, it needs no second
        ledger.write([entry("two")])


def test_the_write_path_looks_at_most_once_a_second(
    path: Path, open_file: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = HandClock()
    ledger = open_file(clock=clock.time)
    ledger.write([session()])
    looks: list[Path] = []
    real = os.stat

    def counted(asked: Path) -> os.stat_result:
        looks.append(asked)
        return real(asked)

    # Not in the module itself: whatever else looks at a file would go through it.
    monkeypatch.setattr("ledger.files.os", SimpleNamespace(stat=counted))
    for number in range(40):
        clock.advance(0.1)
        ledger.write([entry(str(number))])
    assert 3 <= looks.count(path) <= 4


def test_a_file_that_stays_is_written_for_ever(open_file: Open) -> None:
    clock = HandClock()
    ledger = open_file(clock=clock.time)
    ledger.write([session()])
    for number in range(5):
        clock.advance(10)
        ledger.write([entry(str(number))])
    assert len(texts(ledger)) == 5


@pytest.mark.parametrize(
    ("reading", "error", "sentence"),
    [
        (True, LedgerUnreadable, "The ledger cannot be read."),
        (False, LedgerReadOnly, "The ledger cannot be written."),
    ],
)
def test_a_failed_read_is_not_told_as_a_failed_write(
    path: Path, reading: bool, error: type[LedgerError], sentence: str
) -> None:
    with pytest.raises(error, match=sentence) as caught, told_of(FilePlace(path), reading=reading):
        sqlite_connection(path, lock_timeout=0)
    assert caught.value.hint is not None
