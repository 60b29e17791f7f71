"""What the bridge does not interpret goes through it, both ways, over pipes and a WebSocket."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from acp_bridge.demo.acp import AcpDemoGateway, AcpRun
from acp_bridge.ids import Json
from tests.e2e.conftest import Start
from tests.support.telling_agent import META, MODES, SESSION, TellingAgent, telling_agent

pytestmark = pytest.mark.e2e

STDIO: Json = {"name": "files", "command": "/bin/files", "args": [], "env": []}
HTTP: Json = {"type": "http", "name": "web", "url": "http://127.0.0.1:9/", "headers": []}
SSE: Json = {"type": "sse", "name": "old", "url": "http://127.0.0.1:9/", "headers": []}
AUDIO: Json = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
IMAGE: Json = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
ASKED: Json = {"_meta": {"traceparent": "00-1"}, "vendorField": [1, None]}


def told(agent: TellingAgent, method: str) -> Json:
    """The parameters of the last call, without what the bridge decides by itself."""
    params = agent.calls[method][-1]
    return {name: params[name] for name in params if name not in ("sessionId", "agentAlias")}


def recorded(home: Path) -> bytes:
    """All that the ledger's files hold."""
    files = [path.read_bytes() for path in home.rglob("ledger.db*") if path.is_file()]
    assert files
    return b"".join(files)


async def test_a_new_session_passes_both_ways(acp: Start, home: Path) -> None:
    async with telling_agent("http") as agent, acp(agent.url) as editor:
        await editor.initialize()
        servers = [STDIO, HTTP, SSE]
        wanted = {"cwd": str(home), "mcpServers": servers, **ASKED}
        answer = await editor.call("session/new", wanted).result()
        assert told(agent, "session/new") == {**wanted, "mcpServers": [STDIO, HTTP]}
        assert answer["modes"] == MODES
        assert answer["_meta"]["told"]["vendorField"] == [1, None]
        assert answer["sessionId"] != SESSION
        turn = editor.prompt(answer["sessionId"], "x")
        await turn
        assert "not used: old" in turn.text


async def test_the_secrets_of_a_server_are_neither_logged_nor_recorded(
    acp: Start, home: Path
) -> None:
    secret = "s3cret-of-a-server"  # noqa: S105 - of a test
    server = {**STDIO, "env": [{"name": "KEY", "value": secret}]}
    async with telling_agent() as agent, acp(agent.url, "-vv") as editor:
        await editor.initialize()
        session = await editor.new_session(home, mcpServers=[server], _meta={"token": secret})
        assert agent.calls["session/new"][-1]["mcpServers"] == [server]
        assert await editor.prompt(session, "x") == "end_turn"
        editor.close_stdin()
        await editor.wait_exit()
        assert secret not in editor.stderr
    assert secret.encode() not in recorded(home)


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_an_earlier_session_passes_both_ways(acp: Start, home: Path, method: str) -> None:
    async with telling_agent() as agent:
        async with acp(agent.url) as editor:
            session = await editor.open(home)
            assert await editor.prompt(session, "x") == "end_turn"
        async with acp(agent.url) as editor:
            await editor.initialize()
            wanted = {"cwd": str(home), "mcpServers": [STDIO], **ASKED}
            answer = await editor.call(method, {"sessionId": session, **wanted}).result()
            assert told(agent, "session/load") == wanted
            assert agent.calls["session/load"][-1]["sessionId"] == SESSION
            assert answer["modes"] == MODES
            assert answer["_meta"]["told"]["vendorField"] == [1, None]


async def test_a_prompt_passes_both_ways(acp: Start, home: Path) -> None:
    async with telling_agent("audio", "image") as agent, acp(agent.url) as editor:
        hello = await editor.initialize()
        can = hello["agentCapabilities"]["promptCapabilities"]
        assert (can["audio"], can["image"]) == (True, True)
        session = await editor.new_session(home)
        turn = editor.prompt(session, "x", AUDIO, IMAGE, **ASKED)
        result = await turn.result()
        prompt = [{"type": "text", "text": "x"}, AUDIO, IMAGE]
        assert told(agent, "session/prompt") == {"prompt": prompt, **ASKED}
        assert result["stopReason"] == "end_turn"
        assert result["cost"] == 3
        assert result["_meta"]["told"]["vendorField"] == [1, None]


@pytest.mark.parametrize(
    ("method", "choice"),
    [
        ("session/set_mode", {"modeId": "plan"}),
        ("session/set_config_option", {"configId": "model", "value": "m"}),
        ("session/set_config_option", {"configId": "fast", "type": "boolean", "value": True}),
        ("_vendor/anything", {}),
    ],
)
async def test_a_choice_passes_both_ways(acp: Start, home: Path, method: str, choice: Json) -> None:
    async with telling_agent() as agent, acp(agent.url) as editor:
        wanted = {"sessionId": await editor.open(home), **choice, **ASKED}
        answer = await editor.call(method, wanted).result()
        assert agent.calls[method] == [{**wanted, "sessionId": SESSION}]
        assert answer["_meta"]["told"]["vendorField"] == [1, None]


