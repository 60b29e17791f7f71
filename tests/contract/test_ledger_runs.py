"""What every ledger promises: runs, and what becomes of their chunks."""

from __future__ import annotations

from typing import Any

import pytest

from ledger import (
    EventLedger,
    Limits,
    NewEntry,
    Run,
    RunClosed,
    RunOpened,
    RunState,
    SessionTitle,
    UnknownSession,
)
from ledger.merging import MAX_TEXT
from tests.contract.conftest import MakeLedger
from tests.support.ledgers import chunk, entry, record, replay, session, texts


def closed(run: str = "r1", at: int = 3000) -> RunClosed:
    return RunClosed(run, at, RunState.FINISHED, stop_reason="end_turn")


@pytest.fixture(autouse=True)
def _a_session_with_a_run(ledger: EventLedger) -> None:
    ledger.write([session(), RunOpened("r1", "s1", 2000)])


def test_a_run_is_open_until_it_is_closed(ledger: EventLedger) -> None:
    assert replay(ledger).runs == (Run("r1", "s1", RunState.OPEN, 2000),)
    ledger.write([RunClosed("r1", 3000, RunState.FAILED, error_code="run_failed")])
    assert replay(ledger).runs == (
        Run("r1", "s1", RunState.FAILED, 2000, 3000, None, "run_failed"),
    )


def test_the_last_word_on_a_run_counts(ledger: EventLedger) -> None:
    ledger.write([RunClosed("r1", 3000, RunState.UNKNOWN, error_code="outcome_unknown")])
    ledger.write([closed(at=4000)])
    assert replay(ledger).runs == (Run("r1", "s1", RunState.FINISHED, 2000, 4000, "end_turn"),)


def test_opening_a_known_run_changes_nothing_of_it(ledger: EventLedger) -> None:
    ledger.write([closed()])
    before = replay(ledger).runs
    ledger.write([RunOpened("r1", "s1", 9000)])
    assert replay(ledger).runs == before


def test_runs_come_in_the_order_they_began(ledger: EventLedger) -> None:
    ledger.write([RunOpened("r0", "s1", 2500), closed("r1"), RunOpened("r2", "s1", 2700)])
    assert [run.run_id for run in replay(ledger).runs] == ["r1", "r0", "r2"]


def test_runs_make_their_session_younger(ledger: EventLedger) -> None:
    ledger.write([RunOpened("r2", "s1", 5000)])
    assert record(ledger).updated_at == 5000
    ledger.write([closed("r2", 6000)])
    assert record(ledger).updated_at == 6000


def test_chunks_of_a_message_become_one_entry_when_the_run_ends(ledger: EventLedger) -> None:
    ledger.write([entry("prompt", run_id="r1"), chunk("He"), chunk("llo"), chunk(" wörld")])
    assert texts(ledger) == ["prompt", "He", "llo", " wörld"]
    ledger.write([entry("outcome", run_id="r1"), closed()])
    assert texts(ledger) == ["prompt", "Hello wörld", "outcome"]
    assert replay(ledger).entries[1].payload == chunk("Hello wörld").payload
    ledger.write([entry("next")])
    assert texts(ledger) == ["prompt", "Hello wörld", "outcome", "next"]


def test_all_in_one_go_gives_the_same(ledger: EventLedger) -> None:
    ledger.write([chunk("a"), chunk("b"), closed(), entry("after")])
    assert texts(ledger) == ["ab", "after"]


def test_closing_twice_merges_what_came_between(ledger: EventLedger) -> None:
    ledger.write([chunk("a"), chunk("b"), closed()])
    ledger.write([chunk("c"), closed()])
    assert texts(ledger) == ["abc"]


PLAIN = chunk("b").payload


@pytest.mark.parametrize(
    "between",
    [
        entry("b", run_id="r1"),
        chunk("b", message="m2"),
        chunk("b", message=None),
        chunk("b", run="r2"),
        chunk("b", run=None),
        NewEntry("s1", "other", PLAIN, 2000, run_id="r1"),
        NewEntry("s1", "update", PLAIN, 2000, run_id="r1", entry_key="k"),
        *(
            NewEntry("s1", "update", {**PLAIN, **change}, 2000, run_id="r1")
            for change in (
                {"sessionUpdate": "agent_thought_chunk"},
                {"sessionUpdate": "tool_call"},
                {"sessionUpdate": ["agent_message_chunk"]},
                {"_meta": {"k": 1}},
                {"content": {"type": "text", "text": "b", "annotations": {}}},
                {"content": {"type": "image", "text": "b"}},
            )
        ),
    ],
)
def test_what_differs_in_more_than_text_stays_apart(ledger: EventLedger, between: NewEntry) -> None:
    ledger.write([chunk("a"), chunk("A"), between, chunk("c"), chunk("C"), closed()])
    assert texts(ledger) == ["aA", "b", "cC"]
    assert replay(ledger).entries[1].payload == between.payload


