"""Bytes become lines by LF alone, whatever else they hold."""

from __future__ import annotations

import time

import pytest

from acp_bridge.errors import MalformedMessage
from acp_bridge.wire.framing import MAX_LINE, LineReader

MIB = 1024 * 1024


def lines_of(data: bytes, limit: int = 100) -> list[bytes | str]:
    """All lines, a skipped one as the name of its error."""
    reader = LineReader(limit)
    lines = [*reader.feed(data), *reader.end()]
    return [type(line).__name__ if isinstance(line, MalformedMessage) else line for line in lines]


@pytest.mark.requirement("ACP-14", "C003")
@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"one\ntwo\n", [b"one", b"two"]),
        (b"one\r\ntwo\r\n", [b"one", b"two"]),
        (b"\n\r\n  \t\none\n\n", [b"one"]),
        (b"\xef\xbb\xbfone\n", [b"one"]),
        (b"noise\n\xef\xbb\xbfone\n", [b"noise", b"one"]),
        (b"\xef\xbb\xbf\none\n", [b"one"]),
    ],
    ids=["LF", "CRLF", "blank lines", "BOM at the start", "BOM after noise", "BOM alone"],
)
def test_careless_line_ends_are_tolerated(data: bytes, lines: list[bytes]) -> None:
    assert lines_of(data) == lines


@pytest.mark.requirement("ACP-15", "C022")
@pytest.mark.parametrize(
    "separator",
    ["\u2028", "\u2029", "\u0085", "\v", "\f", "\x1c", "\x1d", "\x1e", "\0", "\r"],
    ids=ascii,
)
def test_nothing_but_lf_ends_a_line(separator: str) -> None:
    line = f"a{separator}b".encode()
    assert lines_of(line + b"\nnext\n") == [line, b"next"]


@pytest.mark.requirement("ACP-16")
def test_a_last_line_without_lf_is_read_at_the_end() -> None:
    reader = LineReader()
    assert reader.feed(b"one\ntw") == [b"one"]
    assert reader.feed(b"o") == []
    assert reader.end() == [b"two"]
    assert reader.end() == []


@pytest.mark.requirement("ACP-17", "C020")
@pytest.mark.parametrize("size", [64 * 1024 - 1, 64 * 1024, 64 * 1024 + 1, MIB, 20 * MIB, 32 * MIB])
def test_lines_up_to_32_mib_are_read(size: int) -> None:
    reader = LineReader()
    assert reader.feed(b"x" * size + b"\nnext\n") == [b"x" * size, b"next"]


@pytest.mark.requirement("ACP-17")
def test_a_line_may_be_as_long_as_the_limit_and_not_a_byte_longer() -> None:
    for size, kind in ((MAX_LINE, bytes), (MAX_LINE + 1, MalformedMessage)):
        line, after = LineReader().feed(b"x" * size + b"\nnext\n")
        assert isinstance(line, kind)
        assert after == b"next"


@pytest.mark.requirement("ACP-17")
def test_a_longer_line_is_reported_once_and_skipped_up_to_its_end() -> None:
    data = b"before\n" + b"x" * 101 + b"\n" + b"y" * 500 + b"\nafter\n"
    assert lines_of(data) == [b"before", "MalformedMessage", "MalformedMessage", b"after"]


def test_a_line_too_long_is_reported_before_it_ends_and_not_kept() -> None:
    reader = LineReader(limit=100)
    [report] = reader.feed(b"x" * 101)
    assert isinstance(report, MalformedMessage)
    assert all(reader.feed(b"x" * 1000) == [] for _ in range(100))
    assert reader.feed(b"\nnext\n") == [b"next"]


def test_a_line_too_long_that_never_ends_is_reported_once() -> None:
    assert lines_of(b"x" * 101) == ["MalformedMessage"]


@pytest.mark.requirement("C023")
def test_characters_cut_at_any_byte_arrive_whole() -> None:
    text = "日本語 \U0001f469\u200d\U0001f4bb e\u0301"
    reader = LineReader()
    lines = [line for byte in f"{text}\n".encode() for line in reader.feed(bytes([byte]))]
    assert lines == [text.encode()]


@pytest.mark.parametrize("piece", [1, 4096])
def test_the_cost_is_linear_in_the_length_of_a_line(piece: int) -> None:
    def cost(size: int) -> float:
        reader = LineReader()
        data = [b"x" * piece] * (size // piece)
        start = time.process_time()
        for part in data:
            reader.feed(part)
        lines = reader.feed(b"\n")
        assert [len(line) for line in lines if isinstance(line, bytes)] == [size]
        return time.process_time() - start

    small = 200 * 1024 * (1 if piece == 1 else 20)
    # A quadratic reader would need 64 times as long for 8 times the length.
    assert cost(8 * small) < 30 * max(cost(small), 0.005)
