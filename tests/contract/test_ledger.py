"""What every ledger promises, whatever it is made of: writing and reading back."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from ledger import (
    LEASE_MS,
    Change,
    DeleteSession,
    Entry,
    EventLedger,
    Incomplete,
    LedgerClosed,
    Limits,
    NewEntry,
    Page,
    Replay,
    RunClosed,
    RunOpened,
    RunState,
    SessionClosed,
    SessionRecord,
    SessionShared,
    SessionTitle,
    Stats,
    UnknownSession,
)
from tests.support.ledgers import entry, record, replay, session, texts


def test_a_new_session_is_complete_live_and_empty(ledger: EventLedger) -> None:
    ledger.write([session(owner="me", host="here", gateway="ws://127.0.0.1:1")])
    assert replay(ledger) == Replay(
        SessionRecord(
            session_id="s1",
            session_key="agent:s1",
            cwd="/w/project",
            title=None,
            complete=True,
            created_at=1000,
            updated_at=1000,
            lease_until=1000 + LEASE_MS,
            owner="me",
            host="here",
            gateway="ws://127.0.0.1:1",
        ),
        entries=(),
        runs=(),
    )


def test_entries_alone_leave_a_session_as_they_do_beside_other_changes(
    make_ledger: Callable[[Limits], EventLedger],
) -> None:
    new = [entry("one", at=3000, run_id="r"), entry("zw\u00f6lf", at=2500, generation=2)]
    alone, beside = make_ledger(Limits()), make_ledger(Limits())
    for ledger in (alone, beside):
        ledger.write([session(), RunOpened("r", "s1", 1000), entry("zero", at=1500)])
    alone.write(new)
    beside.write([*new, SessionShared("s1", shared=False)])
    assert replay(alone) == replay(beside)
    assert alone.stats() == beside.stats()
    assert record(alone).updated_at == 3000
    alone.write([entry("late", at=2000)])
    assert record(alone).updated_at == 3000
    assert texts(alone) == ["zero", "one", "zw\u00f6lf", "late"]


@pytest.mark.parametrize("complete", [True, False])
def test_opening_again_keeps_the_history_and_whether_it_is_whole(
    ledger: EventLedger, complete: bool
) -> None:
    ledger.write([session(complete=complete, owner="me"), entry("one", at=1500)])
    ledger.write([SessionTitle("s1", "Title", 1600)])
    ledger.write([session(at=9000, owner="other", host="there", complete=not complete)])
    now = record(ledger)
    assert texts(ledger) == ["one"]
    assert (now.complete, now.title, now.owner, now.host) == (complete, "Title", "me", None)
    assert (now.created_at, now.updated_at) == (1000, 1600)


def test_opening_again_replaces_key_and_directory_where_given(ledger: EventLedger) -> None:
    ledger.write([session()])
    ledger.write([session(session_key="agent:canonical", cwd="")])
    assert (record(ledger).session_key, record(ledger).cwd) == ("agent:canonical", "/w/project")
    ledger.write([session(session_key="", cwd="/w/moved")])
    assert (record(ledger).session_key, record(ledger).cwd) == ("agent:canonical", "/w/moved")


def test_entries_come_back_as_given_and_numbered_from_one(ledger: EventLedger) -> None:
    ledger.write([session(), entry("one"), entry("two", run_id="r1", generation=3)])
    ledger.write([NewEntry("s1", "outcome", {"k": []}, 4000, entry_key="key")])
    assert replay(ledger).entries == (
        Entry("s1", 1, "update", {"text": "one"}, 2000),
        Entry("s1", 2, "update", {"text": "two"}, 2000, "r1", 3),
        Entry("s1", 3, "outcome", {"k": []}, 4000, entry_key="key"),
    )


def test_each_session_has_numbers_of_its_own(ledger: EventLedger) -> None:
    ledger.write([session("s1"), session("s2")])
    ledger.write([entry("a", "s1"), entry("b", "s2"), entry("c", "s1")])
    assert texts(ledger, "s1") == ["a", "c"]
    assert texts(ledger, "s2") == ["b"]


def test_an_entry_makes_its_session_younger_and_never_older(ledger: EventLedger) -> None:
    ledger.write([session(at=1000)])
    ledger.write([entry("one", at=5000)])
    ledger.write([entry("two", at=3000)])
    now = record(ledger)
    assert (now.created_at, now.updated_at) == (1000, 5000)
    assert now.lease_until == 5000 + LEASE_MS


def test_a_second_entry_with_the_same_key_is_ignored(ledger: EventLedger) -> None:
    ledger.write([session("s1"), session("s2")])
    ledger.write([entry("one", entry_key="k"), entry("again", entry_key="k"), entry("two")])
    ledger.write([entry("once more", entry_key="k"), entry("three", entry_key="other")])
    ledger.write([entry("elsewhere", "s2", entry_key="k")])
    assert texts(ledger) == ["one", "two", "three"]
    assert texts(ledger, "s2") == ["elsewhere"]


@pytest.mark.parametrize(
    "change",
    [
        entry("x", "unknown"),
        RunOpened("r1", "unknown", 1),
        SessionTitle("unknown", "T", 1),
        SessionShared("unknown"),
    ],
    ids=lambda change: type(change).__name__,
)
def test_nothing_is_written_when_one_change_cannot_be_made(
    ledger: EventLedger, change: Change
) -> None:
    ledger.write([session(), entry("one")])
    before = replay(ledger)
    with pytest.raises(UnknownSession, match="unknown"):
        ledger.write(
            [session("s2"), entry("two"), SessionTitle("s1", "T", 1), change, Incomplete("s1")]
        )
    assert replay(ledger) == before
    assert ledger.read("s2") is None
    ledger.write([entry("three")])
    assert texts(ledger) == ["one", "three"]


def test_writing_nothing_is_allowed(ledger: EventLedger) -> None:
    ledger.write([])


def test_unknown_sessions_are_no_error_where_nothing_could_be_lost(ledger: EventLedger) -> None:
    ledger.write([Incomplete("unknown"), SessionClosed("unknown"), DeleteSession("unknown")])
    ledger.write([RunClosed("unknown", 1, RunState.FINISHED)])
    assert ledger.read("unknown") is None


def test_an_incomplete_session_stays_so(ledger: EventLedger) -> None:
    ledger.write([session(), Incomplete("s1"), entry("one")])
    ledger.write([session(complete=True)])
    assert not record(ledger).complete
    assert texts(ledger) == ["one"]


def test_a_title_may_change(ledger: EventLedger) -> None:
    ledger.write([session(), SessionTitle("s1", "First", 2000)])
    assert (record(ledger).title, record(ledger).updated_at) == ("First", 2000)
    ledger.write([SessionTitle("s1", "日本 \0 \ud800", 3000)])
    title = record(ledger).title
    assert title is not None
    assert title.startswith("日本 ")


def test_a_session_is_live_until_its_lease_ends_or_it_is_closed(ledger: EventLedger) -> None:
    ledger.write([session(at=1000)])
    ledger.write([entry("one", at=5000)])
    assert record(ledger).is_live(5000 + LEASE_MS - 1)
    assert not record(ledger).is_live(5000 + LEASE_MS)
    ledger.write([SessionClosed("s1")])
    assert not record(ledger).is_live(5001)
    ledger.write([session(at=6000)])
    assert record(ledger).is_live(6001)


def test_sharing_a_session_can_be_taken_back(ledger: EventLedger) -> None:
    ledger.write([session(), SessionShared("s1")])
    assert record(ledger).shared
    ledger.write([SessionShared("s1", shared=False)])
    assert not record(ledger).shared


def test_a_deleted_session_is_gone_and_may_begin_anew(ledger: EventLedger) -> None:
    ledger.write([session(), RunOpened("r1", "s1", 1), entry("one", entry_key="k", run_id="r1")])
    ledger.write([DeleteSession("s1")])
    assert ledger.read("s1") is None
    with pytest.raises(UnknownSession):
        ledger.write([entry("two")])
    ledger.write([session(), entry("three", entry_key="k")])
    assert texts(ledger) == ["three"]
    assert replay(ledger).runs == ()


def test_a_session_may_be_deleted_and_opened_in_one_go(ledger: EventLedger) -> None:
    ledger.write([session(), entry("one")])
    ledger.write([entry("two"), DeleteSession("s1"), session(at=7000), entry("three", at=7000)])
    assert texts(ledger) == ["three"]
    assert record(ledger).created_at == 7000


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"text": "é 日本 \u2028 \U0001f600 \0"},
        {"deep": [[[{"n": None, "f": 1.5, "i": 2**53, "t": True}]]]},
        {"big": 2**63, "bigger": -(10**40), "text": "\0"},
    ],
    ids=["empty", "any text", "nested", "big numbers"],
)
def test_payloads_come_back_equal(ledger: EventLedger, payload: dict[str, object]) -> None:
    ledger.write([session(), NewEntry("s1", "update", payload, 2000)])
    [stored] = replay(ledger).entries
    assert stored.payload == payload


@pytest.mark.parametrize(
    "name",
    ["", "x" * 10_000, "'; DROP TABLE sessions; --", "%", "\0", "\ud800", "日本"],
    ids=["empty", "long", "sql", "percent", "nul", "half a pair", "unicode"],
)
@pytest.mark.requirement("C060")
def test_any_name_can_be_asked_for(ledger: EventLedger, name: str) -> None:
    ledger.write([session(), entry("one")])
    assert ledger.read(name) is None
    assert ledger.find(name, name) is None
    assert ledger.find_by_key(name) is None
    assert ledger.list_sessions(Page(cwd=name)) == []
    ledger.write([DeleteSession(name), Incomplete(name)])
    assert texts(ledger) == ["one"]


def test_sessions_of_several_threads_do_not_mix(ledger: EventLedger) -> None:
    names = [f"s{number}" for number in range(4)]

    def work(name: str) -> None:
        ledger.write([session(name)])
        for number in range(100):
            ledger.write([entry(str(number), name)])

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    for name in names:
        assert texts(ledger, name) == [str(number) for number in range(100)]


def test_stats_count_sessions_and_entries(ledger: EventLedger) -> None:
    ledger.write([session("s1"), session("s2"), entry("one"), entry("two")])
    stats = ledger.stats()
    assert (stats.sessions, stats.archived, stats.entries) == (2, 0, 2)
    assert stats == Stats(2, 0, 2, stats.bytes, 0)


def test_a_closed_ledger_refuses_everything_but_closing(ledger: EventLedger) -> None:
    ledger.write([session()])
    ledger.close()
    ledger.close()
    calls: list[Callable[[], object]] = [
        lambda: ledger.write([entry("one")]),
        lambda: ledger.write([]),
        lambda: ledger.read("s1"),
        lambda: ledger.find("s1", "agent:s1"),
        lambda: ledger.find_by_key("agent:s1"),
        lambda: ledger.list_sessions(Page()),
        ledger.stats,
        ledger.confirm,
    ]
    for call in calls:
        with pytest.raises(LedgerClosed):
            call()
