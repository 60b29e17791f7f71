"""The installed bridge with its ledger in a PostgreSQL database."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from acp_bridge.demo.server import DemoGateway
from acp_bridge.demo.stage import Stage
from tests.e2e.conftest import GatewayKind, Start
from tests.e2e.scripts import echo
from tests.support.editor import agent_command, editor_environment
from tests.support.waits import WAIT

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer

pytestmark = [pytest.mark.e2e, pytest.mark.postgres]


def migrate(home: Path, url: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        agent_command("ledger", "migrate", "--ledger-url", url),
        env=editor_environment(home),
        capture_output=True,
        text=True,
        timeout=4 * WAIT,
        check=False,
    )


async def test_a_database_that_was_not_prepared_is_told_with_the_command_for_it(
    bridge: Start, home: Path, kind: GatewayKind, postgres: PostgresServer
) -> None:
    url = postgres.empty_database()
    async with (
        kind(echo, pace=0) as gateway,
        bridge(gateway, ACP_BRIDGE_LEDGER_URL=url) as editor,
    ):
        session = await editor.open(home)
        assert await editor.prompt(session, "Hello") == "end_turn"
        await editor.until_stderr("acp-bridge ledger migrate")
        editor.close_stdin()
        await editor.wait_exit()
        assert len(editor.stderr.splitlines()) == 1


async def test_after_migrate_sessions_outlive_the_process(
    bridge: Start, home: Path, kind: GatewayKind, postgres: PostgresServer
) -> None:
    url = postgres.empty_database()
    done = migrate(home, url)
    assert done.returncode == 0, done.stderr
    async with kind(echo, pace=0) as gateway:
        async with bridge(gateway, "--ledger-url", url) as editor:
            session = await editor.open(home)
            assert await editor.prompt(session, "Hello") == "end_turn"
        async with bridge(gateway, "--ledger-url", url) as editor:
            await editor.initialize()
            wanted = {"sessionId": session, "cwd": str(home), "mcpServers": []}
            await editor.call("session/load", wanted).result(WAIT)
            assert editor.text_of(session) == "Hello"
    assert not [path for path in home.rglob("*.db") if path.is_file()]  # noqa: ASYNC240 - it is over


async def test_a_server_that_hangs_holds_up_no_line_and_has_everything_once_afterwards(
    bridge: Start, home: Path, postgres: PostgresServer
) -> None:
    url = postgres.ledger_database()
    words: asyncio.Queue[str] = asyncio.Queue()

    async def says_what_comes(run: Stage) -> None:
        if run.message == "Go on":
            await run.text("end")
            return
        while True:
            await run.text(await words.get())

    async with DemoGateway(says_what_comes, pace=0) as gateway:
        async with bridge(gateway, "--ledger-url", url) as editor:
            session = await editor.open(home)
            turn = editor.prompt(session, "Go")
            words.put_nowait(" one")
            await turn.shows("one")
            with postgres.hung():
                for number in range(4):
                    words.put_nowait(f" more{number}")
                    await turn.shows(f" more{number}", 2)
                await editor.call("session/list").answer(2)
                await editor.until_stderr("the conversation is not recorded")
                words.put_nowait(" late")
                await turn.shows(" late", 2)
                editor.cancel(session)
                assert await turn.stop_reason(2) == "cancelled"
                shown = turn.text
            assert await editor.prompt(session, "Go on") == "end_turn"
            editor.close_stdin()
            await editor.wait_exit()
            assert editor.stderr.count("the conversation is not recorded") == 1
        async with bridge(gateway, "--ledger-url", url) as editor:
            await editor.initialize()
            wanted = {"sessionId": session, "cwd": str(home), "mcpServers": []}
            await editor.call("session/load", wanted).result(WAIT)
            assert editor.text_of(session) == shown + "end"
