"""What a hostile editor can do to the bridge: nothing but waste its own words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from acp_bridge.demo.server import DemoGateway
from tests.e2e.conftest import Start
from tests.e2e.scripts import echo
from tests.support.editor import EditorProcess
from tests.support.hostile import nested
from tests.support.waits import scaled

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

PATIENCE = scaled(60)
IDLE_MIB = 90
MIB = 1024 * 1024
AWAY = "ws://127.0.0.1:1"
"""Nothing listens there."""


async def still_serves(editor: EditorProcess, home: Path) -> None:
    turn = editor.prompt(await editor.new_session(home, PATIENCE), "still there?")
    assert await turn.stop_reason(PATIENCE) == "end_turn"
    assert "still there?" in turn.text


def codes(editor: EditorProcess) -> list[str]:
    return [each["error"]["data"]["code"] for each in answers(editor) if "error" in each]


def answers(editor: EditorProcess) -> list[dict[str, Any]]:
    return [message for message in editor.messages if "method" not in message]


async def test_a_line_without_end_is_refused_and_takes_bounded_memory(
    bridge: Start, home: Path
) -> None:
    async with DemoGateway(echo, pace=0) as gateway, bridge(gateway) as editor:
        await editor.initialize()
        for _ in range(200):
            editor.send_raw(b"x" * MIB)
            await editor.drain(PATIENCE)
        editor.send_raw(b"\n")
        await still_serves(editor, home)
        refused = [message for message in answers(editor) if "error" in message]
        assert [message["error"]["code"] for message in refused] == [-32700]
        assert "longer than" in refused[0]["error"]["message"]
        assert editor.rss_kib("VmHWM") < (IDLE_MIB + 120) * 1024


@pytest.mark.requirement("ACP-19")
@pytest.mark.parametrize("kind", ["[]", "{}"])
async def test_a_message_nested_5000_deep_is_refused_under_its_id(
    bridge: Start, home: Path, kind: str
) -> None:
    deep = nested(5_000, kind)
    async with DemoGateway(echo, pace=0) as gateway, bridge(gateway) as editor:
        session = await editor.open(home)
        call = editor.expect("deep", "_own/x")
        editor._oracle.sent({"id": "deep", "method": "_own/x"})  # it cannot read the line itself
        head = '{"jsonrpc":"2.0","id":"deep","method":"_own/x","params":'
        editor.send_raw(f'{head}{{"sessionId":"{session}","prompt":{deep}}}}}\n'.encode())
        error = await call.error()
        assert (error.code, error.data["code"]) == (-32700, "parse_error")
        assert "200 levels deep" in error.message
        await still_serves(editor, home)


async def test_more_requests_than_may_wait_for_a_gateway_are_refused_at_once(
    bridge: Start, home: Path
) -> None:
    count = 20_000
    async with bridge(AWAY, "--connect-timeout", "10") as editor:
        await editor.initialize()
        call = {"jsonrpc": "2.0", "method": "authenticate", "params": {"methodId": "gateway"}}
        for number in range(count):
            editor.send({**call, "id": f"a{number}"})
            if number % 500 == 0:
                await editor.drain(PATIENCE)
        await editor.until(lambda: len(answers(editor)) > count, "all answers", PATIENCE)
        assert set(codes(editor)) <= {"too_many_requests", "gateway_unreachable"}
        assert codes(editor).count("gateway_unreachable") >= 1_000
        assert editor.rss_kib("VmHWM") < (IDLE_MIB + 60) * 1024


async def test_requests_that_are_too_large_together_are_refused(bridge: Start, home: Path) -> None:
    params = {"methodId": "gateway", "_meta": {"picture": "A" * (20 * MIB)}}
    async with bridge(AWAY, "--connect-timeout", "10") as editor:
        await editor.initialize()
        editor.call("authenticate", params)
        await editor.until(lambda: "gateway_unreachable" in codes(editor), "a refusal", PATIENCE)
        waiting = [editor.call("authenticate", params) for _ in range(12)]
        await editor.drain(PATIENCE)
        for call in waiting:
            await call.error(PATIENCE)
        assert set(codes(editor)) <= {"too_many_requests", "gateway_unreachable"}
        assert editor.rss_kib("VmHWM") < (IDLE_MIB + 500) * 1024
