"""A file that is damaged: kept as it is, told of once, and replaced by a new ledger."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from ledger import LedgerCorrupt, NotALedger
from tests.integration.ledger.conftest import Open
from tests.support.ledgers import entry, session, texts

pytestmark = [pytest.mark.integration, pytest.mark.requirement("C071")]


def fill(open_file: Open, count: int = 200) -> None:
    ledger = open_file()
    ledger.write([session(), *(entry(f"{number} " + "x" * 500) for number in range(count))])
    ledger.close()


def aside(path: Path) -> list[Path]:
    return sorted(path.parent.glob("ledger.db.damaged-*"))


def assert_replaced(
    path: Path, open_file: Open, before: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Opening keeps the old bytes, tells of it once, and gives an empty ledger that works."""
    caplog.clear()
    ledger = open_file()
    assert ledger.read("s1") is None
    ledger.write([session(), entry("new")])
    assert texts(ledger) == ["new"]
    kept = [file for file in aside(path) if file.suffix != ".db" and "-wal" not in file.name]
    assert [file.read_bytes() for file in kept if "-shm" not in file.name] == [before]
    [warning] = caplog.messages
    assert str(path) in warning
    assert kept[0].name in warning
    assert texts(open_file()) == ["new"]
    assert len(caplog.messages) == 1


def test_a_file_of_garbage(path: Path, open_file: Open, caplog: pytest.LogCaptureFixture) -> None:
    path.parent.mkdir()
    garbage = b"not a database at all\n" * 1000
    path.write_bytes(garbage)
    assert_replaced(path, open_file, garbage, caplog)


@pytest.mark.parametrize("table", ["runs", "entries", "sessions", "blobs"])
def test_a_schema_whose_words_are_damaged(
    path: Path, open_file: Open, caplog: pytest.LogCaptureFixture, table: str
) -> None:
    fill(open_file)
    with closing(sqlite3.connect(path)) as connection:
        [column] = connection.execute(
            "SELECT name FROM pragma_table_info(?) WHERE pk = 0 LIMIT 1", (table,)
        ).fetchone()
        connection.execute(f"ALTER TABLE {table} RENAME COLUMN {column} TO damaged")
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert_replaced(path, open_file, path.read_bytes(), caplog)


def test_a_truncated_file(path: Path, open_file: Open, caplog: pytest.LogCaptureFixture) -> None:
    fill(open_file)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert_replaced(path, open_file, whole[: len(whole) // 2], caplog)


@pytest.mark.parametrize("place", [0.3, 0.6, 0.9])
def test_a_damaged_page(
    path: Path, open_file: Open, caplog: pytest.LogCaptureFixture, place: float
) -> None:
    fill(open_file)
    damaged = bytearray(path.read_bytes())
    start = int(len(damaged) * place) // 4096 * 4096
    damaged[start : start + 4096] = b"\xa5" * 4096
    path.write_bytes(damaged)
    assert_replaced(path, open_file, bytes(damaged), caplog)


def test_a_log_of_another_file(
    path: Path, open_file: Open, caplog: pytest.LogCaptureFixture
) -> None:
    fill(open_file)
    other = path.with_name("other.db")
    with closing(sqlite3.connect(other, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (x)")
        connection.executemany("INSERT INTO t VALUES (?)", [("y" * 900,)] * 200)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("UPDATE t SET x = 'z' WHERE rowid > 100")
        shutil.copy(other.with_name("other.db-wal"), path.with_name("ledger.db-wal"))
    before, log = path.read_bytes(), path.with_name("ledger.db-wal").read_bytes()
    assert_replaced(path, open_file, before, caplog)
    [kept] = [file for file in aside(path) if file.name.endswith("-wal")]
    assert kept.read_bytes() == log


def test_a_file_of_no_bytes_is_simply_begun(
    path: Path, open_file: Open, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.mkdir()
    path.touch()
    ledger = open_file()
    ledger.write([session(), entry("one")])
    assert texts(ledger) == ["one"]
    assert aside(path) == []
    assert caplog.messages == []


def test_a_directory_in_its_place_is_left_alone(path: Path, open_file: Open) -> None:
    path.mkdir(parents=True)
    (path / "file").write_text("mine")
    with pytest.raises(NotALedger, match="is a directory"):
        open_file()
    assert [file.name for file in path.parent.iterdir()] == ["ledger.db"]
    assert (path / "file").read_text() == "mine"


def test_a_database_of_another_program_is_left_alone(path: Path, open_file: Open) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE bookmarks (url)")
    before = path.read_bytes()
    with pytest.raises(NotALedger, match="something else"):
        open_file()
    assert path.read_bytes() == before
    assert aside(path) == []


def test_damage_that_appears_later_is_told_and_the_next_start_replaces_the_file(
    path: Path, open_file: Open, caplog: pytest.LogCaptureFixture
) -> None:
    fill(open_file)
    ledger = open_file()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))
    with pytest.raises(LedgerCorrupt, match="damaged"):
        ledger.read("s1")
    with pytest.raises(LedgerCorrupt) as caught:
        ledger.write([entry("two")])
    assert caught.value.hint is not None
    assert "set" in caught.value.hint
    ledger.close()
    assert_replaced(path, open_file, path.read_bytes(), caplog)


def test_a_write_that_a_crash_cut_short_is_undone(
    path: Path, open_file: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a write-ahead log the file itself is half changed, and a journal beside it tells
    what was."""
    open_file(is_network_path=lambda _: True).write([session(), entry("one")])
    program = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); "
        "c.execute('PRAGMA cache_size = 1'); c.execute('BEGIN IMMEDIATE'); "
        "rows = [(str(n), b'x' * 5000) for n in range(99)]; "
        "c.executemany('INSERT INTO blobs VALUES (?, ?)', rows); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=False, timeout=30)
    assert path.with_name("ledger.db-journal").stat().st_size > 0
    caplog.clear()
    ledger = open_file(is_network_path=lambda _: True)
    assert texts(ledger) == ["one"]
    ledger.write([entry("two")])
    assert aside(path) == []
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM blobs").fetchone() == (0,)


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE runs",
        "DELETE FROM ledger_version",
    ],
)
def test_a_ledger_that_lacks_something_is_damaged(
    path: Path, open_file: Open, caplog: pytest.LogCaptureFixture, statement: str
) -> None:
    fill(open_file)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)
    assert_replaced(path, open_file, path.read_bytes(), caplog)


def test_a_damaged_archive_costs_its_own_session_alone(path: Path, open_file: Open) -> None:
    ledger = open_file()
    ledger.write([session("old"), entry("one", "old"), session("new"), entry("two", "new")])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO archives VALUES ('old', x'00')")
        connection.execute("UPDATE sessions SET archived = 1 WHERE session_id = 'old'")
    with pytest.raises(LedgerCorrupt, match="old"):
        ledger.read("old")
    with pytest.raises(LedgerCorrupt, match="old"):
        ledger.write([entry("more", "old")])
    assert texts(ledger, "new") == ["two"]
