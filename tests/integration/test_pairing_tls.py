"""Pairing over HTTP is held to the same trust as the WebSocket."""

from __future__ import annotations

from pathlib import Path

import pytest

from acp_bridge.gateway import pairing
from acp_bridge.gateway.network_errors import (
    CertificateUntrusted,
    FingerprintMismatch,
    ProxyFailed,
)
from acp_bridge.gateway.route import Route
from tests.support.pairing import pairing_server
from tests.support.tls import authority, shown

pytestmark = pytest.mark.integration


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
