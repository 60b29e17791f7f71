"""Importing OpenClaw's ledgers: the same transcript, taken once, and OpenClaw's files untouched."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from acp.schema import SessionNotification

from acp_bridge.core.replay import Recorded, replay_updates
from acp_bridge.errors import ConfigError
from acp_bridge.ids import Json, RunId
from acp_bridge.importing.openclaw import OWN, STATE, Report, import_sessions
from acp_bridge.importing.openclaw_files import (
    UNREADABLE_EVENTS,
    UNREADABLE_SESSIONS,
    Skipped,
    find_ledgers,
    read_ledger,
)
from ledger import (
    EventLedger,
    LedgerBusy,
    LedgerCorrupt,
    Limits,
    NewEntry,
    NewSession,
    NotALedger,
    Page,
    RunState,
    SchemaAhead,
    open_ledger,
)
from ledger.memory import MemoryLedger
from tests.support.openclaw_ledgers import (
    VERSIONS,
    json_ledger,
    loaded,
    marks,
    state_directory,
    visible,
    without_marks,
)

pytestmark = pytest.mark.integration

NOW = 1_796_000_000_000
MARK = "(Imported from OpenClaw's ledger on 2026-11-30.)"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[EventLedger]:
    opened = open_ledger(f"sqlite:///{tmp_path / 'ours' / 'ledger.db'}")
    yield opened
    opened.close()


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def source(version: str, tmp_path: Path) -> Path:
    """OpenClaw's database."""
    return state_directory(version, tmp_path / "openclaw") / "state" / "openclaw.sqlite"


def take(ledger: EventLedger, *files: Path, dry_run: bool = False) -> Report:
    report = Report()
    sessions = (each for file in files for each in read_ledger(file, report.skipped))
    import_sessions(sessions, ledger, report, now=NOW, dry_run=dry_run)
    return report


def shown(ledger: EventLedger, session_id: str) -> list[Json]:
    replay = ledger.read(session_id)
    assert replay is not None
    entries = [
        Recorded(each.kind, each.payload, RunId(each.run_id) if each.run_id else None, each.at)
        for each in replay.entries
    ]
    return replay_updates(entries)


