"""A gateway that does anything it may do with a text, against what the user must see."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.core.chunks import Chunk, TextTrack

BLANKS = st.sampled_from(["", " ", "\n", "  ", "\n\n"])
TOKEN = re.compile(r"<\d+>")


@dataclass
class Gateway:
    """The truth: a text in segments, and what of it reaches the track."""

    track: TextTrack
    window: int | None = None
    shown: list[Chunk] = field(default_factory=list)
    segments: list[str] = field(default_factory=lambda: [""])
    unsent: str = ""
    last_event: tuple[str | None, str] = (None, "")
    tokens: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def text(self) -> str:
        return "".join(self.segments)

    def snapshot(self) -> str:
        return self.text if self.window is None else self.text[-self.window :]

    def write(self, blank: str, glue: str = "\n\n") -> str:
        """New text; each token is unique, so that it can be followed."""
        new = f"<{next(self.tokens)}>{blank}"
        if len(self.segments) > 1 and not self.segments[-1]:
            new = glue + new
        self.segments[-1] += new
        self.unsent += new
        return new

    def event(self, delta: str | None, snapshot: str | None, replace: bool = False) -> None:
        self.shown += self.track.feed(delta, replace, snapshot)

    def send(self, kind: str) -> None:
        """``delta``, ``snapshot`` or ``both``; a lost delta is never followed by one alone."""
        delta, self.unsent = self.unsent, ""
        self.last_event = (delta, self.snapshot())
        self.event(
            None if kind == "snapshot" else delta,
            None if kind == "delta" else self.snapshot(),
        )

    def tool(self) -> None:
        """The gateway sends what it has before it starts a tool."""
        self.send("both")
        self.shown += self.track.break_message()
        if self.segments[-1]:
            self.segments.append("")

    def messages(self) -> list[str]:
        found: dict[int, str] = {}
        for chunk in self.shown:
            found[chunk.message_index] = found.get(chunk.message_index, "") + chunk.text
        return [*found.values()]

    def tokens_shown(self) -> list[str]:
        return TOKEN.findall("".join(self.messages()))


WRITES = st.tuples(st.just("write"), BLANKS, st.sampled_from(["delta", "snapshot", "both"]))
LONG_WRITES = st.tuples(
    st.just("write"), st.just("-" * 60), st.sampled_from(["delta", "snapshot", "both"])
)
LOSSES = st.tuples(st.just("lose"), BLANKS, st.just(""))
REPEATS = st.tuples(st.just("repeat"), st.just(""), st.just(""))
STALES = st.tuples(st.just("stale"), st.just(""), st.just(""))
TOOLS = st.tuples(st.just("tool"), st.just(""), st.just(""))
REWRITES = st.tuples(
    st.sampled_from(["rewrite segment", "rewrite all"]), BLANKS, st.sampled_from(["delta", "both"])
)
RETURNS = st.tuples(st.just("return"), BLANKS, st.just(""))
Step = tuple[str, str, str]


def play(gateway: Gateway, steps: list[Step], glue: str) -> None:
    loses = False
    before: list[str] = []
    for kind, blank, how in steps:
        match kind:
            case "write":
                gateway.write(blank, glue)
                gateway.send("both" if loses else how)
                loses = False
            case "lose":
                gateway.write(blank, glue)
                loses = True
            case "repeat" if not loses:
                gateway.event(*gateway.last_event)
            case "stale" if not loses and not gateway.track.is_rewritten:
                gateway.event(None, gateway.text[: len(gateway.text) // 2])
            case "tool":
                gateway.tool()
                loses = False
                before = []
            case "rewrite segment" | "rewrite all" if gateway.segments[-1]:
                before = before or [*gateway.segments]
                rewrite(gateway, kind == "rewrite all", blank, how, glue)
                loses = False
            case "return" if before and gateway.track.is_rewritten:
                gateway.segments = before
                new = gateway.write(blank, glue)
                gateway.unsent = ""
                gateway.event(gateway.text, None, True)
                gateway.last_event = (new, gateway.text)
                before = []
            case _:
                pass


def rewrite(gateway: Gateway, all_of_it: bool, blank: str, how: str, glue: str) -> None:
    if all_of_it:
        gateway.segments = [""]
    else:
        gateway.segments[-1] = ""
    gateway.write(blank, glue)
    gateway.unsent = ""
    gateway.last_event = (None, gateway.text)
    gateway.event(gateway.text, gateway.text if how == "both" else None, replace=True)


FINALS: dict[str, Callable[[str], str | None]] = {
    "whole": lambda text: text,
    "trimmed": lambda text: text.rstrip(),
    "none": lambda text: None,
}


@pytest.mark.requirement("ACP-64")
@pytest.mark.requirement("C025")
@given(
    steps=st.lists(st.one_of(WRITES, LOSSES, REPEATS, STALES, TOOLS), max_size=25),
    glue=st.sampled_from(["\n\n", ""]),
    final=st.sampled_from([*FINALS]),
)
def test_without_rewrites_the_messages_are_the_segments(
    steps: list[Step], glue: str, final: str
) -> None:
    gateway = Gateway(TextTrack())
    play(gateway, steps, glue)
    if final == "none":
        gateway.send("both")
    gateway.shown += gateway.track.finish(FINALS[final](gateway.text))
    first, *others = gateway.segments
    expected = [first, *(segment.lstrip("\n") for segment in others)]
    expected = [segment for segment in expected if segment]
    messages = gateway.messages()
    assert messages[:-1] == expected[:-1]
    if expected:
        assert messages[-1].rstrip() == expected[-1].rstrip()
        assert expected[-1].startswith(messages[-1])


@pytest.mark.requirement("C028")
@given(
    steps=st.lists(st.one_of(WRITES, REPEATS, LOSSES, TOOLS, REWRITES, RETURNS), max_size=25),
    glue=st.sampled_from(["\n\n", ""]),
)
def test_with_rewrites_the_final_text_is_shown_and_nothing_is_shown_twice(
    steps: list[Step], glue: str
) -> None:
    gateway = Gateway(TextTrack())
    play(gateway, steps, glue)
    was_rewritten = gateway.track.is_rewritten
    gateway.shown += gateway.track.finish(gateway.text)
    shown = gateway.tokens_shown()
    assert len(shown) == len(set(shown))
    assert set(TOKEN.findall(gateway.text)) <= set(shown)
    if was_rewritten:
        assert gateway.messages()[-1].strip() == gateway.segments[-1].strip()


@given(
    steps=st.lists(st.one_of(LONG_WRITES, WRITES, TOOLS, REPEATS), min_size=5, max_size=30),
    final=st.sampled_from(["whole", "window", "trimmed window"]),
)
def test_beyond_the_window_nothing_is_lost_and_nothing_repeated(
    steps: list[Step], final: str
) -> None:
    gateway = Gateway(TextTrack(window=200), window=200)
    play(gateway, steps, "\n\n")
    last = gateway.text if final == "whole" else gateway.snapshot()
    gateway.shown += gateway.track.finish(last.rstrip() if final == "trimmed window" else last)
    assert gateway.tokens_shown() == TOKEN.findall(gateway.text)


@given(
    text=st.text(alphabet="ab😀𝄞", max_size=12),
    cuts=st.sets(st.integers(0, 24), max_size=8),
    snapshots=st.lists(st.booleans(), min_size=9, max_size=9),
)
def test_a_text_cut_between_any_two_utf_16_units_arrives_whole(
    text: str, cuts: set[int], snapshots: list[bool]
) -> None:
    units = text.encode("utf-16-le")
    bounds = sorted({0, len(units), *(2 * cut for cut in cuts if 2 * cut < len(units))})
    track = TextTrack()
    chunks: list[Chunk] = []
    for (start, end), with_snapshot in zip(itertools.pairwise(bounds), snapshots, strict=False):
        delta = units[start:end].decode("utf-16-le", "surrogatepass")
        snapshot = units[:end].decode("utf-16-le", "surrogatepass") if with_snapshot else None
        chunks += track.feed(delta, False, snapshot)
    chunks += track.finish(None)
    assert "".join(chunk.text for chunk in chunks) == text
