"""The ledger's file goes away while the bridge records: what was shown since the last look is
written again, into whatever is there then, and nothing comes twice."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from acp_bridge.bridge.recorder import LOOK, MAX_UNCONFIRMED, Recorder
from acp_bridge.core.effects import Record
from acp_bridge.core.ports import Entry
from acp_bridge.ids import Generation, Json, RunId, SessionId
from acp_bridge.storage import LazyLedger
from ledger import EventLedger, Limits, Replay, open_ledger
from tests.support.clock import HandClock
from tests.support.waits import WAIT

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.name == "nt", reason="Windows keeps files that are open"),
]

S1, S2 = SessionId("s1"), SessionId("s2")
STEP = 0.4
"""Seconds between two records: some of them fall between two looks."""
STEPS = 9


class World:
    """A recorder on a ledger in a file, with time that is moved by hand."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.path = directory / "ledger.db"
        self.clock = HandClock()
        self.opened = 0
        self.ledger = LazyLedger(self._open, Limits(), clock=self.clock.time, patience=WAIT)
        self.recorder = Recorder(self.ledger, self.clock.time)
        self.at = 0

    def _open(self) -> EventLedger:
        self.opened += 1
        return open_ledger(f"sqlite:///{self.path}", clock=self.clock.time)

    def put(
        self, kind: str, payload: Json, session: SessionId = S1, run: str | None = None
    ) -> None:
        self.at += 1
        generation = Generation(1) if run else None
        entry = Entry(session, Record(kind, payload), RunId(run) if run else None, generation)
        self.recorder.record([(entry, self.at, 100)])

    def begin(self, session: SessionId = S1, **more: object) -> None:
        self.put("session", {"session_key": f"key {session}", "cwd": "/w", **more}, session)

    def say(self, text: str, session: SessionId = S1, run: str | None = "r") -> None:
        content = {"type": "text", "text": text}
        update = {"sessionUpdate": "agent_message_chunk", "content": content, "messageId": "m"}
        self.put("update", update, session, run)

    def finish(self) -> None:
        self.recorder.finish(0.4, self.clock.advance)
        self.ledger.close()

    def found(self, session: SessionId = S1) -> Replay | None:
        with closing(open_ledger(f"sqlite:///{self.path}")) as ledger:
            return ledger.read(session)

    def text(self, session: SessionId = S1) -> str:
        """What is recorded of the answers; all of it must be where a reader looks."""
        replay = self.found(session)
        assert replay is not None
        said = [each.payload for each in replay.entries if each.kind == "update"]
        return "".join(payload["content"]["text"] for payload in said)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "data")


def remove(path: Path) -> None:
    for file in path.parent.iterdir():
        file.unlink()


def remove_all(path: Path) -> None:
    shutil.rmtree(path.parent)


