"""Cancelling a turn, and a second prompt while one runs, against real gateways."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import pytest

from tests.real.conftest import TURN, Bridge
from tests.real.fake_model import FakeModel
from tests.real.model_script import counted
from tests.support.waits import scaled

pytestmark = [pytest.mark.real_gateway, pytest.mark.timeout(180)]

AT_ONCE = scaled(2.0)


def slow_prompt() -> tuple[str, str]:
    """A prompt whose answer takes 20 s, and a mark by which the model's request is found."""
    mark = f"mark-{uuid.uuid4().hex}"
    return f"fake:slow N=400 MS=50 {mark}", mark


async def test_a_cancelled_turn_ends_at_once_and_stops_the_model(
    bridge: Bridge, model: FakeModel, tmp_path: Path
) -> None:
    prompt, mark = slow_prompt()
    async with bridge() as editor:
        session = await editor.open(tmp_path)
        turn = editor.prompt(session, prompt)
        await turn.shows("slow-2", TURN)
        editor.cancel(session)
        assert await turn.stop_reason(AT_ONCE) == "cancelled"
        assert counted("slow-", 400).startswith(turn.text)
        await asyncio.to_thread(model.wait_for, mark, "disconnected")
        after = editor.prompt(session, "fake:say next")
        assert await after.stop_reason(TURN) == "end_turn"
        assert after.texts == ["next"]


async def test_a_cancel_in_the_same_write_as_its_prompt_is_honoured(
    bridge: Bridge, tmp_path: Path
) -> None:
    prompt, _ = slow_prompt()
    async with bridge() as editor:
        session = await editor.open(tmp_path)
        turn, message = editor.prompt_message(session, prompt)
        editor.send(message, editor.cancel_message(session))
        assert await turn.stop_reason(AT_ONCE) == "cancelled"
        after = editor.prompt(session, "fake:say next")
        assert await after.stop_reason(TURN) == "end_turn"
        assert after.texts == ["next"]


async def test_a_cancelled_prompt_request_is_answered(bridge: Bridge, tmp_path: Path) -> None:
    prompt, _ = slow_prompt()
    async with bridge() as editor:
        session = await editor.open(tmp_path)
        turn = editor.prompt(session, prompt)
        await turn.shows("slow-2", TURN)
        editor.notify("$/cancel_request", {"requestId": turn.request_id})
        assert await turn.stop_reason(AT_ONCE) == "cancelled"


async def test_a_tool_that_runs_is_ended_by_a_cancel(bridge: Bridge, tmp_path: Path) -> None:
    async with bridge() as editor:
        session = await editor.open(tmp_path)
        turn = editor.prompt(session, "fake:tool sleep 25")
        await editor.until(lambda: bool(editor.permissions), "a permission request", TURN)
        editor.cancel(session)
        assert await turn.stop_reason(AT_ONCE) == "cancelled"
        assert [card.status for card in turn.tools] == ["failed"]


async def test_a_second_prompt_takes_the_place_of_the_one_that_runs(
    bridge: Bridge, model: FakeModel, tmp_path: Path
) -> None:
    prompt, mark = slow_prompt()
    async with bridge() as editor:
        session = await editor.open(tmp_path)
        first = editor.prompt(session, prompt)
        await first.shows("slow-2", TURN)
        second = editor.prompt(session, "fake:echo N=10")
        assert await first.stop_reason(AT_ONCE) == "cancelled"
        assert await second.stop_reason(TURN) == "end_turn"
        assert second.texts == [counted("chunk-", 10)]
        assert "chunk" not in first.text
        await asyncio.to_thread(model.wait_for, mark, "disconnected")


async def test_closing_a_session_cancels_its_turn(
    bridge: Bridge, model: FakeModel, tmp_path: Path
) -> None:
    prompt, mark = slow_prompt()
    async with bridge() as editor:
        session = await editor.open(tmp_path)
        turn = editor.prompt(session, prompt)
        await turn.shows("slow-2", TURN)
        closing = editor.call("session/close", {"sessionId": session})
        assert await turn.stop_reason(AT_ONCE) == "cancelled"
        assert await closing.result(AT_ONCE) == {}
        await asyncio.to_thread(model.wait_for, mark, "disconnected")


async def test_the_end_of_input_ends_the_bridge_and_stops_the_model(
    bridge: Bridge, model: FakeModel, tmp_path: Path
) -> None:
    prompt, mark = slow_prompt()
    async with bridge("--on-exit", "cancel") as editor:
        turn = editor.prompt(await editor.open(tmp_path), prompt)
        await turn.shows("slow-2", TURN)
        editor.close_stdin()
        assert await editor.wait_exit(AT_ONCE) == 0
        assert await turn.stop_reason() == "cancelled"
        await asyncio.to_thread(model.wait_for, mark, "disconnected")


async def test_the_end_of_input_ends_an_idle_bridge(bridge: Bridge, tmp_path: Path) -> None:
    async with bridge() as editor:
        await editor.open(tmp_path)
        editor.close_stdin()
        assert await editor.wait_exit(AT_ONCE) == 0


async def test_a_prompt_right_after_a_cancelled_one_runs(bridge: Bridge, tmp_path: Path) -> None:
    async with bridge() as editor:
        session = await editor.open(tmp_path)
        first = editor.prompt(session, "fake:slow N=60 MS=100")
        await first.shows("slow-1", TURN)
        second = editor.prompt(session, "fake:slow N=50 MS=100")
        assert await first.stop_reason(TURN) == "cancelled"
        editor.cancel(session)
        third = editor.prompt(session, "fake:say at last")
        assert await second.stop_reason(TURN) == "cancelled"
        assert await third.stop_reason(TURN) == "end_turn"
        assert third.text == "at last"
