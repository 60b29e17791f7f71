"""Modes, config options and slash commands, against real gateways."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.real.conftest import TURN, Bridge
from tests.real.fake_model import MODEL, PLAIN_MODEL
from tests.real.gateway import TOKEN, Gateway
from tests.support.editor import EditorProcess, Json
from tests.support.gateway_client import Device, GatewayClient

pytestmark = [pytest.mark.real_gateway, pytest.mark.timeout(180)]

ALL = [
    "model",
    "thought_level",
    "fast_mode",
    "verbose_level",
    "reasoning_level",
    "trace_level",
    "response_usage",
    "elevated_level",
]
LEVELS = ["off", "minimal", "low", "medium", "high"]
WITHOUT_ADMIN = "operator.read,operator.write,operator.approvals"


@pytest.fixture(autouse=True)
async def warm(gateway: Gateway) -> None:
    """The first such questions to a gateway that has just started take it a second or two."""
    async with other_client(gateway) as client:
        await client.call("models.list", {"view": "configured"})
        await client.call("chat.history", {"sessionKey": "warm", "limit": 1})
        await client.call("sessions.subscribe")


@asynccontextmanager
async def other_client(gateway: Gateway) -> AsyncIterator[GatewayClient]:
    async with GatewayClient(gateway.url, auth={"token": TOKEN}, device=Device()) as client:
        yield client


async def opened(editor: EditorProcess, cwd: Path) -> Json:
    await editor.initialize(timeout=TURN)
    params = {"cwd": str(cwd), "mcpServers": []}
    return await editor.call("session/new", params).result(TURN)


async def chosen(editor: EditorProcess, session: str, option: str, value: str) -> Json:
    params = {"sessionId": session, "configId": option, "value": value}
    return await editor.call("session/set_config_option", params).result(TURN)


def current(options: list[Json]) -> dict[str, str]:
    return {option["id"]: option["currentValue"] for option in options}


def values(option: Json) -> list[str]:
    return [each["value"] for each in option["options"]]


def shown(editor: EditorProcess, session: str, kind: str) -> list[Json]:
    return [u for u in editor.updates(session) if u["sessionUpdate"] == kind]


def lists(editor: EditorProcess, session: str) -> list[Json]:
    return shown(editor, session, "available_commands_update")


async def key_of(client: GatewayClient, session: str) -> str:
    found = await client.call("sessions.list", {"search": session.lower()})
    return str(found["sessions"][0]["key"])


async def test_a_new_session_has_all_pickers_and_is_not_made_at_the_gateway_for_them(
    bridge: Bridge, gateway: Gateway, tmp_path: Path
) -> None:
    async with bridge() as editor, other_client(gateway) as client:
        answer = await opened(editor, tmp_path)
        options = {option["id"]: option for option in answer["configOptions"]}
        assert list(options) == ALL
        assert values(options["model"]) == [f"fake/{MODEL}", f"fake/{PLAIN_MODEL}"]
        assert values(options["thought_level"]) == LEVELS
        assert all(option["currentValue"] in values(option) for option in options.values())
        assert answer["modes"]["currentModeId"] == "medium"
        assert [mode["id"] for mode in answer["modes"]["availableModes"]] == LEVELS
        session = answer["sessionId"]
        await editor.until(lambda: bool(lists(editor, session)), "commands", TURN)
        found = await client.call("sessions.list", {"search": session.lower()})
        assert found["sessions"] == []


async def test_each_value_that_is_offered_is_taken_and_read_back(
    bridge: Bridge, tmp_path: Path
) -> None:
    async with bridge() as editor:
        answer = await opened(editor, tmp_path)
        for option in answer["configOptions"]:
            for value in values(option):
                result = await chosen(editor, answer["sessionId"], option["id"], value)
                assert current(result["configOptions"])[option["id"]] == value
                # Without another model in between, for which the levels would be others.
            await chosen(editor, answer["sessionId"], option["id"], option["currentValue"])


async def test_a_mode_holds_for_the_next_prompt_and_in_the_next_process(
    bridge: Bridge, tmp_path: Path
) -> None:
    async with bridge() as editor:
        session = (await opened(editor, tmp_path))["sessionId"]
        params = {"sessionId": session, "modeId": "high"}
        assert await editor.call("session/set_mode", params).result(TURN) == {}
        [told] = shown(editor, session, "config_option_update")
        assert current(told["configOptions"])["thought_level"] == "high"
        turn = editor.prompt(session, "/think")
        assert await turn.stop_reason(TURN) == "end_turn"
        assert "high" in turn.text
    async with bridge() as editor:
        await editor.initialize(timeout=TURN)
        for method in ("session/load", "session/resume"):
            params = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
            answer = await editor.call(method, params).result(TURN)
            assert answer["modes"]["currentModeId"] == "high"
            assert current(answer["configOptions"])["thought_level"] == "high"


async def test_another_model_brings_its_own_levels(bridge: Bridge, tmp_path: Path) -> None:
    async with bridge() as editor:
        session = (await opened(editor, tmp_path))["sessionId"]
        answer = await chosen(editor, session, "model", f"fake/{PLAIN_MODEL}")
        levels = next(o for o in answer["configOptions"] if o["id"] == "thought_level")
        assert (levels["currentValue"], values(levels)) == ("off", ["off"])
        [told] = shown(editor, session, "current_mode_update")
        assert told["currentModeId"] == "off"


async def test_what_is_not_offered_is_refused_and_changes_nothing(
    bridge: Bridge, gateway: Gateway, tmp_path: Path
) -> None:
    async with bridge() as editor, other_client(gateway) as client:
        session = (await opened(editor, tmp_path))["sessionId"]
        wrong: list[tuple[str, Json, int, str]] = [
            ("session/set_mode", {"modeId": "adaptive"}, -32602, "modeId"),
            ("session/set_mode", {"modeId": ""}, -32602, "modeId"),
            ("session/set_mode", {"sessionId": "no", "modeId": "low"}, -32002, ""),
            *(
                ("session/set_config_option", {"configId": i, "value": v}, -32602, field)
                for i, v, field in (
                    ("thought_level", "adaptive", "value"),
                    ("model", "fake/none", "value"),
                    ("timeout", "10", "configId"),
                    ("timeout_seconds", "10", "configId"),
                )
            ),
        ]
        for method, params, code, field in wrong:
            error = await editor.call(method, {"sessionId": session, **params}).error(TURN)
            assert error.code == code
            assert error.data.get("field", "") == field
            assert not field or error.data["allowed"]
        found = await client.call("sessions.list", {"search": session.lower()})
        assert found["sessions"] == []


async def test_what_another_client_changes_is_told_once(
    bridge: Bridge, gateway: Gateway, tmp_path: Path
) -> None:
    async with bridge() as editor, other_client(gateway) as client:
        session = (await opened(editor, tmp_path))["sessionId"]
        await chosen(editor, session, "thought_level", "low")
        key = await key_of(client, session)
        await client.call("sessions.patch", {"key": key, "thinkingLevel": "high"})

        def modes() -> list[str]:
            updates = shown(editor, session, "current_mode_update")
            return [update["currentModeId"] for update in updates]

        await editor.until(lambda: modes() == ["low", "high"], "the mode", TURN)
        [told] = shown(editor, session, "config_option_update")
        assert current(told["configOptions"])["thought_level"] == "high"


async def test_sessions_that_share_one_of_the_gateway_are_told_of_each_others_choices(
    bridge: Bridge, tmp_path: Path
) -> None:
    async with bridge("--session", f"shared-{tmp_path.name}") as editor:
        first = (await opened(editor, tmp_path))["sessionId"]
        params = {"cwd": str(tmp_path), "mcpServers": []}
        second = (await editor.call("session/new", params).result(TURN))["sessionId"]
        await chosen(editor, first, "thought_level", "high")
        await editor.until(
            lambda: bool(shown(editor, second, "current_mode_update")), "the mode", TURN
        )


async def test_a_slash_command_that_changes_a_setting_is_told(
    bridge: Bridge, tmp_path: Path
) -> None:
    async with bridge() as editor:
        session = (await opened(editor, tmp_path))["sessionId"]
        assert await editor.prompt(session, "/think high").stop_reason(TURN) == "end_turn"

        def levels() -> list[str]:
            updates = shown(editor, session, "config_option_update")
            return [current(update["configOptions"])["thought_level"] for update in updates]

        await editor.until(lambda: levels() == ["high"], "the level", TURN)
        assert [
            update["currentModeId"] for update in shown(editor, session, "current_mode_update")
        ] == ["high"]


async def test_options_can_be_changed_while_a_turn_runs(bridge: Bridge, tmp_path: Path) -> None:
    async with bridge() as editor:
        session = (await opened(editor, tmp_path))["sessionId"]
        turn = editor.prompt(session, "fake:slow N=12 MS=100")
        await turn.shows("slow-1", TURN)
        answer = await chosen(editor, session, "fast_mode", "on")
        assert not turn.is_answered
        assert current(answer["configOptions"])["fast_mode"] == "on"
        assert await turn.stop_reason(TURN) == "end_turn"


async def test_without_admin_only_what_may_be_changed_is_offered(
    bridge: Bridge, gateway: Gateway, tmp_path: Path
) -> None:
    async with bridge("--scopes", WITHOUT_ADMIN) as editor:
        answer = await opened(editor, tmp_path)
        session = answer["sessionId"]
        offered = [option["id"] for option in answer.get("configOptions", [])]
        assert offered == ([] if gateway.is_old else ALL[:3])
        assert ("modes" in answer) is not gateway.is_old
        params: dict[str, Any] = {"sessionId": session, "configId": "verbose_level", "value": "on"}
        error = await editor.call("session/set_config_option", params).error(TURN)
        assert (error.data["code"], error.data["scope"]) == ("scope_missing", "operator.admin")
        assert "--scopes" in error.data["hint"]
        if not gateway.is_old:
            answer = await chosen(editor, session, "thought_level", "low")
            assert current(answer["configOptions"])["thought_level"] == "low"


async def test_the_commands_follow_each_opening_once_and_work(
    bridge: Bridge, tmp_path: Path
) -> None:
    async with bridge() as editor:
        session = (await opened(editor, tmp_path))["sessionId"]
        params = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
        await editor.until(lambda: len(lists(editor, session)) == 1, "commands", TURN)
        await editor.call("session/load", params).result(TURN)
        await editor.until(lambda: len(lists(editor, session)) == 2, "commands", TURN)
        await editor.call("session/resume", params).result(TURN)
        await editor.until(lambda: len(lists(editor, session)) == 3, "commands", TURN)
        commands = {c["name"]: c for c in lists(editor, session)[-1]["availableCommands"]}
        assert {"help", "think", "status", "skill"} <= set(commands)
        assert all(name and "/" not in name and c["description"] for name, c in commands.items())
        assert commands["usage"]["input"]["hint"] == "[off | tokens | full | cost]"
        assert "input" not in commands["help"]
        turn = editor.prompt(session, "/help")
        assert await turn.stop_reason(TURN) == "end_turn"
        assert turn.text
        assert len(lists(editor, session)) == 3
