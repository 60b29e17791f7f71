"""The installed ``acp-bridge demo`` and ``chat --demo``: bridge, gateway and client together."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from acp_bridge.cli.demo import Kind, run_demo, zed_settings
from tests.support.chatting import TypedLines, WatchedOutput
from tests.support.editor import agent_command, editor_environment
from tests.support.gateway_client import Device, GatewayClient
from tests.support.waits import scaled

pytestmark = pytest.mark.e2e

Json = dict[str, Any]
LONG = scaled(30.0)


def run(home: Path, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        agent_command(*arguments),
        env=editor_environment(home, ACP_BRIDGE_SESSION="not-for-the-demo"),
        input=typed,
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
        cwd=home,
    )


def show(
    *lines: str,
    prompt: str | None = None,
    is_interactive: bool = True,
    kind: Kind = Kind.OPENCLAW,
) -> tuple[int, str]:
    output = WatchedOutput()
    typed = TypedLines(*lines, is_interactive=is_interactive)
    console = Console(file=output, width=200)
    code = asyncio.run(run_demo(0, prompt, kind, console=console, lines=typed, pace=0))
    return code, output.getvalue()


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_the_tour_can_be_had_over_acp_too() -> None:
    code, shown = show(is_interactive=False, kind=Kind.ACP)

    assert code == 0
    assert "The next step needs your word" in shown
    assert "The test passes" in shown


def test_the_tour_shows_every_part_of_a_conversation_and_ends_with_zeds_settings() -> None:
    code, shown = show(is_interactive=False)

    assert code == 0
    parts = [
        "Nothing leaves this machine",
        "The greeting is a bit dry.",
        "Read the greeting",
        "demo agent",
        "+    return f",
        "Permission needed",
        "Answered for you",
        "The test passes.",
        "[end_turn",
        "Same thing inside Zed",
        zed_settings(),
    ]
    places = [shown.index(part) for part in parts]
    assert places == sorted(places)


def test_on_a_terminal_the_user_can_go_on_and_is_asked() -> None:
    code, shown = show("ask", "2", "say goodbye", "/quit")

    assert code == 0
    assert "You did not allow it." in shown
    assert "goodbye" in shown


def test_a_turn_that_fails_makes_the_demo_fail() -> None:
    code, shown = show(prompt="fail")

    assert code == 1
    assert "as you asked it to" in shown
    assert "Same thing inside Zed" not in shown


def test_the_settings_name_a_command_that_serves_the_demo_from_anywhere() -> None:
    (server,) = json.loads(zed_settings())["agent_servers"].values()

    assert os.path.isabs(server["command"])
    assert os.access(server["command"], os.X_OK)
    assert (server["type"], server["args"][-1], server["env"]) == ("custom", "--demo", {})


def test_the_command_runs_one_prompt_without_touching_the_users_home(tmp_path: Path) -> None:
    done = run(tmp_path, "demo", "--prompt", "say one and two")

    assert (done.returncode, done.stderr) == (0, "")
    assert "one and two" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("option", "words"), [("--yes", "You allowed it."), ("--deny", "You did not allow it.")]
)
def test_chat_talks_to_the_demo_agent(option: str, words: str, tmp_path: Path) -> None:
    done = run(tmp_path, "chat", "--demo", option, "--prompt", "ask")

    assert done.returncode == 0, done.stderr
    assert words in done.stdout


def test_chat_takes_prompts_from_a_pipe(tmp_path: Path) -> None:
    done = run(tmp_path, "chat", "--demo", typed="say one\nsay two\n")

    assert done.returncode == 0, done.stderr
    assert re.search(r"one.*two", done.stdout, re.DOTALL)


def test_chat_says_that_a_gateway_cannot_be_reached(tmp_path: Path) -> None:
    options = ["--gateway-url", "ws://127.0.0.1:9", "--connect-timeout", "1"]

    done = run(tmp_path, "chat", "--prompt", "hi", "--", *options)

    assert done.returncode == 3
    assert "gateway" in done.stdout


@pytest.fixture
def served(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        agent_command("demo", "--serve"),
        env=editor_environment(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        yield process
        process.kill()


async def test_the_gateway_alone_can_be_served_and_ended(served: subprocess.Popen[str]) -> None:
    assert served.stdout is not None
    line = await asyncio.to_thread(served.stdout.readline)
    found = re.search(r"ws://127\.0\.0\.1:\d+", line)
    assert found is not None
    async with GatewayClient(found[0], device=Device()) as client:
        await client.prompt("say hello")
        final = await client.until_chat("final")

    served.send_signal(signal.SIGINT)
    assert await asyncio.to_thread(served.wait, LONG) == 0
    assert final["message"]["content"][0]["text"] == "hello"
