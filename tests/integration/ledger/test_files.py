"""The ledger's file: private, in the right journal mode, and nothing but what is needed."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import ledger
from ledger import (
    LEASE_MS,
    DeleteSession,
    LedgerBusy,
    Limits,
    Page,
    RunClosed,
    RunOpened,
    RunState,
    open_ledger,
)
from ledger.files import locked
from tests.integration.ledger.conftest import Open
from tests.support.ledgers import chunk, entry, session, texts

pytestmark = pytest.mark.integration


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def journal_mode(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        found: str = connection.execute("PRAGMA journal_mode").fetchone()[0]
        return found


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
@pytest.mark.parametrize("umask", [0, 0o022, 0o077], ids=oct)
def test_only_the_owner_can_read_what_is_made(path: Path, open_file: Open, umask: int) -> None:
    before = os.umask(umask)
    try:
        ledger = open_file()
        ledger.write([session(), entry("one")])
    finally:
        os.umask(before)
    assert mode(path.parent) == 0o700
    found = {file.name: mode(file) for file in path.parent.iterdir()}
    assert found == dict.fromkeys(
        ["ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.db.lock"], 0o600
    )


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_a_file_that_others_could_read_is_made_private_and_a_directory_is_left_alone(
    path: Path, open_file: Open
) -> None:
    open_file().close()
    path.parent.chmod(0o755)
    path.chmod(0o644)
    open_file().write([session()])
    assert mode(path) == mode(path.with_name("ledger.db-wal")) == 0o600
    assert mode(path.parent) == 0o755


def test_what_was_written_is_there_after_opening_again(open_file: Open) -> None:
    ledger = open_file()
    ledger.write([session(), entry("one")])
    ledger.close()
    assert texts(open_file()) == ["one"]


def test_one_process_sees_what_another_one_wrote(open_file: Open) -> None:
    first, second = open_file(), open_file()
    first.write([session(), entry("one")])
    assert texts(second) == ["one"]
    second.write([entry("two")])
    assert texts(first) == ["one", "two"]


def test_the_journal_is_a_write_ahead_log(path: Path, open_file: Open) -> None:
    open_file()
    assert journal_mode(path) == "wal"


@pytest.mark.requirement("C067")
def test_on_a_network_file_system_there_is_no_write_ahead_log_and_one_warning(
    path: Path, open_file: Open, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = open_file(is_network_path=lambda asked: asked == path)
    ledger.write([session(), entry("one")])
    ledger.write([entry("two")])
    assert journal_mode(path) == "delete"
    [warning] = caplog.messages
    assert str(path) in warning
    assert "--state-dir" in warning


@pytest.mark.requirement("C067")
def test_the_journal_follows_the_file_to_another_file_system(path: Path, open_file: Open) -> None:
    local = open_file()
    local.write([session(), entry("one")])
    local.close()
    remote = open_file(is_network_path=lambda _: True)
    assert journal_mode(path) == "delete"
    assert texts(remote) == ["one"]
    remote.close()
    assert texts(open_file()) == ["one"]
    assert journal_mode(path) == "wal"


@pytest.mark.requirement("C067")
def test_a_log_that_another_process_uses_over_a_network_is_not_used_too(
    open_file: Open,
) -> None:
    open_file().write([session()])
    with pytest.raises(LedgerBusy):
        open_file(is_network_path=lambda _: True, lock_timeout=0.05)


@pytest.mark.requirement("C065")
def test_a_lock_held_too_long_is_told_and_then_forgotten(path: Path, open_file: Open) -> None:
    ledger = open_file(lock_timeout=0.05)
    ledger.write([session(), entry("one")])
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LedgerBusy, match="Another process"):
            ledger.write([entry("two")])
        assert texts(ledger) == ["one"]  # reading needs no lock
        other.execute("ROLLBACK")
    ledger.write([entry("three")])
    assert texts(ledger) == ["one", "three"]


def test_of_those_that_prepare_a_file_the_second_waits_and_does_not_wait_for_ever(
    path: Path, open_file: Open
) -> None:
    open_file().close()
    with locked(path, 1):
        with pytest.raises(LedgerBusy, match="preparing"), locked(path, 0.05):
            pytest.fail("locked twice")
        open_file().write([session()])  # what is in order needs no preparing
    with locked(path, 0):
        pass


def test_limits_that_cannot_be_kept_cost_a_warning_and_no_entry(
    path: Path, open_file: Open, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = open_file(limits=Limits(max_sessions=1))
    ledger.write([session("s0"), entry("one", "s0")])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE archives RENAME TO gone")
        for number in range(1, 4):
            ledger.write([session(f"s{number}", 10 * LEASE_MS * number)])
            ledger.write([entry("x", f"s{number}", 10 * LEASE_MS * number)])
        [warning] = caplog.messages
        assert "limits could not be kept" in warning
        connection.execute("ALTER TABLE gone RENAME TO archives")
    ledger.write([session("s4", 100 * LEASE_MS)])
    assert [found.session_id for found in ledger.list_sessions(Page()) if not found.archived] == [
        "s4"
    ]


@pytest.mark.parametrize("name", ["a b", "a%20b", "a#b", "ä;é", "a:b"])
def test_a_path_is_taken_letter_for_letter(tmp_path: Path, name: str) -> None:
    ledger = open_ledger(f"sqlite:///{tmp_path}/{name}/ledger.db")
    ledger.write([session()])
    ledger.close()
    assert (tmp_path / name / "ledger.db").is_file()


def test_names_that_no_database_takes_are_names_all_the_same(open_file: Open) -> None:
    ledger = open_file()
    odd = "a\ud800\0"
    ledger.write([session(odd, session_key=odd, cwd=odd), RunOpened(odd, odd, 1)])
    for text in "xx":
        ledger.write([chunk(text, session_id=odd, run=odd)])
    ledger.write([entry("once", odd, entry_key=odd), RunClosed(odd, 2, RunState.FINISHED)])
    ledger.write([entry("again", odd, entry_key=odd), session(odd)])
    assert texts(ledger, odd) == ["xx", "once"]
    assert ledger.find(odd, f"agent:{odd}") is not None
    ledger.write([DeleteSession(odd)])
    assert ledger.read(odd) is None


def printed(program: str, *arguments: str) -> str:
    """What a Python of its own prints."""
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    return done.stdout.strip()


def test_a_second_opening_needs_no_migrations_tool(path: Path, open_file: Open) -> None:
    open_file().close()
    program = (
        "import sys, ledger; ledger.open_ledger(sys.argv[1]).close(); "
        "print(sorted(name for name in sys.modules if name.split('.')[0] == 'alembic'))"
    )
    assert printed(program, f"sqlite:///{path}") == "[]"


def test_a_file_brings_nothing_of_a_server(path: Path) -> None:
    program = (
        "import sys, ledger; ledger.open_ledger(sys.argv[1]).close(); "
        "print(sorted(name for name in sys.modules if 'postgres' in name or 'psycopg' in name))"
    )
    assert printed(program, f"sqlite:///{path}") == "[]"


def test_the_readme_s_example_does_what_it_says(path: Path) -> None:
    readme = Path(ledger.__file__).with_name("README.md").read_text("utf-8")
    [example] = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    names: dict[str, Any] = {}
    exec(example.replace("/home/me/.local/share/mine/ledger.db", str(path)), names)  # noqa: S102 - our own
    assert [entry.payload for entry in names["replay"].entries] == [{"text": "hello"}]
    assert names["sessions"] == [names["replay"].session]


def test_importing_the_package_brings_no_database(tmp_path: Path) -> None:
    program = (
        "import sys, ledger, ledger.memory; "
        "print({'sqlalchemy', 'alembic', 'sqlite3'} & set(sys.modules))"
    )
    assert printed(program) == "set()"
