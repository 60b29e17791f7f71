"""Titles, kinds and results of tools, against what the reference bridge shows.

Where ours differs on purpose:

* The kind goes by whole words of the name: ``thread_list``, ``credit_check`` and ``prune`` are
  ``other`` (reference: read, edit, execute), ``apply_patch`` is ``edit`` (reference: other).
* Titles have at most 1,000 UTF-16 units and 100 values.
* Results keep images and resources (reference: dropped), and all texts together are bounded.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.core.tool_text import (
    IMAGE_LIMIT,
    TEXT_LIMIT,
    bounded,
    one_line,
    parsed_args,
    result_content,
    result_text,
    tool_kind,
    tool_title,
    without_echo,
)
from acp_bridge.wire.content import utf8_size, utf16_units
from tests.support.vectors import vectors

OTHER_KINDS = {
    "thread_list": "other",
    "credit_check": "other",
    "prune": "other",
    "apply_patch": "edit",
}

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=30,
)


class TestTitle:
    @pytest.mark.requirement("C033")
    @pytest.mark.parametrize(("args", "title"), vectors("formatToolTitle"))
    def test_titles_are_those_of_the_reference(self, args: list[Any], title: str) -> None:
        assert tool_title(*args) == title

    @pytest.mark.parametrize("args", [["a"], 7, "a", True, None])
    def test_arguments_that_are_no_object_leave_the_name(self, args: Any) -> None:
        assert tool_title("read", args) == "read"

    def test_a_title_is_one_line_of_bounded_length(self) -> None:
        title = tool_title("x\ny", {f"key{n}": "v" * 500 for n in range(1_000)})
        assert title.startswith("x\\ny: key0: vvv")
        assert utf16_units(title) <= 1_010
        assert one_line("\n" * 600).count("\\n") <= 500

    def test_a_title_holds_no_half_of_a_pair(self) -> None:
        tool_title("a\ud83d", {"b\ud83d": "c\ud83d", "d": ["\ude00"]}).encode()

    def test_values_are_cut_at_a_hundred_units(self) -> None:
        assert tool_title("t", {"k": "😀" * 50}) == "t: k: " + "😀" * 50
        assert tool_title("t", {"k": "😀" * 51}) == "t: k: " + "😀" * 50 + "..."


class TestKind:
    @pytest.mark.requirement("C033")
    @pytest.mark.parametrize(("args", "kind"), vectors("inferToolKind"))
    def test_kinds_are_those_of_the_reference_or_better(self, args: list[Any], kind: str) -> None:
        (name,) = args
        assert tool_kind(name) == OTHER_KINDS.get(name, kind)

    @pytest.mark.requirement("C033")
    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("read", "read"),
            ("readFile", "read"),
            ("view-image", "read"),
            ("write", "edit"),
            ("edit", "edit"),
            ("create_file", "edit"),
            ("SearchReplace", "edit"),
            ("unlink", "delete"),
            ("mv", "move"),
            ("grep", "search"),
            ("webSearch", "search"),
            ("RG", "search"),
            ("exec", "execute"),
            ("mcp__server__runCommand", "execute"),
            ("process", "execute"),
            ("HTTPGet", "fetch"),
            ("web_fetch", "fetch"),
            ("browser", "fetch"),
            ("think", "think"),
            ("update_plan", "think"),
            ("sessions_list", "other"),
            ("spread", "other"),
            ("", "other"),
            ("工具", "other"),
        ],
    )
    def test_kinds_go_by_the_words_of_the_name(self, name: str, kind: str) -> None:
        assert tool_kind(name) == kind


class TestArguments:
    @pytest.mark.requirement("C035")
    def test_a_string_that_holds_an_object_is_that_object(self) -> None:
        assert parsed_args(' {"path": "a"}') == {"path": "a"}

    @pytest.mark.requirement("C035")
    @pytest.mark.parametrize("args", ["{broken", "[1]", "text", '{"a":' * 100_000, 7, None, [1]])
    def test_any_other_arguments_stay_as_they_are(self, args: Any) -> None:
        assert parsed_args(args) == args


class TestResult:
    @pytest.mark.parametrize(("args", "content"), vectors("extractToolCallContent"))
    def test_texts_are_found_where_the_reference_finds_them(
        self, args: list[Any], content: Any
    ) -> None:
        assert result_content(*args) == (content or [])

    def test_the_first_text_that_is_there_at_all_is_the_one(self) -> None:
        assert result_content({"text": " ", "error": "e"}) == []
        assert result_text({"content": [{"type": "text", "text": " "}], "message": "m"}) == "m"

    @pytest.mark.requirement("C075")
    def test_resources_are_shown_with_their_uri(self) -> None:
        result = {
            "content": [
                {"type": "resource", "resource": {"uri": "file:///a", "text": "body"}},
                {"type": "resource", "resource": {"uri": "file:///b\n", "blob": "AA=="}},
                {"type": "resource_link", "uri": "https://x/y", "name": "n"},
            ]
        }
        assert result_text(result).split("\n") == [
            "[Resource] file:///a",
            "body",
            "[Resource] file:///b\\n",
            "[Resource link] https://x/y",
        ]

    def test_a_small_image_is_an_image(self) -> None:
        image = {"type": "image", "data": "data:image/png;base64,AA==", "mimeType": "image/png"}
        (shown,) = result_content({"content": [image]})
        expected = {"type": "image", "data": "AA==", "mimeType": "image/png"}
        assert shown == {"type": "content", "content": expected}

    def test_large_images_and_broken_ones_are_told_in_words(self) -> None:
        large = {"type": "image", "data": "A" * IMAGE_LIMIT, "mimeType": "image/png"}
        broken = {"type": "image", "data": "%", "mimeType": "image/png"}
        shown = [block["content"] for block in result_content({"content": [large, large, broken]})]
        assert [block["type"] for block in shown] == ["image", "text", "text"]
        assert "786432 bytes" in shown[1]["text"]
        assert "is not base64" in shown[2]["text"]

    @pytest.mark.requirement("C036")
    def test_a_huge_text_is_cut_in_the_middle_on_a_character_with_a_marker(self) -> None:
        (block,) = result_content("start" + "漢😀" * 2_000_000 + "end")
        text = block["content"]["text"]
        assert TEXT_LIMIT - 200 < utf8_size(text) <= TEXT_LIMIT
        assert text.startswith("start漢")
        assert text.endswith("😀end")
        head, marker, tail = text.partition("\n[… ")
        left_out = int(tail.partition(" ")[0])
        assert marker
        assert "\ufffd" not in text
        shown = len(head) + len(tail.partition("…]\n")[2])
        assert shown + left_out == 4_000_008

    @pytest.mark.requirement("C036")
    def test_all_texts_of_one_update_share_one_bound(self) -> None:
        parts = [{"type": "text", "text": "é" * 40_000} for _ in range(100)]
        blocks = result_content({"content": parts})
        sizes = [utf8_size(block["content"]["text"]) for block in blocks]
        assert sum(sizes) <= TEXT_LIMIT + 512
        assert "left out" in blocks[-1]["content"]["text"]

    def test_copies_of_the_text_are_not_sent_again(self) -> None:
        result = {
            "content": [{"type": "text", "text": "one"}, {"type": "audio", "data": "x"}],
            "details": {"aggregated": "one\n", "tail": "other", "exitCode": 0},
        }
        assert without_echo(result, "one") == {
            "content": [{"type": "audio", "data": "x"}],
            "details": {"tail": "other", "exitCode": 0},
        }
        assert without_echo({"content": [{"type": "text", "text": "one"}]}, "one") is None
        assert without_echo("one", "one") is None
        assert without_echo([1], "") == [1]
        assert without_echo({"content": "x", "details": 1}, "x") == {"content": "x", "details": 1}


class TestBounded:
    @pytest.mark.requirement("C036")
    def test_small_values_are_kept(self) -> None:
        value = {"a": [1, 2.5, None, True, "x"], "b": {"c": {}}}
        assert bounded(value) == value

    def test_what_strict_json_cannot_hold_becomes_text(self) -> None:
        value = [float("nan"), float("-inf"), 2**70, -(2**70), "\ud83d", ("tuple",)]
        assert bounded(value) == ["nan", "-inf", str(2**70), str(-(2**70)), "\ufffd", "[…]"]

    @pytest.mark.requirement("C036")
    @pytest.mark.parametrize(
        "value",
        [
            "x" * 10_000_000,
            ["y" * 10_000] * 1_000,
            {f"key{n}": "z" * 100 for n in range(100_000)},
            [[1] * 1_000] * 1_000,
            {"k" * 1_000_000: 1},
        ],
    )
    def test_size_is_bounded_and_the_cut_is_visible(self, value: Any) -> None:
        written = json.dumps(bounded(value), ensure_ascii=False)
        assert len(written) < 200_000
        assert "…" in written

    def test_depth_is_bounded(self) -> None:
        deep: Any = "end"
        for _ in range(500):
            deep = {"d": [deep]}
        written = json.dumps(bounded(deep), ensure_ascii=False)
        assert "end" not in written
        assert "[…]" in written

    @given(JSON_VALUES)
    def test_any_value_becomes_strict_json(self, value: Any) -> None:
        json.dumps(bounded(value), ensure_ascii=False, allow_nan=False).encode("utf-8")

    @given(st.none() | st.text(), JSON_VALUES)
    def test_no_value_breaks_a_title_or_a_result(self, name: str | None, value: Any) -> None:
        title = tool_title(name, value)
        assert "\n" not in title
        title.encode()
        for block in result_content(value):
            json.dumps(block, ensure_ascii=False).encode()
        without_echo(value, result_text(value))
        parsed_args(value)
