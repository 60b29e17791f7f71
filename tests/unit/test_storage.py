"""The bridge's ledger opens itself in the background, and whatever happens the bridge serves."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from acp_bridge.config import load
from acp_bridge.logs import register_secret
from acp_bridge.storage import RETRY, LazyLedger, ledger_of, secrets_of
from ledger import (
    Change,
    EventLedger,
    LedgerBusy,
    LedgerClosed,
    LedgerGone,
    LedgerReadOnly,
    LedgerUnreachable,
    Limits,
    NewEntry,
    NewSession,
    Page,
    Replay,
    open_ledger,
)
from ledger.memory import MemoryLedger
from tests.support.waits import WAIT

SESSION = NewSession("s", "key", "/w", at=1)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def lazy(
    opener: Callable[[], EventLedger], *, clock: Clock | None = None, patience: float = WAIT
) -> LazyLedger:
    return LazyLedger(opener, Limits(), clock=clock or Clock(), patience=patience)


def warnings(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_nothing_is_opened_before_it_is_asked_for() -> None:
    opened: list[int] = []

    def opener() -> EventLedger:
        opened.append(1)
        return MemoryLedger()

    ledger = lazy(opener)
    assert not opened

    ledger.write([SESSION])

    assert [found.session_id for found in ledger.list_sessions(Page())] == ["s"]
    assert opened == [1]


def test_the_first_call_waits_for_the_opening_that_goes_on() -> None:
    may_open = threading.Event()
    real = MemoryLedger()

    def opener() -> EventLedger:
        assert may_open.wait(WAIT)
        return real

    ledger = lazy(opener)
    ledger.warm()
    ledger.warm()
    writer = threading.Thread(target=ledger.write, args=([SESSION],))
    writer.start()
    may_open.set()
    writer.join(WAIT)

    assert real.read("s") is not None


def test_an_opening_that_takes_too_long_holds_up_nobody() -> None:
    may_open = threading.Event()

    def opener() -> EventLedger:
        assert may_open.wait(WAIT)
        return MemoryLedger()

    ledger = lazy(opener, patience=0.0)
    try:
        with pytest.raises(LedgerBusy):
            ledger.read("s")
    finally:
        may_open.set()


def test_a_ledger_that_cannot_be_used_is_told_once_and_memory_serves(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def opener() -> EventLedger:
        raise LedgerReadOnly("It cannot be written.", hint="Do this.")

    ledger = lazy(opener)
    ledger.write([SESSION])

    assert ledger.read("s") is not None
    assert ledger.find("s", "key") == ledger.find_by_key("key")
    assert ledger.stats().sessions == 1
    (record,) = warnings(caplog)
    assert vars(record)["fields"] == {"reason": "It cannot be written.", "hint": "Do this."}


def test_what_a_while_may_mend_is_tried_again_and_not_too_often() -> None:
    clock = Clock()
    tries: list[int] = []
    tried_again = threading.Event()
    real = MemoryLedger()

    def opener() -> EventLedger:
        tries.append(1)
        if len(tries) == 1:
            raise LedgerUnreachable("Nobody answers.", hint="Start it.")
        tried_again.set()
        return real

    ledger = lazy(opener, clock=clock)
    for _ in range(3):
        with pytest.raises(LedgerUnreachable) as caught:
            ledger.write([SESSION])
        assert (caught.value.message, caught.value.hint) == ("Nobody answers.", "Start it.")
    assert tries == [1]

    clock.now += RETRY
    ledger.warm()
    assert tried_again.wait(WAIT)
    for thread in threading.enumerate():
        if thread.name == "ledger":
            thread.join(WAIT)
    ledger.write([SESSION])

    assert real.read("s") is not None


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_no_registered_secret_is_kept(tmp_path: Path, kind: str) -> None:
    secret = "of-the-test-of-storage"  # noqa: S105 - known to nobody else
    register_secret(secret)
    options = [f"--ledger={kind}", f"--state-dir={tmp_path}"]
    ledger = ledger_of(load(options, {}), host="h")
    ledger.write([SESSION, NewEntry("s", "update", {"text": f"it is {secret}."}, 1)])
    replay = ledger.read("s")
    ledger.close()
    assert replay is not None
    assert [entry.payload for entry in replay.entries] == [{"text": "it is [redacted]."}]


def test_closing_closes_the_real_one() -> None:
    real = MemoryLedger()
    ledger = lazy(lambda: real)
    ledger.write([SESSION])

    ledger.close()

    for closed in (ledger, real):
        with pytest.raises(LedgerClosed):
            closed.read("s")


def test_what_is_opened_too_late_is_closed_at_once() -> None:
    may_open, is_closed = threading.Event(), threading.Event()

    class Watched(MemoryLedger):
        def close(self) -> None:
            is_closed.set()

    def opener() -> EventLedger:
        assert may_open.wait(WAIT)
        return Watched()

    ledger = lazy(opener)
    ledger.warm()
    ledger.close()
    may_open.set()

    assert is_closed.wait(WAIT)


class Vanishing(MemoryLedger):
    """Its file is gone as soon as it is told so."""

    def __init__(self) -> None:
        super().__init__()
        self.is_gone = False
        self.is_closed = False

    def write(self, changes: Sequence[Change]) -> None:
        self.confirm()
        super().write(changes)

    def read(self, session_id: str) -> Replay | None:
        self.confirm()
        return super().read(session_id)

    def confirm(self) -> None:
        if self.is_gone:
            raise LedgerGone("Gone.", hint="Leave it.")

    def close(self) -> None:
        self.is_closed = True
        super().close()


def test_a_ledger_whose_file_is_gone_is_closed_and_opened_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, made = Clock(), [Vanishing(), Vanishing()]
    waiting = iter(made)
    ledger = lazy(lambda: next(waiting), clock=clock)
    ledger.write([SESSION])
    made[0].is_gone = True
    clock.now += RETRY

    assert ledger.read("s") is None  # of the new file, at once
    with pytest.raises(LedgerGone):  # who writes is told, so that what is lost can be written again
        ledger.write([SESSION])
    ledger.write([SESSION])

    assert made[0].is_closed
    assert made[1].read("s") is not None
    (record,) = warnings(caplog)
    assert "removed or replaced" in record.getMessage()
    assert vars(record)["fields"] == {"reason": "Gone.", "hint": "Leave it."}


def test_a_file_that_goes_away_all_the_time_is_not_opened_all_the_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, opened = Clock(), list[Vanishing]()

    def opener() -> EventLedger:
        opened.append(Vanishing())
        opened[-1].is_gone = True
        return opened[-1]

    ledger = lazy(opener, clock=clock)
    for _ in range(20):
        with pytest.raises(LedgerGone) as caught:
            ledger.write([SESSION])
        assert caught.value.is_retryable
    assert len(opened) == 2
    assert len(warnings(caplog)) == 1


def test_a_file_that_goes_away_soon_after_it_was_opened_is_begun_anew_at_once() -> None:
    made = [Vanishing(), Vanishing()]
    waiting = iter(made)
    ledger = lazy(lambda: next(waiting))
    ledger.write([SESSION])
    ledger.confirm()
    made[0].is_gone = True

    with pytest.raises(LedgerGone):
        ledger.confirm()
    ledger.write([SESSION])
    ledger.confirm()

    assert made[1].read("s") is not None


def test_files_that_go_away_again_and_again_are_told_of_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, opened = Clock(), list[Vanishing]()

    def opener() -> EventLedger:
        opened.append(Vanishing())
        return opened[-1]

    ledger = lazy(opener, clock=clock)
    for _ in range(20):
        ledger.write([SESSION])
        opened[-1].is_gone = True
        clock.now += 6.0
        with pytest.raises(LedgerGone):
            ledger.confirm()
    assert len(opened) == 20
    assert len(warnings(caplog)) == 2


def test_a_ledger_that_is_not_open_confirms_nothing() -> None:
    with pytest.raises(LedgerBusy):
        lazy(MemoryLedger).confirm()


def test_a_file_that_is_removed_costs_no_session_that_is_written_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    url = f"sqlite:///{tmp_path}/ledger.db"
    ledger = lazy(lambda: open_ledger(url, clock=clock), clock=clock)
    ledger.write([SESSION])
    for file in tmp_path.iterdir():
        file.unlink()
    clock.now += RETRY

    with pytest.raises(LedgerGone):
        ledger.write([NewSession("t", "other", "/w", at=2)])
    ledger.write([NewSession("t", "other", "/w", at=2)])
    ledger.close()

    again = open_ledger(url)
    assert [found.session_id for found in again.list_sessions(Page())] == ["t"]
    again.close()
    assert len(warnings(caplog)) == 1


def test_threads_that_meet_a_file_that_is_gone_all_go_on(tmp_path: Path) -> None:
    clock = Clock()
    url = f"sqlite:///{tmp_path}/ledger.db"
    ledger = lazy(lambda: open_ledger(url, clock=clock), clock=clock)
    ledger.write([SESSION])
    errors: list[Exception] = []

    def work(number: int) -> None:
        try:
            ledger.read("s")
            with suppress(LedgerGone):  # only one of them is told
                ledger.write([NewSession(f"t{number}", "key", "/w", at=2)])
            ledger.write([NewSession(f"t{number}", "key", "/w", at=2)])
        except Exception as error:
            errors.append(error)

    for file in tmp_path.iterdir():
        file.unlink()
    clock.now += RETRY
    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)

    assert errors == []
    assert ledger.stats().sessions == 8
    ledger.close()


def test_settings_name_the_file_and_its_limits(tmp_path: Path) -> None:
    settings = load(["--state-dir", str(tmp_path), "--max-sessions", "1"], {})
    ledger = ledger_of(settings, host="here")
    ledger.write([SESSION, NewSession("t", "other", "/w", at=10**9)])
    found = {record.session_id: record for record in ledger.list_sessions(Page())}
    ledger.close()

    assert (tmp_path / "ledger.db").stat().st_mode & 0o777 == 0o600
    assert found["s"].archived
    assert found["t"].host == "here"


def test_memory_leaves_no_file(tmp_path: Path) -> None:
    ledger = ledger_of(load(["--no-ledger", "--state-dir", str(tmp_path)], {}), host="here")
    ledger.write([SESSION])
    ledger.close()

    assert list(tmp_path.iterdir()) == []


def test_making_the_ledger_imports_no_database() -> None:
    program = (
        "import sys\n"
        "from acp_bridge.config import load\n"
        "from acp_bridge.storage import ledger_of\n"
        "ledger_of(load(['--state-dir', '/nowhere'], {}), host='here')\n"
        "assert not {'sqlalchemy', 'alembic', 'sqlite3'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.parametrize(
    ("url", "secrets"),
    [
        ("sqlite:////a/b.db", []),
        ("postgresql://me@host/db", []),
        ("postgresql://me:pa55@host/db", ["pa55", "pa55"]),
        ("postgresql+psycopg://me:p%40ss@host/db?sslmode=require", ["p%40ss", "p@ss"]),
        ("postgresql://host/db?user=me&password=pa55&x", ["pa55", "pa55"]),
        ("postgresql://[broken", []),
    ],
)
def test_the_passwords_of_a_url_are_found(url: str, secrets: list[str]) -> None:
    assert secrets_of(url) == secrets
