"""What every ledger promises: what becomes of the old when there is too much."""

from __future__ import annotations

import base64
import hashlib

import pytest

from ledger import (
    LEASE_MS,
    EntryTooLarge,
    EventLedger,
    Limits,
    NewEntry,
    Page,
    Run,
    RunClosed,
    RunOpened,
    RunState,
    SessionClosed,
)
from tests.contract.conftest import MakeLedger
from tests.support.ledgers import chunk, entry, record, replay, session, text_of, texts

LATER = 10 * LEASE_MS


def archived(ledger: EventLedger) -> list[str]:
    found = ledger.list_sessions(Page(limit=1000))
    return sorted(record.session_id for record in found if record.archived)


def ids(ledger: EventLedger) -> list[str]:
    return sorted(record.session_id for record in ledger.list_sessions(Page(limit=1000)))


def fill(ledger: EventLedger, name: str, at: int, count: int = 3, size: int = 1) -> None:
    many = [entry(noise(f"{name}{number}", size), name, at) for number in range(count)]
    ledger.write([session(name, at), *many])


def noise(seed: str, length: int) -> str:
    """Text that hardly can be compressed."""
    return hashlib.shake_256(seed.encode()).hexdigest(length // 2 + 1)[:length]


def test_past_the_number_of_sessions_the_oldest_is_archived_and_loads_as_before(
    make_ledger: MakeLedger,
) -> None:
    ledger = make_ledger(Limits(max_sessions=3))
    for number in range(3):
        fill(ledger, f"s{number}", 1000 + number)
    ledger.write([RunOpened("r", "s0", 1000), RunClosed("r", 1000, RunState.FINISHED)])
    before = replay(ledger, "s0")
    assert archived(ledger) == []
    fill(ledger, "s3", LATER)
    assert archived(ledger) == ["s0"]
    after = replay(ledger, "s0")
    assert (after.entries, after.runs) == (before.entries, before.runs)
    assert after.session.complete
    assert after.session.entries == 3
    stats = ledger.stats()
    assert (stats.sessions, stats.archived, stats.entries) == (3, 1, 12)
    assert stats.archived_bytes > 0


def test_past_the_bytes_the_oldest_are_archived(make_ledger: MakeLedger) -> None:
    ledger = make_ledger(Limits(max_bytes=100_000))
    for number in range(5):
        fill(ledger, f"s{number}", 1000 + number, size=9000)
    assert archived(ledger) == []  # all of them are live
    fill(ledger, "s5", LATER)
    assert archived(ledger) == ["s0", "s1"]
    assert ledger.stats().bytes <= 100_000
    assert all(len(texts(ledger, name)) == 3 for name in ids(ledger))


def test_the_limit_is_noticed_by_appending_alone(make_ledger: MakeLedger) -> None:
    ledger = make_ledger(Limits(max_bytes=100_000))
    for number in range(3):
        fill(ledger, f"s{number}", 1000 + number, size=5000)
    fill(ledger, "s3", LATER)
    assert archived(ledger) == []
    for number in range(100):
        ledger.write([entry("x" * 1000, "s3", LATER + number)])
        assert ledger.stats().bytes <= 102_000 or archived(ledger) == ["s0", "s1", "s2"]
    assert archived(ledger) == ["s0", "s1", "s2"]
    assert len(texts(ledger, "s3")) == 103


@pytest.mark.requirement("C069")
def test_a_live_session_is_never_archived(make_ledger: MakeLedger) -> None:
    ledger = make_ledger(Limits(max_sessions=1, max_bytes=10_000))
    fill(ledger, "s0", 1000, size=20)
    fill(ledger, "s1", 2000, size=20)
    ledger.write([session("s0", LATER)])  # opened again, though nothing was written to it
    fill(ledger, "s2", LATER, size=8000)
    assert archived(ledger) == ["s1"]
    ledger.write([SessionClosed("s0")])
    fill(ledger, "s3", LATER + 1)
    assert archived(ledger) == ["s0", "s1"]
    assert len(texts(ledger, "s2")) == 3


def test_an_archived_session_goes_on_where_it_was(make_ledger: MakeLedger) -> None:
    ledger = make_ledger(Limits(max_sessions=1))
    ledger.write([session("s0"), entry("one", "s0", entry_key="k"), RunOpened("r1", "s0", 2000)])
    before = ledger.stats().bytes
    fill(ledger, "s1", LATER)
    assert archived(ledger) == ["s0"]
    ledger.write([session("s0", LATER)])
    assert archived(ledger) == ["s0"]  # looking at it changes nothing
    ledger.write([SessionClosed("s1"), SessionClosed("s0")])
    ledger.write(
        [
            entry("again", "s0", LATER, entry_key="k"),
            chunk("two", session_id="s0"),
            chunk("three", session_id="s0"),
        ]
    )
    assert not record(ledger, "s0").archived
    assert texts(ledger, "s0") == ["one", "two", "three"]
    ledger.write([RunClosed("r1", LATER, RunState.FINISHED)])
    assert texts(ledger, "s0") == ["one", "twothree"]
    assert replay(ledger, "s0").runs[0].state is RunState.FINISHED
    assert before < ledger.stats().bytes


def test_the_run_of_an_archived_session_can_be_closed(make_ledger: MakeLedger) -> None:
    ledger = make_ledger(Limits(max_sessions=1))
    ledger.write([session("s0"), RunOpened("r1", "s0", 2000), entry("one", "s0")])
    fill(ledger, "s1", LATER)
    assert archived(ledger) == ["s0"]
    ledger.write([RunClosed("r1", LATER, RunState.UNKNOWN)])
    assert replay(ledger, "s0").runs == (Run("r1", "s0", RunState.UNKNOWN, 2000, LATER),)
    assert texts(ledger, "s0") == ["one"]


def test_only_archives_that_are_too_much_by_themselves_are_lost_oldest_first(
    make_ledger: MakeLedger,
) -> None:
    ledger = make_ledger(Limits(max_sessions=1, max_bytes=20_000))
    for number in range(12):
        fill(ledger, f"s{number:02}", LATER * (number + 1), size=2000)
    left = ids(ledger)
    assert left == [f"s{number:02}" for number in range(12)][-len(left) :]
    assert 2 < len(left) < 12
    assert ledger.stats().archived == len(left) - 1
    assert ledger.stats().archived_bytes <= 20_000
    assert all(len(texts(ledger, name)) == 3 for name in left)


@pytest.mark.requirement("C069")
def test_past_its_events_a_session_loses_its_head_and_says_so(make_ledger: MakeLedger) -> None:
    ledger = make_ledger(Limits(max_events_per_session=50))
    ledger.write([session()])
    for number in range(200):
        ledger.write([entry(str(number), at=2000 + number)])
        now = record(ledger)
        assert now.entries <= 50
        assert now.complete == (number < 50)
        left = texts(ledger)
        assert left == [str(n) for n in range(number + 1)][now.trimmed :]
    assert record(ledger).trimmed > 140


def test_a_head_goes_in_blocks(make_ledger: MakeLedger) -> None:
    ledger = make_ledger(Limits(max_events_per_session=160))
    ledger.write([session(), *(entry(str(number)) for number in range(160))])
    trimmed = {record(ledger).trimmed}
    for number in range(10):
        ledger.write([entry(str(number))])
        trimmed.add(record(ledger).trimmed)
    assert trimmed == {0, 11}


@pytest.mark.requirement("C069")
def test_nothing_goes_while_a_run_is_open(make_ledger: MakeLedger) -> None:
    ledger = make_ledger(Limits(max_events_per_session=50))
    ledger.write([session(), RunOpened("r1", "s1", 2000)])
    ledger.write([entry(str(number), run_id="r1") for number in range(100)])
    assert len(texts(ledger)) == 100
    assert record(ledger).complete
    ledger.write([RunClosed("r1", 3000, RunState.FINISHED)])
    assert len(texts(ledger)) <= 50
    assert texts(ledger)[-1] == "99"
    assert not record(ledger).complete


def test_runs_without_entries_go_with_them(make_ledger: MakeLedger) -> None:
    ledger = make_ledger(Limits(max_events_per_session=10))
    ledger.write([session()])
    for number in range(20):
        at = 2000 + number
        ledger.write(
            [
                RunOpened(f"r{number}", "s1", at),
                entry(str(number), at=at, run_id=f"r{number}"),
                RunClosed(f"r{number}", at, RunState.FINISHED),
            ]
        )
    found = replay(ledger)
    assert [run.run_id for run in found.runs] == [stored.run_id for stored in found.entries]


def test_a_trimmed_session_is_merged_and_archived_like_another(make_ledger: MakeLedger) -> None:
    ledger = make_ledger(Limits(max_events_per_session=20, max_sessions=1))
    ledger.write([session(), *(entry(str(number)) for number in range(30))])
    trimmed = record(ledger).trimmed
    ledger.write([RunOpened("r1", "s1", 2000), chunk("a"), chunk("b")])
    ledger.write([RunClosed("r1", 2000, RunState.FINISHED)])
    assert texts(ledger)[-2:] == ["29", "ab"]
    expected = texts(ledger)
    fill(ledger, "s2", LATER)
    assert record(ledger).archived
    assert (texts(ledger), record(ledger).trimmed) == (expected, trimmed)
    ledger.write([entry("more", at=LATER)])
    assert texts(ledger) == [*expected, "more"][record(ledger).trimmed - trimmed :]


def test_an_entry_that_is_larger_than_the_ledger_is_refused_and_nothing_else(
    make_ledger: MakeLedger,
) -> None:
    ledger = make_ledger(Limits(max_bytes=10_000))
    ledger.write([session(), entry("one")])
    with pytest.raises(EntryTooLarge):
        ledger.write([entry("two"), entry("x" * 10_001)])
    ledger.write([entry("x" * 9_000)])
    assert len(texts(ledger)) == 2


def test_the_count_of_bytes_is_right_whatever_was_done(make_ledger: MakeLedger) -> None:
    image = base64.b64encode(noise("image", 9000).encode()).decode()
    picture = {"content": {"type": "image", "data": image, "text": "picture"}}
    limits = Limits(max_events_per_session=40)
    ledger = make_ledger(limits)
    ledger.write([session(), RunOpened("r1", "s1", 2000), *(chunk(str(n)) for n in range(30))])
    ledger.write([NewEntry("s1", "update", picture, 2000), RunClosed("r1", 2, RunState.FINISHED)])
    ledger.write([entry(str(number)) for number in range(60)])
    stored = [text_of(stored) for stored in replay(ledger).entries]

    fresh = make_ledger(limits)
    fresh.write([session(), *(entry(text) for text in stored)])
    assert ledger.stats().bytes == fresh.stats().bytes
