"""Any agent that speaks ACP over a WebSocket; and pairing with one that wants it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from acp_bridge.demo.acp import AcpDemoGateway
from tests.e2e.conftest import Start
from tests.support.acp_oracle import AcpOracle
from tests.support.editor import EditorProcess, agent_command, editor_environment
from tests.support.pairing import pairing_server
from tests.support.sdk_agent import sdk_agent
from tests.support.waits import scaled

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("path", ["/acp", "/agent"])
async def test_an_agent_of_the_python_sdk_talks_over_its_own_server(
    acp: Start, home: Path, path: str
) -> None:
    async with sdk_agent(path) as url, acp(url) as editor:
        await editor.initialize()
        session = await editor.new_session(home, timeout=15)
        image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
        turn = editor.prompt(session, "hello", image)
        assert await turn == "end_turn"
        assert turn.text == "hello(image)"
        error = await editor.call("foo/bar", {}).error()
        assert error.code == -32601


async def test_an_agent_that_keeps_nothing_has_lost_the_session_with_its_connection(
    acp: Start, home: Path
) -> None:
    async with sdk_agent() as url:
        async with acp(url) as editor:
            session = await editor.open(home)
            assert await editor.prompt(session, "hello") == "end_turn"
        async with acp(url) as editor:
            await editor.initialize()
            params = {"sessionId": session, "cwd": str(home), "mcpServers": []}
            await editor.call("session/load", params).result()
            shown = [update["sessionUpdate"] for update in editor.updates(session)]
            assert shown[:2] == ["user_message_chunk", "agent_message_chunk"]
            error = await editor.prompt(session, "again").error()
            assert error.data["code"] == "session_not_found"
            assert "new session" in error.data["hint"]


def pair(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        agent_command("pair", *arguments),
        env=editor_environment(home),
        capture_output=True,
        text=True,
        timeout=scaled(30),
        check=False,
    )


async def test_what_was_paired_for_is_used_and_an_explicit_code_beats_a_stale_token(
    home: Path,
) -> None:
    kept = home / "acp-bridge-token"
    with pairing_server() as server:
        (home / "config.toml").write_text(f"[gateway]\nport = {server.server_port}\n")
        kept.write_text("stale\n")
        kept.chmod(0o600)
        wrong = pair(home, "--config-dir", str(home), "--code", "000000")
        assert wrong.returncode == 4
        assert "get-paircode --new" in wrong.stderr
        paired = pair(home, "--config-dir", str(home), "--code", "123456")
        assert (paired.returncode, paired.stdout) == (0, "")
        assert server.token not in paired.stderr
    assert kept.read_text() == f"{server.token}\n"
    assert kept.stat().st_mode & 0o777 == 0o600
    async with AcpDemoGateway(token=server.token, pace=0) as gateway:
        port = urlsplit(gateway.url).port
        (home / "config.toml").write_text(f"[gateway]\nport = {port}\n")
        command = agent_command("--gateway-kind", "acp", "--config-dir", str(home))
        async with EditorProcess(
            command, env=editor_environment(home), cwd=home, oracle=AcpOracle(extras=True)
        ) as editor:
            turn = editor.prompt(await editor.open(home), "say hello")
            assert await turn == "end_turn"
            assert turn.text == "hello"


async def test_zeroclaws_token_of_the_environment_is_used_at_its_own_gateway(
    home: Path, acp: Start
) -> None:
    token = "from-the-environment"  # noqa: S105 - of a test
    async with AcpDemoGateway(token=token, pace=0) as gateway:
        async with acp(gateway, ZEROCLAW_ACP_BRIDGE_TOKEN=token) as editor:
            await editor.initialize()
            error = await editor.call("session/new", {"cwd": str(home), "mcpServers": []}).error()
            assert "it is for ws://127.0.0.1:42617" in error.data["hint"]
        (home / ".zeroclaw").mkdir()
        text = f"[gateway]\nport = {urlsplit(gateway.url).port}\n"
        (home / ".zeroclaw" / "config.toml").write_text(text)
        async with acp(gateway, ZEROCLAW_ACP_BRIDGE_TOKEN=token) as editor:
            assert await editor.prompt(await editor.open(home), "say hello") == "end_turn"
        async with acp(gateway) as editor:
            await editor.initialize()
            error = await editor.call("session/new", {"cwd": str(home), "mcpServers": []}).error()
            assert (error.code, error.data["code"]) == (-32000, "auth_rejected")
            assert "acp-bridge pair" in error.data["hint"]
