"""What lies where the ledger should be and is none: no command and no function changes it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ledger import LedgerCorrupt, LedgerError, NotALedger, open_ledger, schema

pytestmark = pytest.mark.integration


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


def state_of(directory: Path) -> dict[str, tuple[int, bytes]]:
    """Every file with its rights and its bytes, but for the empty lock."""
    return {
        file.name: (file.stat().st_mode, file.read_bytes())
        for file in directory.iterdir()
        if file.suffix != ".lock"
    }


def make_database(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)
    path.chmod(0o644)


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE bookmarks (url)", "INSERT INTO bookmarks VALUES ('mine')"],
        ["CREATE TABLE entries (id)", "CREATE TABLE sessions (id)", "CREATE TABLE runs (id)"],
        ["CREATE TABLE ledger_version (version_num)"],
        ["PRAGMA journal_mode = WAL", "CREATE TABLE bookmarks (url)"],
    ],
    ids=["others", "namesakes", "version", "wal"],
)
@pytest.mark.parametrize("use", [schema.upgrade, open_ledger], ids=["upgrade", "open"])
def test_a_database_of_another_program_is_refused_and_stays_as_it_is(
    tmp_path: Path, statements: list[str], use: object
) -> None:
    path = tmp_path / "other.db"
    make_database(path, *statements)
    before = state_of(tmp_path)
    with pytest.raises(NotALedger, match="something else") as caught:
        use(url_of(path))  # type: ignore[operator]  # both take a URL
    assert caught.value.hint is not None
    assert state_of(tmp_path) == before


def test_what_is_no_database_is_refused_by_an_upgrade_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("my notes\n" * 100)
    before = state_of(tmp_path)
    with pytest.raises(NotALedger, match="no database") as caught:
        schema.upgrade(url_of(path))
    assert "another place" in str(caught.value.hint)
    assert "move" in str(caught.value.hint)
    assert state_of(tmp_path) == before


def test_a_damaged_ledger_is_refused_by_an_upgrade_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    schema.upgrade(url_of(path))
    path.write_bytes(path.read_bytes()[:5000])
    before = state_of(tmp_path)
    with pytest.raises(LedgerCorrupt, match="damaged") as caught:
        schema.upgrade(url_of(path))
    assert "another place" in str(caught.value.hint)
    assert state_of(tmp_path) == before


def test_an_upgrade_by_itself_makes_a_ledger_where_nothing_is(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    for name in ("new.db", "empty.db"):
        assert schema.upgrade(url_of(tmp_path / name)) == (None, schema.HEAD)
        assert schema.upgrade(url_of(tmp_path / name)) == (schema.HEAD, schema.HEAD)


def test_the_lower_function_checks_too(tmp_path: Path) -> None:
    from ledger.engine import FilePlace

    path = tmp_path / "other.db"
    make_database(path, "CREATE TABLE bookmarks (url)")
    with pytest.raises(LedgerError):
        schema.upgrade_file(FilePlace(path))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("bookmarks",)]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
@pytest.mark.parametrize("use", [schema.upgrade, open_ledger], ids=["upgrade", "open"])
def test_what_is_no_file_is_told_as_what_it_is(tmp_path: Path, use: object) -> None:
    link, pipe, directory = (tmp_path / name for name in ("link", "pipe", "directory"))
    link.symlink_to(tmp_path / "gone" / "ledger.db")
    os.mkfifo(pipe)
    directory.mkdir()
    told = {link: "a link that leads to no file", pipe: "a pipe", directory: "a directory"}
    for path, sentence in told.items():
        with pytest.raises(NotALedger, match=sentence) as caught:
            use(url_of(path))  # type: ignore[operator]  # both take a URL
        assert caught.value.hint is not None
    assert sorted(tmp_path.iterdir()) == sorted(told)
