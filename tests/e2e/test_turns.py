"""Cancels and prompts that overlap: field cases C042, C045 and C046."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from acp_bridge.demo.acp import AcpDemoGateway, AcpRun
from acp_bridge.demo.runs import RunContext
from acp_bridge.demo.server import DemoGateway
from acp_bridge.demo.stage import Stage
from tests.e2e.conftest import GatewayKind, Start
from tests.e2e.scripts import endless
from tests.support.waits import scaled

pytestmark = pytest.mark.e2e


async def endless_then_asking(run: Stage) -> None:
    if run.message == "again":
        await run.exec("ls", "a-file")
        await run.text("done")
    else:
        await endless(run)


def runs(gateway: DemoGateway | AcpDemoGateway) -> list[RunContext | AcpRun]:
    found = gateway.runs
    return [*found.values()] if isinstance(found, dict) else [*found]


def aborts(gateway: DemoGateway | AcpDemoGateway) -> int:
    """How many runs the bridge has stopped; over ACP it says so until it is heard."""
    if isinstance(gateway, DemoGateway):
        return sum(request.method == "chat.abort" for request in gateway.requests)
    return sum(run.aborted for run in gateway.runs)


@pytest.mark.requirement("ACP-65")
@pytest.mark.requirement("C045")
async def test_many_cancels_are_one_and_do_not_touch_the_next_prompt(
    bridge: Start, home: Path, kind: GatewayKind
) -> None:
    async with kind(endless_then_asking, pace=0) as gateway, bridge(gateway) as editor:
        session = await editor.open(home)
        first = editor.prompt(session, "go on for ever")
        await first.shows("begun")
        next_turn, message = editor.prompt_message(session, "again")
        editor.send(*[editor.cancel_message(session)] * 5, message)
        assert await first == "cancelled"
        assert await next_turn == "end_turn"
        assert next_turn.text == "done"
        assert {card.status for card in next_turn.tools} == {"completed"}
        assert aborts(gateway) == 1


@pytest.mark.requirement("ACP-67")
@pytest.mark.requirement("C045")
async def test_a_cancel_of_nothing_does_nothing(
    bridge: Start, home: Path, kind: GatewayKind
) -> None:
    async with kind(endless_then_asking, pace=0) as gateway, bridge(gateway) as editor:
        session = await editor.open(home)
        editor.send(editor.cancel_message(session), editor.cancel_message("unknown"))
        assert await editor.prompt(session, "again") == "end_turn"
        assert aborts(gateway) == 0


@pytest.mark.requirement("ACP-68")
@pytest.mark.requirement("C042")
async def test_a_cancel_right_behind_its_prompt_is_honoured(
    bridge: Start, home: Path, kind: GatewayKind
) -> None:
    async with kind(endless, pace=0) as gateway, bridge(gateway) as editor:
        session = await editor.open(home)
        turn, message = editor.prompt_message(session, "go on for ever")
        editor.send(message, editor.cancel_message(session))
        assert await turn.stop_reason(scaled(2)) == "cancelled"
        assert all(run.aborted for run in runs(gateway))


@pytest.mark.requirement("ACP-69")
@pytest.mark.requirement("C046")
@pytest.mark.parametrize("count", [2, 10])
async def test_of_prompts_that_overlap_the_last_one_wins_and_each_is_answered_once(
    bridge: Start, home: Path, kind: GatewayKind, count: int
) -> None:
    running = 0

    async def one_at_a_time(run: Stage) -> None:
        nonlocal running
        assert running == 0, "two runs at once"
        running += 1
        try:
            if run.message == f"prompt {count - 1}":
                await run.text("the last one")
            else:
                await endless(run)
        finally:
            running -= 1

    async with kind(one_at_a_time, pace=0) as gateway, bridge(gateway) as editor:
        session = await editor.open(home)
        turns = [editor.prompt(session, f"prompt {index}") for index in range(count)]
        reasons = await asyncio.gather(*(turn.stop_reason() for turn in turns))
        assert reasons == ["cancelled"] * (count - 1) + ["end_turn"]
        assert turns[-1].text == "the last one"
        assert [run.status for run in runs(gateway)][-1] == "ok"
        assert all(run.status != "running" for run in runs(gateway))


@pytest.mark.requirement("ACP-70")
async def test_a_cancelled_prompt_request_is_answered(
    bridge: Start, home: Path, kind: GatewayKind
) -> None:
    async with kind(endless, pace=0) as gateway, bridge(gateway) as editor:
        turn = editor.prompt(await editor.open(home), "go on for ever")
        await turn.shows("begun")
        editor.notify("$/cancel_request", {"requestId": "unknown"})
        editor.notify("$/cancel_request", {"requestId": turn.request_id})
        assert await turn == "cancelled"
        assert aborts(gateway) == 1


@pytest.mark.requirement("ACP-49")
async def test_closing_a_session_cancels_its_turn(
    bridge: Start, home: Path, kind: GatewayKind
) -> None:
    async with kind(endless, pace=0) as gateway, bridge(gateway) as editor:
        session = await editor.open(home)
        turn = editor.prompt(session, "go on for ever")
        await turn.shows("begun")
        assert await editor.call("session/close", {"sessionId": session}).result() == {}
        assert await turn == "cancelled"
        error = await editor.prompt(session, "anybody?").error()
        assert (error.code, error.data["code"]) == (-32002, "session_not_found")
        assert aborts(gateway) == 1


@pytest.mark.requirement("ACP-54")
async def test_a_prompt_to_an_unknown_session_is_refused(demo: Start, home: Path) -> None:
    async with demo() as editor:
        await editor.open(home)
        for unknown in ("none", "", "x" * 1_000, "'; drop table sessions; --"):
            error = await editor.prompt(unknown, "Hello").error()
            assert (error.code, error.data["code"]) == (-32002, "session_not_found")