def change(database: Path, *statements: str) -> None:
    with closing(sqlite3.connect(database)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def files_of(directory: Path) -> dict[Path, tuple[bytes, int]]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def test_an_imported_session_shows_what_openclaw_showed(
    ledger: EventLedger, source: Path, version: str
) -> None:
    report = take(ledger, source)

    wanted = loaded(version)
    assert {record.session_id for record in ledger.list_sessions(Page())} == set(wanted)
    for session_id, updates in wanted.items():
        assert visible(without_marks(shown(ledger, session_id))) == visible(updates)
        assert marks(shown(ledger, session_id)) == [MARK]
    assert (report.sessions, report.new, report.incomplete) == (2, 2, 0)
    assert set(report.skipped) == {STATE}


def test_ids_keys_directory_times_and_runs_are_kept(ledger: EventLedger, source: Path) -> None:
    with closing(sqlite3.connect(source)) as database:
        wanted = database.execute(
            "SELECT session_id, session_key, cwd, created_at FROM acp_replay_sessions"
        ).fetchall()
        runs = database.execute("SELECT DISTINCT run_id FROM acp_replay_events").fetchall()
    take(ledger, source)

    records = ledger.list_sessions(Page())
    assert {(r.session_id, r.session_key, r.cwd, r.created_at) for r in records} == set(wanted)
    assert all(record.complete and not record.is_live(record.updated_at) for record in records)
    replays = [ledger.read(record.session_id) for record in records]
    found = {run.run_id: run.state for replay in replays if replay for run in replay.runs}
    assert found == {name: RunState.FINISHED for (name,) in runs if name}


def test_a_session_is_titled_by_its_first_prompt_if_openclaw_has_only_its_key(
    ledger: EventLedger, source: Path
) -> None:
    take(ledger, source)

    titles = {record.title for record in ledger.list_sessions(Page())}
    assert titles == {"fake:echo N=8", "fake:say another session"}


def test_a_second_import_takes_nothing(ledger: EventLedger, source: Path, version: str) -> None:
    take(ledger, source)
    before = ledger.stats()

    again = take(ledger, source)

    assert (again.new, again.unchanged, again.entries) == (0, 2, 0)
    assert ledger.stats() == before
    for session_id, updates in loaded(version).items():
        assert visible(without_marks(shown(ledger, session_id))) == visible(updates)


def test_a_later_import_takes_what_came_since(
    ledger: EventLedger, source: Path, tmp_path: Path, version: str
) -> None:
    """Also in the middle of an answer that an earlier import had half of."""
    whole = source.read_bytes()
    change(source, "DELETE FROM acp_replay_events WHERE seq > 4")
    take(ledger, source)
    source.write_bytes(whole)

    later = take(ledger, source)

    assert (later.new, later.continued) == (0, 2)
    for session_id, updates in loaded(version).items():
        assert visible(without_marks(shown(ledger, session_id))) == visible(updates)


def test_a_dry_run_tells_the_same_and_writes_nothing(ledger: EventLedger, source: Path) -> None:
    told = take(ledger, source, dry_run=True)

    assert ledger.stats().sessions == 0
    assert take(ledger, source) == told


def test_incomplete_sessions_are_taken_and_marked(ledger: EventLedger, source: Path) -> None:
    change(source, "UPDATE acp_replay_sessions SET complete = 0")

    report = take(ledger, source)

    assert report.incomplete == 2
    records = ledger.list_sessions(Page())
    assert [record.complete for record in records] == [False, False]
    assert "had not all of it" in marks(shown(ledger, records[0].session_id))[0]


def test_what_cannot_be_read_is_left_out_and_told(ledger: EventLedger, source: Path) -> None:
    change(
        source,
        "UPDATE acp_replay_events SET update_json = '{' WHERE seq = 5",
        "UPDATE acp_replay_events SET update_json = '[1]' WHERE seq = 4",
        "INSERT INTO acp_replay_sessions(session_id, session_key, cwd, complete, created_at,"
        " updated_at, next_seq) VALUES ('', 'key', '/w', 1, 1, 1, 1)",
    )

    report = take(ledger, source)

    assert report.new == 2
    assert report.incomplete == 2
    assert report.skipped[UNREADABLE_EVENTS] == 4
    assert report.skipped[UNREADABLE_SESSIONS] == 1


def test_a_session_that_the_bridge_recorded_itself_is_left_as_it_is(
    ledger: EventLedger, source: Path, version: str
) -> None:
    session_id = next(iter(loaded(version)))
    ledger.write(
        [NewSession(session_id, "key", "/w", 1), NewEntry(session_id, "update", {"a": 1}, 1)]
    )

    report = take(ledger, source)

    assert report.new == 1
    assert report.skipped[OWN] > 0
    replay = ledger.read(session_id)
    assert replay is not None
    assert [entry.payload for entry in replay.entries] == [{"a": 1}]


def test_a_session_too_large_for_the_ledger_is_left_out_and_told(source: Path) -> None:
    change(
        source,
        "UPDATE acp_replay_events SET update_json = json_set(update_json, '$.content.text',"
        " hex(zeroblob(2000))) WHERE seq = 4 AND run_id IN (SELECT run_id FROM acp_replay_events"
        " WHERE update_json LIKE '%another session%')",
    )

    report = take(MemoryLedger(Limits(max_bytes=3000)), source)

    assert report.new == 1
    assert any("--max-bytes" in reason or "larger" in reason for reason in report.skipped)


def test_openclaws_directory_stays_as_it_is_even_with_a_log_that_waits(
    ledger: EventLedger, source: Path, version: str
) -> None:
    with closing(sqlite3.connect(source)) as gateway:
        gateway.execute("PRAGMA journal_mode = WAL")
        gateway.execute("PRAGMA wal_autocheckpoint = 0")
        gateway.execute("UPDATE acp_replay_sessions SET cwd = '/from/the/log'")
        gateway.commit()
        before = files_of(source.parent)
        assert any(path.name.endswith("-wal") for path in before)

        take(ledger, source)

        assert files_of(source.parent) == before
    assert {record.cwd for record in ledger.list_sessions(Page())} == {"/from/the/log"}
    for session_id, updates in loaded(version).items():
        assert visible(without_marks(shown(ledger, session_id))) == visible(updates)


def test_a_database_that_is_written_to_all_the_time_is_not_taken_half(source: Path) -> None:
    pauses = Counter[str]()

    def writes_on(_: float) -> None:
        pauses["taken"] += 1
        touch(source)

    touch(source)
    original = Path.stat

    def restless(self: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if self == source:
            touch(source)
        return original(self, follow_symlinks=follow_symlinks)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "stat", restless)
        with pytest.raises(LedgerBusy, match=r"openclaw\.sqlite"):
            list(read_ledger(source, Skipped(), sleep=writes_on))
    assert pauses["taken"] > 1


def touch(path: Path) -> None:
    now = time.time_ns()
    os.utime(path, ns=(now, now))


# --- the JSON file of older versions ---------------------------------------------------------


def test_the_older_json_file_imports_to_the_same(
    ledger: EventLedger, tmp_path: Path, version: str
) -> None:
    take(ledger, json_ledger(version, tmp_path / "old"))

    for session_id, updates in loaded(version).items():
        assert visible(without_marks(shown(ledger, session_id))) == visible(updates)


def test_a_session_of_both_files_is_taken_once(
    ledger: EventLedger, source: Path, version: str
) -> None:
    directory = source.parent.parent
    json_ledger(version, directory)
    files = find_ledgers(directory, {})

    report = take(ledger, *files)

    assert [file.name for file in files] == ["openclaw.sqlite", "event-ledger.json"]
    assert (report.sessions, report.new) == (2, 2)


def test_bad_parts_of_the_json_file_are_left_out_and_told(
    ledger: EventLedger, tmp_path: Path
) -> None:
    file = json_ledger(VERSIONS[0], tmp_path)
    content = json.loads(file.read_text())
    first, second = content["sessions"].values()
    first["events"] += [None, {"seq": "x"}]
    second["sessionId"] = "another"
    content["sessions"]["third"] = 3
    file.write_text(json.dumps(content))

    report = take(ledger, file)

    assert (report.new, report.incomplete) == (1, 1)
    assert report.skipped[UNREADABLE_EVENTS] == 2
    assert report.skipped[UNREADABLE_SESSIONS] == 2


def test_sessions_that_cannot_be_read_are_named_with_the_reason(tmp_path: Path) -> None:
    file = json_ledger(VERSIONS[0], tmp_path)
    content = json.loads(file.read_text())
    whole = next(iter(content["sessions"].values()))
    bad: dict[str, object] = {
        "no-list": {**whole, "sessionId": "no-list", "events": {"0": {}}},
        "no-events": {key: value for key, value in whole.items() if key != "events"}
        | {"sessionId": "no-events"},
        "no-key": {**whole, "sessionId": "no-key", "sessionKey": ""},
        "no-times": {**whole, "sessionId": "no-times", "updatedAt": "now"},
        "no-object\n\x1b[2J": 5,
        **{f"more-{number}": 5 for number in range(500)},
    }
    content["sessions"] |= bad
    file.write_text(json.dumps(content))
    skipped = Skipped()
    assert len(list(read_ledger(file, skipped))) == 2
    (line,) = skipped.lines()
    assert line.startswith("505 sessions that cannot be read, such as ")
    for told in (
        "no-list (its events are no list)",
        "no-events (its events are no list)",
        "no-key (it has no key)",
        "no-times (its times are no numbers)",
    ):
        assert told in line
    assert "it is no object" in line
    assert line.isprintable()
    assert len(line) < 1500


def test_events_that_cannot_be_read_are_told_with_their_session(tmp_path: Path) -> None:
    file = json_ledger(VERSIONS[0], tmp_path)
    content = json.loads(file.read_text())
    name, session = next(iter(content["sessions"].items()))
    session["events"][0]["update"] = None
    file.write_text(json.dumps(content))
    skipped = Skipped()
    list(read_ledger(file, skipped))
    assert list(skipped.lines()) == [f"1 events that cannot be read, such as 1 of {name}"]


@pytest.mark.parametrize(
    "update",
    [
        {"sessionUpdate": "tool_call", "toolCallId": 5, "title": "Build"},
        {"sessionUpdate": "tool_call", "toolCallId": "one"},
        {"sessionUpdate": "tool_call_update", "toolCallId": "one", "content": "made"},
        {"sessionUpdate": "plan"},
        {"sessionUpdate": "agent_message_chunk"},
        {"sessionUpdate": "agent_message_chunk", "content": [1]},
        {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": 7}},
        {"sessionUpdate": "of_another_time"},
        {"sessionUpdate": 3},
    ],
    ids=str,
)
def test_events_that_no_editor_could_read_are_left_out_and_told(
    tmp_path: Path, ledger: EventLedger, update: Json
) -> None:
    file = json_ledger(VERSIONS[0], tmp_path)
    content = json.loads(file.read_text())
    name, session = next(iter(content["sessions"].items()))
    session["events"][-1]["update"] = update
    file.write_text(json.dumps(content))
    report = take(ledger, file)
    (line,) = [each for each in report.skipped.lines() if "cannot be read" in each]
    assert line == f"1 events that cannot be read, such as 1 of {name}"
    record = next(each for each in ledger.list_sessions(Page()) if each.session_id == name)
    assert not record.complete
    for each in shown(ledger, name):
        SessionNotification.model_validate({"sessionId": name, "update": each})


@pytest.mark.parametrize(
    ("cwd", "taken"),
    [
        ("", None),
        ("project", None),
        ("./project", None),
        ("/home/me/project", "/home/me/project"),
        ("C:\\project", "C:\\project"),
    ],
)
def test_a_session_without_an_absolute_directory_gets_the_home(
    tmp_path: Path, ledger: EventLedger, cwd: str, taken: str | None
) -> None:
    file = json_ledger(VERSIONS[0], tmp_path)
    content = json.loads(file.read_text())
    for session in content["sessions"].values():
        session["cwd"] = cwd
    file.write_text(json.dumps(content))
    take(ledger, file)
    assert {each.cwd for each in ledger.list_sessions(Page())} == {taken or str(Path.home())}


def test_a_lock_beside_the_json_file_is_waited_for(tmp_path: Path) -> None:
    file = json_ledger(VERSIONS[0], tmp_path)
    lock = file.with_name(file.name + ".lock")
    lock.touch()
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            lock.unlink()

    assert len(list(read_ledger(file, Skipped(), sleep=wait))) == 2
    assert len(waits) == 3
    assert waits == sorted(waits)


def test_a_lock_that_stays_is_an_error_and_an_old_one_is_not(tmp_path: Path) -> None:
    file = json_ledger(VERSIONS[0], tmp_path)
    lock = file.with_name(file.name + ".lock")
    lock.touch()
    with pytest.raises(LedgerBusy, match="locked"):
        list(read_ledger(file, Skipped(), sleep=lambda _: None))

    os.utime(lock, (1, 1))

    assert len(list(read_ledger(file, Skipped(), sleep=lambda _: None))) == 2
    assert lock.exists()


# --- finding, and bad input ------------------------------------------------------------------


def test_the_ledger_is_looked_for_where_openclaw_keeps_it(
    source: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    directory = source.parent.parent
    monkeypatch.setenv("HOME", str(tmp_path))

    assert find_ledgers(None, {"OPENCLAW_STATE_DIR": str(directory)}) == [source]
    assert find_ledgers(directory, {}) == [source]
    assert find_ledgers(source, {}) == [source]
    directory.rename(tmp_path / ".openclaw")
    assert find_ledgers(None, {}) == [tmp_path / ".openclaw" / "state" / "openclaw.sqlite"]


def test_where_there_is_no_ledger_the_hint_asks_for_the_path(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no ledger") as caught:
        find_ledgers(tmp_path, {})
    assert "PATH" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", NotALedger),
        (b"{}", NotALedger),
        (b'{"version": 2, "sessions": {}}', SchemaAhead),
        (b'{"version": 2}', SchemaAhead),
        (b'{"version": 0, "sessions": {}}', NotALedger),
        (b"\x00\xff" * 100, NotALedger),
        (b"SQLite format 3\x00" + b"\xff" * 5000, LedgerCorrupt),
    ],
)
def test_other_files_are_refused_by_name(
    tmp_path: Path, content: bytes, error: type[Exception]
) -> None:
    file = tmp_path / "some.file"
    file.write_bytes(content)

    with pytest.raises(error, match=r"some\.file"):
        list(read_ledger(file, Skipped()))


def test_a_database_without_a_bridges_tables_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.sqlite"
    change(file, "CREATE TABLE a (b)")

    with pytest.raises(NotALedger, match="no sessions"):
        list(read_ledger(file, Skipped()))
