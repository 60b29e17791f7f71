"""How much one turn may bring: at each bound, and one past it."""

from __future__ import annotations

from typing import Any

import pytest

from acp_bridge.core import effects as fx
from acp_bridge.core import events as ev
from acp_bridge.core.budget import MAX_BYTES, MAX_CALLS, Budget
from acp_bridge.core.commands import StartRun
from acp_bridge.core.live_turn import Turn
from acp_bridge.core.turn_base import MAX_EARLY
from acp_bridge.core.turn_view import CUT_OFF
from acp_bridge.ids import RunId, SessionId, SessionKey, ToolCallId
from tests.support.transcript import text_of

RUN, KEY = RunId("r"), SessionKey("k")
MIB = 1024 * 1024


def said(text: str) -> ev.TextProgress:
    return ev.TextProgress(RUN, text, replace=False, snapshot=None)


def thought(text: str) -> ev.ThoughtProgress:
    return ev.ThoughtProgress(RUN, text, None)


def begun(name: str, args: Any = None) -> ev.ToolStarted:
    return ev.ToolStarted(RUN, ToolCallId(name), "exec", args)


def ended(name: str, result: Any = None) -> ev.ToolEnded:
    return ev.ToolEnded(RUN, ToolCallId(name), "exec", False, result)


def running() -> Turn:
    turn = Turn(SessionId("s"), StartRun(RUN, KEY, "hello"), cwd="/", prompt={})
    turn.begin(is_link_up=True)
    turn.recorded()
    turn.grant_slot()
    turn.handle(ev.RunAccepted(RUN))
    return turn


def updates(effects: list[fx.Effect]) -> list[Any]:
    return [each.update for each in effects if isinstance(each, fx.Show)]


@pytest.mark.parametrize("made", [said, thought])
def test_text_is_taken_up_to_the_bound_and_a_byte_past_it_is_not(made: Any) -> None:
    budget = Budget()
    assert all(budget.takes(made("x" * MIB)) for _ in range(MAX_BYTES // MIB))
    assert not budget.takes(made("x"))
    assert not budget.takes(begun("a call"))


def test_snapshots_that_repeat_the_text_cost_what_they_add() -> None:
    budget = Budget(max_bytes=1_000)
    for size in range(0, 1_001, 10):
        assert budget.takes(ev.TextProgress(RUN, None, replace=False, snapshot="x" * size))
    assert not budget.takes(ev.TextProgress(RUN, None, replace=False, snapshot="x" * 1_001))


def test_one_tool_call_more_than_the_bound_is_not_taken() -> None:
    budget = Budget()
    for number in range(MAX_CALLS):
        assert budget.takes(begun(f"call-{number}"))
        assert budget.takes(ended(f"call-{number}"))
    assert not budget.takes(begun("one more"))


def test_output_that_is_told_again_and_again_is_counted_once() -> None:
    budget = Budget(max_bytes=10_000)
    for _ in range(1_000):
        assert budget.takes(ev.ToolProgress(RUN, ToolCallId("c"), "exec", {"text": "x" * 1_000}))


def test_past_the_bound_a_turn_says_so_once_shows_no_more_and_ends_as_it_ends() -> None:
    turn = running()
    part = "x" * MIB
    shown = [text_of(updates(turn.handle(said(part)))) for _ in range(MAX_BYTES // MIB)]
    assert shown == [part] * len(shown)
    assert CUT_OFF in text_of(updates(turn.handle(said(part))))
    assert updates(turn.handle(said(part))) == []
    assert updates(turn.handle(begun("c"))) == []
    end = turn.handle(ev.RunEnded(RUN, ev.EndKind.FINISHED, stop_reason="end_turn"))
    assert fx.Answer("end_turn") in end


def test_news_that_wait_for_what_was_missed_are_bounded() -> None:
    turn = running()
    turn.link_lost()
    turn.link_up()
    for number in range(MAX_EARLY + 10):
        turn.handle(said(f"{number} "))
    effects = turn.handle(ev.RunReported(RUN, ev.RunState.RUNNING, "0 "))
    words = text_of(updates(effects)).split()
    assert words[-1] == str(MAX_EARLY - 1)
