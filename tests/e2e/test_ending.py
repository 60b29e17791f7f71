"""How the process ends: rules 21 to 26 of the conformance list, field cases C082, C083, C085."""

from __future__ import annotations

import asyncio
import json
import resource
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from acp_bridge.demo.runs import RunContext
from acp_bridge.demo.server import DemoGateway
from tests.e2e.conftest import Start
from tests.e2e.scripts import asks, echo, endless
from tests.support import permission_policies as policies
from tests.support.editor import (
    EditorProcess,
    PromptHandle,
    agent_command,
    editor_environment,
)
from tests.support.waits import scaled

pytestmark = pytest.mark.e2e

SOON = scaled(2.0)
NOBODY = "ws://127.0.0.1:9"

Scene = tuple[DemoGateway, EditorProcess, PromptHandle]


@asynccontextmanager
async def running_turn(bridge: Start, home: Path, *options: str) -> AsyncIterator[Scene]:
    """A turn in the middle of its answer."""
    async with DemoGateway(endless, pace=0) as gateway, bridge(gateway, *options) as editor:
        turn = editor.prompt(await editor.open(home), "go on for ever")
        await turn.shows("begun")
        yield gateway, editor, turn


async def normal_close(gateway: DemoGateway, end: Callable[[], None]) -> None:
    """The bridge says goodbye to the gateway when it is ended."""
    socket = gateway.connections[0].socket
    end()
    async with asyncio.timeout(SOON):
        await socket.wait_closed()
    assert socket.close_code in (1000, 1001)


@pytest.mark.requirement("ACP-21")
@pytest.mark.requirement("C083")
async def test_the_end_of_input_before_initialize_ends_the_process(demo: Start) -> None:
    async with demo() as editor:
        editor.close_stdin()
        assert await editor.wait_exit(SOON) == 0


@pytest.mark.requirement("C083")
async def test_the_end_of_input_while_the_gateway_is_away_ends_the_process(
    bridge: Start, home: Path
) -> None:
    async with bridge(NOBODY) as editor:
        await editor.initialize()
        waiting = editor.call("session/new", {"cwd": str(home), "mcpServers": []})
        editor.close_stdin()
        assert await editor.wait_exit(SOON) == 0
        await waiting.error()


@pytest.mark.requirement("C083")
async def test_the_end_of_input_during_the_handshake_ends_the_process(bridge: Start) -> None:
    async with DemoGateway(echo, pace=0) as gateway:
        gateway.hold_hello = asyncio.Event()
        async with bridge(gateway) as editor:
            await gateway.wait_request("connect")
            editor.close_stdin()
            assert await editor.wait_exit(SOON) == 0
        gateway.hold_hello.set()


@pytest.mark.requirement("C083")
async def test_the_end_of_input_ends_an_idle_process_which_says_goodbye(
    bridge: Start, home: Path
) -> None:
    async with DemoGateway(echo, pace=0) as gateway, bridge(gateway) as editor:
        await editor.open(home)
        await normal_close(gateway, editor.close_stdin)
        assert await editor.wait_exit(SOON) == 0


@pytest.mark.requirement("ACP-21")
@pytest.mark.requirement("C083")
async def test_at_the_end_of_input_the_run_goes_on_and_the_prompt_is_answered(
    bridge: Start, home: Path
) -> None:
    async with running_turn(bridge, home) as (gateway, editor, turn):
        await normal_close(gateway, editor.close_stdin)
        assert await editor.wait_exit(SOON) == 0
        assert (await turn.error()).data["code"] == "detached"
        (run,) = gateway.runs.values()
        assert not run.aborted


@pytest.mark.requirement("ACP-21")
@pytest.mark.requirement("C083")
async def test_the_end_of_input_stops_the_run_if_that_is_wanted(bridge: Start, home: Path) -> None:
    async with running_turn(bridge, home, "--on-exit", "cancel") as (gateway, editor, turn):
        await normal_close(gateway, editor.close_stdin)
        assert await editor.wait_exit(SOON) == 0
        assert await turn == "cancelled"
        (run,) = gateway.runs.values()
        assert run.aborted


@pytest.mark.requirement("ACP-80")
@pytest.mark.requirement("C083")
async def test_the_end_of_input_denies_an_open_permission_with_its_turn(
    bridge: Start, home: Path
) -> None:
    async with (
        DemoGateway(asks, pace=0) as gateway,
        bridge(gateway, "--on-exit", "cancel") as editor,
    ):
        editor.permission_policy = policies.never
        turn = editor.prompt(await editor.open(home), "clean up")
        await editor.until(lambda: bool(editor.permissions), "a permission request")
        editor.close_stdin()
        assert await editor.wait_exit(SOON) == 0
        assert await turn == "cancelled"
        (run,) = gateway.runs.values()
        assert run.aborted


@pytest.mark.requirement("C083")
async def test_a_permission_that_is_open_when_the_editor_leaves_is_asked_for_again(
    bridge: Start, home: Path
) -> None:
    async with DemoGateway(asks, pace=0) as gateway:
        async with bridge(gateway) as editor:
            editor.permission_policy = policies.never
            session = await editor.open(home)
            turn = editor.prompt(session, "clean up")
            await editor.until(lambda: bool(editor.permissions), "a permission request")
            editor.close_stdin()
            assert await editor.wait_exit(SOON) == 0
            await turn.error()
        async with bridge(gateway) as editor:
            await editor.initialize()
            wanted = {"sessionId": session, "cwd": str(home), "mcpServers": []}
            await editor.call("session/load", wanted).result()
            await editor.until(
                lambda: editor.text_of(session).endswith("done"), "the rest of the answer"
            )
            assert len(editor.permissions) == 1
            (run,) = gateway.runs.values()
            assert not run.aborted


