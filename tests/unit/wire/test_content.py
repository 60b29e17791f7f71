"""Texts that are fit for a line to the editor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.wire.content import (
    cut_middle,
    escape_controls,
    image_block,
    inline_data,
    text_block,
    utf8_size,
    utf16_units,
    well_formed,
)

ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()))


def test_blocks_have_the_fields_of_acp() -> None:
    assert text_block("a") == {"type": "text", "text": "a"}
    assert image_block("AA==", "image/png") == {
        "type": "image",
        "data": "AA==",
        "mimeType": "image/png",
    }


@given(ANY_TEXT)
def test_any_text_becomes_strict_utf_8_of_the_size_that_was_told(text: str) -> None:
    formed = well_formed(text)
    assert len(formed.encode("utf-8")) == utf8_size(formed)
    assert utf16_units(text) == utf16_units(formed)


def test_split_pairs_are_joined_and_halves_replaced() -> None:
    assert well_formed("a\ud83d\ude00b\ud83dc\ude00") == "a😀b\ufffdc\ufffd"
    assert utf8_size("\ud83d") == 3
    assert utf16_units("a😀") == 3


@given(ANY_TEXT)
def test_escaped_text_is_one_printable_line(text: str) -> None:
    escaped = escape_controls(text)
    assert len(escaped.splitlines()) <= 1
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in escaped)


def test_escapes_are_those_that_programmers_read() -> None:
    assert escape_controls("\0\t\n\v\f\r\x1b\x7f\x85\u2028\u2029é") == (
        r"\0\t\n\v\f\r\x1b\x7f\x85\u2028\u2029é"
    )


@given(ANY_TEXT, st.integers(128, 400))
@pytest.mark.requirement("C036")
def test_a_cut_text_fits_and_keeps_both_ends(text: str, limit: int) -> None:
    cut = cut_middle(text * 20, limit)
    assert len(cut.encode("utf-8")) <= limit
    if cut != well_formed(text * 20):
        head, marker, _ = cut.partition("\n[… ")
        assert marker
        assert "characters left out …]\n" in cut
        assert well_formed(text * 20).startswith(head)
        assert well_formed(text * 20).endswith(cut.rpartition("…]\n")[2])


def test_a_text_that_fits_is_not_touched() -> None:
    assert cut_middle("é" * 64, 128) == "é" * 64


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("AA==", ("AA==", None)),
        ("data:image/png;base64,AA==", ("AA==", "image/png")),
        ("DATA:text/plain;charset=utf-8;BASE64,AAAA", ("AAAA", "text/plain")),
        ("data:;base64,AAAA", ("AAAA", None)),
    ],
)
def test_inline_data_is_base64_with_a_type_if_it_says_one(
    value: str, expected: tuple[str, str | None]
) -> None:
    assert inline_data(value) == expected


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("", "is empty"),
        ("data:image/png;base64,", "is empty"),
        ("data:image/png,AAAA", "is not base64"),
        ("AAA", "is not base64"),
        ("AAAA====", "is not base64"),
        ("AA==AA==", "is not base64"),
        ("A A=", "is not base64"),
        ("é" * 4, "is not base64"),
        ("\ud83d" * 4, "is not base64"),
    ],
)
def test_anything_else_is_no_data(value: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        inline_data(value)
