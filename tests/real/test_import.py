"""From the reference bridge to this one: the same thread, on the same gateway."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.real.conftest import TURN, Bridge
from tests.real.gateway import Gateway
from tests.support.acp_oracle import AcpOracle
from tests.support.editor import EditorProcess, agent_command, editor_environment
from tests.support.openclaw_ledgers import visible, without_marks
from tests.support.transcript import Update

pytestmark = [pytest.mark.real_gateway, pytest.mark.timeout(240)]

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
STATE = (
    "session_info_update",
    "usage_update",
    "available_commands_update",
    "current_mode_update",
    "config_option_update",
)


class NoJudge(AcpOracle):
    """The reference bridge is not what is tested."""

    def received(self, line: bytes) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(line)
        return message

    def sent(self, message: Any) -> None:
        pass


@asynccontextmanager
async def reference(gateway: Gateway, state: Path) -> AsyncIterator[EditorProcess]:
    """``openclaw acp`` with a state directory of its own."""
    url = ["--url", gateway.url, "--token-file", str(gateway.token_file)]
    script = str(gateway.parts.openclaw(gateway.version))
    environment = gateway.environment() | {
        "HOME": str(state / "home"),
        "OPENCLAW_STATE_DIR": str(state),
    }
    del environment["OPENCLAW_CONFIG_PATH"]
    (state / "home").mkdir(parents=True, exist_ok=True)
    command = [str(gateway.parts.node), script, "acp", *url]
    async with EditorProcess(command, env=environment, cwd=state, oracle=NoJudge()) as editor:
        await editor.initialize(TURN)
        yield editor
        editor.signal(signal.SIGTERM)  # 2026.6.11 does not end with its input
        await editor.process_ended()


async def load(editor: EditorProcess, session: str, cwd: Path) -> list[Update]:
    wanted = {"sessionId": session, "cwd": str(cwd), "mcpServers": []}
    await editor.call("session/load", wanted).result(TURN)
    shown = without_marks(editor.updates(session))
    return [update for update in shown if update["sessionUpdate"] not in STATE]


def take_over(state: Path, home: Path) -> None:
    done = subprocess.run(
        agent_command("ledger", "import-openclaw", str(state)),
        env=editor_environment(home),
        capture_output=True,
        text=True,
        timeout=TURN,
        check=False,
    )
    assert done.returncode == 0, done.stderr


async def test_a_thread_of_the_reference_goes_on_here_as_it_was(
    bridge: Bridge, gateway: Gateway, tmp_path: Path
) -> None:
    state = tmp_path / "openclaw"
    image = {"type": "image", "mimeType": "image/png", "data": PIXEL}
    async with reference(gateway, state) as editor:
        session = await editor.new_session(tmp_path, TURN)
        for blocks in (
            ("fake:echo N=8",),
            ("fake:tool echo hello",),
            ("fake:image", image),
            ("fake:say good bye",),
        ):
            turn = editor.prompt(session, *blocks)
            assert await turn.stop_reason(TURN) == "end_turn"
    async with reference(gateway, state) as editor:
        shown = visible(await load(editor, session, tmp_path))
    assert len(shown) == 11

    take_over(state, tmp_path / "home")
    async with bridge() as editor:
        await editor.initialize()
        assert visible(await load(editor, session, tmp_path)) == shown
        more = editor.prompt(session, "fake:say more")
        assert await more.stop_reason(TURN) == "end_turn"
        assert more.text == "more"
    async with bridge() as editor:
        await editor.initialize()
        again = visible(await load(editor, session, tmp_path))
        assert again[: len(shown)] == shown
        assert again[len(shown) :] == [
            ("user_message_chunk", "fake:say more"),
            ("agent_message_chunk", "more"),
        ]
