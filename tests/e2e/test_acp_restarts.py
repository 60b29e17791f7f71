"""A gateway that speaks ACP and is started anew: what it worked on is over, and that is told."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from acp_bridge.core.turn_view import UNSEEN
from acp_bridge.demo.acp import AcpDemoGateway, AcpRun
from acp_bridge.gateway.dialects.acp_ws.memory import Process
from acp_bridge.gateway.health import ask, read_process
from tests.e2e.conftest import Start
from tests.support.editor import EditorProcess
from tests.support.waits import scaled
from tests.support.zeroclaw_door import Door, door

pytestmark = pytest.mark.e2e


async def work(run: AcpRun) -> None:
    """Never ends, but for what says hello."""
    await run.text("begun ")
    if run.message != "hello":
        await asyncio.Event().wait()


async def begun(editor: EditorProcess, home: Path, gateway: AcpDemoGateway) -> str:
    """A session with a run at work."""
    session = await editor.open(home)
    editor.prompt(session, "work")
    await gateway.wait_run()
    await editor.until(lambda: "begun" in editor.text_of(session), "the beginning is shown")
    return session


async def test_a_turn_of_a_process_that_is_gone_ends_and_frees_its_session(
    acp: Start, home: Path
) -> None:
    async with (
        AcpDemoGateway(work, pace=0) as gateway,
        door(gateway) as way,
        acp(way.url) as editor,
    ):
        way.health = {"runtime": {"pid": 1, "uptime_seconds": 100}}
        session = await editor.open(home)
        turn = editor.prompt(session, "work")
        await turn.shows("begun")
        await asked(way)
        way.health = {"runtime": {"pid": 1, "uptime_seconds": 2}}
        await gateway.restart()
        error = await turn.error(timeout=scaled(15))
        assert error.data["code"] == "outcome_unknown"
        assert await editor.prompt(session, "hello") == "end_turn"
        assert gateway.methods().count("session/prompt") == 2


async def test_one_whose_process_goes_on_is_waited_for(acp: Start, home: Path) -> None:
    async with (
        AcpDemoGateway(work, pace=0) as gateway,
        door(gateway) as way,
        acp(way.url) as editor,
    ):
        way.health = {"runtime": {"pid": 1, "uptime_seconds": 100}}
        session = await begun(editor, home, gateway)
        await asked(way)
        way.news.clear()
        way.health = {"runtime": {"pid": 1, "uptime_seconds": 101}}
        gateway.drop_connections()
        await asked(way)
        await editor.until(lambda: UNSEEN in editor.text_of(session), "it is waited for")
        await gateway.wait_call("session/load", 2)
        error = await editor.prompt(session, "hello").error()
        assert error.data["code"] == "session_busy"


async def asked(way: Door) -> None:
    async with asyncio.timeout(scaled(10)):
        await way.news.wait()
    assert set(way.asked) == {"GET /health"}


async def test_the_process_is_told_by_the_gateway() -> None:
    async with AcpDemoGateway(work) as gateway:
        first = await asyncio.to_thread(ask, gateway.url)
        await gateway.restart()
        again = await asyncio.to_thread(ask, gateway.url)
    assert first is not None
    assert again is not None
    assert again.is_after(first)
    assert await asyncio.to_thread(ask, gateway.url) is None


@pytest.mark.parametrize(
    ("runtime", "process"),
    [
        ({"pid": 7, "uptime_seconds": 0, "components": {}}, Process(7, 0)),
        ({"pid": "7", "uptime_seconds": 0}, None),
        ({"pid": 7}, None),
        (None, None),
    ],
)
def test_what_does_not_name_a_process_tells_nothing(
    runtime: object, process: Process | None
) -> None:
    assert read_process(runtime) == process
