"""A process that writes to a ledger while others do; run by tests of several processes.

    python -m tests.support.ledger_worker URL NAME ENTRIES

It waits for a line on its input, writes to a session of its own and to one that all share, and
says ``done``. After each transaction it says how many entries of its own have been written.
Whatever goes wrong is on its standard error.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ledger import EventLedger, NewEntry, NewSession, RunClosed, RunOpened, RunState, open_ledger
from tests.support import next_version
from tests.support.waits import scaled

ROOT = Path(__file__).resolve().parent.parent.parent
SHARED = "shared"
OWNER = "me"
_SHARED_EVERY = 10
"""Each such entry goes to the shared session as well."""
_BATCHES = (1, 1, 1, 2, 5, 13, 32)


def shared_count(count: int) -> int:
    """How many entries of the shared session come from one worker."""
    return len(range(0, count, _SHARED_EVERY))


def work(ledger: EventLedger, name: str, count: int) -> None:
    """Write ``count`` entries in transactions of several sizes, and end with a run."""
    opened = [NewSession(session_id, session_id, "/w", 1000) for session_id in (name, SHARED)]
    ledger.write(opened)
    ledger.write([RunOpened(f"run-{name}", name, 1000)])
    at = 0
    turn = 0
    while at < count:
        size = min(_BATCHES[turn % len(_BATCHES)], count - at)
        batch = [_entry(name, name, number) for number in range(at, at + size)]
        shared = [n for n in range(at, at + size) if n % _SHARED_EVERY == 0]
        ledger.write([*batch, *(_entry(SHARED, name, number) for number in shared)])
        at += size
        turn += 1
        _say(at)
    ledger.write([RunClosed(f"run-{name}", 2000, RunState.FINISHED)])


def _entry(session_id: str, name: str, number: int) -> NewEntry:
    return NewEntry(session_id, "tool", {"from": name, "number": number}, 1000 + number)


def run_workers(
    url: str, names: Sequence[str], count: int, env: dict[str, str] | None = None
) -> str:
    """Run one worker for each name, all at once; all must get done. Returns what they had to say
    on their standard error."""
    workers = [start_worker(url, name, count, env) for name in names]
    try:
        assert [next_line(worker) for worker in workers] == ["ready"] * len(names)
        for worker in workers:
            tell_to_go(worker)
        said = [worker.communicate(timeout=scaled(90)) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    errors = "".join(error for _, error in said)
    assert [output.splitlines()[-1:] for output, _ in said] == [["done"]] * len(names), errors
    return errors


def start_worker(
    url: str, name: str, count: int, env: dict[str, str] | None = None
) -> subprocess.Popen[str]:
    """A worker that says ``ready`` and then waits."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.ledger_worker", url, name, str(count)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
    )


def tell_to_go(worker: subprocess.Popen[str]) -> None:
    assert worker.stdin is not None
    worker.stdin.write("go\n")
    worker.stdin.flush()


def next_line(worker: subprocess.Popen[str]) -> str:
    assert worker.stdout is not None
    return worker.stdout.readline().strip()


def _say(what: object) -> None:
    print(what, flush=True)  # noqa: T201 - the test waits for it


def main() -> None:
    url, name, count = sys.argv[1:]
    _say("ready")
    sys.stdin.readline()
    next_version.use_as_told()
    ledger = open_ledger(url, owner=OWNER)
    work(ledger, name, int(count))
    ledger.close()
    _say("done")


if __name__ == "__main__":
    main()
