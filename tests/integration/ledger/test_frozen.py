"""A ledger on a file system that is read-only: it is read, and what else is wanted is refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ledger import (
    EventLedger,
    LedgerMissing,
    LedgerReadOnly,
    LedgerUnreadable,
    open_ledger,
)
from tests.support.ledgers import entry, session, texts
from tests.support.mounting import Mount, mounted

pytestmark = pytest.mark.integration

CRASH = """
import os, sys
from ledger import NewEntry, open_ledger
ledger = open_ledger(sys.argv[1])
ledger.write([NewEntry("s1", "update", {"text": "two"}, 2000)])
os._exit(9)
"""


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    with mounted(tmp_path / "mount") as mount:
        yield mount


def url(mount: Mount) -> str:
    return f"sqlite:///{mount.path}/ledger.db"


def fill(mount: Mount) -> None:
    with closing(open_ledger(url(mount))) as ledger:
        ledger.write([session(), entry("one")])


def opened(mount: Mount, *, read_only: bool) -> EventLedger:
    return open_ledger(url(mount), read_only=read_only, lock_timeout=0.1)


@pytest.mark.parametrize("read_only", [False, True])
def test_what_is_there_is_read(mount: Mount, read_only: bool) -> None:
    fill(mount)
    mount.freeze()
    with closing(opened(mount, read_only=read_only)) as ledger:
        assert texts(ledger) == ["one"]
        assert ledger.stats().entries == 1
        ledger.confirm()
        with pytest.raises(LedgerReadOnly) as caught:
            ledger.write([entry("two")])
    if not read_only:
        assert "file system that is read-only" in str(caught.value)
        assert "--state-dir" in (caught.value.hint or "")


@pytest.mark.parametrize("read_only", [False, True])
def test_what_a_crash_has_left_in_the_log_is_read_too(mount: Mount, read_only: bool) -> None:
    fill(mount)
    subprocess.run([sys.executable, "-c", CRASH, url(mount)], check=False, timeout=30)
    mount.freeze()
    with closing(opened(mount, read_only=read_only)) as ledger:
        assert texts(ledger) == ["one", "two"]


@pytest.mark.parametrize("read_only", [False, True])
def test_a_log_that_cannot_be_read_is_told_as_that(mount: Mount, read_only: bool) -> None:
    fill(mount)
    subprocess.run([sys.executable, "-c", CRASH, url(mount)], check=False, timeout=30)
    (mount.path / "ledger.db-shm").unlink()
    mount.freeze()
    with pytest.raises(LedgerUnreadable, match="in the log beside it") as caught:
        opened(mount, read_only=read_only)
    assert "writable" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("read_only", "error"), [(False, LedgerReadOnly), (True, LedgerMissing)], ids=["", "look"]
)
def test_where_nothing_is_nothing_can_be_made(
    mount: Mount, read_only: bool, error: type[Exception]
) -> None:
    mount.freeze()
    with pytest.raises(error):
        opened(mount, read_only=read_only)


def test_a_file_system_that_is_writable_again_is_written(mount: Mount) -> None:
    fill(mount)
    mount.freeze()
    opened(mount, read_only=False).close()
    mount.thaw()
    with closing(opened(mount, read_only=False)) as ledger:
        ledger.write([entry("two")])
        assert texts(ledger) == ["one", "two"]
