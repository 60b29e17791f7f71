"""The user's own headers: what a file may hold, and what is said of one that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from acp_bridge.errors import CredentialsUnusable
from acp_bridge.gateway.headers import extra_headers
from acp_bridge.gateway.route import Route


def written(directory: Path, text: str, mode: int = 0o600) -> Path:
    path = directory / "headers"
    path.touch(mode)
    path.write_text(text)
    path.chmod(mode)
    return path


def test_headers_are_read_and_their_values_kept_out_of_the_log(tmp_path: Path) -> None:
    path = written(tmp_path, "\ufeff# access\nCF-Access-Client-Id: id: 1 \r\n\nX-B:s3cret\n")
    learned: list[str] = []
    found = extra_headers(Route(header_file=path, learn=learned.append))
    assert found == (("CF-Access-Client-Id", "id: 1"), ("X-B", "s3cret"))
    assert learned == ["id: 1", "s3cret"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hunter2", "line 1, is no header"),
        ("# x\nbad name: hunter2", "line 2, is no header"),
        ("X:", "has no value"),
        ("X: hunter2\x00", "has no value, or one"),
        ("X: h\u00fcnter2", "has no value, or one"),
        *((f"{name}: hunter2", f"gives {name}, which belongs") for name in (
            "Host", "connection", "Upgrade", "Origin", "Sec-WebSocket-Key", "Proxy-Authorization",
            "Transfer-Encoding", "Content-Length", "User-Agent",
        )),
        ("A: hunter2\na: hunter2", "line 2, gives a, which is given already"),
        ("Authorization: hunter2", "gives Authorization, which is given already"),
        ("A: " + "x" * 16384, "is larger than 16 KiB"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_told_by_its_line_and_without_its_values(
    tmp_path: Path, text: str, said: str
) -> None:
    route = Route(header_file=written(tmp_path, text))
    with pytest.raises(CredentialsUnusable) as caught:
        extra_headers(route, (("Authorization", "Bearer ours"),))
    assert said in caught.value.message
    assert "hunter2" not in f"{caught.value.message}{caught.value.hint}"


def test_a_file_that_others_may_read_is_refused_with_the_command(tmp_path: Path) -> None:
    path = written(tmp_path, "A: b", 0o644)
    with pytest.raises(CredentialsUnusable, match="chmod 600"):
        extra_headers(Route(header_file=path))
