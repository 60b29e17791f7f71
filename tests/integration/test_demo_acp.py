"""The ACP face of the demo gateway behaves as ZeroClaw's ``/acp`` does."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from acp_bridge.demo.acp import AcpDemoGateway, AcpRun
from tests.support.acp_wire import AcpWire, acp_wire
from tests.support.waits import WAIT

pytestmark = pytest.mark.integration

SUBPROTOCOL = "zeroclaw.acp.v1"
TOKEN = "right"  # noqa: S105 - of a test


async def script(run: AcpRun) -> None:
    """Does what the prompt says."""
    match run.message.split()[0]:
        case "wait":
            await run.text("begun")
            await asyncio.Event().wait()
        case "ask":
            await run.text("yes" if await run.exec("ls", "a-file") else "no")
        case "cached":
            await run.final_only("from the cache")
        case "fail":
            await run.fail("broken")
        case _:
            await run.text(run.message)


async def opened(wire: AcpWire, where: Path) -> str:
    await wire.call("initialize", protocolVersion=1)
    return str((await wire.call("session/new", cwd=str(where)))["sessionId"])


async def test_a_turn_is_streamed_and_its_result_has_the_content(tmp_path: Path) -> None:
    async with AcpDemoGateway(script, pace=0) as gateway, acp_wire(gateway.url) as wire:
        session = await opened(wire, tmp_path)
        result = await wire.call("session/prompt", sessionId=session, prompt="hello you")
        assert result == {"sessionId": session, "stopReason": "end_turn", "content": "hello you"}
        assert [update["sessionUpdate"] for update in wire.updates()] == ["agent_message_chunk"]


async def test_a_cached_answer_streams_nothing(tmp_path: Path) -> None:
    async with AcpDemoGateway(script, pace=0) as gateway, acp_wire(gateway.url) as wire:
        session = await opened(wire, tmp_path)
        result = await wire.call("session/prompt", sessionId=session, prompt="cached")
        assert result["content"] == "from the cache"
        assert wire.updates() == []


async def test_errors_have_the_gateways_numbers(tmp_path: Path) -> None:
    async with (
        AcpDemoGateway(script, pace=0, max_sessions=1) as gateway,
        acp_wire(gateway.url) as wire,
    ):
        session = await opened(wire, tmp_path)
        assert await wire.error("session/prompt", sessionId="none", prompt="x") == -32000
        assert await wire.error("session/load", sessionId="none") == -32001
        assert await wire.error("session/new", cwd=str(tmp_path)) == -32001
        assert await wire.error("session/new", cwd="/does/not/exist") == -32602
        assert await wire.error("session/new", agentAlias="nobody") == -32602
        assert await wire.error("session/list") == -32601
        assert await wire.error("session/prompt", sessionId=session, prompt="fail") == -32603
        assert await wire.error("session/prompt", sessionId=session, prompt=" ") == -32603
        image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
        assert await wire.error("session/prompt", sessionId=session, prompt=[image]) == -32602
        big = base64.b64encode(b"x" * (10 * 1024 * 1024 + 1)).decode()
        part = {"type": "resource", "resource": {"uri": "file:///x", "blob": big}}
        assert await wire.error("session/prompt", sessionId=session, prompt=[part]) == -32602
        await wire.begin("session/prompt", sessionId=session, prompt="wait")
        assert await wire.error("session/prompt", sessionId=session, prompt="again") == -32002


async def test_what_is_no_json_rpc_is_answered_without_an_id(tmp_path: Path) -> None:
    async with AcpDemoGateway(script, pace=0) as gateway, acp_wire(gateway.url) as wire:
        for odd in ("nonsense", "[]", "{}"):
            await wire.send(odd)
            assert (await wire.next())["error"]["code"] == -32700
        await wire.send(b'{"jsonrpc":"1.0","id":7,"method":"initialize"}')
        assert (await wire.next())["error"]["code"] == -32600


async def test_a_cancel_ends_in_a_marker_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async with AcpDemoGateway(script, pace=0) as gateway, acp_wire(gateway.url) as wire:
        session = await opened(wire, tmp_path)
        prompt = await wire.begin("session/prompt", sessionId=session, prompt="wait")
        await wire.next()
        await wire.send(
            {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}
        )
        result = (await wire.answer(prompt))["result"]
        assert result["stopReason"] == "cancelled"
        assert result["content"].startswith("begun\n\n[")
        assert wire.updates()[-1]["toolCallId"] == f"turn-cancelled-{session}"
        assert gateway.store[session].rows == []


async def test_a_cancel_is_not_honoured_before_the_question_is_answered(tmp_path: Path) -> None:
    async with AcpDemoGateway(script, pace=0) as gateway, acp_wire(gateway.url) as wire:
        session = await opened(wire, tmp_path)
        prompt = await wire.begin("session/prompt", sessionId=session, prompt="ask")
        asked = await wire.asked()
        assert asked["id"] == "zc-out-0"
        assert await wire.call("session/cancel", sessionId=session) == {}
        assert gateway.runs[0].status == "running"
        outcome = {"outcome": {"outcome": "cancelled"}}
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": outcome})
        assert (await wire.answer(prompt))["result"]["stopReason"] == "cancelled"


async def test_a_turn_whose_connection_is_gone_is_stored_if_it_ends_well(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def slow(run: AcpRun) -> None:
        await run.text("one ")
        call = await run.tool_start("shell", {"command": "ls"})
        await run.tool_end(call, "a-file")
        await go_on.wait()
        await run.text("two")

    async with AcpDemoGateway(slow, pace=0) as gateway:
        async with acp_wire(gateway.url) as wire:
            session = await opened(wire, tmp_path)
            await wire.begin("session/prompt", sessionId=session, prompt="work")
            await gateway.wait_run()
        async with acp_wire(gateway.url) as wire:
            await wire.call("session/load", sessionId=session)
            assert wire.updates() == []
            assert await wire.error("session/load", sessionId=session) == -32602
            await wire.call("session/close", sessionId=session)
            go_on.set()
            await asyncio.wait_for(gateway.runs[0].ended.wait(), WAIT)
            await wire.call("session/load", sessionId=session)
            kinds = [update["sessionUpdate"] for update in wire.updates()]
            assert kinds == [
                "user_message_chunk",
                "agent_message_chunk",
                "tool_call",
                "tool_call_update",
                "agent_message_chunk",
            ]
            assert wire.updates()[0]["content"]["text"].startswith("[20")
            assert wire.updates()[0]["content"]["text"].endswith("] work")
            assert "title" not in wire.updates()[3]


@pytest.mark.parametrize(
    ("given", "is_let_in"),
    [
        ({"additional_headers": {"Authorization": "Bearer right"}}, True),
        ({"subprotocols": [SUBPROTOCOL, "bearer.right"]}, True),
        ({"query": "?token=right"}, True),
        ({"additional_headers": {"Authorization": "Bearer stale"}, "query": "?token=right"}, False),
        ({}, False),
    ],
)
async def test_the_first_token_decides(given: dict[str, Any], is_let_in: bool) -> None:
    query = given.pop("query", "")
    async with AcpDemoGateway(script, token=TOKEN) as gateway:
        if is_let_in:
            async with acp_wire(gateway.url + query, **given) as wire:
                await wire.call("initialize")
        else:
            with pytest.raises(InvalidStatus, match="401"):
                async with acp_wire(gateway.url + query, **given):
                    pass


async def test_the_path_and_the_agent_of_the_url_count(tmp_path: Path) -> None:
    async with AcpDemoGateway(script, agents=("one", "two")) as gateway:
        with pytest.raises(InvalidStatus, match="404"):
            async with acp_wire(gateway.url.replace("/acp", "/ws")):
                pass
        async with acp_wire(gateway.url) as wire:
            assert await wire.error("session/new", cwd=str(tmp_path)) == -32602
        async with acp_wire(gateway.url + "?agent=two") as wire:
            session = (await wire.call("session/new", cwd=str(tmp_path)))["sessionId"]
            assert gateway.store[session].agent == "two"


async def test_a_stopped_gateway_goes_without_a_close_frame() -> None:
    async with AcpDemoGateway(script) as gateway, acp_wire(gateway.url) as wire:
        await wire.call("initialize")
        await gateway.restart()
        with pytest.raises(ConnectionClosed) as closed:
            await wire.next()
        assert closed.value.rcvd is None
