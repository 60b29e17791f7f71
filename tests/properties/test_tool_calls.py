"""Tool calls whose news come in any order, from any stream, cut short anywhere."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.core import events as ev
from acp_bridge.ids import RunId, ToolCallId
from tests.support.cards import Cards

RUN = RunId("r")
IDS = st.sampled_from([ToolCallId("a"), ToolCallId("b")])
NAMES = st.sampled_from([None, "exec", "write", "apply_patch"])
TEXTS = st.sampled_from(["", "1", "1\n2\n", "1\n2\n3", "other", "x" * 5_000, "x" * 9_000, "\ud83d"])
VALUES = st.one_of(
    TEXTS,
    st.none(),
    st.integers(),
    st.builds(lambda text: {"content": [{"type": "text", "text": text}]}, TEXTS),
    st.builds(lambda code: {"details": {"exitCode": code}}, st.none() | st.integers(-1, 3)),
    st.builds(lambda text: {"path": "a", "content": text, "command": text}, TEXTS),
)
EVENTS = st.one_of(
    st.builds(ev.ToolStarted, st.just(RUN), IDS, NAMES, VALUES),
    st.builds(ev.ToolProgress, st.just(RUN), IDS, NAMES, VALUES),
    st.builds(ev.ToolEnded, st.just(RUN), IDS, NAMES, st.booleans(), VALUES),
    st.builds(
        ev.ItemChanged,
        st.just(RUN),
        IDS,
        st.sampled_from(["start", "update", "end", "new phase"]),
        st.sampled_from(["tool", "command", "patch", "new"]),
        NAMES,
        st.none() | TEXTS,
        st.booleans(),
        st.none() | TEXTS,
    ),
    st.builds(
        ev.CommandOutput,
        st.just(RUN),
        IDS,
        NAMES,
        st.none() | TEXTS,
        TEXTS,
        st.booleans(),
        st.none() | st.integers(-1, 3),
        st.none(),
    ),
)


@given(
    before=st.lists(EVENTS, max_size=15), after=st.lists(EVENTS, max_size=15), failed=st.booleans()
)
@pytest.mark.requirement("C032")
@pytest.mark.requirement("C035")
@pytest.mark.requirement("ACP-75")
@pytest.mark.requirement("ACP-76")
def test_each_call_has_one_card_and_one_end(
    before: list[Any], after: list[Any], failed: bool
) -> None:
    cards = Cards()  # refuses a second card, a second end, and what ACP does not know
    cards.feed(*before)
    cards.calls.assume_no_tool_stream()
    cards.feed(*after)
    still_open = cards.calls.open_ids
    assert set(still_open) == {
        call for call, card in cards.cards.items() if card["status"] == "in_progress"
    }
    cards.take(cards.calls.end_all(failed, None))
    assert cards.calls.open_ids == ()
    for call, card in cards.cards.items():
        assert card["status"] in ("completed", "failed")
        assert card["title"]
        assert call not in still_open or card["status"] == ("failed" if failed else "completed")


@given(st.lists(st.integers(1, 400), min_size=1, max_size=60))
@pytest.mark.requirement("C036")
def test_the_bytes_of_a_growing_output_are_linear_in_it(steps: list[int]) -> None:
    cards = Cards()
    text = ""
    small = 0
    for step in steps:
        text += "output line\n" * step
        cards.feed(ev.ToolProgress(RUN, ToolCallId("a"), "exec", text))
        if len(text) <= 4_096:
            small = cards.bytes
    # Beyond 4 KiB each text sent is at most two thirds of the next one; an escaped newline has
    # two bytes, and each update its own fields.
    assert cards.bytes - small <= 3 * len(text) * 13 / 12 + len(steps) * 150
    cards.feed(ev.ToolEnded(RUN, ToolCallId("a"), "exec", False, text))
    assert cards.text("a").endswith("output line\n")
