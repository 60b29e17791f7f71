"""``kill -9`` at any moment of a turn: nothing that was shown is lost, and nothing is doubled.

Each point kills the bridge after a chosen number of updates, starts a new one on the same ledger
and loads the session: what the editor was shown is there, the rest of the answer arrives, once.

A gateway that speaks ACP as ZeroClaw does shows nothing of the run to the new connection, and has
no thoughts to tell afterwards. What was thought unseen is lost there; the answer and the tool calls
are found in its store, once the run has ended well. Whether a prompt that was recorded had also
been sent cannot be asked of it: the bridge says that it cannot see, and sends it no second time.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from pathlib import Path

import pytest

from acp_bridge.core.replay import INTERRUPTED
from acp_bridge.core.turn_view import UNSEEN
from acp_bridge.demo.acp import AcpDemoGateway
from acp_bridge.demo.server import DemoGateway
from acp_bridge.demo.stage import Stage
from tests.e2e.conftest import GatewayKind, Start
from tests.e2e.test_turns import runs
from tests.support.editor import EditorProcess, Json
from tests.support.waits import scaled

pytestmark = [pytest.mark.kills, pytest.mark.timeout(600)]

Gateway = DemoGateway | AcpDemoGateway
POINTS = int(os.environ.get("ACP_BRIDGE_KILL_POINTS", "200"))
ACP_POINTS = POINTS * 2 // 5
"""The same code stands behind both kinds; fewer points keep the suite short."""
BATCHES = 8
WORDS = [f"word{number} " for number in range(12)]
FIRST, SECOND = "".join(WORDS[:6]), "".join(WORDS[6:])
UPDATES = 22
"""About as many updates as the turn has; a kill after more comes after the end."""


async def tour(run: Stage) -> None:
    await run.thought("Let me see. ")
    for word in WORDS[:6]:
        await run.text(word)
        await run.sleep(0.004)
    call = await run.tool_start("exec", {"command": "make"})
    for lines in range(1, 4):
        await run.tool_update(call, "line\n" * lines)
        await run.sleep(0.004)
    await run.tool_end(call, "line\n" * 4)
    for word in WORDS[6:]:
        await run.text(word)
        await run.sleep(0.004)


def of_kind(updates: list[Json], kind: str) -> list[Json]:
    return [update for update in updates if update["sessionUpdate"] == kind]


def text(updates: list[Json], kind: str = "agent_message_chunk") -> str:
    return "".join(update["content"]["text"] for update in of_kind(updates, kind))


def answer(updates: list[Json]) -> str:
    """The agent's text, without white space: segments are glued in more than one way."""
    said = [each for each in updates if ":notice:" not in str(each.get("messageId"))]
    return "".join(text(said).split())


async def killed(editor: EditorProcess, home: Path, after: int, delay: float) -> str:
    """Begin a turn and kill the bridge in it; the session's id."""
    async with editor:
        session = await editor.open(home)
        editor.prompt(session, "go")
        await editor.until(
            lambda: (
                len(editor.updates(session)) >= after
                or any("stopReason" in m.get("result", {}) for m in editor.messages)
            ),
            "updates",
        )
        await asyncio.sleep(delay)  # the moment of the kill is what is varied here
        editor.may_tear = True
        editor.signal(signal.SIGKILL)
        await editor.process_ended()
    return session


async def check(bridge: Start, gateway: Gateway, home: Path, after: int, delay: float) -> None:
    earlier = len(runs(gateway))
    first = bridge(gateway, "--state-dir", str(home / "state"))
    session = await killed(first, home, after, delay)
    was_shown = first.updates(session)
    second = bridge(gateway, "--state-dir", str(home / "state"))
    async with second:
        await second.initialize()
        params = {"sessionId": session, "cwd": str(home), "mcpServers": []}
        await second.call("session/load", params).result(scaled(10))
        reached = len(runs(gateway)) > earlier

        def is_complete() -> bool:
            shown = second.updates(session)
            ended = INTERRUPTED if isinstance(gateway, DemoGateway) else UNSEEN
            is_done = answer(shown) == answer_of_all or (not reached and ended in text(shown))
            return is_done or not (reached or of_kind(shown, "user_message_chunk"))

        answer_of_all = "".join((FIRST + SECOND).split())
        await second.until(is_complete, "the whole turn", scaled(10))
        shown = second.updates(session)
    assert len(runs(gateway)) - earlier == reached
    if reached:
        assert answer(shown) == answer_of_all, (after, answer(was_shown), answer(shown))
        assert text(shown, "user_message_chunk") == "go"
        cards = of_kind(shown, "tool_call")
        assert len(cards) == 1
    assert answer(shown).startswith(answer(was_shown))
    assert text(shown, "agent_thought_chunk").startswith(text(was_shown, "agent_thought_chunk"))


@pytest.mark.requirement("C063")
@pytest.mark.parametrize("batch", range(BATCHES))
async def test_a_killed_bridge_loses_and_doubles_nothing(
    bridge: Start, tmp_path: Path, kind: GatewayKind, batch: int
) -> None:
    chance = random.Random(batch)  # noqa: S311 - the same moments in each run
    async with kind(tour, pace=1) as gateway:
        points = POINTS if kind is DemoGateway else ACP_POINTS
        for point in range(points // BATCHES):
            home = tmp_path / f"home-{point}"
            home.mkdir()
            after, delay = chance.randrange(UPDATES), chance.random() * 0.006
            await check(bridge, gateway, home, after, delay)
