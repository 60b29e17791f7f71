"""Payloads to text and back; text that every database takes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.codec import MAX_DEPTH, clean, decode, encode, size

plain_text = st.text()
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | plain_text,
    lambda inner: st.lists(inner) | st.dictionaries(plain_text, inner),
    max_leaves=20,
)


@given(st.dictionaries(plain_text, json_values))
def test_what_json_can_say_comes_back_equal(value: dict[str, Any]) -> None:
    text = encode(value)
    assert decode(text) == value
    assert json.loads(text, parse_constant=pytest.fail) == value
    assert "\n" not in text
    assert "\0" not in text
    assert size(text) == len(text.encode())


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ("\ud83d\ude00", "\U0001f600"),
        ("a\ud800b", "a\ufffdb"),
        (float("nan"), None),
        (float("-inf"), None),
        (b"bytes", None),
        ((1, 2), [1, 2]),
        ({1: 2}, {"1": 2}),
        ({"\ud800": 1}, {"\ufffd": 1}),
    ],
    ids=repr,
)
def test_what_json_cannot_say_becomes_something_that_it_can(value: Any, stored: Any) -> None:
    assert decode(encode({"k": value, "big": 2**70})) == {"k": stored, "big": 2**70}


def test_nesting_beyond_all_measure_is_cut_and_not_refused() -> None:
    value: Any = "core"
    for _ in range(MAX_DEPTH * 3):
        value = {"k": [value]}
    stored = decode(encode(value))
    depth = 0
    while stored is not None:
        stored = stored["k"] if isinstance(stored, dict) else stored[0]
        depth += 1
    assert depth == MAX_DEPTH


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_clean_text_is_utf_8_without_nul(text: str) -> None:
    cleaned = clean(text)
    assert "\0" not in cleaned
    assert cleaned.encode().decode() == cleaned
    assert clean(cleaned) == cleaned


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_good_text_stays_as_it_is(text: str) -> None:
    assert clean(text) == text
