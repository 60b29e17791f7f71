"""The start: rules 28 to 41 of the conformance list, field cases C004, C005 and C014."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from acp_bridge.demo.server import DemoGateway
from tests.e2e.conftest import Start
from tests.e2e.scripts import echo
from tests.support.editor import EditorProcess, agent_command
from tests.support.waits import scaled

pytestmark = pytest.mark.e2e

NOBODY = "ws://127.0.0.1:9"  # the discard port: nothing listens there
MISSING = object()
HANDLED = {
    "loadSession": "session/load",
    "list": "session/list",
    "resume": "session/resume",
    "delete": "session/delete",
    "close": "session/close",
}


@pytest.mark.requirement("ACP-28")
@pytest.mark.requirement("ACP-29")
@pytest.mark.requirement("ACP-30")
@pytest.mark.requirement("C014")
async def test_whatever_version_is_asked_for_the_answer_is_1(demo: Start) -> None:
    odd: list[Any] = [1, 0, 2, 99, 65_535, 70_000, -1, 1.5, True, None, MISSING, [], {}]
    odd += ["1", "1.0", "2025-11-25", ""]
    async with demo() as editor:
        for version in odd:
            params = {} if version is MISSING else {"protocolVersion": version}
            result = await editor.call("initialize", params).result()
            assert result["protocolVersion"] == 1
        assert (await editor.call("initialize").result())["protocolVersion"] == 1


@pytest.mark.requirement("ACP-31")
async def test_the_agent_says_who_it_is(demo: Start) -> None:
    async with demo() as editor:
        about = (await editor.initialize())["agentInfo"]
        assert about["name"] == "acp-bridge"
        assert about["version"]


@pytest.mark.requirement("ACP-32")
@pytest.mark.requirement("ACP-33")
async def test_bad_optional_members_count_as_absent(bridge: Start, home: Path) -> None:
    sloppy: list[dict[str, Any]] = [
        {"clientInfo": 5, "clientCapabilities": []},
        {"clientInfo": {"name": None}, "clientCapabilities": {"fs": 1, "terminal": "yes"}},
        {"clientCapabilities": None, "_meta": [], "info": {"v2": True}, "capabilities": {}},
        {"clientCapabilities": "all"},
        {"clientCapabilities": {"terminal": 1, "fs": [], "session": 1}},
        {
            "clientCapabilities": {
                "terminal": True,
                "fs": {"readTextFile": 1, "writeTextFile": True},
                "session": {"notices": {}},
                "unknown": {},
            }
        },
    ]
    async with DemoGateway(pace=0) as gateway, bridge(gateway) as editor:
        for params in sloppy:
            await editor.initialize(**params)
        turn = editor.prompt(await editor.new_session(home), "Hello")
        assert await turn.stop_reason(scaled(20)) == "end_turn"
        called = {m["method"] for m in editor.messages if "method" in m and "id" in m}
        assert called <= {"session/request_permission"}


@pytest.mark.requirement("ACP-34")
async def test_a_second_initialize_keeps_the_sessions(bridge: Start, home: Path) -> None:
    async with DemoGateway(echo, pace=0) as gateway, bridge(gateway) as editor:
        session = await editor.open(home)
        await editor.initialize()
        turn = editor.prompt(session, "still here")
        assert await turn == "end_turn"
        assert turn.text == "still here"


@pytest.mark.requirement("ACP-35")
@pytest.mark.requirement("ACP-36")
async def test_requests_may_follow_initialize_without_waiting(demo: Start, home: Path) -> None:
    async with demo() as editor:
        first, initialize = editor.message("initialize", {"protocolVersion": 1})
        second, new = editor.message("session/new", {"cwd": str(home), "mcpServers": []})
        editor.send(initialize, new)
        await second.result()
        assert editor.messages[0] == first.message


@pytest.mark.requirement("ACP-36")
async def test_a_request_before_initialize_is_refused(demo: Start, home: Path) -> None:
    async with demo() as editor:
        early = editor.call("session/new", {"cwd": str(home), "mcpServers": []})
        assert (await early.error()).code == -32600
        assert await editor.open(home)


@pytest.mark.requirement("ACP-37")
@pytest.mark.requirement("C004")
async def test_initialize_is_answered_soon_without_a_gateway(bridge: Start, home: Path) -> None:
    async with bridge(NOBODY, "--connect-timeout", "1") as editor:
        await editor.initialize()
        assert time.monotonic() - editor.started_at < scaled(2.0)
        new = editor.call("session/new", {"cwd": str(home), "mcpServers": []})
        error = await new.error()
        assert error.data["code"] == "gateway_unreachable"
        assert error.data["retryable"] is True
        assert "127.0.0.1:9" in error.message
        assert error.data["hint"]


@pytest.mark.requirement("C004")
async def test_a_slow_gateway_holds_up_the_session_but_not_initialize(
    bridge: Start, home: Path
) -> None:
    async with DemoGateway(echo, pace=0) as gateway:
        held = gateway.hold_hello = asyncio.Event()
        async with bridge(gateway) as editor:
            try:
                await editor.initialize()
                assert time.monotonic() - editor.started_at < scaled(3.0)
                new = editor.call("session/new", {"cwd": str(home), "mcpServers": []})
                await gateway.wait_request("connect")
                # Rule 27: one that waits delays no other.
                assert (await editor.call("foo/bar").error()).code == -32601
                assert not new.is_answered
            finally:
                held.set()
            session = (await new.result())["sessionId"]
            assert await editor.prompt(session, "Hello") == "end_turn"


@pytest.mark.requirement("ACP-37")
async def test_initialize_is_answered_with_the_hello_not_after_the_wait(
    bridge: Start,
) -> None:
    async with DemoGateway(echo, pace=0) as gateway, bridge(gateway) as editor:
        await editor.initialize(timeout=scaled(1.4))


@pytest.mark.requirement("ACP-38")
@pytest.mark.requirement("ACP-39")
@pytest.mark.requirement("ACP-41")
async def test_authentication_is_offered_only_as_the_editor_can_do_it(
    demo: Start, home: Path
) -> None:
    async with demo() as editor:
        methods = (await editor.initialize()).get("authMethods", [])
        assert len({method["id"] for method in methods}) == len(methods)
        assert all(method.get("type", "agent") == "agent" for method in methods)
        if not methods:
            assert (await editor.call("authenticate", {"methodId": "x"}).error()).code != -32000
        assert await editor.new_session(home)  # never -32000: the demo needs no login


@pytest.mark.requirement("ACP-40")
@pytest.mark.requirement("ACP-46")
@pytest.mark.requirement("C076")
async def test_what_is_not_advertised_is_not_there_and_the_reverse(demo: Start, home: Path) -> None:
    async with demo() as editor:
        capabilities = (await editor.initialize())["agentCapabilities"]
        offered = {
            name
            for name in capabilities.get("sessionCapabilities", {})
            if capabilities["sessionCapabilities"][name] is not None
        }
        offered |= {"loadSession"} if capabilities.get("loadSession") else set()
        for name, method in HANDLED.items():
            params = {"sessionId": "none", "cwd": str(home), "mcpServers": []}
            answer = await editor.call(method, params).answer()
            is_there = answer.get("error", {}).get("code") != -32601
            assert is_there == (name in offered), f"{name}: {answer}"
        has_logout = capabilities.get("auth", {}).get("logout") is not None
        assert ("result" in await editor.call("logout").answer()) == has_logout
        assert not capabilities.get("mcpCapabilities", {}).get("http")
        assert not capabilities.get("promptCapabilities", {}).get("audio")


@pytest.mark.requirement("C005")
async def test_an_empty_environment_is_enough(home: Path) -> None:
    command = agent_command("--demo", "--state-dir", str(home / "state"))
    async with EditorProcess(command, env={}, cwd=Path("/")) as editor:
        assert await editor.open(home)
