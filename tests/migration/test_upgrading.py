"""A ledger of another version: upgraded, refused, or only read."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ledger import LedgerError, SchemaAhead, SchemaBehind, open_ledger, schema
from tests.support import next_version
from tests.support.ledger_worker import next_line, run_workers, start_worker, tell_to_go
from tests.support.ledgers import entry, replay, session, texts
from tests.support.waits import scaled

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer

BecomeNew = Callable[[], None]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger of this version with one session."""
    path = tmp_path / "ledger.db"
    ledger = open_ledger(f"sqlite:///{path}")
    ledger.write([session(), entry("one", entry_key="k", run_id="r")])
    ledger.close()
    return path


@pytest.fixture
def become_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BecomeNew:
    """From now on this process is of the next version."""
    scripts = next_version.make(tmp_path)

    def become() -> None:
        monkeypatch.setattr(schema, "HEAD", next_version.HEAD)
        monkeypatch.setattr(schema, "scripts", lambda: scripts)

    return become


def query(path: Path, statement: str) -> list[tuple[str | int, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement).fetchall()


def version(path: Path) -> object:
    return query(path, "SELECT version_num FROM ledger_version")[0][0]


def assert_old(path: Path) -> None:
    assert version(path) == "0001"
    assert query(path, "PRAGMA integrity_check") == [("ok",)]
    tables = {name for (name,) in query(path, "SELECT name FROM sqlite_master")}
    assert "notes" not in tables
    assert query(path, "SELECT session_id FROM sessions") == [("s1",)]


def assert_new(path: Path) -> None:
    assert version(path) == "0002"
    assert query(path, "PRAGMA integrity_check") == [("ok",)]
    assert query(path, "PRAGMA foreign_key_check") == []
    assert query(path, "SELECT * FROM notes") == [("upgraded",)]
    assert ("s1", "red") in query(path, "SELECT session_id, colour FROM sessions")


def test_new_code_upgrades_an_old_file_and_keeps_a_copy_of_it(
    path: Path, become_new: BecomeNew
) -> None:
    become_new()
    ledger = open_ledger(f"sqlite:///{path}")
    assert texts(ledger) == ["one"]
    ledger.write([entry("two"), entry("again", entry_key="k")])
    assert texts(ledger) == ["one", "two"]
    ledger.close()
    assert_new(path)
    backup = path.with_name("ledger.db.backup-0001")
    assert_old(backup)
    assert backup.stat().st_mode & 0o077 == 0
    assert {file.name for file in path.parent.glob("ledger.db*")} == {
        "ledger.db",
        "ledger.db.lock",
        "ledger.db.backup-0001",
    }


def test_the_copy_holds_what_was_still_in_the_log(path: Path, become_new: BecomeNew) -> None:
    old = open_ledger(f"sqlite:///{path}")
    old.write([session("s2")])
    become_new()
    open_ledger(f"sqlite:///{path}").close()
    old.close()
    backup = path.with_name("ledger.db.backup-0001")
    assert sorted(query(backup, "SELECT session_id FROM sessions")) == [("s1",), ("s2",)]


def test_without_a_copy_there_is_no_upgrade(path: Path, become_new: BecomeNew) -> None:
    path.with_name("ledger.db.backup-0001").mkdir()
    become_new()
    with pytest.raises(LedgerError, match="directory"):
        open_ledger(f"sqlite:///{path}")
    assert_old(path)


def test_a_new_file_needs_no_copy(tmp_path: Path, become_new: BecomeNew) -> None:
    become_new()
    open_ledger(f"sqlite:///{tmp_path}/new.db").close()
    assert not list(tmp_path.glob("new.db.backup*"))


@pytest.mark.requirement("C066")
@pytest.mark.timeout(180)
def test_of_ten_processes_exactly_one_upgrades(path: Path, tmp_path: Path) -> None:
    scripts = next_version.make(tmp_path)
    names = [f"p{number}" for number in range(10)]
    told = run_workers(f"sqlite:///{path}", names, 100, next_version.told_by(scripts))
    assert told == ""
    assert_new(path)
    assert_old(path.with_name("ledger.db.backup-0001"))
    assert query(path, "SELECT count(*) FROM entries") == [(1 + 10 * 100 + 10 * 10,)]


@pytest.mark.requirement("C066")
@pytest.mark.parametrize("where", ["first", "second"])
def test_a_process_killed_while_it_upgrades_leaves_the_old_version(
    path: Path, tmp_path: Path, where: str, become_new: BecomeNew
) -> None:
    (tmp_path / "killed").mkdir()
    stop = "print('here', flush=True); __import__('signal').pause()"
    scripts = next_version.make(tmp_path / "killed", **{where: stop})
    worker = start_worker(f"sqlite:///{path}", "p", 1, next_version.told_by(scripts))
    with worker:
        tell_to_go(worker)
        assert [next_line(worker), next_line(worker)] == ["ready", "here"]
        worker.kill()
        worker.wait(scaled(10))
    assert_old(path)
    become_new()
    ledger = open_ledger(f"sqlite:///{path}")
    assert texts(ledger) == ["one"]
    ledger.close()
    assert_new(path)


@pytest.mark.requirement("C072")
def test_old_code_only_reads_a_newer_file(
    path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        scripts = next_version.make(tmp_path)
        patch.setattr(schema, "HEAD", next_version.HEAD)
        patch.setattr(schema, "scripts", lambda: scripts)
        open_ledger(f"sqlite:///{path}").close()
    before = path.read_bytes()
    caplog.set_level(logging.WARNING)
    ledger = open_ledger(f"sqlite:///{path}")
    assert texts(ledger) == ["one"]
    for _ in range(2):
        with pytest.raises(SchemaAhead, match=r"0002.*0001") as caught:
            ledger.write([entry("two")])
    assert "newer acp-bridge" in str(caught.value.hint)
    assert ledger.find_by_key("agent:s1") is not None
    ledger.close()
    assert path.read_bytes() == before
    [warning] = caplog.messages
    assert "0002" in warning
    assert "0001" in warning
    with pytest.raises(SchemaAhead):
        schema.upgrade(f"sqlite:///{path}")


def test_old_code_that_has_the_file_open_goes_on_writing_to_the_newer_one(
    path: Path, become_new: BecomeNew
) -> None:
    old = open_ledger(f"sqlite:///{path}")
    old.write([entry("two")])
    become_new()
    new = open_ledger(f"sqlite:///{path}")
    new.write([entry("three")])
    old.write([entry("four"), session("s2"), entry("five", "s2")])
    assert texts(old) == texts(new) == ["one", "two", "three", "four"]
    assert texts(new, "s2") == ["five"]
    old.close()
    new.close()
    assert_new(path)


def test_upgrading_by_hand_tells_what_was_done(path: Path, tmp_path: Path) -> None:
    assert schema.upgrade(f"sqlite:///{path}") == ("0001", "0001")
    assert schema.upgrade(f"sqlite:///{tmp_path}/new.db") == (None, "0001")


@pytest.mark.postgres
def test_a_shared_database_is_upgraded_only_when_asked(
    postgres: PostgresServer, become_new: BecomeNew
) -> None:
    url = postgres.empty_database()
    with pytest.raises(SchemaBehind, match="no ledger yet") as caught:
        open_ledger(url)
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("Run: acp-bridge ledger migrate --ledger-url ")
    assert schema.upgrade(url) == (None, "0001")
    ledger = open_ledger(url)
    ledger.write([session(), entry("one")])
    become_new()
    with pytest.raises(SchemaBehind, match=r"0001.*0002") as caught:
        open_ledger(url)
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("Run: acp-bridge ledger migrate --ledger-url ")
    ledger.write([entry("two")])
    assert schema.upgrade(url) == ("0001", "0002")
    assert schema.upgrade(url) == ("0002", "0002")
    ledger.write([entry("three")])  # the code of before, on the tables of after
    ledger.close()
    newer = open_ledger(url)
    assert texts(newer) == ["one", "two", "three"]
    newer.close()


@pytest.mark.postgres
def test_of_several_that_upgrade_a_shared_database_one_does_it(
    postgres: PostgresServer,
) -> None:
    url = postgres.empty_database()
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(schema.upgrade, [url] * 4))
    assert sorted(found, key=str) == [("0001", "0001")] * 3 + [(None, "0001")]


@pytest.mark.postgres
@pytest.mark.requirement("C072")
def test_old_code_only_reads_a_newer_shared_database(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.ledger_database()
    ledger = open_ledger(url)
    ledger.write([session(), entry("one")])
    ledger.close()
    with pytest.MonkeyPatch.context() as patch:
        scripts = next_version.make(tmp_path)
        patch.setattr(schema, "HEAD", next_version.HEAD)
        patch.setattr(schema, "scripts", lambda: scripts)
        schema.upgrade(url)
    ledger = open_ledger(url)
    assert texts(ledger) == ["one"]
    with pytest.raises(SchemaAhead, match=r"0002.*0001"):
        ledger.write([entry("two")])
    assert len(replay(ledger).entries) == 1
    ledger.close()
