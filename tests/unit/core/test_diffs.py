"""The changes that tools announce, as diffs that an editor can show."""

from __future__ import annotations

from typing import Any

import pytest
from acp import schema
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.core.diffs import DIFF_LIMIT, Changes, changes
from tests.support.acp_oracle import conforms

CWD = "/w"


def shown(name: str | None, args: Any) -> list[tuple[str, str | None, str]]:
    found = []
    for diff in changes(name, args, CWD).diffs:
        conforms(schema.FileEditToolCallContent, diff)
        found.append((diff["path"], diff["oldText"], diff["newText"]))
    return found


def paths(name: str, args: Any) -> list[str]:
    return [location["path"] for location in changes(name, args, CWD).locations]


@pytest.mark.parametrize("name", ["write", "create_file", "writeFile"])
@pytest.mark.parametrize(
    "args",
    [
        {"path": "a.py", "content": "x\n"},
        {"file_path": "/w/a.py", "content": "x\n"},
        {"path": "a.py", "file_text": "x\n"},
    ],
)
def test_a_written_file_is_new_text(name: str, args: Any) -> None:
    assert shown(name, args) == [("/w/a.py", None, "x\n")]
    assert paths(name, args) == ["/w/a.py"]


@pytest.mark.parametrize(
    "args",
    [
        {"path": "a.py", "oldText": "a", "newText": "b"},
        {"path": "a.py", "old_string": "a", "new_string": "b"},
        {"filePath": "a.py", "oldString": "a", "newString": "b"},
        {"path": "a.py", "command": "str_replace", "old_str": "a", "new_str": "b"},
        {"path": "a.py", "edits": [{"oldText": "a", "newText": "b"}]},
    ],
)
def test_a_replaced_piece_is_old_and_new_text(args: Any) -> None:
    assert shown("edit", args) == [("/w/a.py", "a", "b")]


def test_each_of_several_edits_is_a_diff() -> None:
    edits = [{"oldText": "a", "newText": "b"}, 7, {"oldText": "c", "newText": ""}, {"oldText": "d"}]
    assert shown("edit", {"path": "a.py", "edits": edits}) == [
        ("/w/a.py", "a", "b"),
        ("/w/a.py", "c", ""),
    ]


PATCH = """*** Begin Patch
*** Add File: new.txt
+one
+two
*** Update File: src/a.py
@@ def f():
 context
-old
+new

@@
-gone
*** Update File: old name.py
*** Move to: new name.py
@@
-x
+y
*** End of File
*** Delete File: dead.py
*** End Patch
"""


@pytest.mark.parametrize("args", [{"input": PATCH}, {"patch": "\n" + PATCH}, PATCH])
def test_a_patch_is_a_diff_for_each_hunk(args: Any) -> None:
    assert shown("apply_patch", args) == [
        ("/w/new.txt", None, "one\ntwo\n"),
        ("/w/src/a.py", "context\nold\n\n", "context\nnew\n\n"),
        ("/w/src/a.py", "gone\n", ""),
        ("/w/new name.py", "x\n", "y\n"),
    ]
    assert paths("apply_patch", args) == [
        "/w/new.txt",
        "/w/src/a.py",
        "/w/old name.py",
        "/w/new name.py",
        "/w/dead.py",
    ]


def test_a_patch_with_other_line_ends_or_no_end_is_understood() -> None:
    patch = "*** Begin Patch\r\n*** Update File: a\r\n-x\r\n+y\r\n"
    assert shown("apply_patch", {"input": patch}) == [("/w/a", "x\n", "y\n")]


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("read", {"path": "a", "content": "x"}),
        (None, {"path": "a", "content": "x"}),
        ("write", {"path": "~/a", "content": "x"}),
        ("write", {"content": "x"}),
        ("write", {"path": 7, "content": "x"}),
        ("write", {"path": "a", "content": ["x"]}),
        ("edit", {"path": "a", "oldText": "x"}),
        ("edit", {"path": "a", "edits": "none"}),
        ("apply_patch", {"input": "just text"}),
        ("apply_patch", "just text"),
        ("apply_patch", ""),
        ("apply_patch", "*** Begin Patch\nwhat is this\n*** End Patch"),
        ("apply_patch", "*** Begin Patch"),
        ("apply_patch", [PATCH]),
        ("edit", None),
    ],
)
def test_what_is_not_understood_gives_no_diff(name: str | None, args: Any) -> None:
    assert changes(name, args, CWD) == Changes()


def test_diffs_are_bounded_in_number_and_size() -> None:
    edits = [{"oldText": "a", "newText": "b"}] * 1_000
    assert len(shown("edit", {"path": "a", "edits": edits})) == DIFF_LIMIT
    huge = [{"oldText": "o" * 1_000_000, "newText": "n" * 1_000_000}] * 5
    diffs = shown("edit", {"path": "a", "edits": huge})
    assert sum(len(old or "") + len(new) for _, old, new in diffs) <= 256 * 1024
    assert all("left out" in new for _, _, new in diffs)


@given(
    st.sampled_from(["write", "edit", "apply_patch"]),
    st.recursive(
        st.none() | st.integers() | st.text() | st.sampled_from([PATCH, PATCH[:90]]),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["path", "content", "edits", "oldText", "newText", "input"]),
                inner,
                max_size=5,
            )
        ),
        max_leaves=20,
    ),
)
@pytest.mark.requirement("ACP-77")
def test_no_arguments_break_it(name: str, args: Any) -> None:
    for path, old, new in shown(name, args):
        assert path.startswith("/")
        ((old or "") + new).encode()


@given(st.lists(st.text(alphabet="*+- @\nabc:FileUpdateAddMovePatchBgn", max_size=30), max_size=8))
def test_no_patch_breaks_it(lines: list[str]) -> None:
    shown("apply_patch", {"input": "*** Begin Patch\n" + "\n*** Update File: ".join(lines)})