def rename(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


WAYS = [remove, remove_all, rename]
AWAY = pytest.mark.parametrize("go", WAYS)


def copy(path: Path) -> Path:
    """A copy of the file as it is now, its log included."""
    other = path.parent.with_name("copy.db")
    with closing(sqlite3.connect(path)) as here, closing(sqlite3.connect(other)) as there:
        here.backup(there)
    return other


def put_in_place(other: Path, path: Path) -> None:
    remove(path)
    shutil.move(other, path)


def conversation(world: World, before: Callable[[int], None]) -> str:
    """A turn of some steps, and the beginning of another one; returns what was said."""
    for number in range(STEPS):
        before(number)
        if number == 0:
            world.begin()
            world.put("prompt", {"prompt": []}, run="r")
        if number == STEPS - 2:
            world.put("outcome", {"stop_reason": "end_turn"}, run="r")
            world.put("prompt", {"prompt": []}, run="q")
        world.say(f"{number} ", run="r" if number < STEPS - 2 else "q")
        world.clock.advance(STEP)
        world.recorder.retry()
    return "".join(f"{number} " for number in range(STEPS))


@AWAY
@pytest.mark.parametrize("moment", range(1, STEPS))
def test_what_was_said_after_the_last_look_is_in_the_new_file(
    world: World, go: Callable[[Path], None], moment: int
) -> None:
    said = conversation(world, lambda number: go(world.path) if number == moment else None)
    world.finish()

    found = world.text()
    assert said.endswith(found)
    assert len(found.split()) >= STEPS - moment
    replay = world.found()
    assert replay is not None
    assert replay.session.complete is (found == said)
    assert world.opened == 2


@AWAY
def test_a_bridge_that_ends_at_once_has_recorded_what_it_said_last(
    world: World, go: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    world.begin()
    world.say("long ago. ")
    world.clock.advance(LOOK)
    world.recorder.retry()
    go(world.path)
    world.say("two. ")
    world.say("three.")
    world.finish()

    assert world.text() == "two. three."
    replay = world.found()
    assert replay is not None
    assert not replay.session.complete
    told = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(told) == 1
    assert "removed or replaced" in told[0]


@AWAY
def test_a_session_that_is_younger_than_the_last_look_is_whole(
    world: World, go: Callable[[Path], None]
) -> None:
    world.begin()
    world.say("all of it")
    go(world.path)
    world.finish()

    replay = world.found()
    assert replay is not None
    assert (world.text(), replay.session.complete) == ("all of it", True)


def test_a_session_that_begins_when_the_file_is_gone_is_whole(world: World) -> None:
    world.begin(S2)
    world.say("before", S2)
    world.clock.advance(LOOK)
    world.recorder.retry()
    remove(world.path)
    world.clock.advance(LOOK)
    world.begin()
    world.say("after")
    world.finish()

    replay = world.found()
    assert replay is not None
    assert (world.text(), replay.session.complete) == ("after", True)
    assert world.found(S2) is None  # it went with the file, and has nothing to say


def test_a_loaded_session_is_not_whole_in_the_new_file(world: World) -> None:
    world.begin()
    world.say("the history")
    world.begin(complete=False)  # how a load of it begins
    world.clock.advance(LOOK)
    world.recorder.retry()
    world.begin(complete=False)
    remove(world.path)
    world.say(" goes on")
    world.finish()

    replay = world.found()
    assert replay is not None
    assert (world.text(), replay.session.complete) == (" goes on", False)


@pytest.mark.parametrize("moment", range(1, STEPS))
def test_a_copy_that_takes_the_file_s_place_gets_nothing_twice(world: World, moment: int) -> None:
    said = conversation(
        world,
        lambda number: put_in_place(copy(world.path), world.path) if number == moment else None,
    )
    world.finish()

    assert world.text() == said
    replay = world.found()
    assert replay is not None
    kinds = [entry.kind for entry in replay.entries if entry.kind != "update"]
    assert kinds == ["prompt", "outcome", "prompt"]
    assert [run.run_id for run in replay.runs] == ["r", "q"]


@pytest.mark.parametrize("moment", range(2, STEPS))
def test_an_older_copy_that_takes_the_file_s_place_gets_what_was_said_last_and_a_mark(
    world: World, moment: int
) -> None:
    copies: list[Path] = []

    def before(number: int) -> None:
        if number == 1:
            copies.append(copy(world.path))
        if number == moment:
            put_in_place(copies[0], world.path)

    said = conversation(world, before)
    world.finish()

    found = world.text()
    assert found.startswith("0 ")
    assert said.endswith(found.removeprefix("0 "))
    replay = world.found()
    assert replay is not None
    assert replay.session.complete is False or found == said


def test_an_idle_bridge_notices_soon_and_keeps_nothing_longer(world: World) -> None:
    world.begin()
    world.say("one")
    patience = [world.recorder.patience]
    world.clock.advance(LOOK)
    world.recorder.retry()
    patience.append(world.recorder.patience)
    assert patience == [LOOK, None]
    remove(world.path)
    world.finish()
    assert not world.path.exists()  # whoever removed it did so when all was in it


def test_a_session_that_was_deleted_is_not_written_again(world: World) -> None:
    world.begin()
    world.say("one")
    world.put("deleted", {})
    remove(world.path)
    world.finish()
    assert world.found() is None


def test_much_is_looked_after_at_once(world: World) -> None:
    world.begin()
    for _ in range(2 * MAX_UNCONFIRMED // 100):
        world.say("x", run=None)
    assert world.recorder._unconfirmed_weight <= MAX_UNCONFIRMED
    world.finish()


def test_a_file_that_cannot_be_begun_anew_is_told_of(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.begin()
    world.say("one")
    remove_all(world.path)
    world.path.parent.write_text("a file where the directory was")
    world.finish()
    told = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert told[-1] == "this conversation is not kept"
