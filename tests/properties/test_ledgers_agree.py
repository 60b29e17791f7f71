"""The ledger in memory and the one in SQLite, after the same changes, show the same."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger import (
    LEASE_MS,
    Change,
    DeleteSession,
    EventLedger,
    Incomplete,
    LedgerError,
    Limits,
    NewEntry,
    NewSession,
    Page,
    RunClosed,
    RunOpened,
    RunState,
    SessionClosed,
    SessionShared,
    SessionTitle,
    open_ledger,
    schema,
)
from ledger.memory import MemoryLedger

SESSIONS = ["a", "b", "c", "d"]
LIMITS = Limits(max_sessions=2, max_events_per_session=12)

sessions = st.sampled_from(SESSIONS)
runs = st.sampled_from(["r1", "r2", "r3"])
times = st.integers(0, 20).map(lambda step: step * LEASE_MS // 2)


def chunk(text: str, message: str) -> dict[str, Any]:
    content = {"type": "text", "text": text}
    return {"sessionUpdate": "agent_message_chunk", "content": content, "messageId": message}


entries = st.builds(
    NewEntry,
    session_id=sessions,
    kind=st.sampled_from(["update", "update", "update", "other"]),
    payload=st.builds(chunk, st.text(max_size=3), st.sampled_from("mn")) | st.just({"x": 1}),
    at=times,
    run_id=runs | st.none(),
    generation=st.none() | st.integers(0, 3),
    entry_key=st.none() | st.none() | st.none() | st.sampled_from("kl"),
)
changes: st.SearchStrategy[Change] = st.one_of(
    entries,
    entries,
    entries,
    st.builds(
        NewSession,
        session_id=sessions,
        session_key=st.sampled_from(["", "k1", "k2"]),
        cwd=st.sampled_from(["", "/w"]),
        at=times,
        owner=st.sampled_from([None, ""]),
        host=st.sampled_from([None, "", "box"]),
        gateway=st.sampled_from([None, "main"]),
        complete=st.booleans(),
    ),
    st.builds(RunOpened, runs, sessions, times),
    st.builds(
        RunClosed,
        run_id=runs,
        at=times,
        state=st.sampled_from([RunState.FINISHED, RunState.UNKNOWN]),
        stop_reason=st.sampled_from([None, "end_turn"]),
        error_code=st.sampled_from([None, "link_lost"]),
    ),
    st.builds(SessionTitle, sessions, st.text(st.characters(exclude_categories=["C"])), times),
    st.builds(SessionShared, sessions, st.booleans()),
    st.builds(Incomplete, sessions),
    st.builds(SessionClosed, sessions),
    st.builds(DeleteSession, sessions),
)


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as home:
        path = Path(home, "template.db")
        schema.upgrade(f"sqlite:///{path}")
        yield path


def write(ledger: EventLedger, batch: list[Change]) -> type[LedgerError] | None:
    try:
        ledger.write(batch)
    except LedgerError as error:
        return type(error)
    return None


def in_order(batches: list[list[Change]]) -> list[list[Change]]:
    """Without runs that would begin after entries of theirs: nobody writes such a thing, and what
    becomes of those entries is not promised."""
    used: set[tuple[str, str | None]] = set()
    kept: list[list[Change]] = []
    for batch in batches:
        kept.append([])
        for change in batch:
            if isinstance(change, NewEntry):
                used.add((change.session_id, change.run_id))
            if not isinstance(change, RunOpened) or (change.session_id, change.run_id) not in used:
                kept[-1].append(change)
    return kept


def shown(ledger: EventLedger) -> list[Any]:
    found: list[Any] = [ledger.list_sessions(Page())]
    for name in SESSIONS:
        replay = ledger.read(name)
        if replay is None:
            found.append(None)
            continue
        runs_in_order = sorted(replay.runs, key=lambda run: (run.opened_at, run.run_id))
        found.append((replay.session, replay.entries, runs_in_order))
        first = replay.session.trimmed + 1
        assert [e.seq for e in replay.entries] == list(range(first, first + len(replay.entries)))
    found += [ledger.find_by_key(key) for key in ("k1", "k2")]
    stats = ledger.stats()
    return [*found, stats.sessions, stats.archived, stats.entries, stats.bytes]


@pytest.mark.timeout(300)  # a file for each example, on a machine that may be busy
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(batches=st.lists(st.lists(changes, min_size=1, max_size=12), min_size=1, max_size=12))
def test_both_ledgers_show_the_same(batches: list[list[Change]], template: Path) -> None:
    with tempfile.TemporaryDirectory() as home:
        path = Path(home, "ledger.db")
        shutil.copy(template, path)
        memory, stored = MemoryLedger(LIMITS), open_ledger(f"sqlite:///{path}", limits=LIMITS)
        try:
            memory.write([NewSession("a", "k1", "/w", 0)])
            stored.write([NewSession("a", "k1", "/w", 0)])
            for batch in in_order(batches):
                assert write(stored, batch) == write(memory, batch)
                assert shown(stored) == shown(memory)
        finally:
            stored.close()
