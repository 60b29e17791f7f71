"""Questions of a turn that was cancelled while the link was away, against real gateways."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.conftest import TURN, Bridge
from tests.real.gateway import Gateway
from tests.real.model_script import counted
from tests.real.scenes import load, other_client, said
from tests.support.editor import EditorProcess
from tests.support.fault_proxy import Fault, FaultProxy
from tests.support.permission_policies import allow_once, never
from tests.support.transcript import messages
from tests.support.waits import scaled

pytestmark = [pytest.mark.real_gateway, pytest.mark.timeout(180)]

AT_ONCE = scaled(2.0)
OUTAGE = Fault("cut", seconds=600.0)
"""One that the test ends itself."""


async def cut(editor: EditorProcess, proxy: FaultProxy) -> None:
    count = editor.stderr.count("cannot be reached")
    proxy.strike(OUTAGE)
    await editor.until(lambda: editor.stderr.count("cannot be reached") > count, "an outage", TURN)


@pytest.mark.parametrize("is_answered", [True, False])
async def test_a_question_of_a_cancelled_turn_does_not_come_back(
    bridge: Bridge, gateway: Gateway, tmp_path: Path, is_answered: bool
) -> None:
    async with FaultProxy(gateway.url) as proxy, bridge(url=proxy.url) as editor:
        session = await editor.open(tmp_path)
        editor.permission_policy = never
        ran = tmp_path / "ran"
        turn = editor.prompt(session, f"fake:tool touch {ran}")
        await editor.until(lambda: bool(editor.permissions), "a question", TURN)
        await cut(editor, proxy)
        (question,) = editor.permissions
        if is_answered:
            editor.answer_permission(question, allow_once(question["params"]) or {})
        editor.cancel(session)
        assert await turn.stop_reason(AT_ONCE) == "cancelled"
        proxy.heal()
        after = editor.prompt(session, "fake:slow N=40 MS=100")
        await after.shows("slow-3", TURN)
        async with other_client(gateway) as other:
            waiting = await other.call("exec.approval.list")
            assert not any(session in str(each["request"].get("sessionKey")) for each in waiting)
        await cut(editor, proxy)
        proxy.heal()
        assert await after.stop_reason(TURN) == "end_turn"
        assert said(after.updates) == counted("slow-", 40)
        assert after.tools == []
        assert editor.permissions == [question]
        assert proxy.called["exec.approval.resolve"] == 1
        assert not ran.exists()
    async with bridge() as editor:
        told = messages(await load(editor, session, tmp_path))
        assert [text for text in told if text.startswith("Permission asked")] == [
            f"Permission asked: touch {ran} (denied)"
        ]
