"""Which files a tool call is said to touch, against the reference bridge.

Where ours differs on purpose: paths are absolute (reference: as given), and paths below ``~`` and
URLs of any scheme but ``file`` are no locations.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.core.locations import LOCATION_LIMIT, absolute_path, locations
from tests.support.vectors import vectors

CWD = "/home/me/project"


@pytest.mark.requirement("C033")
@pytest.mark.parametrize(("args", "found"), vectors("extractToolCallLocations"))
def test_files_are_found_where_the_reference_finds_them(args: list[Any], found: Any) -> None:
    expected = [
        {**location, "path": absolute_path(location["path"], CWD)} for location in found or []
    ]
    assert locations(args, CWD) == expected


@pytest.mark.requirement("ACP-77")
@pytest.mark.parametrize(
    ("path", "cwd", "absolute"),
    [
        ("a.py", CWD, "/home/me/project/a.py"),
        (" ./src/../a.py ", CWD, "/home/me/project/a.py"),
        ("/etc/hosts", CWD, "/etc/hosts"),
        ("file:///srv/a%20b", CWD, "/srv/a b"),
        ("FILE://localhost/srv/x", CWD, "/srv/x"),
        ("file:///C:/x/y.txt", CWD, "C:\\x\\y.txt"),
        ("C:\\x\\y", CWD, "C:\\x\\y"),
        ("src\\a.py", "C:\\me", "C:\\me\\src\\a.py"),
        ("/etc/hosts", "C:\\me", "/etc/hosts"),
        ("\\\\host\\share\\x", CWD, "\\\\host\\share\\x"),
        ("a\ud83d", CWD, "/home/me/project/a\ufffd"),
    ],
)
def test_paths_become_absolute(path: str, cwd: str, absolute: str) -> None:
    assert absolute_path(path, cwd) == absolute


@pytest.mark.parametrize(
    "path",
    [
        "",
        "  ",
        "~/x",
        "http://x/y",
        "HTTPS://x/y",
        "s3://bucket/x",
        "file://host/x",
        "a\nb",
        "a\0b",
        "file:///a%0Ab",
        "x" * 4_097,
    ],
)
def test_what_is_no_file_here_is_no_location(path: str) -> None:
    assert absolute_path(path, CWD) is None
    assert locations([{"path": path}], CWD) == []


@pytest.mark.requirement("ACP-77")
@pytest.mark.parametrize(
    "line", [0, -1, 0.5, True, "3", None, float("nan"), float("inf"), 2**5_000]
)
def test_a_line_below_one_or_no_number_is_left_out(line: Any) -> None:
    assert locations([{"path": "/a", "line": line}], CWD) == [{"path": "/a"}]


@pytest.mark.parametrize("name", ["line", "lineNumber", "line_number", "startLine", "start_line"])
def test_lines_are_found_under_each_name(name: str) -> None:
    assert locations([{"filePath": "/a", name: 7}], CWD) == [{"path": "/a", "line": 7}]


def test_both_ends_of_a_move_are_locations() -> None:
    found = locations([{"sourcePath": "/a", "destination_path": "/b"}], CWD)
    assert [location["path"] for location in found] == ["/a", "/b"]


def test_marked_lines_are_found_in_lists_and_results() -> None:
    assert locations([["x\nFILE:/a\r\nFILE:~/no\nFILE:b"]], CWD) == [
        {"path": "/a"},
        {"path": "/home/me/project/b"},
    ]
    result = {"content": [{"type": "text", "text": "MEDIA: /m"}, 7, {"type": "image"}]}
    assert locations([result], CWD) == [{"path": "/m"}]


def test_a_file_is_one_location_and_a_line_is_kept() -> None:
    given = [{"path": "/a", "line": 2}, {"path": "/a"}, {"path": "/a", "line": 9}]
    assert locations(given, CWD) == [{"path": "/a", "line": 2}]


def test_too_deep_values_are_not_searched() -> None:
    deep: Any = {"path": "/deep"}
    for _ in range(5):
        deep = [deep]
    assert locations([deep], CWD) == []


def test_the_search_is_bounded() -> None:
    many = [{"path": f"/{n}"} for n in range(10_000)]
    assert len(locations([many], CWD)) == LOCATION_LIMIT
    assert locations([{f"k{n}": 1 for n in range(200)} | {"x": {"path": "/a"}}], CWD) == []
    assert locations(["\n" * 1_000_000 + "FILE:/a"], CWD) == []


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["path", "filePath", "line", "content", "x"]), inner, max_size=4
            )
        ),
        max_leaves=20,
    ),
    st.sampled_from([CWD, "C:\\me"]),
)
@pytest.mark.requirement("ACP-77")
def test_whatever_is_given_locations_are_absolute_and_lines_positive(value: Any, cwd: str) -> None:
    for location in locations([value], cwd):
        path = location["path"]
        assert path.startswith(("/", "\\")) or path[1:3] == ":\\"
        assert location.get("line", 1) >= 1
        path.encode()
