"""Rows of a transcript find their turns, and tell how these ended."""

from __future__ import annotations

from typing import Any

import pytest

from acp_bridge.core.events import EndKind
from acp_bridge.gateway.dialects.openclaw.encode import HISTORY_ROWS
from acp_bridge.gateway.dialects.openclaw.rows import (
    HISTORY_BYTES,
    Ending,
    content,
    ending,
    is_cut,
    said,
    transcript_rows,
    turns,
)
from acp_bridge.ids import Json


def prompt(run: str | None, text: str = "hi") -> Json:
    key = {"idempotencyKey": f"{run}:user"} if run else {}
    return {"role": "user", "content": text, **key}


def answer(text: str, stop: str | None = "stop", **note: Any) -> Json:
    content = [{"type": "text", "text": text}]
    return {"role": "assistant", "content": content, "stopReason": stop, "__openclaw": note}


def sorted_out(*rows: Json) -> list[tuple[str | None, bool, list[str]]]:
    """Each turn's run, whether its prompt is there, and the texts of its rows."""
    return [(t.run_id, t.prompt is not None, [said(r) for r in t.rows]) for t in turns(rows)]


def test_rows_without_a_run_belong_to_the_prompt_above() -> None:
    result = {"role": "toolResult", "content": "out"}
    assert sorted_out(
        prompt("1"), answer("a"), result, prompt("2"), answer("b"), prompt(None), answer("c")
    ) == [("1", True, ["a", "out"]), ("2", True, ["b"]), (None, True, ["c"])]


def test_rows_that_name_a_run_belong_to_it_wherever_they_stand() -> None:
    assert sorted_out(
        prompt("1"),
        answer("a", runId="1"),
        prompt("2"),
        answer("b", runId="1"),
        answer("c", runId="3"),
    ) == [("1", True, ["a", "b"]), ("2", True, []), ("3", False, ["c"])]


def test_a_prompt_that_was_written_again_is_the_same_turn() -> None:
    assert sorted_out(prompt("1"), answer(""), prompt("1"), answer("a")) == [("1", True, ["", "a"])]


def test_rows_before_any_prompt_are_a_turn_that_a_late_prompt_completes() -> None:
    assert sorted_out(answer("a"), answer("b"), prompt("1")) == [
        (None, False, ["a", "b"]),
        ("1", True, []),
    ]
    assert sorted_out(answer("a", runId="1"), prompt("1"), answer("b")) == [("1", True, ["a", "b"])]


def test_a_prompt_without_a_key_is_named_by_its_first_answer() -> None:
    assert sorted_out(prompt(None), answer("a", runId="1"), answer("b", runId="2")) == [
        ("1", True, ["a"]),
        ("2", False, ["b"]),
    ]


def test_a_key_of_another_kind_names_no_run() -> None:
    assert sorted_out({"role": "user", "content": "hi", "idempotencyKey": "1:other"}) == [
        (None, True, [])
    ]


def test_what_another_session_sent_is_a_prompt_and_a_mark_is_none() -> None:
    forwarded = {**answer("do it"), "senderLabel": "Forwarded from main"}
    compaction = {"role": "system", "__openclaw": {"kind": "compaction", "runId": "9"}}
    assert sorted_out(prompt("1"), compaction, forwarded, answer("done")) == [
        ("1", True, []),
        (None, True, ["done"]),
    ]


def test_whole_rows_stand_in_for_those_left_out() -> None:
    history = {"messages": [prompt("1"), answer("omitted", id="row-1"), "no row"]}
    rows = transcript_rows(history, {"row-1": answer("all of it")})
    assert [said(row) for row in rows] == ["hi", "all of it", ""]


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ({"messages": []}, False),
        ({"messages": [{}] * (HISTORY_ROWS - 1)}, False),
        ({"messages": [{}] * HISTORY_ROWS}, True),
        ({"messages": ["x" * HISTORY_BYTES]}, True),
        ({"messages": [{}] * HISTORY_ROWS, "hasMore": False}, False),
        ({"messages": [], "hasMore": True}, True),
    ],
)
def test_a_history_is_cut_if_the_gateway_says_so_or_it_is_full(
    history: Json, expected: bool
) -> None:
    assert is_cut(history) is expected


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (answer("a"), Ending(EndKind.FINISHED, "end_turn")),
        (answer("a", "length"), Ending(EndKind.FINISHED, "max_tokens")),
        (answer("a", "aborted"), Ending(EndKind.ABORTED)),
        ({**answer("a"), "openclawAbort": {"aborted": True}}, Ending(EndKind.ABORTED)),
        ({**answer("a", "error"), "errorMessage": "e"}, Ending(EndKind.FAILED, error="e")),
        (answer("a", "error"), Ending(EndKind.FAILED)),
        (answer("a", "toolUse"), None),
        (answer("a", None), None),
    ],
)
def test_the_last_answer_tells_the_ending(last: Json, expected: Ending | None) -> None:
    assert ending([answer("before"), last, {"role": "toolResult"}]) == expected


def test_a_turn_without_an_answer_has_no_ending() -> None:
    assert ending([{"role": "toolResult", "stopReason": "stop"}]) is None


NO_REPLY = "The agent run failed before producing a reply."


@pytest.mark.parametrize(
    ("text", "error", "left"),
    [
        (NO_REPLY, NO_REPLY, ""),
        ("⚠️ It timed out.\n\none two\n\nthree", "⚠️ It timed out.", "one two\n\nthree"),
        ("⚠️ It timed out.", "⚠️ It timed out.", ""),
        ("one two", None, "one two"),
    ],
)
def test_what_the_gateway_says_of_a_failure_is_no_text_of_the_answer(
    text: str, error: str | None, left: str
) -> None:
    failed = answer(text, "error")
    call = {"type": "toolCall", "id": "call-1"}
    failed["content"].append(call)
    assert ending([failed]) == Ending(EndKind.FAILED, error=error)
    assert said(failed) == left
    assert content(failed) == [{"type": "text", "text": left}, call]


def test_the_parts_of_an_answer_keep_their_order() -> None:
    parts = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "⚠️ a\n\nb"}]
    assert content({"role": "assistant", "content": parts}) == parts
    assert content({"role": "assistant", "content": "a"}) == [{"type": "text", "text": "a"}]


def test_a_row_without_a_readable_role_belongs_to_no_turn() -> None:
    assert turns([{"role": []}, {"role": 5}, {}]) == []