@pytest.mark.parametrize("text", [None, 5, ["b"]])
def test_a_chunk_without_text_stays_as_it_is(ledger: EventLedger, text: Any) -> None:
    odd = {**PLAIN, "content": {"type": "text", "text": text}}
    ledger.write([chunk("a"), NewEntry("s1", "update", odd, 2000, run_id="r1"), closed()])
    assert [stored.payload for stored in replay(ledger).entries] == [chunk("a").payload, odd]


def test_thoughts_and_the_user_s_words_are_merged_too(ledger: EventLedger) -> None:
    for kind in ("agent_thought_chunk", "user_message_chunk"):
        for text in "xy":
            payload = {**chunk(text).payload, "sessionUpdate": kind}
            ledger.write([NewEntry("s1", "update", payload, 2000, run_id="r1")])
    ledger.write([closed()])
    assert texts(ledger) == ["xy", "xy"]


def test_another_run_s_chunks_keep_their_pieces_and_move_up(ledger: EventLedger) -> None:
    ledger.write([RunOpened("r2", "s1", 2000)])
    ledger.write([chunk("a"), chunk("b"), chunk("1", run="r2"), chunk("2", run="r2"), chunk("c")])
    ledger.write([closed("r1")])
    assert texts(ledger) == ["ab", "1", "2", "c"]
    ledger.write([chunk("3", run="r2"), closed("r2")])
    assert texts(ledger) == ["ab", "12", "c", "3"]


def test_a_run_that_began_after_a_merge_is_merged_too(ledger: EventLedger) -> None:
    ledger.write([chunk("a"), chunk("b"), RunOpened("r2", "s1", 2000), chunk("c", run="r2")])
    ledger.write([closed("r1"), chunk("d", run="r2"), closed("r2")])
    assert texts(ledger) == ["ab", "cd"]


def test_the_first_chunk_s_time_and_connection_are_kept(ledger: EventLedger) -> None:
    payload = chunk("x").payload
    ledger.write(
        [
            NewEntry("s1", "update", payload, at, run_id="r1", generation=generation)
            for at, generation in ((2000, 1), (2500, 2))
        ]
    )
    ledger.write([closed()])
    [merged] = replay(ledger).entries
    assert (merged.at, merged.generation, merged.run_id) == (2000, 1, "r1")


def test_merged_text_stays_short_enough_for_a_line(ledger: EventLedger) -> None:
    piece = "x" * (MAX_TEXT // 4)
    ledger.write([*(chunk(piece) for _ in range(10)), closed()])
    lengths = [len(text) for text in texts(ledger)]
    assert lengths == [MAX_TEXT, MAX_TEXT, MAX_TEXT // 2]


def hushed(value: Any) -> Any:
    """Takes the word ``secret`` out of any text."""
    if isinstance(value, dict):
        return {name: hushed(each) for name, each in value.items()}
    return value.replace("secret", "***") if isinstance(value, str) else value


def test_what_must_not_be_kept_is_not_and_neither_in_pieces(make_ledger: MakeLedger) -> None:
    ledger = make_ledger(Limits(), redact=hushed)
    ledger.write([session(), SessionTitle("s1", "A secret", 1), RunOpened("r1", "s1", 2000)])
    ledger.write([entry("the secret")])
    for piece in ("a sec", "re", "t, told"):
        ledger.write([chunk(piece)])
    ledger.write([closed()])
    assert texts(ledger) == ["the ***", "a ***, told"]
    assert record(ledger).title == "A ***"


def test_other_sessions_are_left_alone(ledger: EventLedger) -> None:
    ledger.write([session("s2"), RunOpened("r2", "s2", 2000)])
    ledger.write([chunk("a", session_id="s2", run="r2"), chunk("b", session_id="s2", run="r2")])
    ledger.write([chunk("a"), chunk("b"), closed("r1")])
    assert texts(ledger, "s2") == ["a", "b"]


def test_a_run_needs_its_session(ledger: EventLedger) -> None:
    with pytest.raises(UnknownSession):
        ledger.write([RunOpened("r2", "unknown", 1)])
    ledger.write([RunClosed("r2", 2, RunState.FINISHED)])
    assert [run.run_id for run in replay(ledger).runs] == ["r1"]
