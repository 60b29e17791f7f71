"""However a stream is cut, its lines are the same."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.errors import MalformedMessage
from acp_bridge.wire.framing import LineReader

LIMIT = 12

streams = st.lists(
    st.one_of(
        st.binary(max_size=20),
        st.sampled_from([b"\n", b"\r\n", b"\r", b"\xef\xbb\xbf", b" ", b"\xe2\x80\xa8", b"\v"]),
    ),
    max_size=30,
).map(b"".join)


def read(parts: list[bytes]) -> list[bytes | None]:
    """The lines; None for one too long."""
    reader = LineReader(LIMIT)
    lines = [line for part in parts for line in reader.feed(part)] + reader.end()
    return [None if isinstance(line, MalformedMessage) else line for line in lines]


@given(streams, st.lists(st.integers(0, 600)))
def test_lines_do_not_depend_on_where_the_stream_is_cut(stream: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    parts = [stream[start:end] for start, end in itertools.pairwise(edges)]
    whole = read([stream])
    assert read(parts) == whole
    assert read([bytes([byte]) for byte in stream]) == whole


@given(streams)
def test_lines_are_those_between_lf(stream: bytes) -> None:
    expected = [
        None if len(line) > LIMIT else line.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r")
        for line in stream.split(b"\n")
    ]
    assert read([stream]) == [line for line in expected if line != b""]
