"""What a start and an idle bridge may cost: field case C093 and the budget of the project."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from pathlib import Path

import pytest

from acp_bridge.demo.server import DemoGateway
from tests.e2e.conftest import Start
from tests.e2e.scripts import echo
from tests.support.editor import EditorProcess, agent_command, editor_environment

pytestmark = pytest.mark.e2e

RATIO = 250 / 75
"""Spawn to the initialize answer, in multiples of ``python -c "import asyncio"``."""
HEAVY = {
    *("acp", "pydantic", "sqlalchemy", "alembic", "rich", "typer", "structlog"),
    *("tomllib", "keyring", "pyjson5"),  # of a configuration that is not there, or not used
}
IDLE_MIB = 60
RUNS = 5
MOST_RUNS = 15
"""A machine that is busy with other things gets more than one chance."""


@pytest.fixture
def plain(tmp_path: Path) -> dict[str, str]:
    """Variables of an environment without the extra ``socks``, as most are: what the tests have
    of it is imported with the WebSocket's library, needed or not."""
    extras = tmp_path / "extras"
    extras.mkdir()
    (extras / "python_socks.py").write_text("raise ImportError('the extra is not installed')\n")
    return {"PYTHONPATH": str(extras)}


@pytest.mark.requirement("C093")
async def test_the_first_answer_comes_within_the_budget(home: Path, plain: dict[str, str]) -> None:
    async with DemoGateway(echo, pace=0) as gateway:
        starts: list[float] = []
        imports: list[float] = []
        while not _is_within_budget(starts, imports):
            assert len(starts) < MOST_RUNS, f"starts {starts}, imports {imports}"
            for _ in range(RUNS):  # in turns, so that a busy machine slows both
                starts.append(await _seconds_to_initialize(gateway, home, plain))
                imports.append(await _seconds_of_import())


def _is_within_budget(starts: list[float], imports: list[float]) -> bool:
    return bool(starts) and min(starts) <= RATIO * min(imports)


async def _seconds_to_initialize(gateway: DemoGateway, home: Path, plain: dict[str, str]) -> float:
    command = agent_command("--url", gateway.url)
    async with EditorProcess(command, env=editor_environment(home, **plain), cwd=home) as editor:
        await editor.initialize()
        return time.monotonic() - editor.started_at


async def _seconds_of_import() -> float:
    begun = time.monotonic()
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "import asyncio")
    await process.wait()
    return time.monotonic() - begun


async def test_nothing_heavy_is_imported_before_the_first_answer(home: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "acp_bridge"]
    async with DemoGateway(echo, pace=0) as gateway:
        editor = EditorProcess(
            # A ledger in a file is opened as soon as the answer is written.
            [*command, "--url", gateway.url, "--no-ledger"],
            env=editor_environment(home),
            cwd=home,
        )
        async with editor:
            await editor.initialize()
            told = editor.stderr
    imported = {name.split(".")[0] for name in re.findall(r"\| +([\w.]+)$", told, re.MULTILINE)}
    assert "acp_bridge" in imported
    assert not imported & HEAVY


async def test_an_idle_bridge_takes_little_memory(
    bridge: Start, home: Path, plain: dict[str, str]
) -> None:
    async with DemoGateway(echo, pace=0) as gateway:
        for _ in ("a ledger that has to be made", "one that is there"):
            async with bridge(gateway, **plain) as editor:
                assert await editor.prompt(await editor.open(home), "Hello") == "end_turn"
                assert editor.rss_kib() <= IDLE_MIB * 1024
