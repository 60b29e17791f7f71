"""The installed bridge over a link that breaks in a turn, with both kinds of gateway.

A gateway that speaks ACP as ZeroClaw does goes on unseen: the rest of the answer comes from its
store, where the bridge looks for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from acp_bridge.demo.acp import AcpDemoGateway
from acp_bridge.demo.stage import Stage
from tests.e2e.conftest import GatewayKind, Start
from tests.e2e.test_turns import runs
from tests.support.fault_proxy import Fault, FaultProxy
from tests.support.waits import scaled

pytestmark = pytest.mark.e2e

Break = Callable[[FaultProxy], None]
BREAKS: dict[str, Break] = {
    "cut": lambda proxy: proxy.strike(Fault("cut")),
    "cut for a while": lambda proxy: proxy.strike(Fault("cut", seconds=0.5)),
    "closed by a restart": lambda proxy: proxy.strike(Fault("close", code=1012)),
    "closed without a code": lambda proxy: proxy.strike(Fault("close", code=1005)),
    "closed in the middle of a frame": lambda proxy: proxy.tear(),
}


@pytest.mark.parametrize("broken", BREAKS.values(), ids=[name.replace(" ", "-") for name in BREAKS])
async def test_a_turn_outlives_its_link_and_is_shown_whole_and_once(
    bridge: Start, home: Path, kind: GatewayKind, broken: Break
) -> None:
    goes_on = asyncio.Event()

    async def script(run: Stage) -> None:
        await run.text("one ")
        await goes_on.wait()
        await run.text("two")

    async with (
        kind(script, pace=0) as gateway,
        FaultProxy(gateway.url) as proxy,
        bridge(f"{proxy.url}{'/acp' if kind is AcpDemoGateway else ''}") as editor,
    ):
        session = await editor.open(home)
        turn = editor.prompt(session, "go")
        await turn.shows("one")
        broken(proxy)
        goes_on.set()
        assert await turn.stop_reason(scaled(10)) == "end_turn"
        assert turn.text.split() == ["one", "two"]
        again = editor.prompt(session, "again")
        assert await again.stop_reason(scaled(10)) == "end_turn"
        assert again.text.split() == ["one", "two"]
        assert [run.message for run in runs(gateway)] == ["go", "again"]


async def test_a_turn_whose_end_is_not_stored_yet_is_said_to_be_unseen_and_can_be_left(
    acp: Start, home: Path
) -> None:
    async def script(run: Stage) -> None:
        await run.text("begun")
        await asyncio.Event().wait()

    async with AcpDemoGateway(script, pace=0) as gateway, FaultProxy(gateway.url) as proxy:
        async with acp(f"{proxy.url}/acp") as editor:
            session = await editor.open(home)
            turn = editor.prompt(session, "go")
            await turn.shows("begun")
            proxy.strike(Fault("cut"))
            await turn.shows("cannot be seen", scaled(10))
            editor.cancel(session)
            assert await turn.stop_reason(scaled(10)) == "cancelled"
            busy = await editor.prompt(session, "again").error()
            assert busy.data["code"] == "session_busy"
        assert len(gateway.runs) == 1
