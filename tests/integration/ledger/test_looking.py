"""A ledger that is only looked at: nothing on the disk is other afterwards."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from ledger import (
    EventLedger,
    LedgerCorrupt,
    LedgerError,
    LedgerMissing,
    LedgerReadOnly,
    LedgerUnreadable,
    NotALedger,
    SchemaBehind,
    open_ledger,
)
from tests.integration.ledger.conftest import Open
from tests.integration.ledger.test_foreign import make_database, state_of
from tests.support.ledgers import entry, session, texts

pytestmark = pytest.mark.integration


def look(path: Path) -> EventLedger:
    return open_ledger(f"sqlite:///{path}", read_only=True, lock_timeout=0.1)


def refusal(path: Path) -> LedgerError:
    """What looking ends with; it must change nothing."""
    before = state_of(path.parent)
    with pytest.raises(LedgerError) as caught:
        look(path)
    assert caught.value.hint is not None
    assert state_of(path.parent) == before
    return caught.value


@pytest.mark.parametrize("is_open_elsewhere", [True, False])
def test_what_is_there_is_shown_and_stays_as_it_is(
    path: Path, open_file: Open, is_open_elsewhere: bool
) -> None:
    writer = open_file()
    writer.write([session(), entry("one")])
    if not is_open_elsewhere:
        writer.close()
    path.chmod(0o644)
    names = sorted(path.parent.iterdir())
    content = path.read_bytes()
    ledger = look(path)
    assert texts(ledger) == ["one"]
    with pytest.raises(LedgerReadOnly, match="reading"):
        ledger.write([entry("two")])
    ledger.close()
    assert sorted(path.parent.iterdir()) == names
    assert path.read_bytes() == content
    assert path.stat().st_mode & 0o777 == 0o644


def test_what_is_missing_is_not_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "ledger.db", tmp_path / "a" / "ledger.db", tmp_path / "file" / "x"):
        with pytest.raises(LedgerMissing, match="no ledger") as caught:
            look(path)
        assert str(path) in str(caught.value)
        assert caught.value.hint is not None
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_an_empty_file_holds_no_ledger(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").touch()
    assert isinstance(refusal(tmp_path / "ledger.db"), LedgerMissing)


def test_a_directory_a_link_to_nothing_and_another_program_s_database(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    for path in (tmp_path, tmp_path / "link"):
        with pytest.raises(NotALedger):
            look(path)
    (tmp_path / "link").unlink()
    make_database(tmp_path / "other.db", "CREATE TABLE bookmarks (url)")
    assert "something else" in str(refusal(tmp_path / "other.db"))


def test_a_file_that_is_no_database_keeps_its_name(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("my notes\n" * 100)
    error = refusal(path)
    assert isinstance(error, NotALedger)
    assert "no database" in str(error)


def test_a_damaged_ledger_keeps_its_name(path: Path, open_file: Open) -> None:
    ledger = open_file()
    ledger.write([session(), *(entry("x" * 500) for _ in range(200))])
    ledger.close()
    path.write_bytes(path.read_bytes()[:20_000])
    assert isinstance(refusal(path), LedgerCorrupt)


def test_an_older_ledger_is_not_upgraded(path: Path, open_file: Open) -> None:
    open_file().close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE ledger_version SET version_num = '0000'")
    assert isinstance(refusal(path), SchemaBehind)


def test_a_newer_ledger_is_shown(path: Path, open_file: Open) -> None:
    writer = open_file()
    writer.write([session(), entry("one")])
    writer.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE ledger_version SET version_num = '9999'")
    ledger = look(path)
    assert texts(ledger) == ["one"]
    ledger.close()


def test_a_write_that_was_cut_short_is_not_undone_by_looking(path: Path, open_file: Open) -> None:
    open_file(is_network_path=lambda _: True).write([session(), entry("one")])
    program = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); "
        "c.execute('PRAGMA cache_size = 1'); c.execute('BEGIN IMMEDIATE'); "
        "rows = [(str(n), b'x' * 5000) for n in range(99)]; "
        "c.executemany('INSERT INTO blobs VALUES (?, ?)', rows); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=False, timeout=30)
    error = refusal(path)
    assert isinstance(error, LedgerUnreadable)
    assert "interrupted" in str(error)
