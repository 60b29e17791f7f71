"""Other clients of a session, and an outage too long to be waited for, at real gateways."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import pytest

from acp_bridge.core.turn_base import FOREIGN
from acp_bridge.core.turn_view import OUTAGE, OUTAGE_OVER
from ledger.memory import MemoryLedger
from tests.faults.plan import SCALE
from tests.faults.rig import QuickEditor, quick_bridge
from tests.real.conftest import TURN, Bridge
from tests.real.gateway import Gateway
from tests.real.model_script import counted
from tests.real.scenes import load, marked, notices, other_client, prompts, said, taken
from tests.support.client_rig import credentials
from tests.support.proxy import Proxy
from tests.support.transcript import text_of

pytestmark = [pytest.mark.real_gateway, pytest.mark.timeout(240)]

LONG_OUTAGE = 20 * 60.0
"""Seconds of the bridge's clock."""


async def test_what_another_client_prompts_for_is_shown_as_it_happens(
    bridge: Bridge, gateway: Gateway, tmp_path: Path
) -> None:
    async with bridge() as editor:
        session = await editor.open(tmp_path)
        assert await editor.prompt(session, "fake:say one").stop_reason(TURN) == "end_turn"
        async with other_client(gateway) as other:
            key = f"agent:main:acp-bridge:{session}"
            await other.prompt("fake:slow N=20 MS=50", key=key, run=uuid.uuid4().hex)
            await editor.until(
                lambda: said(editor.updates(session)).endswith(counted("slow-", 20)),
                "the other client's answer",
                TURN,
            )
        assert notices(editor.updates(session)) == [FOREIGN.strip()]
        assert await editor.prompt(session, "fake:say two").stop_reason(TURN) == "end_turn"
    async with bridge() as editor:
        replay = await load(editor, session, tmp_path)
        assert prompts(replay) == ["fake:say one", "fake:slow N=20 MS=50", "fake:say two"]
        assert said(replay) == f"one{counted('slow-', 20)}two"


async def shows(editor: QuickEditor, session: str, part: str) -> None:
    async with asyncio.timeout(TURN):
        while part not in text_of(editor.updates(session)):  # noqa: ASYNC110 - nothing tells it
            await asyncio.sleep(0.05)


async def test_twenty_minutes_without_a_link_cost_nothing(gateway: Gateway, tmp_path: Path) -> None:
    """The bridge's clock goes twenty times as fast as the gateway's."""
    prompt, mark = marked("fake:slow N=60 MS=100")
    access = credentials(token_file=gateway.token_file)
    async with (
        Proxy(gateway.port) as proxy,
        quick_bridge(proxy.url, MemoryLedger(), tmp_path, 1, credentials=access) as editor,
    ):
        opened = await editor.call("session/new", cwd=str(tmp_path), mcpServers=[])
        session = opened["result"]["sessionId"]
        blocks = [{"type": "text", "text": prompt}]
        answer = editor.call("session/prompt", sessionId=session, prompt=blocks)
        await shows(editor, session, "slow-3")
        proxy.cut()
        await asyncio.sleep(LONG_OUTAGE / SCALE)  # the length of the outage is what is tested
        proxy.restore()
        async with asyncio.timeout(TURN):
            assert (await answer)["result"]["stopReason"] == "end_turn"
        shown = editor.updates(session)
        assert said(shown) == counted("slow-", 60)
        assert text_of(shown).count(OUTAGE) == text_of(shown).count(OUTAGE_OVER) == 1
        assert editor.violations == []
    assert await taken(gateway, session, mark) == 1
