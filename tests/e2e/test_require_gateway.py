"""``--require-gateway``: nothing before the hello, and every ending also while it waits."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from acp_bridge.demo.server import DemoGateway
from tests.e2e.conftest import Start
from tests.e2e.scripts import echo
from tests.support.editor import EditorProcess, agent_command, editor_environment
from tests.support.waits import scaled

pytestmark = pytest.mark.e2e

SOON = scaled(2.0)
NOBODY = "ws://127.0.0.1:9"
REQUIRED = "--require-gateway"
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}

SIGNALS = pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)],
    ids=["SIGTERM", "SIGINT", "SIGHUP"],
)


@pytest.fixture
def asked(home: Path) -> Path:
    """A file with one request, and then the end of input."""
    path = home / "asked"
    path.write_text(json.dumps(INITIALIZE) + "\n")
    return path


@pytest.mark.requirement("C083")
async def test_the_end_of_input_ends_the_wait_for_a_gateway_that_is_away(bridge: Start) -> None:
    async with bridge(NOBODY, REQUIRED) as editor:
        waiting = editor.call("initialize", {"protocolVersion": 1})
        await editor.until_stderr("cannot be reached")
        editor.close_stdin()
        assert await editor.wait_exit(SOON) == 3
        assert not waiting.is_answered
        assert "nothing listens there" in editor.stderr.splitlines()[-2]
        assert "Traceback" not in editor.stderr


@pytest.mark.requirement("C083")
async def test_the_end_of_input_ends_the_wait_for_a_hello_that_does_not_come(
    bridge: Start,
) -> None:
    async with DemoGateway(echo, pace=0) as gateway:
        gateway.hold_hello = asyncio.Event()
        async with bridge(gateway, REQUIRED) as editor:
            await gateway.wait_request("connect")
            editor.close_stdin()
            assert await editor.wait_exit(SOON) == 3
            assert "has not answered yet" in editor.stderr
        gateway.hold_hello.set()


async def test_a_refusal_has_its_own_code_though_the_input_has_ended(bridge: Start) -> None:
    async with (
        DemoGateway(echo, pace=0, token="wanted") as gateway,  # noqa: S106 - of this test
        bridge(gateway, REQUIRED, "--token", "another") as editor,
    ):
        editor.close_stdin()
        assert await editor.wait_exit(SOON) == 4


@pytest.mark.requirement("ACP-23")
@SIGNALS
async def test_a_signal_ends_the_wait_for_a_gateway_that_is_away(
    bridge: Start, number: signal.Signals, code: int
) -> None:
    async with bridge(NOBODY, REQUIRED) as editor:
        await editor.until_stderr("cannot be reached")
        editor.signal(number)
        assert await editor.wait_exit(SOON) == code
        assert "Traceback" not in editor.stderr


@pytest.mark.requirement("ACP-23")
@SIGNALS
async def test_a_signal_ends_the_wait_for_a_hello_that_does_not_come(
    bridge: Start, number: signal.Signals, code: int
) -> None:
    async with DemoGateway(echo, pace=0) as gateway:
        gateway.hold_hello = asyncio.Event()
        async with bridge(gateway, REQUIRED) as editor:
            await gateway.wait_request("connect")
            editor.signal(number)
            assert await editor.wait_exit(SOON) == code
        gateway.hold_hello.set()


async def test_nothing_is_answered_before_the_hello_and_all_of_it_after(bridge: Start) -> None:
    async with DemoGateway(echo, pace=0) as gateway:
        gateway.hold_hello = asyncio.Event()
        async with bridge(gateway, REQUIRED) as editor:
            waiting = editor.call("initialize", {"protocolVersion": 1})
            await gateway.wait_request("connect")
            assert not waiting.is_answered
            gateway.hold_hello.set()
            assert (await waiting.result())["protocolVersion"] == 1


def test_what_was_asked_before_the_end_of_input_is_answered_once_the_hello_is_there(
    home: Path, asked: Path
) -> None:
    with asked.open("rb") as given:
        done = subprocess.run(
            agent_command("--demo", REQUIRED),
            stdin=given,
            capture_output=True,
            env=editor_environment(home),
            timeout=scaled(10),
            check=False,
        )
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout)["result"]["protocolVersion"] == 1


NAMES_ARE_SLOW = """
import socket, threading
socket.getaddrinfo = lambda *_, **__: threading.Event().wait()
from acp_bridge.__main__ import main
main()
"""


@pytest.mark.requirement("C083")
@pytest.mark.parametrize(("options", "code"), [((), 0), ((REQUIRED,), 3)], ids=["", "required"])
async def test_a_look_up_of_a_name_that_hangs_holds_no_process(
    home: Path, options: tuple[str, ...], code: int
) -> None:
    command = [sys.executable, "-c", NAMES_ARE_SLOW, "--url", "wss://gateway.example", *options]
    async with EditorProcess(command, env=editor_environment(home), cwd=home) as editor:
        if not options:
            await editor.initialize()
        editor.close_stdin()
        assert await editor.wait_exit(SOON) == code
