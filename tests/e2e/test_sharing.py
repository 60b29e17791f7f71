"""Ten bridges of one user at work at once on one ledger: nothing fails, nothing is missing."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from acp_bridge.demo.runs import RunContext
from acp_bridge.demo.server import DemoGateway
from ledger import open_ledger
from ledger.model import Page
from tests.e2e.conftest import Start
from tests.support.editor import EditorProcess, agent_command, editor_environment
from tests.support.transcript import text_of
from tests.support.waits import WAIT, scaled

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(scaled(120))]

BRIDGES = 10
TURNS = 3
UPDATES = 60


async def busy(run: RunContext) -> None:
    """Words and the progress of a tool in turns, as fast as they go."""
    call = await run.tool_start("search", {"query": run.message})
    for number in range(UPDATES):
        await run.tool_update(call, f"{run.message}.{number}")
        if number % 2:
            await run.text(f" {run.message}.{number}")
            await asyncio.sleep(0)
    await run.tool_end(call, "done")


async def converse(editor: EditorProcess, home: Path, name: str) -> tuple[str, str]:
    """A session's id, and the text that was shown of it."""
    session = await editor.open(home)
    for number in range(TURNS):
        turn = editor.prompt(session, f"{name}-{number}")
        assert await turn.stop_reason(scaled(60)) == "end_turn"
    return session, text_of(editor.updates(session))


async def share(bridge: Start, home: Path, url: str) -> None:
    async with DemoGateway(busy, pace=0) as gateway, AsyncExitStack() as stack:
        editors = [
            await stack.enter_async_context(bridge(gateway, "--ledger-url", url))
            for _ in range(BRIDGES)
        ]
        told = await asyncio.gather(
            *(converse(editor, home, f"e{number}") for number, editor in enumerate(editors))
        )
        for editor in editors:
            editor.close_stdin()
            await editor.wait_exit()
            assert editor.stderr == ""

    ledger = open_ledger(url)
    try:
        listed = {record.session_id: record for record in ledger.list_sessions(Page(limit=50))}
        assert listed.keys() == {session for session, _ in told}
        for session, text in told:
            replay = ledger.read(session)
            assert replay is not None
            assert listed[session].complete
            numbers = [entry.seq for entry in replay.entries]
            assert numbers == list(range(1, len(numbers) + 1))
            updates = [entry.payload for entry in replay.entries if entry.kind == "update"]
            assert text_of(updates) == text
            assert len(text.split()) == TURNS * UPDATES // 2
            assert len(replay.runs) == TURNS
    finally:
        ledger.close()


async def test_ten_bridges_share_one_file(bridge: Start, home: Path, tmp_path: Path) -> None:
    await share(bridge, home, f"sqlite:///{tmp_path}/shared.db")


@pytest.mark.postgres
async def test_ten_bridges_share_one_database(
    bridge: Start, home: Path, postgres: PostgresServer
) -> None:
    url = postgres.empty_database()
    migrate = await asyncio.create_subprocess_exec(
        *agent_command("ledger", "migrate", "--ledger-url", url), env=editor_environment(home)
    )
    assert await asyncio.wait_for(migrate.wait(), 4 * WAIT) == 0
    await share(bridge, home, url)
