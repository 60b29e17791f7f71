"""Connections that come late, break, or are refused, against real gateways."""

from __future__ import annotations

import asyncio
import errno
import os
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.real.conftest import TURN, Bridge
from tests.real.gateway import Gateway, free_port
from tests.real.model_script import counted
from tests.real.scenes import said
from tests.support.proxy import Proxy
from tests.support.waits import scaled

pytestmark = [pytest.mark.real_gateway, pytest.mark.timeout(180)]

OUTAGE = 2.0


async def outage(proxy: Proxy, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Break the link for two seconds."""
    proxy.cut()
    meanwhile()
    await asyncio.sleep(OUTAGE)  # the length of the outage is what the test is about
    proxy.restore()


async def opened(fifo: Path) -> int:
    """The write end of a FIFO, once somebody reads it."""
    async with asyncio.timeout(TURN):
        while True:
            try:
                return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
            await asyncio.sleep(0.02)  # nothing tells of a reader


async def test_a_broken_link_in_the_middle_of_an_answer_loses_nothing(
    bridge: Bridge, gateway: Gateway, tmp_path: Path
) -> None:
    async with Proxy(gateway.port) as proxy, bridge(url=proxy.url) as editor:
        turn = editor.prompt(await editor.open(tmp_path), "fake:slow N=60 MS=100")
        await turn.shows("slow-3", TURN)
        await outage(proxy)
        assert await turn.stop_reason(TURN) == "end_turn"
        assert said(turn.updates) == counted("slow-", 60)
        assert proxy.connections == 2


async def test_an_answer_that_ends_while_the_link_is_broken_is_shown(
    bridge: Bridge, gateway: Gateway, tmp_path: Path
) -> None:
    async with Proxy(gateway.port) as proxy, bridge(url=proxy.url) as editor:
        turn = editor.prompt(await editor.open(tmp_path), "fake:slow N=12 MS=100")
        await turn.shows("slow-1", TURN)
        await outage(proxy)
        assert await turn.stop_reason(TURN) == "end_turn"
        assert said(turn.updates) == counted("slow-", 12)


def end_tool(pipe: int) -> None:
    os.write(pipe, b"from the pipe\n")
    os.close(pipe)


async def test_a_tool_that_outlives_a_broken_link_is_completed(
    bridge: Bridge, gateway: Gateway, tmp_path: Path
) -> None:
    async def scene(proxy: Proxy, pipe: int) -> None:
        await outage(proxy)
        end_tool(pipe)

    await tool_and_outage(bridge, gateway, tmp_path, scene)


async def test_a_tool_that_ends_while_the_link_is_broken_is_completed(
    bridge: Bridge, gateway: Gateway, tmp_path: Path
) -> None:
    async def scene(proxy: Proxy, pipe: int) -> None:
        await outage(proxy, lambda: end_tool(pipe))

    await tool_and_outage(bridge, gateway, tmp_path, scene)


async def tool_and_outage(
    bridge: Bridge,
    gateway: Gateway,
    tmp_path: Path,
    scene: Callable[[Proxy, int], Awaitable[None]],
) -> None:
    fifo = gateway.workspace / uuid.uuid4().hex
    os.mkfifo(fifo)
    async with Proxy(gateway.port) as proxy, bridge(url=proxy.url) as editor:
        turn = editor.prompt(await editor.open(tmp_path), f"fake:tool cat {fifo}")
        await scene(proxy, await opened(fifo))
        assert await turn.stop_reason(TURN) == "end_turn"
        assert [card.status for card in turn.tools] == ["completed"]
        assert said(turn.updates) == "Calling a tool.The tool said: from the pipe"


async def test_a_gateway_that_comes_late_is_waited_for(
    bridge: Bridge, gateway: Gateway, tmp_path: Path
) -> None:
    port = free_port()
    async with bridge(url=f"ws://127.0.0.1:{port}") as editor:
        await editor.initialize(timeout=scaled(2.0))
        new = editor.call("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        await editor.never_within(0.5, lambda: new.is_answered, "answered without a gateway")
        async with Proxy(gateway.port, listen=port):
            session = (await new.result(scaled(15.0)))["sessionId"]
            turn = editor.prompt(session, "fake:say at last")
            assert await turn.stop_reason(TURN) == "end_turn"
            assert turn.text == "at last"


async def test_a_wrong_token_is_refused_by_name(
    bridge: Bridge, gateway: Gateway, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong-token"
    wrong.write_text("not-the-token\n")
    wrong.chmod(0o600)
    async with bridge(token_file=wrong) as editor:
        await editor.initialize(timeout=scaled(2.0))
        new = editor.call("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        error = await new.error(scaled(10.0))
        assert error.code == -32000
        assert error.data["code"] == "auth_rejected"
        assert str(wrong) in f"{error.message} {error.data}"
        assert "not-the-token" not in f"{error.message} {error.data} {editor.stderr}"
