"""Gateways that are restarted in the middle of a run: what is cut is said, and nothing runs twice.

What a restarted gateway goes on with by itself is the rest of the turn. 2026.6.11 does so for a
run that has called a tool; 2026.9.6 for any run, and on SIGTERM it finishes the run first.
"""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest

from acp_bridge.core.effects import DeadlineKind
from acp_bridge.core.endings import given_up
from acp_bridge.core.turn_view import RESUMED
from tests.real.conftest import TURN, Bridge
from tests.real.fake_model import FakeModel
from tests.real.gateway import READY_WITHIN, Gateway, RunningGateway
from tests.real.install import OPENCLAW_VERSIONS, Parts
from tests.real.model_script import counted
from tests.real.scenes import asked_model, load, marked, notices, prompts, said, taken
from tests.support.editor import (
    AgentError,
    EditorProcess,
    PromptHandle,
    agent_command,
    editor_environment,
)
from tests.support.fault_proxy import Fault, FaultProxy
from tests.support.transcript import tool_cards

pytestmark = [pytest.mark.real_gateway, pytest.mark.timeout(300)]

RESTARTED = READY_WITHIN + TURN * 2
"""Seconds for a turn that a restart interrupts: start, the gateway's own pause, and the turn."""
SLOW = "fake:slow N=60 MS=100"
WHOLE = counted("slow-", 60)
LATE = "fake:toolslow echo hi #"
TOLD = "The tool said: hi" + " and then" * 30


async def outcome(turn: PromptHandle) -> str:
    """The stop reason, or the code of the error."""
    try:
        return await turn.stop_reason(RESTARTED)
    except AgentError as error:
        return str(error.data["code"])


async def same_later(
    editor: EditorProcess, session: str, cwd: Path, turns: list[PromptHandle]
) -> None:
    """A later process shows what was shown, each thing once."""
    shown = [update for turn in turns for update in turn.updates]
    again = await load(editor, session, cwd)
    assert said(again) == said(shown)
    assert notices(again) == notices(shown)
    assert [(c.tool_call_id, c.status) for c in tool_cards(again)] == [
        (c.tool_call_id, c.status) for c in tool_cards(shown)
    ]


async def test_a_text_that_a_killed_gateway_cut_goes_on_or_is_said_to_be_lost(
    bridge: Bridge, running: RunningGateway, model: FakeModel, tmp_path: Path
) -> None:
    gateway = running.gateway
    prompt, mark = marked(SLOW)
    async with bridge() as editor:
        session = await editor.open(tmp_path)
        turn = editor.prompt(session, prompt)
        await turn.shows("slow-3", TURN)
        running.kill()
        await asyncio.to_thread(running.start)
        how = await outcome(turn)
        before, _, after = said(turn.updates).partition("slow-0")[2].partition("slow-0")
        if gateway.is_old:
            assert how == "outcome_unknown"
            assert notices(turn.updates) == [given_up(DeadlineKind.RESUME).notice]
            assert (asked_model(model, mark), await taken(gateway, session, mark)) == (1, 0)
        else:
            assert how == "end_turn"
            assert WHOLE.startswith("slow-0" + before)
            assert "slow-0" + after == WHOLE
            assert notices(turn.updates) == [RESUMED]
            assert (asked_model(model, mark), await taken(gateway, session, mark)) == (2, 1)
        following = editor.prompt(session, "fake:say next")
        assert await following.stop_reason(TURN) == "end_turn"
        assert said(following.updates) == "next"
        turns = [turn, following]
    async with bridge() as editor:
        await same_later(editor, session, tmp_path, turns)
        assert prompts(editor.updates(session)) == [prompt, "fake:say next"]


@pytest.mark.parametrize("breaks_again", [False, True])
async def test_the_rest_of_a_turn_with_a_tool_is_shown_after_a_killed_gateway_is_back(
    bridge: Bridge,
    running: RunningGateway,
    model: FakeModel,
    tmp_path: Path,
    breaks_again: bool,
) -> None:
    gateway = running.gateway
    prompt, mark = marked(LATE)
    async with FaultProxy(gateway.url) as proxy, bridge(url=proxy.url) as editor:
        session = await editor.open(tmp_path)
        turn = editor.prompt(session, prompt)
        await turn.shows("and then", TURN)
        running.kill()
        await asyncio.to_thread(running.start)
        if breaks_again:
            await editor.until(
                lambda: "and then" in turn.text.partition(RESUMED)[2], "the rest", RESTARTED
            )
            proxy.strike(Fault("cut", seconds=8.0))  # until the rest has come to its end
        assert await outcome(turn) == "end_turn"
        assert said(turn.updates).endswith(TOLD)
        assert notices(turn.updates) == [RESUMED]
        assert [card.status for card in turn.tools] == ["completed"]
        assert len(editor.permissions) == 1
        assert await taken(gateway, session, mark) == 1
        assert asked_model(model, mark) == 3
        following = editor.prompt(session, "fake:say next")
        assert await following.stop_reason(TURN) == "end_turn"
        assert said(following.updates) == "next"
        turns = [turn, following]
    async with bridge() as editor:
        await same_later(editor, session, tmp_path, turns)
        assert prompts(editor.updates(session)) == [prompt, "fake:say next"]


