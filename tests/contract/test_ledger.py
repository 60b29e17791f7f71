"""What every ledger promises, whatever it is made of."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from ledger import EventLedger, LedgerError, NewEntry, NewSession, SessionRecord
from ledger.memory import MemoryLedger

IMPLEMENTATIONS: dict[str, Callable[[], EventLedger]] = {"memory": MemoryLedger}


@pytest.fixture(params=IMPLEMENTATIONS)
def ledger(request: pytest.FixtureRequest) -> Iterator[EventLedger]:
    ledger = IMPLEMENTATIONS[request.param]()
    yield ledger
    ledger.close()


def session(session_id: str = "s1", at: int = 1000) -> NewSession:
    return NewSession(session_id, f"agent:{session_id}", "/work", at)


def entry(text: str, session_id: str = "s1", at: int = 2000) -> NewEntry:
    return NewEntry(session_id, "update", {"text": text}, at, run_id="r1", generation=3)


def texts(ledger: EventLedger, session_id: str = "s1") -> list[str]:
    replay = ledger.read(session_id)
    assert replay is not None
    return [entry.payload["text"] for entry in replay.entries]


def is_complete(ledger: EventLedger, session_id: str = "s1") -> bool:
    replay = ledger.read(session_id)
    assert replay is not None
    return replay.session.complete


def test_a_new_session_is_complete_and_empty(ledger: EventLedger) -> None:
    record = ledger.open_session(session())
    assert record == SessionRecord("s1", "agent:s1", "/work", None, True, 1000, 1000)
    replay = ledger.read("s1")
    assert replay is not None
    assert (replay.session, replay.entries) == (record, ())


def test_opening_again_returns_what_is_stored_unchanged(ledger: EventLedger) -> None:
    first = ledger.open_session(session())
    ledger.append([entry("one", at=1000)])
    assert ledger.open_session(NewSession("s1", "other", "/other", 9000)) == first
    assert texts(ledger) == ["one"]


def test_entries_come_back_as_given_and_numbered_from_one(ledger: EventLedger) -> None:
    ledger.open_session(session())
    stored = ledger.append([entry("one"), entry("two")])
    stored = [*stored, *ledger.append([entry("three")])]
    replay = ledger.read("s1")
    assert replay is not None
    assert list(replay.entries) == stored
    assert [(e.seq, e.payload["text"]) for e in stored] == [(1, "one"), (2, "two"), (3, "three")]
    assert {(e.session_id, e.kind, e.at, e.run_id, e.generation) for e in stored} == {
        ("s1", "update", 2000, "r1", 3)
    }


def test_each_session_has_numbers_of_its_own(ledger: EventLedger) -> None:
    ledger.open_session(session("s1"))
    ledger.open_session(session("s2"))
    stored = ledger.append([entry("a", "s1"), entry("b", "s2"), entry("c", "s1")])
    assert [(e.session_id, e.seq) for e in stored] == [("s1", 1), ("s2", 1), ("s1", 2)]
    assert texts(ledger, "s1") == ["a", "c"]
    assert texts(ledger, "s2") == ["b"]


def test_an_entry_makes_its_session_younger(ledger: EventLedger) -> None:
    ledger.open_session(session(at=1000))
    ledger.append([entry("one", at=5000)])
    replay = ledger.read("s1")
    assert replay is not None
    assert (replay.session.created_at, replay.session.updated_at) == (1000, 5000)


def test_nothing_is_appended_when_one_entry_cannot_be(ledger: EventLedger) -> None:
    ledger.open_session(session())
    with pytest.raises(LedgerError):
        ledger.append([entry("one"), entry("two", "unknown"), entry("three")])
    assert texts(ledger) == []
    assert ledger.append([entry("four")])[0].seq == 1


def test_appending_nothing_is_allowed(ledger: EventLedger) -> None:
    assert list(ledger.append([])) == []


def test_an_incomplete_session_stays_so(ledger: EventLedger) -> None:
    ledger.open_session(session())
    ledger.mark_incomplete("s1")
    ledger.append([entry("one")])
    assert not is_complete(ledger)
    assert not ledger.open_session(session()).complete
    assert texts(ledger) == ["one"]


def test_unknown_sessions_are_no_error_where_nothing_is_written(ledger: EventLedger) -> None:
    ledger.mark_incomplete("unknown")
    ledger.delete_session("unknown")
    assert ledger.read("unknown") is None


def test_a_deleted_session_is_gone_and_may_begin_anew(ledger: EventLedger) -> None:
    ledger.open_session(session())
    ledger.append([entry("one")])
    ledger.delete_session("s1")
    assert ledger.read("s1") is None
    with pytest.raises(LedgerError):
        ledger.append([entry("two")])
    ledger.open_session(session())
    assert ledger.append([entry("three")])[0].seq == 1


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"text": "é 日本 \u2028 \U0001f600 \0"},
        {"deep": [[[{"n": None, "f": 1.5, "i": 2**53}]]]},
    ],
    ids=["empty", "any text", "nested"],
)
def test_payloads_come_back_equal(ledger: EventLedger, payload: dict[str, object]) -> None:
    ledger.open_session(session())
    ledger.append([NewEntry("s1", "update", payload, 2000)])
    replay = ledger.read("s1")
    assert replay is not None
    [stored] = replay.entries
    assert stored.payload == payload
    assert (stored.run_id, stored.generation) == (None, None)


def test_sessions_of_several_threads_do_not_mix(ledger: EventLedger) -> None:
    names = [f"s{number}" for number in range(4)]

    def work(name: str) -> None:
        ledger.open_session(session(name))
        for number in range(200):
            ledger.append([entry(str(number), name)])

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    for name in names:
        assert texts(ledger, name) == [str(number) for number in range(200)]


def test_a_closed_ledger_refuses_everything_but_closing(ledger: EventLedger) -> None:
    ledger.open_session(session())
    ledger.close()
    ledger.close()
    for call in (
        lambda: ledger.open_session(session("s2")),
        lambda: ledger.append([entry("one")]),
        lambda: ledger.mark_incomplete("s1"),
        lambda: ledger.read("s1"),
        lambda: ledger.delete_session("s1"),
    ):
        with pytest.raises(LedgerError):
            call()
