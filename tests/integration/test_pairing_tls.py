"""Pairing over HTTP is held to the same trust as the WebSocket."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from acp_bridge.core import commands as cmd
from acp_bridge.demo.acp import AcpDemoGateway
from acp_bridge.gateway import health, pairing
from acp_bridge.gateway.credentials import File
from acp_bridge.gateway.dialects.acp_ws.memory import Process
from acp_bridge.gateway.network_errors import (
    CertificateUntrusted,
    FingerprintMismatch,
    ProxyFailed,
)
from acp_bridge.gateway.route import Route
from acp_bridge.ids import RunId
from tests.support.client_rig import client_rig, credentials
from tests.support.pairing import pairing_server
from tests.support.tls import authority, shown
from tests.support.waits import WAIT
from tests.support.zeroclaw_door import door

pytestmark = pytest.mark.integration

TOKEN = "zc_of-the-test"  # noqa: S105 - of a test


def test_a_code_is_exchanged_with_who_is_trusted_alone(tmp_path: Path) -> None:
    ours = authority(tmp_path)
    headers = tmp_path / "headers"
    headers.touch(0o600)
    headers.write_text("X-Extra: one\n")
    with pairing_server(ours.context()) as server:
        with pytest.raises(FingerprintMismatch) as pinned:
            pairing.pair(server.url, "123456", Route(fingerprint="ab" * 32))
        with pytest.raises(CertificateUntrusted) as unknown:
            pairing.pair(server.url, "123456")
        assert server.code == "123456"
        for caught in (pinned, unknown):
            assert shown(ours.fingerprint) in caught.value.message
        route = Route(fingerprint=ours.fingerprint, header_file=headers)
        assert pairing.pair(server.url, "123456", route).reveal() == "zc_paired"
        assert server.header == "one"
        server.code = "654321"
        route = Route(ca_file=ours.ca_file)
        assert pairing.pair(server.url, "654321", route).reveal() == "zc_paired"


def test_a_proxy_that_is_away_is_named() -> None:
    with pytest.raises(ProxyFailed, match=r"127\.0\.0\.1:9"):
        pairing.pair("wss://gw.example/acp", "1", Route(proxy="http://me:hunter2@127.0.0.1:9"))
    with pytest.raises(ProxyFailed, match="http:// proxies only"):
        pairing.pair("wss://gw.example/acp", "1", Route(proxy="socks5h://127.0.0.1:9"))


async def test_the_first_pairing_and_the_question_for_the_process_go_the_same_way(
    tmp_path: Path,
) -> None:
    ours = authority(tmp_path)
    headers, kept = tmp_path / "headers", tmp_path / "token"
    headers.touch(0o600)
    headers.write_text("X-Extra: one\n")
    of_pairing = credentials().or_else(File("the pairing's", kept, is_optional=True))
    async with (
        AcpDemoGateway(token=TOKEN, pace=0) as gateway,
        door(gateway, TOKEN, ours.context()) as way,
    ):
        way.health = {"runtime": {"pid": 7, "uptime_seconds": 1}}
        told = {"kind": "acp", "acp_credentials": of_pairing}
        strange = Route(fingerprint="ab" * 32)
        async with client_rig(way.url, tmp_path, settings={**told, "route": strange}) as rig:
            with pytest.raises(FingerprintMismatch):
                await rig.client.wait_hello(WAIT)
        assert await asyncio.to_thread(health.ask, way.url, strange) is None
        assert way.heads == []

        pinned = Route(fingerprint=ours.fingerprint, header_file=headers)
        async with client_rig(way.url, tmp_path, settings={**told, "route": pinned}) as rig:
            await rig.client.wait_hello(WAIT)
            opened = await rig.client.request(cmd.OpenSession("/"))
            rig.client.submit(cmd.StartRun(RunId("r"), opened.session_key, "Hello"))
            async with asyncio.timeout(WAIT):
                while "GET /health" not in way.asked:
                    way.news.clear()
                    await way.news.wait()
        assert way.asked == ["GET /pair/code", "POST /pair", "GET /health"]
        assert all("x-extra: one" in head for head in way.heads)
        known = await asyncio.to_thread(health.ask, way.url, pinned)
        assert known == Process(7, 1)
