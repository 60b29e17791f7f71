"""What the ledger costs: figures on standard output, and a failure if a budget is missed.

    python scripts/bench_ledger.py [URL]

Without a URL a new SQLite file is used. A server's database must be prepared and is left with the
sessions of the run deleted.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ledger import (
    DeleteSession,
    Entry,
    EventLedger,
    Limits,
    NewEntry,
    NewSession,
    RunClosed,
    RunOpened,
    RunState,
    open_ledger,
)

HISTORIES = (100, 5_000, 50_000)
MOST_GROWTH = 2.0
"""How much dearer an entry may be at the longest history than at the shortest."""
LEAST_LOADED = 50_000
"""Entries a second that a load must bring."""
ROUNDS = 400
LIMITS = Limits(max_events_per_session=10**9, max_bytes=10**12)


def update(session_id: str, number: int) -> NewEntry:
    """An update as an agent sends many: half of them text, half of them about tools."""
    if number % 2:
        text = f"word {number} of a long answer that streams in"
        payload: dict[str, Any] = {
            "sessionUpdate": "agent_message_chunk",
            "messageId": f"m{number // 50}",
            "content": {"type": "text", "text": text},
        }
    else:
        payload = {
            "sessionUpdate": "tool_call_update",
            "toolCallId": f"call-{number // 4}",
            "status": "in_progress",
            "content": [{"type": "content", "content": {"type": "text", "text": "x" * 120}}],
        }
    return NewEntry(session_id, "update", payload, 1_000_000 + number, f"run-{session_id}", 1)


def fill(ledger: EventLedger, count: int) -> str:
    """A new session with ``count`` entries."""
    session_id = str(uuid.uuid4())
    ledger.write([NewSession(session_id, session_id, "/w", 1_000_000)])
    ledger.write([RunOpened(f"run-{session_id}", session_id, 1_000_000)])
    for start in range(0, count, 1000):
        numbers = range(start, min(start + 1000, count))
        ledger.write([update(session_id, number) for number in numbers])
    return session_id


def seconds(work: Callable[..., object], *arguments: object) -> float:
    """How long ``work`` takes."""
    begun = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - begun


def stored(ledger: EventLedger, session_id: str) -> tuple[Entry, ...]:
    """The session's entries, whose numbers must have no gap."""
    replay = ledger.read(session_id)
    entries = replay.entries if replay else ()
    if [entry.seq for entry in entries] != list(range(1, len(entries) + 1)):
        sys.exit("The ledger is wrong: there is a gap.")
    return entries


def expect(entries: tuple[Entry, ...], count: int) -> None:
    """Stop if it is not ``count`` of them, or the last one is another than was written."""
    if len(entries) != count or entries[-1].payload != update("", count - 1).payload:
        sys.exit(f"The ledger is wrong: {len(entries)} entries instead of {count}.")


def bench_appending(ledger: EventLedger) -> float:
    """The price of one entry by length of history; returns the growth from first to last."""
    sessions = {count: fill(ledger, count) for count in HISTORIES}
    took: dict[int, list[float]] = {count: [] for count in HISTORIES}
    for turn in range(ROUNDS):  # in turns, so that a busy machine slows all alike
        for count, session_id in sessions.items():
            entry = update(session_id, count + turn)
            took[count].append(seconds(ledger.write, [entry]))
    for count, times in took.items():
        fast, middle, slow = (sorted(times)[int(len(times) * share)] for share in (0.1, 0.5, 0.99))
        print(
            f"append at {count:>6} entries: median {middle * 1e3:.3f} ms, "
            f"10 % {fast * 1e3:.3f}, 99 % {slow * 1e3:.3f}"
        )
    for count, session_id in sessions.items():
        expect(stored(ledger, session_id), count + ROUNDS)
    ledger.write([DeleteSession(session_id) for session_id in sessions.values()])
    return statistics.median(took[HISTORIES[-1]]) / statistics.median(took[HISTORIES[0]])


def bench_groups(ledger: EventLedger) -> None:
    """Entries a second by size of transaction."""
    for size in (1, 10, 100, 1000):
        session_id = fill(ledger, 0)
        count = max(1000, 10 * size)
        entries = [update(session_id, number) for number in range(count)]
        groups = [entries[start : start + size] for start in range(0, count, size)]
        took = sum(seconds(ledger.write, group) for group in groups)
        expect(stored(ledger, session_id), count)
        print(f"groups of {size:>4}: {count / took:>8.0f} entries/s")
        ledger.write([DeleteSession(session_id)])


def bench_closing(ledger: EventLedger) -> None:
    """The end of a run: merging its chunks."""
    for count in (100, 5_000):
        session_id = fill(ledger, count)
        closed = RunClosed(f"run-{session_id}", 2_000_000, RunState.FINISHED)
        took = seconds(ledger.write, [closed])
        print(f"closing a run of {count:>5} entries: {took * 1e3:.1f} ms")
        ledger.write([DeleteSession(session_id)])


def bench_loading(ledger: EventLedger) -> float:
    """Entries a second of a load of 5,000; the best of several."""
    count = 5_000
    session_id = fill(ledger, count)
    best = min(seconds(ledger.read, session_id) for _ in range(5))
    expect(stored(ledger, session_id), count)
    print(f"load of {count} entries: {best * 1e3:.1f} ms, {count / best:.0f} entries/s")
    ledger.write([DeleteSession(session_id)])
    return count / best


def main() -> int:
    """Run all; 1 if a budget is missed."""
    with tempfile.TemporaryDirectory() as home:
        url = sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{Path(home, 'ledger.db')}"
        ledger = open_ledger(url, limits=LIMITS)
        growth = bench_appending(ledger)
        bench_groups(ledger)
        bench_closing(ledger)
        loaded = bench_loading(ledger)
        ledger.close()
    print(f"growth from {HISTORIES[0]} to {HISTORIES[-1]} entries: {growth:.2f} times")
    is_kept = growth <= MOST_GROWTH and (len(sys.argv) > 1 or loaded >= LEAST_LOADED)
    print("All budgets are kept." if is_kept else "A budget is MISSED.")
    return int(not is_kept)


if __name__ == "__main__":
    sys.exit(main())
