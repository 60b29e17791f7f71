"""Links that break in the middle of a run, against real gateways: nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from tests.real.conftest import TURN, Bridge
from tests.real.fake_model import FakeModel
from tests.real.gateway import Gateway
from tests.real.model_script import chained, counted, text_of
from tests.real.scenes import (
    asked_model,
    load,
    marked,
    notices,
    other_client,
    prompts,
    rows_of,
    said,
    taken,
)
from tests.support.editor import EditorProcess
from tests.support.fault_proxy import Fault, FaultProxy
from tests.support.permission_policies import allow_once, never
from tests.support.transcript import tool_cards
from tests.support.waits import scaled

pytestmark = [pytest.mark.real_gateway, pytest.mark.timeout(180)]

AT_ONCE = scaled(2.0)
OUTAGE = Fault("cut", seconds=600.0)
"""One that the test ends itself."""
STOPPED = float(os.environ.get("ACP_BRIDGE_TEST_STOPPED", "15"))
"""Seconds for which the bridge is stopped; more than ten are noticed as a sleep."""
STEPS = 4
ENDS = frozenset({"chat final", "agent lifecycle"})
WORDS = frozenset({"chat delta", "agent assistant"})


async def what_was_done(gateway: Gateway, session: str) -> tuple[list[str], list[str]]:
    """The texts and the statuses of a turn of ``fake:chain``, by what the gateway has kept.

    2026.9.6 denies at once what would have to be asked while nobody is connected.
    """
    rows = await rows_of(gateway, session)
    results = [text_of(row["content"]) for row in rows if row["role"] == "toolResult"]
    statuses = [
        "completed" if result == f"step-{number}" else "failed"
        for number, result in enumerate(results, 1)
    ]
    assert len(results) == STEPS
    assert statuses.count("failed") <= (1 if gateway.is_old else STEPS)
    last = next(row for row in reversed(rows) if row["role"] == "assistant")
    return [*chained(STEPS), text_of(last["content"])], statuses


@pytest.mark.parametrize("first", [1, 4, 7, 10, 13])
async def test_a_link_that_breaks_anywhere_in_a_run_with_tools_loses_and_doubles_nothing(
    bridge: Bridge, gateway: Gateway, model: FakeModel, tmp_path: Path, first: int
) -> None:
    prompt, mark = marked(f"fake:chain N={STEPS}")
    async with FaultProxy(gateway.url) as proxy, bridge(url=proxy.url) as editor:
        session = await editor.open(tmp_path)
        turn = editor.prompt(session, prompt)
        proxy.plan(*(Fault("cut", after, seconds=0.2) for after in (first, 22, 30, 38)))
        assert await turn.stop_reason(TURN * 2) == "end_turn"
        proxy.heal()
        assert proxy.struck["cut"] in (3, 4)  # what is denied at once makes fewer frames
        assert proxy.called["chat.send"] - 1 in range(proxy.struck["cut"])
        parts, statuses = await what_was_done(gateway, session)
        # A tool that nobody saw leaves only the empty line around it.
        assert "".join(said(turn.updates).split()) == "".join("".join(parts).split())
        # 2026.9.6 may list an approval that it is about to deny, as nobody was there to be asked.
        told = [text for text in notices(turn.updates) if "did not take the answer" not in text]
        assert told == []
        # A question may come before the probe's answer, which tells of the tools before it.
        assert sorted(card.status for card in turn.tools) == sorted(statuses)
        assert statuses.count("completed") <= len(editor.permissions) <= STEPS
        assert await taken(gateway, session, mark) == 1
        assert asked_model(model, mark) == STEPS + 1
        shown = turn.updates
    async with bridge() as editor:
        again = await load(editor, session, tmp_path)
        assert prompts(again) == [prompt]
        assert said(again) == said(shown)
        assert [c.status for c in tool_cards(again)] == [c.status for c in tool_cards(shown)]


async def test_an_answer_given_while_the_link_is_away_is_delivered_once(
    bridge: Bridge, gateway: Gateway, tmp_path: Path
) -> None:
    async with FaultProxy(gateway.url) as proxy, bridge(url=proxy.url) as editor:
        session = await editor.open(tmp_path)
        editor.permission_policy = never
        turn = editor.prompt(session, "fake:tool echo allowed")
        await editor.until(lambda: bool(editor.permissions), "a question", TURN)
        proxy.strike(OUTAGE)
        await editor.until_stderr("cannot be reached", TURN)
        editor.answer_permission(
            editor.permissions[0], allow_once(editor.permissions[0]["params"]) or {}
        )
        await asyncio.sleep(1.0)  # the outage
        assert proxy.called["exec.approval.resolve"] == 0
        proxy.heal()
        assert await turn.stop_reason(TURN) == "end_turn"
        assert said(turn.updates) == "Calling a tool.The tool said: allowed"
        assert [card.status for card in turn.tools] == ["completed"]
        assert len(editor.permissions) == 1
        assert proxy.called["exec.approval.resolve"] == 1


@pytest.mark.parametrize("decision", ["allow-once", "deny"])
async def test_a_question_that_another_client_answered_meanwhile_is_withdrawn_with_a_line(
    bridge: Bridge, gateway: Gateway, tmp_path: Path, decision: str
) -> None:
    async with FaultProxy(gateway.url) as proxy, bridge(url=proxy.url) as editor:
        session = await editor.open(tmp_path)
        editor.permission_policy = never
        turn = editor.prompt(session, "fake:tool echo decided")
        await editor.until(lambda: bool(editor.permissions), "a question", TURN)
        async with other_client(gateway) as other:
            (waiting,) = (
                each["id"]
                for each in await other.call("exec.approval.list")
                if session in each["request"]["sessionKey"]
            )
            proxy.strike(OUTAGE)
            await other.call("exec.approval.resolve", {"id": waiting, "decision": decision})
        await asyncio.sleep(0.5)  # the outage
        proxy.heal()
        assert await turn.stop_reason(TURN) == "end_turn"
        is_allowed = decision == "allow-once"
        assert ("The tool said: decided" in said(turn.updates)) is is_allowed
        assert [card.status for card in turn.tools] == ["completed" if is_allowed else "failed"]
        assert editor.withdrawn() == [editor.permissions[0]["id"]]
        assert len(editor.permissions) == 1
        told = [text for text in notices(turn.updates) if "while the connection was lost" in text]
        assert len(told) == 1
        assert proxy.called["exec.approval.resolve"] == 0


async def test_a_cancel_while_the_link_is_away_is_answered_at_once_and_delivered_once(
    bridge: Bridge, gateway: Gateway, model: FakeModel, tmp_path: Path
) -> None:
    prompt, mark = marked("fake:slow N=400 MS=50")
    async with FaultProxy(gateway.url) as proxy, bridge(url=proxy.url) as editor:
        session = await editor.open(tmp_path)
        turn = editor.prompt(session, prompt)
        await turn.shows("slow-2", TURN)
        proxy.strike(OUTAGE)
        await editor.until_stderr("cannot be reached", TURN)
        editor.cancel(session)
        assert await turn.stop_reason(AT_ONCE) == "cancelled"
        assert proxy.called["chat.abort"] == 0
        proxy.heal()
        await asyncio.to_thread(model.wait_for, mark, "disconnected", TURN)
        after = editor.prompt(session, "fake:say next")
        assert await after.stop_reason(TURN) == "end_turn"
        assert said(after.updates) == "next"
        assert proxy.called["chat.abort"] == 1
        assert counted("slow-", 400).startswith(said(turn.updates))
        assert asked_model(model, mark) == 1


async def stop_for_long(editor: EditorProcess, proxy: FaultProxy, is_cut: bool) -> None:
    """Stop the bridge as a sleeping machine does; ``is_cut`` says whether its link breaks too."""
    editor.signal(signal.SIGSTOP)
    try:
        await asyncio.sleep(STOPPED / 2)  # the outage
        if is_cut:
            proxy.strike(OUTAGE)
            proxy.heal()
        await asyncio.sleep(STOPPED / 2)
    finally:
        editor.signal(signal.SIGCONT)


@pytest.mark.timeout(STOPPED + 180)
@pytest.mark.parametrize("is_cut", [True, False])
async def test_a_prompt_right_after_a_long_stop_is_answered_over_one_new_connection(
    bridge: Bridge, gateway: Gateway, model: FakeModel, tmp_path: Path, is_cut: bool
) -> None:
    prompt, mark = marked("fake:say awake")
    async with FaultProxy(gateway.url) as proxy, bridge(url=proxy.url) as editor:
        session = await editor.open(tmp_path)
        await stop_for_long(editor, proxy, is_cut)
        turn = editor.prompt(session, prompt)
        assert await turn.stop_reason(TURN) == "end_turn"
        assert said(turn.updates).startswith("awake")
        assert proxy.called["connect"] == 2
        assert (asked_model(model, mark), await taken(gateway, session, mark)) == (1, 1)


@pytest.mark.timeout(STOPPED + 180)
async def test_a_run_that_ended_during_a_long_stop_is_shown_to_its_end(
    bridge: Bridge, gateway: Gateway, model: FakeModel, tmp_path: Path
) -> None:
    words = int(STOPPED * 7.5)  # three quarters of the time, so beyond the cut
    prompt, mark = marked(f"fake:slow N={words} MS=100")
    async with FaultProxy(gateway.url) as proxy, bridge(url=proxy.url) as editor:
        session = await editor.open(tmp_path)
        turn = editor.prompt(session, prompt)
        await turn.shows("slow-2", TURN)
        await stop_for_long(editor, proxy, is_cut=True)
        assert await turn.stop_reason(TURN) == "end_turn"
        assert said(turn.updates) == counted("slow-", words)
        assert proxy.called["connect"] == 2
        assert (asked_model(model, mark), await taken(gateway, session, mark)) == (1, 1)


@pytest.mark.parametrize("lost", [ENDS, ENDS | WORDS])
async def test_a_run_whose_end_never_comes_is_asked_about_and_shown_to_its_end(
    bridge: Bridge, gateway: Gateway, model: FakeModel, tmp_path: Path, lost: frozenset[str]
) -> None:
    prompt, mark = marked("fake:slow N=20 MS=100")
    async with (
        FaultProxy(gateway.url) as proxy,
        bridge("--stall-timeout", "3", url=proxy.url) as editor,
    ):
        session = await editor.open(tmp_path)
        turn = editor.prompt(session, prompt)
        await turn.shows("slow-2", TURN)
        proxy.strike(Fault("drop events", names=lost, times=1000))
        assert await turn.stop_reason(TURN) == "end_turn"
        assert proxy.dropped >= {"chat final"}
        assert said(turn.updates) == counted("slow-", 20)
        assert notices(turn.updates) == []
        assert (asked_model(model, mark), await taken(gateway, session, mark)) == (1, 1)


async def test_a_run_that_its_editor_left_is_taken_up_by_the_next_process(
    bridge: Bridge, gateway: Gateway, model: FakeModel, tmp_path: Path
) -> None:
    prompt, mark = marked("fake:slow N=60 MS=100")
    whole = counted("slow-", 60)
    async with bridge() as editor:
        session = await editor.open(tmp_path)
        turn = editor.prompt(session, prompt)
        await turn.shows("slow-2", TURN)
        editor.close_stdin()
        assert (await turn.error(AT_ONCE)).data["code"] == "detached"
        assert await editor.wait_exit(AT_ONCE) == 0
    async with bridge() as editor:
        replay = await load(editor, session, tmp_path)
        assert prompts(replay) == [prompt]
        assert len(said(replay)) < len(whole)
        await editor.until(lambda: said(editor.updates(session)) == whole, "all of it", TURN)
        after = editor.prompt(session, "fake:say next")
        assert await after.stop_reason(TURN) == "end_turn"
        assert said(after.updates) == "next"
    async with bridge() as editor:
        replay = await load(editor, session, tmp_path)
        assert prompts(replay) == [prompt, "fake:say next"]
        assert said(replay) == whole + "next"
        assert notices(replay) == []
    assert (asked_model(model, mark), await taken(gateway, session, mark)) == (1, 1)


async def test_a_question_that_its_editor_left_open_is_asked_once_by_the_next_process(
    bridge: Bridge, gateway: Gateway, model: FakeModel, tmp_path: Path
) -> None:
    prompt, mark = marked("fake:tool echo later #")
    async with bridge() as editor:
        session = await editor.open(tmp_path)
        editor.permission_policy = never
        turn = editor.prompt(session, prompt)
        await editor.until(lambda: bool(editor.permissions), "a question", TURN)
        editor.close_stdin()
        assert (await turn.error(AT_ONCE)).data["code"] == "detached"
        assert await editor.wait_exit(AT_ONCE) == 0
    async with bridge() as editor:
        assert prompts(await load(editor, session, tmp_path)) == [prompt]
        await editor.until(
            lambda: said(editor.updates(session)).endswith("said: later"), "the end", TURN
        )
        assert len(editor.permissions) == 1
        cards = tool_cards(editor.updates(session))
        assert [card.status for card in cards] == ["completed"]
        after = editor.prompt(session, "fake:say next")
        assert await after.stop_reason(TURN) == "end_turn"
    async with bridge() as editor:
        replay = await load(editor, session, tmp_path)
        assert prompts(replay) == [prompt, "fake:say next"]
        assert said(replay) == "Calling a tool.The tool said: laternext"
        assert [card.status for card in tool_cards(replay)] == ["completed"]
    assert (asked_model(model, mark), await taken(gateway, session, mark)) == (2, 1)


async def test_two_windows_of_one_session_do_not_disturb_each_other(
    bridge: Bridge, gateway: Gateway, model: FakeModel, tmp_path: Path
) -> None:
    prompt, mark = marked("fake:slow N=40 MS=100")
    async with bridge() as first:
        session = await first.open(tmp_path)
        assert await first.prompt(session, "fake:say one").stop_reason(TURN) == "end_turn"
        async with bridge() as second:
            await load(second, session, tmp_path)
            turn = first.prompt(session, prompt)
            await turn.shows("slow-2", TURN)
            second.cancel(session)  # nothing of its own runs
        # And it was closed while the run went on.
        assert await turn.stop_reason(TURN) == "end_turn"
        assert said(turn.updates) == counted("slow-", 40)
    assert (asked_model(model, mark), await taken(gateway, session, mark)) == (1, 1)


async def test_a_window_that_is_opened_in_the_middle_of_a_run_waits_with_its_prompt(
    bridge: Bridge, gateway: Gateway, model: FakeModel, tmp_path: Path
) -> None:
    prompt, mark = marked("fake:slow N=60 MS=100")
    async with bridge() as first, bridge() as second:
        session = await first.open(tmp_path)
        turn = first.prompt(session, prompt)
        await turn.shows("slow-2", TURN)
        await load(second, session, tmp_path)
        late = second.prompt(session, "fake:say two")
        assert await turn.stop_reason(TURN) == "end_turn"
        assert said(turn.updates) == counted("slow-", 60)
        assert await late.stop_reason(TURN) == "end_turn"
        assert said(second.updates(session)) == counted("slow-", 60) + "two"
    assert (asked_model(model, mark), await taken(gateway, session, mark)) == (1, 1)
