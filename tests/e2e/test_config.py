"""The installed command with profiles, commands for credentials, and OpenClaw's configuration."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from acp_bridge.demo.acp import AcpDemoGateway
from acp_bridge.demo.server import DemoGateway
from tests.e2e.conftest import GatewayKind
from tests.e2e.scripts import echo
from tests.support.acp_oracle import AcpOracle
from tests.support.editor import AgentError, EditorProcess, agent_command, editor_environment

pytestmark = pytest.mark.e2e

TOKEN = "tok-0123456789abcdef"  # noqa: S105 - the secret of a gateway that lives for one test


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)
    return path


def profiles(home: Path, text: str) -> Path:
    return written(home / ".config" / "acp-bridge" / "config.toml", text)


def started(home: Path, *options: str, extras: bool = False, **variables: str) -> EditorProcess:
    return EditorProcess(
        agent_command("--no-prefix-cwd", *options),
        env=editor_environment(home, **variables),
        cwd=home,
        oracle=AcpOracle(extras=extras),
    )


def shown(home: Path, *argv: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "acp_bridge", "config", *argv]
    env = editor_environment(home, **variables)
    return subprocess.run(
        command, capture_output=True, text=True, env=env, cwd=home, check=False, timeout=30
    )


async def refused(editor: EditorProcess, home: Path) -> AgentError:
    return await editor.call("session/new", {"cwd": str(home), "mcpServers": []}).error()


def command_for(home: Path, *lines: str) -> str:
    """A command that runs a Python program of these lines."""
    script = written(home / "get-token.py", "\n".join(lines))
    return shlex.join((sys.executable, str(script)))


@pytest.mark.requirement("C008")
async def test_a_profile_connects_with_the_token_that_a_command_prints(
    kind: GatewayKind, home: Path
) -> None:
    command = command_for(home, f"print({TOKEN!r})")
    async with kind(echo, pace=0, token=TOKEN) as gateway:
        profiles(
            home,
            f'[profiles.work]\ngateway_url = "{gateway.url}"\n'
            f"token_command = {json.dumps(command)}\n",
        )
        extras = kind is AcpDemoGateway
        async with started(home, "--profile", "work", extras=extras) as editor:
            assert await editor.prompt(await editor.open(home), "Hello") == "end_turn"
            assert TOKEN not in editor.stderr


@pytest.mark.requirement("C008")
async def test_a_command_that_fails_is_told_in_the_thread_and_needs_no_restart(home: Path) -> None:
    command = command_for(
        home,
        "import os, sys",
        f"unlocked = os.path.exists({str(home / 'unlocked')!r})",
        f"print({TOKEN!r}) if unlocked else sys.exit('the vault is locked')",
    )
    async with (
        DemoGateway(echo, pace=0, token=TOKEN) as gateway,
        started(home, "--url", gateway.url, "--token-command", command) as editor,
    ):
        await editor.initialize()
        error = await refused(editor, home)
        assert "failed with exit code 1: the vault is locked" in error.message
        assert error.data["code"] == "credentials_unusable"

        (home / "unlocked").touch()

        assert await editor.prompt(await editor.open(home), "Hello") == "end_turn"


async def test_with_nothing_said_openclaws_configuration_leads_to_its_gateway(home: Path) -> None:
    async with DemoGateway(echo, pace=0, token=TOKEN) as gateway:
        port = gateway.url.rpartition(":")[2]
        text = f"// JSON5\n{{gateway: {{port: {port}, auth: {{mode: 'token', token: '{TOKEN}'}}}}}}"
        path = written(home / ".openclaw" / "openclaw.json", text)
        async with started(home) as editor:
            assert await editor.prompt(await editor.open(home), "Hello") == "end_turn"

        result = shown(home, "show")
        assert "note" not in result.stdout
        assert f"gateway: ws://127.0.0.1:{port} (gateway in {path})" in result.stdout
        assert f"token (openclaw): from gateway.auth.token in {path}" in result.stdout
        assert TOKEN not in result.stdout + result.stderr


def test_what_of_openclaws_configuration_is_not_read_is_told(home: Path) -> None:
    path = written(home / ".openclaw" / "openclaw.json", '{"gateway": {"$include": "gw.json5"}}')
    said = f"note: gateway.$include in {path} lead to other files, which the bridge does not read."

    assert said in shown(home, "show").stdout
    assert "note" not in shown(home, "show", "--", "--url=ws://127.0.0.1:1").stdout


async def test_a_token_of_another_gateway_never_leaves_and_the_thread_says_so(home: Path) -> None:
    profiles(
        home,
        f'[profiles.default]\ngateway_url = "wss://other.example"\ntoken = "{TOKEN}"\n',
    )
    async with (
        DemoGateway(echo, pace=0, token=TOKEN) as gateway,
        started(home, "--url", gateway.url) as editor,
    ):
        await editor.initialize()
        error = await refused(editor, home)
        assert error.data["code"] == "auth_rejected"
        assert "profiles.default.token in " in error.data["hint"]
        assert "it is for wss://other.example:443" in error.data["hint"]
        assert "it is for wss://other.example:443" in editor.stderr
        assert TOKEN not in editor.stderr


def test_every_option_is_shown_with_its_source_and_no_secret(home: Path) -> None:
    path = profiles(home, f'[profiles.work]\ntoken = "{TOKEN}"\nmax_sessions = 7\n')
    url, proxy = f"postgresql://me:{TOKEN}@db/x?sslmode=require", f"http://me:{TOKEN}@proxy:3128"
    variables = {"ACP_BRIDGE_LEDGER_URL": url, "ACP_BRIDGE_PROXY": proxy}

    result = shown(home, "show", "--profile", "work", "--", "--agent=a", **variables)

    assert result.returncode == 0, result.stderr
    assert "@proxy:3128" in result.stdout
    lines = {line.split()[0]: line.split() for line in result.stdout.splitlines() if line}
    assert lines["agent"] == ["agent", "a", "--agent"]
    assert lines["max_sessions"][1:3] == ["7", "profiles.work.max_sessions"]
    assert lines["token"][1:] == ["***", "profiles.work.token", "in", str(path)]
    assert lines["ledger_url"][1:] == [
        "postgresql://me:[redacted]@db/x?sslmode=***",
        "ACP_BRIDGE_LEDGER_URL",
    ]
    assert lines["connect_timeout"] == ["connect_timeout", "30", "default"]
    assert TOKEN not in result.stdout + result.stderr


def test_as_json_it_is_one_document_without_a_secret(home: Path) -> None:
    path = profiles(home, '[profiles.default]\ntoken_command = "get token"\nscopes = ["a", "b"]\n')

    result = shown(home, "show", "--json")

    document: dict[str, Any] = json.loads(result.stdout)
    assert document["config"] == str(path)
    assert document["options"]["scopes"] == {
        "value": "a,b",
        "source": f"profiles.default.scopes in {path}",
    }
    assert document["options"]["token_command"]["value"] == "get …"
    assert document["options"]["session"] == {"value": None, "source": "default"}
    assert document["gateway"]["token"] == (f"from profiles.default.token_command in {path} (get)")


@pytest.mark.requirement("C008")
def test_what_is_wrong_with_a_file_is_told_without_a_gateway(home: Path) -> None:
    token = written(home / "token", TOKEN)
    token.chmod(0o644)

    result = shown(home, "show", "--", "--token-file", str(token))

    assert result.returncode == 0
    assert f"token: unusable: --token-file {token} is open to other users" in result.stdout
    assert f"chmod 600 {token}" in result.stdout


def test_a_mistake_in_the_file_ends_the_bridge_with_the_key_and_a_suggestion(home: Path) -> None:
    path = profiles(home, "[profiles.default]\ngatway_url = 'ws://127.0.0.1'\n")

    for result in (
        shown(home, "show"),
        subprocess.run(
            agent_command(),
            capture_output=True,
            text=True,
            env=editor_environment(home),
            stdin=subprocess.DEVNULL,
            check=False,
            timeout=30,
        ),
    ):
        assert result.returncode == 2
        assert result.stdout == ""
        assert result.stderr == (
            f"error: {path}: profiles.default.gatway_url is no option.\n"
            "hint: Did you mean gateway_url?\n"
        )


def test_the_place_of_the_file_can_be_asked_for(home: Path) -> None:
    path = home / ".config" / "acp-bridge" / "config.toml"

    result = shown(home, "path")

    assert result.stdout == f"{path}\n"
    assert "does not exist" in result.stderr
    assert shown(home, "path", "--config", "~/x").stdout == f"{home}/x\n"


def test_the_demo_takes_nothing_from_a_profile(home: Path) -> None:
    profiles(home, f'[profiles.default]\ntoken = "{TOKEN}"\nledger_url = "nonsense://x"\n')

    done = subprocess.run(
        [sys.executable, "-m", "acp_bridge", "demo", "--prompt", "say hello"],
        capture_output=True,
        text=True,
        env=editor_environment(home),
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=40,
    )

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "hello" in done.stdout