async def babble(run: RunContext) -> None:
    """Says more than any pipe holds."""
    for _ in range(40):
        await run.text("y" * 100_000)
    await asyncio.Event().wait()


@pytest.mark.requirement("ACP-21")
@pytest.mark.requirement("C083")
async def test_the_end_of_input_ends_a_process_whose_output_nobody_reads(
    bridge: Start, home: Path
) -> None:
    async with DemoGateway(babble, pace=0) as gateway, bridge(gateway) as editor:
        turn = editor.prompt(await editor.open(home), "babble")
        await turn.shows("y")
        editor.pause_reading()
        editor.may_tear = True
        editor.close_stdin()
        async with asyncio.timeout(SOON):
            assert await editor.process_ended() == 0


@pytest.mark.requirement("ACP-23")
@pytest.mark.requirement("C082")
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)],
    ids=["SIGTERM", "SIGINT", "SIGHUP"],
)
async def test_a_signal_ends_a_running_turn_cleanly(
    bridge: Start, home: Path, number: signal.Signals, code: int
) -> None:
    async with running_turn(bridge, home) as (gateway, editor, turn):
        await normal_close(gateway, lambda: editor.signal(number))
        assert await editor.wait_exit(SOON) == code
        (run,) = gateway.runs.values()
        assert run.aborted is (number == signal.SIGINT)
        if run.aborted:
            assert await turn == "cancelled"
        else:
            assert (await turn.error()).data["code"] == "detached"
        assert "Traceback" not in editor.stderr


@pytest.mark.requirement("ACP-23")
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)],
    ids=["SIGTERM", "SIGINT", "SIGHUP"],
)
async def test_a_signal_ends_a_process_that_waits_for_its_gateway(
    bridge: Start, number: signal.Signals, code: int
) -> None:
    async with bridge(NOBODY) as editor:
        await editor.initialize()
        editor.signal(number)
        assert await editor.wait_exit(SOON) == code
        assert "Traceback" not in editor.stderr


@pytest.mark.requirement("ACP-24")
@pytest.mark.requirement("C085")
async def test_an_editor_that_is_gone_ends_the_process_quickly_and_quietly(
    bridge: Start, home: Path
) -> None:
    used_before = _children_seconds()
    async with DemoGateway(babble, pace=0) as gateway, bridge(gateway) as editor:
        turn = editor.prompt(await editor.open(home), "babble")
        await turn.shows("y")
        editor.pause_reading()
        editor.may_tear = True
        begun = editor.cpu_seconds()
        editor.close_stdout()
        async with asyncio.timeout(SOON):
            assert await editor.process_ended() == 0
        assert len(editor.stderr.splitlines()) <= 3
        assert _children_seconds() - used_before - begun < scaled(0.5)
        (run,) = gateway.runs.values()
        assert not run.aborted


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.requirement("ACP-25")
async def test_an_editor_that_does_not_read_can_still_cancel(bridge: Start, home: Path) -> None:
    async def flood(run: RunContext) -> None:
        for _ in range(40):
            await run.text("y" * 400_000)
        await asyncio.Event().wait()

    # This gateway does not lose patience with a slow reader, so all has to wait in the bridge.
    async with (
        DemoGateway(flood, pace=0, max_buffered=1 << 30) as gateway,
        bridge(gateway) as editor,
    ):
        session = await editor.open(home)
        turn = editor.prompt(session, "flood")
        await turn.shows("y")
        editor.pause_reading()
        editor.cancel(session)
        await gateway.wait_request("chat.abort")
        assert editor.rss_kib("VmHWM") < 160 * 1024
        editor.resume_reading()
        assert await turn == "cancelled"


@pytest.mark.requirement("ACP-26")
async def test_a_stderr_that_nobody_reads_blocks_nothing(bridge: Start, home: Path) -> None:
    async with DemoGateway(pace=0) as gateway, bridge(gateway, "-vv", reads_stderr=False) as editor:
        await editor.initialize()
        for _ in range(10):
            for index in range(1000):
                editor.notify(f"unknown/{index}-{'x' * 100}")
            await editor.initialize()
        turn = editor.prompt(await editor.new_session(home), "Hello")
        assert await turn.stop_reason(scaled(20)) == "end_turn"


def test_files_serve_as_stdin_and_stdout(home: Path) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
    (home / "in").write_text(json.dumps(request))
    with (home / "in").open("rb") as given, (home / "out").open("wb") as taken:
        done = subprocess.run(
            agent_command("--demo"),
            stdin=given,
            stdout=taken,
            stderr=subprocess.PIPE,
            env=editor_environment(home),
            timeout=scaled(10),
            check=False,
        )
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads((home / "out").read_text())["result"]["protocolVersion"] == 1


def test_an_empty_stdin_ends_the_process(home: Path) -> None:
    done = subprocess.run(
        agent_command("--demo"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=editor_environment(home),
        timeout=scaled(10),
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"")
