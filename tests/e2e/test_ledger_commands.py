"""``acp-bridge ledger``: what it tells, and what it ends with."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from acp_bridge.demo.server import DemoGateway
from tests.e2e.conftest import Start
from tests.e2e.scripts import echo
from tests.support.editor import agent_command, editor_environment
from tests.support.openclaw_ledgers import (
    VERSIONS,
    loaded,
    marks,
    state_directory,
    visible,
    without_marks,
)
from tests.support.waits import WAIT

pytestmark = pytest.mark.e2e

HIDDEN = "hunter2-hunter2"


def run(home: Path, *argv: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        agent_command("ledger", *argv),
        env=editor_environment(home, **variables),
        capture_output=True,
        text=True,
        timeout=4 * WAIT,
        check=False,
    )


def ledger_file(home: Path) -> Path:
    return home / ".local" / "share" / "acp-bridge" / "ledger.db"


@pytest.mark.parametrize("command", ["migrate", "stats", "import-openclaw"])
def test_each_command_has_an_example_and_its_exit_codes_in_the_help(
    home: Path, command: str
) -> None:
    done = run(home, command, "--help")

    assert done.returncode == 0
    assert f"acp-bridge ledger {command}" in done.stdout
    assert "Exit codes:" in done.stdout


def test_without_a_command_the_help_and_a_sentence_are_shown(home: Path) -> None:
    done = run(home)

    assert done.returncode == 2
    assert "migrate" in done.stdout
    assert done.stderr.splitlines() == [
        "error: acp-bridge ledger needs a command.",
        "hint: acp-bridge ledger --help explains the commands and options.",
    ]


def test_a_command_that_there_is_not_is_told(home: Path) -> None:
    done = run(home, "nope")

    assert done.returncode == 2
    assert "'nope'" in done.stderr
    assert "acp-bridge ledger --help" in done.stderr


def test_migrate_makes_the_ledger_and_is_a_no_op_after_that(home: Path) -> None:
    first, second = run(home, "migrate"), run(home, "migrate")

    assert (first.returncode, second.returncode) == (0, 0)
    assert "before: none" in first.stdout
    assert "already" in second.stdout
    assert ledger_file(home).stat().st_mode & 0o777 == 0o600


def test_stats_of_a_ledger_that_is_not_there_makes_none(home: Path) -> None:
    done = run(home, "stats")

    assert done.returncode == 1  # as its help says
    assert str(ledger_file(home)) in done.stderr
    assert "no ledger" in done.stderr
    assert not ledger_file(home).parent.exists()


@pytest.mark.parametrize(
    "argv", [["stats"], ["import-openclaw", "--dry-run"], ["migrate"]], ids=lambda argv: argv[0]
)
def test_a_command_that_finds_another_program_s_file_leaves_it_alone(
    home: Path, argv: list[str]
) -> None:
    state_directory(VERSIONS[0], home / ".openclaw")
    place = home / "mine"
    place.mkdir()
    (place / "x.txt").write_text("my notes")
    with closing(sqlite3.connect(place / "other.db")) as database:
        database.execute("CREATE TABLE bookmarks (url)")
    before = {file.name: file.read_bytes() for file in place.iterdir()}

    for name in ("x.txt", "other.db"):
        done = run(home, *argv, "--ledger-url", f"sqlite:///{place / name}")
        assert done.returncode == 1
        assert done.stderr.startswith("error: ")
        assert "hint: " in done.stderr
        assert "another place" in done.stderr

    assert {file.name: file.read_bytes() for file in place.iterdir()} == before


def test_stats_as_json_is_one_object_and_nothing_else(home: Path) -> None:
    run(home, "migrate", "--state-dir", str(home / "s"))

    done = run(home, "stats", "--json", ACP_BRIDGE_STATE_DIR=str(home / "s"))

    assert done.returncode == 0
    assert json.loads(done.stdout) == {
        "ledger": str(home / "s" / "ledger.db"),
        "sessions": 0,
        "archived": 0,
        "entries": 0,
        "bytes": 0,
        "archived_bytes": 0,
    }


def test_a_ledger_of_a_newer_version_ends_a_command_that_writes_with_5(home: Path) -> None:
    run(home, "migrate")
    with closing(sqlite3.connect(ledger_file(home))) as database:
        (table,) = database.execute(
            "SELECT name FROM sqlite_master WHERE sql LIKE '%version_num%' AND type = 'table'"
        ).fetchone()
        database.execute(f"UPDATE {table} SET version_num = '9999'")  # noqa: S608 - a name found
        database.commit()
    state = state_directory(VERSIONS[0], home / "openclaw")

    for argv in (["migrate"], ["import-openclaw", str(state)]):
        done = run(home, *argv)
        assert done.returncode == 5, done.stderr
        assert "9999" in done.stderr


@pytest.mark.parametrize(
    ("url", "code"),
    [
        (f"mysql://me:{HIDDEN}@127.0.0.1/db", 1),
        (f"postgresql://me:{HIDDEN}@127.0.0.1:1/db", 1),
        (f"postgresql://me@127.0.0.1:1/db?password={HIDDEN}", 1),
    ],
)
def test_a_bad_database_ends_with_a_sentence_and_without_its_password(
    home: Path, url: str, code: int
) -> None:
    for command in ("stats", "migrate"):
        done = run(home, command, "--ledger-url", url)

        assert done.returncode == code
        assert done.stderr.startswith("error: ")
        assert "hint: " in done.stderr
        assert HIDDEN not in done.stderr
        assert "Traceback" not in done.stderr


def test_memory_is_no_ledger_to_work_on(home: Path) -> None:
    done = run(home, "stats", ACP_BRIDGE_LEDGER="memory")

    assert done.returncode == 2
    assert "ACP_BRIDGE_LEDGER" in done.stderr


def test_an_import_tells_first_and_then_does_it_once(home: Path) -> None:
    state_directory(VERSIONS[0], home / ".openclaw")

    told = run(home, "import-openclaw", "--dry-run")
    assert told.returncode == 0, told.stderr
    assert not ledger_file(home).exists()
    done = run(home, "import-openclaw")
    again = run(home, "import-openclaw")

    assert "2 sessions, 44 events" in told.stdout
    assert "2 new sessions" in told.stdout
    assert done.stdout == told.stdout.replace("Would write", "Wrote")
    assert "17 titles" in done.stdout
    assert "2 were there already" in again.stdout


def test_an_import_of_nothing_ends_with_2(home: Path) -> None:
    done = run(home, "import-openclaw")

    assert done.returncode == 2
    assert "import-openclaw PATH" in done.stderr


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_thread_that_an_editor_has_open_still_loads_after_the_import(
    bridge: Start, home: Path, version: str
) -> None:
    done = run(home, "import-openclaw", str(state_directory(version, home / "openclaw")))
    assert done.returncode == 0, done.stderr
    async with DemoGateway(echo, pace=0) as gateway, bridge(gateway) as editor:
        await editor.initialize()
        for session_id, updates in loaded(version).items():
            wanted = {"sessionId": session_id, "cwd": "/home/me/project", "mcpServers": []}
            await editor.call("session/load", wanted).result()
            shown = editor.updates(session_id)
            assert visible(without_marks(shown)) == visible(updates)
            assert len(marks(shown)) == 1
