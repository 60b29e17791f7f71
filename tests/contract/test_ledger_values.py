# mypy: disable-error-code="arg-type"
# Values of wrong types are what is tested.
"""What every ledger promises: which values it takes, and what becomes of odd ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from ledger import (
    BadLedgerUrl,
    BadValue,
    Change,
    DeleteSession,
    EventLedger,
    NewEntry,
    Page,
    RunClosed,
    RunOpened,
    RunState,
    SessionShared,
    SessionTitle,
    open_ledger,
)
from tests.support.ledgers import chunk, entry, record, replay, session, texts

HALF, WHOLE = "\ud83d", "\ud83d\ude00"


class Odd:
    def __repr__(self) -> str:
        return "Odd()"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (math.nan, None),
        (math.inf, None),
        (HALF, "\ufffd"),
        (WHOLE, "\U0001f600"),
        ("nul \0", "nul \0"),
        (2**70, 2**70),
        ((1, 2), [1, 2]),
        ({1: {HALF: 1}}, {"1": {"\ufffd": 1}}),
        ({1, 2}, None),
        (b"bytes", None),
        (Odd(), None),
        (True, True),
    ],
    ids=repr,
)
def test_what_json_cannot_say_becomes_the_same_in_each(
    ledger: EventLedger, given: Any, kept: Any
) -> None:
    ledger.write([session(), NewEntry("s1", "update", {"x": given, "y": [given]}, 1)])
    (stored,) = replay(ledger).entries
    assert stored.payload == {"x": kept, "y": [kept]}
    assert type(stored.payload["x"]) is type(kept)


def test_what_is_kept_is_what_the_payload_was(ledger: EventLedger) -> None:
    inner = {"text": "before"}
    ledger.write([session(), NewEntry("s1", "update", {"content": inner}, 1)])
    inner["text"] = "after"
    first = replay(ledger).entries[0].payload
    assert first == {"content": {"text": "before"}}
    first["content"]["text"] = "changed by a reader"
    assert replay(ledger).entries[0].payload == {"content": {"text": "before"}}


def test_merged_chunks_are_kept_as_they_were_too(ledger: EventLedger) -> None:
    parts = [chunk("a"), chunk("b")]
    ledger.write([session(), RunOpened("r1", "s1", 1), *parts])
    for part in parts:
        part.payload["content"]["text"] = "changed"
    ledger.write([RunClosed("r1", 2, RunState.FINISHED)])
    assert texts(ledger) == ["ab"]


@pytest.mark.parametrize("limit", [0, -1, -50])
def test_a_page_of_nothing_is_empty(ledger: EventLedger, limit: int) -> None:
    ledger.write([session("a"), session("b")])
    assert ledger.list_sessions(Page(limit=limit)) == []


@pytest.mark.parametrize(
    "change",
    [
        session(at=2**70),
        session(at=-(2**70)),
        session(at=1.5),
        session(at="now"),
        session(at=None),
        session(session_id=5),
        session(session_id=None),
        session(cwd=None),
        session(complete="yes"),
        entry("x", at=2**70),
        entry("x", generation=2**40),
        entry("x", entry_key=7),
        entry("x", run_id=7),
        NewEntry("s1", "update", ["no object"], 1),
        NewEntry("s1", None, {}, 1),
        RunOpened("r", "s1", 2**63),
        RunClosed("r", 2**63, RunState.FINISHED),
        RunClosed("r", 1, "finished"),
        SessionTitle("s1", "t", 2**63),
        SessionShared("s1", 1),
        DeleteSession(None),
    ],
    ids=lambda change: repr(change)[:60],
)
def test_a_value_that_no_ledger_takes_is_refused_and_nothing_is_done(
    ledger: EventLedger, change: Change
) -> None:
    ledger.write([session("s1")])
    before = ledger.list_sessions(Page())
    with pytest.raises(BadValue, match=type(change).__name__) as caught:
        ledger.write([entry("first", at=5), change])
    assert caught.value.hint is not None
    assert ledger.list_sessions(Page()) == before


@pytest.mark.parametrize("change", [None, "change", 5, {}, Odd(), Page()], ids=repr)
def test_a_change_of_another_type_is_refused(ledger: EventLedger, change: Any) -> None:
    with pytest.raises(BadValue, match=f"the type {type(change).__name__}"):
        ledger.write([session(), change])
    assert ledger.list_sessions(Page()) == []


def test_a_change_that_is_given_bare_is_refused(ledger: EventLedger) -> None:
    with pytest.raises(BadValue, match="the type str"):
        ledger.write(session())


def test_changes_may_come_one_by_one(ledger: EventLedger) -> None:
    ledger.write(change for change in [session(), entry("one")])
    assert texts(ledger) == ["one"]


@pytest.mark.parametrize(
    "ask",
    [
        lambda ledger: ledger.read(None),
        lambda ledger: ledger.read(5),
        lambda ledger: ledger.find("s1", None),
        lambda ledger: ledger.find_by_key(b"s1"),
        lambda ledger: ledger.list_sessions(Page(after=(2**70, "s"))),
        lambda ledger: ledger.list_sessions(Page(after=(1.5, "s"))),
        lambda ledger: ledger.list_sessions(Page(after=(1, None))),
        lambda ledger: ledger.list_sessions(Page(after=(1,))),
        lambda ledger: ledger.list_sessions(Page(limit=None)),
        lambda ledger: ledger.list_sessions(Page(limit=2**70)),
        lambda ledger: ledger.list_sessions(Page(cwd=5)),
    ],
)
def test_a_question_that_cannot_be_asked_is_refused(
    ledger: EventLedger, ask: Callable[[EventLedger], object]
) -> None:
    with pytest.raises(BadValue):
        ask(ledger)


def test_odd_names_are_the_same_names_in_each(ledger: EventLedger) -> None:
    odd = f"a{HALF}\0"
    ledger.write([session(odd, session_key=odd, cwd=f"/{odd}"), SessionTitle(odd, odd, 1)])
    ledger.write([entry("one", odd, entry_key=odd), entry("two", odd, entry_key=odd)])
    found = record(ledger, odd)
    clean = "a\ufffd\ufffd"
    assert (found.session_id, found.session_key, found.cwd, found.title) == (
        *(clean, clean),
        *(f"/{clean}", clean),
    )
    assert ledger.find(odd, odd) == ledger.find_by_key(odd) == found
    assert ledger.list_sessions(Page(cwd=f"/{odd}")) == [found]
    assert texts(ledger, odd) == ["one"]


@pytest.mark.parametrize("url", [None, 5, b"sqlite:///x"])
def test_a_url_that_is_no_text_is_refused(url: Any) -> None:
    with pytest.raises(BadLedgerUrl, match=type(url).__name__) as caught:
        open_ledger(url)
    assert caught.value.hint is not None
