"""A ledger whose server hangs holds up nobody for long, and has everything once afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from acp_bridge.bounded import BoundedLedger
from ledger import Change, LedgerBusy, LedgerUnreachable, NewEntry, NewSession, Page
from ledger.memory import MemoryLedger
from tests.support.waits import WAIT

SESSION = NewSession("s", "key", "/w", at=1)


def said(text: str, *, at: int = 2) -> NewEntry:
    offset = {"offset": at, "until": at + 1}
    return NewEntry("s", "chunk", {"content": {"type": "text", "text": text}, **offset}, at=at)


class Server(MemoryLedger):
    """One whose next write does as the test says."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0
        self.begun = threading.Event()
        self.goes_on = threading.Event()
        self.done = threading.Event()
        self.before: Callable[[], None] = lambda: None
        self.after: Callable[[], None] = lambda: None

    def write(self, changes: Sequence[Change]) -> None:
        self.writes += 1
        before, self.before = self.before, lambda: None
        after, self.after = self.after, lambda: None
        try:
            before()
            super().write(changes)
            after()
        finally:
            self.done.set()

    def hang(self) -> None:
        self.done.clear()
        self.begun.set()
        assert self.goes_on.wait(WAIT)

    def break_off(self) -> None:
        raise LedgerUnreachable


@contextmanager
def bounded(server: Server, *, patience: float = 0.01) -> Iterator[BoundedLedger]:
    server.write([SESSION])
    ledger = BoundedLedger(server, write_patience=patience, read_patience=WAIT)
    yield ledger
    server.goes_on.set()
    ledger.close()


def texts(server: Server) -> list[str]:
    replay = server.read("s")
    assert replay is not None
    return [entry.payload["content"]["text"] for entry in replay.entries]


def written(ledger: BoundedLedger, changes: Sequence[Change]) -> None:
    """Write as the recorder does: again, until it is taken."""
    pause = threading.Event()
    for _ in range(int(WAIT / 0.01)):
        try:
            ledger.write(changes)
        except LedgerBusy:
            pause.wait(0.01)
        else:
            return
    pytest.fail("never taken")


def test_who_writes_to_a_server_that_hangs_is_told_in_time_and_the_next_one_at_once() -> None:
    server = Server()
    with bounded(server) as ledger:
        server.before = server.hang
        with pytest.raises(LedgerBusy, match="does not answer in time"):
            ledger.write([said("a")])
        assert server.begun.wait(WAIT)
        with pytest.raises(LedgerBusy):
            ledger.write([said("a")])
        with pytest.raises(LedgerBusy):
            ledger.list_sessions(Page())
        assert server.writes == 2  # the session, and the write that hangs


def test_what_a_late_write_has_taken_is_not_written_again() -> None:
    server = Server()
    first, second = said("a"), said("b", at=3)
    with bounded(server) as ledger:
        server.before = server.hang
        with pytest.raises(LedgerBusy):
            ledger.write([first])
        assert server.begun.wait(WAIT)
        server.goes_on.set()
        written(ledger, [first, second])
        written(ledger, [said("c", at=4)])
        assert texts(server) == ["a", "b", "c"]


def test_what_a_late_write_could_not_take_is_written_again() -> None:
    server = Server()
    first = said("a")

    def fail() -> None:
        server.hang()
        server.break_off()

    with bounded(server) as ledger:
        server.before = fail
        with pytest.raises(LedgerBusy):
            ledger.write([first])
        assert server.begun.wait(WAIT)
        server.goes_on.set()
        written(ledger, [first])
        assert texts(server) == ["a"]


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_commit_that_was_not_confirmed_is_neither_lost_nor_doubled(is_committed: bool) -> None:
    server = Server()
    before, first, second = said("0"), said("a", at=3), said("b", at=4)
    with bounded(server, patience=WAIT) as ledger:
        ledger.write([before])
        if is_committed:
            server.after = server.break_off
        else:
            server.before = server.break_off
        with pytest.raises(LedgerUnreachable):
            ledger.write([first])
        ledger.write([first, second])
        assert texts(server) == ["0", "a", "b"]


def test_a_server_in_time_is_read_and_written_as_it_is() -> None:
    server = Server()
    with bounded(server, patience=WAIT) as ledger:
        ledger.write([said("a")])
        ledger.confirm()
        replay = ledger.read("s")
        assert replay is not None
        assert replay == server.read("s")
        assert ledger.find("s", "key") == ledger.find_by_key("key") == replay.session
        assert ledger.list_sessions(Page()) == [replay.session]
        assert ledger.stats() == server.stats()
