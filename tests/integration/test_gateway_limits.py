"""A gateway that takes or sends what no gateway should, on real sockets."""

from __future__ import annotations

from pathlib import Path

import pytest

from acp_bridge.core.commands import StartRun
from acp_bridge.core.events import LinkLost, LinkUp, Unreadable
from acp_bridge.gateway import link, transport
from acp_bridge.ids import RunId, SessionKey
from tests.support.client_rig import client_rig
from tests.support.wire_gateway import wire_gateway

pytestmark = pytest.mark.integration


async def test_a_gateway_that_reads_nothing_is_given_up_once_too_much_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "MAX_UNSENT", 20 * 1024 * 1024)
    async with wire_gateway() as gateway, client_rig(gateway.url, tmp_path / "state") as rig:
        connection = await gateway.accepted()
        await connection.accept()
        await rig.next(LinkUp)
        connection.socket.transport.pause_reading()
        prompt = "x" * (1024 * 1024)
        for number in range(18):
            rig.client.submit(StartRun(RunId(f"r{number}"), SessionKey("k"), prompt))
        await connection.event("tick")
        assert rig.client.hello is not None
        for number in range(18, 40):
            rig.client.submit(StartRun(RunId(f"r{number}"), SessionKey("k"), prompt))
        await connection.event("tick")
        lost = await rig.next(LinkLost)
        assert lost.reason == "The gateway does not read what it is sent."


async def test_a_frame_above_the_limit_ends_the_connection_and_not_the_bridge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "MAX_FRAME", 100_000)
    async with wire_gateway() as gateway, client_rig(gateway.url, tmp_path / "state") as rig:
        connection = await gateway.accepted()
        await connection.accept()
        await rig.next(LinkUp)
        await connection.send(" " * 100_000)
        await rig.next(Unreadable)
        await connection.send(" " * 100_001)
        assert (await rig.next(LinkLost)).close_code == 1009
        rig.clock.advance(60)
        await (await gateway.accepted()).accept()
        await rig.next(LinkUp)