async def test_chunks_keep_their_meta_and_the_bounds_of_messages(acp: Start, home: Path) -> None:
    async with telling_agent() as agent, acp(agent.url) as editor:
        turn = editor.prompt(await editor.open(home), "x")
        await turn
        shown = [u for u in turn.updates if u["sessionUpdate"] == "agent_message_chunk"]
        ids = [update["messageId"] for update in shown]
        assert ids[0] == ids[1] != ids[2]
        assert [update["_meta"]["acpBridge"]["messageId"] for update in shown] == [
            "m-1",
            "m-1",
            "m-2",
        ]
        assert [update["_meta"].get("vendor") for update in shown] == [1, 2, None]
        assert turn.text == "one twothree"


async def test_what_the_gateway_says_of_itself_is_told_with_initialize(acp: Start) -> None:
    async with telling_agent() as agent, acp(agent.url) as editor:
        assert (await editor.initialize())["_meta"] == META


async def test_what_it_says_too_late_for_that_is_told_with_the_session(
    acp: Start, home: Path
) -> None:
    async with AcpDemoGateway(pace=0) as gateway:
        await gateway.stop()
        async with acp(gateway) as editor:
            assert "_meta" not in await editor.initialize()
            await gateway.start()
            params = {"cwd": str(home), "mcpServers": []}
            answer = await editor.call("session/new", params).result()
            assert answer["_meta"]["zeroclaw"]["maxSessions"] == 10


@pytest.mark.parametrize(("block", "kind"), [(AUDIO, "audio"), (IMAGE, "image")])
async def test_what_an_agent_does_not_take_is_refused_by_name(
    acp: Start, home: Path, block: Json, kind: str
) -> None:
    async with telling_agent() as agent, acp(agent.url) as editor:
        hello = await editor.initialize()
        assert not hello["agentCapabilities"]["promptCapabilities"][kind]
        error = await editor.prompt(await editor.new_session(home), "x", block).error()
        assert error.code == -32602
        assert "prompt[1].type" in error.message
        assert kind in error.message
        assert "session/prompt" not in agent.calls


@pytest.mark.parametrize(
    ("method", "number", "code", "said"),
    [
        ("session/prompt", -32603, "gateway_refused", "Upgrade the gateway"),
        ("session/set_mode", -32601, "method_not_found", "without this part"),
        ("_vendor/x", -32601, "method_not_found", "without this part"),
    ],
)
async def test_what_the_gateway_does_not_know_is_explained(
    acp: Start, home: Path, method: str, number: int, code: str, said: str
) -> None:
    async with telling_agent() as agent, acp(agent.url) as editor:
        agent.unknown.add(method)
        session = await editor.open(home)
        params = {"sessionId": session, "modeId": "x", "prompt": [{"type": "text", "text": "x"}]}
        error = await editor.call(method, params).error()
        assert (error.code, error.data["code"]) == (number, code)
        assert method in error.message
        assert said in error.data["hint"]


async def test_a_session_is_restored_in_the_other_way_if_one_is_not_known(
    acp: Start, home: Path
) -> None:
    async with telling_agent() as agent:
        async with acp(agent.url) as editor:
            session = await editor.open(home)
        agent.unknown.add("session/load")
        async with acp(agent.url) as editor:
            await editor.initialize()
            params = {"sessionId": session, "cwd": str(home), "mcpServers": []}
            assert (await editor.call("session/resume", params).result())["modes"] == MODES
            assert await editor.prompt(session, "x") == "end_turn"
        assert len(agent.calls["session/resume"]) == 1


async def test_a_cancel_with_an_id_is_refused_and_cancels_nothing(acp: Start, home: Path) -> None:
    async def wait(run: AcpRun) -> None:
        await run.text("begun")
        await asyncio.Event().wait()

    async with AcpDemoGateway(wait, pace=0) as gateway, acp(gateway) as editor:
        session = await editor.open(home)
        turn = editor.prompt(session, "x")
        await turn.shows("begun")
        error = await editor.call("session/cancel", {"sessionId": session}).error()
        assert error.code == -32601
        assert "without an id" in error.data["hint"]
        assert gateway.methods().count("session/cancel") == 0
        editor.cancel(session)
        assert await turn == "cancelled"


async def test_mcp_servers_that_a_gateway_would_drop_unsaid_are_not_sent_and_told(
    acp: Start, home: Path
) -> None:
    async with AcpDemoGateway(pace=0) as gateway, acp(gateway) as editor:
        await editor.initialize()
        session = await editor.new_session(home, mcpServers=[STDIO])
        assert (await gateway.wait_call("session/new")).params["mcpServers"] == []
        turn = editor.prompt(session, "say hello")
        await turn
        assert "not used: files" in turn.text
