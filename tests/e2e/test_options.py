"""Modes, options and commands of the installed bridge, over pipes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from acp_bridge.demo import QUIRKS_6_11, QUIRKS_9_6, DemoGateway, Quirks
from acp_bridge.demo.calls import Request
from acp_bridge.demo.script import demo_script
from tests.e2e.conftest import Start
from tests.support.editor import EditorProcess, Json
from tests.support.gateway_client import Device, GatewayClient
from tests.support.waits import scaled

pytestmark = pytest.mark.e2e
BOTH = pytest.mark.parametrize("quirks", [QUIRKS_6_11, QUIRKS_9_6], ids=lambda q: q.version)


async def opened(editor: EditorProcess, cwd: Path) -> Json:
    await editor.initialize()
    return await editor.call("session/new", {"cwd": str(cwd), "mcpServers": []}).result()


def current(options: list[Json]) -> dict[str, str]:
    return {option["id"]: option["currentValue"] for option in options}


def shown(editor: EditorProcess, session: str, kind: str) -> list[Json]:
    return [u for u in editor.updates(session) if u["sessionUpdate"] == kind]


@pytest.mark.requirement("C077", "C078", "C095")
async def test_the_demo_has_pickers_that_work(demo: Start, home: Path) -> None:
    async with demo() as editor:
        answer = await opened(editor, home)
        session = answer["sessionId"]
        assert list(current(answer["configOptions"])) == ["model", "thought_level", "fast_mode"]
        assert answer["modes"]["currentModeId"] == "medium"
        params = {"sessionId": session, "configId": "model", "value": "demo/canned-plain"}
        result = await editor.call("session/set_config_option", params).result()
        assert current(result["configOptions"])["model"] == "demo/canned-plain"
        await editor.until(
            lambda: len(shown(editor, session, "available_commands_update")) == 1, "the commands"
        )
        [listed] = shown(editor, session, "available_commands_update")
        for command in listed["availableCommands"]:
            turn = editor.prompt(session, f"/{command['name']}")
            assert await turn == "end_turn"
            assert turn.text


@BOTH
@pytest.mark.requirement("C078")
async def test_a_change_by_command_or_by_another_client_is_told_and_nothing_of_it_recorded(
    bridge: Start, home: Path, quirks: Quirks
) -> None:
    async with DemoGateway(demo_script, pace=0, quirks=quirks) as gateway:
        admin = ("--scopes", "operator.read,operator.write,operator.admin")
        async with bridge(gateway, *admin) as editor:
            session = (await opened(editor, home))["sessionId"]

            def modes() -> list[str]:
                told = shown(editor, session, "current_mode_update")
                return [update["currentModeId"] for update in told]

            assert await editor.prompt(session, "/think high") == "end_turn"
            await editor.until(lambda: modes() == ["high"], "the mode")
            async with GatewayClient(gateway.url, device=Device()) as other:
                key = f"acp-bridge:{session}"
                await other.call("sessions.patch", {"key": key, "thinkingLevel": "off"})
            await editor.until(lambda: modes() == ["high", "off"], "the mode")
        async with bridge(gateway, *admin) as editor:
            await editor.initialize()
            params = {"sessionId": session, "cwd": str(home), "mcpServers": []}
            answer = await editor.call("session/load", params).result()
            assert answer["modes"]["currentModeId"] == "off"
            assert shown(editor, session, "config_option_update") == []
            assert shown(editor, session, "current_mode_update") == []


async def test_a_gateway_that_does_not_say_holds_up_a_session_for_a_second_only(
    bridge: Start, home: Path
) -> None:
    said = asyncio.Event()

    async def late(_request: Request) -> Any:
        await said.wait()
        return {"models": []}

    async with DemoGateway(pace=0) as gateway, bridge(gateway) as editor:
        gateway.overrides["models.list"] = late
        await editor.initialize()
        call = editor.call("session/new", {"cwd": str(home), "mcpServers": []})
        answer = await call.result()
        assert answer.keys() == {"sessionId"}
        assert call.seconds < scaled(2.0)
        session = answer["sessionId"]
        assert shown(editor, session, "config_option_update") == []
        said.set()
        await editor.until(lambda: bool(shown(editor, session, "config_option_update")), "options")
