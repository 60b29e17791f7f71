"""The same conversation, held by clients that others wrote."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import acp
import pytest

from tests.real.conftest import TURN
from tests.real.gateway import Gateway
from tests.real.install import Parts
from tests.real.model_script import counted
from tests.support.editor import agent_command, editor_environment
from tests.support.sdk_editor import SdkEditor
from tests.support.transcript import text_of, tool_cards

pytestmark = [pytest.mark.real_gateway, pytest.mark.timeout(180)]


def acpx(parts: Parts, home: Path, agent: list[str], prompt: str) -> list[dict[str, Any]]:
    """The messages on the wire of a conversation that acpx has with ``agent``."""
    command = [str(parts.node), str(parts.acpx), "--agent", shlex.join(agent), "--cwd", str(home)]
    done = subprocess.run(
        [*command, "--approve-all", "--format", "json", "exec", prompt],
        env=editor_environment(home) | {"PATH": parts.path},
        cwd=home,
        capture_output=True,
        timeout=TURN * 2,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout.decode()}\n{done.stderr.decode()}"
    return [json.loads(line) for line in done.stdout.splitlines()]


def shown(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [m["params"]["update"] for m in messages if m.get("method") == "session/update"]


def stop_reasons(messages: list[dict[str, Any]]) -> list[str]:
    results = [m["result"] for m in messages if isinstance(m.get("result"), dict)]
    return [result["stopReason"] for result in results if "stopReason" in result]


def bridge_command(gateway: Gateway) -> list[str]:
    return agent_command("--url", gateway.url, "--token-file", str(gateway.token_file))


def test_acpx_talks_to_a_real_gateway(parts: Parts, gateway: Gateway, tmp_path: Path) -> None:
    messages = acpx(parts, tmp_path, bridge_command(gateway), "fake:tool echo hi")
    assert stop_reasons(messages) == ["end_turn"]
    updates = shown(messages)
    assert [card.status for card in tool_cards(updates)] == ["completed"]
    assert text_of(updates) == "Calling a tool.The tool said: hi"


def test_acpx_talks_to_the_demo_agent(parts: Parts, tmp_path: Path) -> None:
    messages = acpx(parts, tmp_path, agent_command("--demo"), "Hello")
    assert stop_reasons(messages) == ["end_turn"]
    assert text_of(shown(messages))


async def test_the_python_sdk_talks_to_a_real_gateway(gateway: Gateway, tmp_path: Path) -> None:
    editor = SdkEditor()
    command, *arguments = bridge_command(gateway)
    environment = editor_environment(tmp_path)
    client = editor.as_client()
    async with acp.spawn_agent_process(client, command, *arguments, env=environment) as (agent, _):
        hello = await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        assert hello.protocol_version == 1
        session = (await agent.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
        for prompt, said in (
            ("fake:echo N=8", counted("chunk-", 8)),
            ("fake:tool echo hi", "Calling a tool.The tool said: hi"),
        ):
            editor.updates.clear()
            answer = await agent.prompt(session_id=session, prompt=[acp.text_block(prompt)])
            assert answer.stop_reason == "end_turn"
            assert text_of(editor.updates) == said