async def test_a_gateway_that_is_told_to_stop_finishes_the_turn_or_it_is_said_to_be_lost(
    bridge: Bridge, running: RunningGateway, model: FakeModel, tmp_path: Path
) -> None:
    gateway = running.gateway
    prompt, mark = marked(SLOW)
    async with bridge() as editor:
        session = await editor.open(tmp_path)
        turn = editor.prompt(session, prompt)
        await turn.shows("slow-3", TURN)
        assert await asyncio.to_thread(running.stop, TURN)
        await asyncio.to_thread(running.start)
        how = await outcome(turn)
        if gateway.is_old:
            assert how == "outcome_unknown"
            assert WHOLE.startswith(said(turn.updates))
        else:
            assert how == "end_turn"
            assert said(turn.updates) == WHOLE
            assert notices(turn.updates) == []
        assert asked_model(model, mark) == 1
        following = editor.prompt(session, "fake:say next")
        assert await following.stop_reason(TURN) == "end_turn"
        turns = [turn, following]
    async with bridge() as editor:
        await same_later(editor, session, tmp_path, turns)


async def test_a_prompt_that_comes_while_the_gateway_winds_down_is_answered_after_its_start(
    bridge: Bridge, running: RunningGateway, model: FakeModel, tmp_path: Path
) -> None:
    prompt, mark = marked("fake:say later")
    async with bridge() as editor:
        session = await editor.open(tmp_path)
        params = {"cwd": str(tmp_path), "mcpServers": []}
        other = (await editor.call("session/new", params).result(TURN))["sessionId"]
        warm = editor.prompt(other, "fake:say warm")
        assert await warm.stop_reason(TURN) == "end_turn"
        await editor.prompt(session, SLOW).shows("slow-3", TURN)
        stopping = asyncio.create_task(asyncio.to_thread(running.stop, TURN))
        await asyncio.sleep(1.0)  # 2026.9.6 finishes what runs, and takes nothing new meanwhile
        late = editor.prompt(other, prompt)
        assert await stopping
        await asyncio.to_thread(running.start)
        assert await late.stop_reason(RESTARTED) == "end_turn"
        assert said(late.updates) == f"later {mark}"
        assert (asked_model(model, mark), await taken(running.gateway, other, mark)) == (1, 1)


@pytest.mark.xdist_group(OPENCLAW_VERSIONS[0])
async def test_a_session_goes_on_under_its_id_when_the_gateway_is_upgraded(
    parts: Parts, model: FakeModel, tmp_path: Path
) -> None:
    old = Gateway.prepare(parts, OPENCLAW_VERSIONS[0], model.url, tmp_path / "gateway")
    new = dataclasses.replace(old, version=OPENCLAW_VERSIONS[1])
    command = agent_command("--url", old.url, "--token-file", str(old.token_file))
    environment = editor_environment(tmp_path)
    async with EditorProcess(command, env=environment, cwd=tmp_path) as editor:
        before = old.run()
        await asyncio.to_thread(before.start)
        try:
            session = await editor.open(tmp_path, timeout=TURN)
            first = editor.prompt(session, "fake:say before")
            assert await first.stop_reason(TURN) == "end_turn"
        finally:
            await asyncio.to_thread(before.__exit__)
        after = new.run()
        await asyncio.to_thread(after.start)
        try:
            # Its text may come in a run of the gateway's own: a 2026.9.6 that was just upgraded has
            # work to do in the session, and takes prompts into that.
            second = editor.prompt(session, "fake:say after")
            assert await second.stop_reason(TURN) == "end_turn"
            assert await taken(new, session, "fake:say before") == 1
        finally:
            await asyncio.to_thread(after.__exit__)


async def test_a_known_session_answers_after_a_restart_or_the_error_tells_what_helps(
    bridge: Bridge, running: RunningGateway, tmp_path: Path
) -> None:
    async with bridge() as editor:
        session = await editor.open(tmp_path)
        assert await outcome(editor.prompt(session, "fake:say before")) == "end_turn"
        assert await asyncio.to_thread(running.stop, READY_WITHIN)
        await asyncio.to_thread(running.start)
        assert await outcome(editor.prompt(session, "fake:say one")) == "end_turn"
        second = editor.prompt(session, "fake:say two")
        if not running.gateway.is_old:
            assert await outcome(second) == "end_turn"
            return
        error = await second.error(TURN)
        assert error.data["kind"] == "session_conflict"
        assert "/status" in error.data["hint"]
        other = await editor.new_session(tmp_path)
        assert await outcome(editor.prompt(other, "/status")) == "end_turn"
        # The gateway puts what it has refused before the next prompt; the model obeys the first.
        for answer in ("two", "three"):
            after = editor.prompt(session, "fake:say three")
            assert await outcome(after) == "end_turn"
            assert said(after.updates) == answer
