"""Whole conversations through proxies. All names lead to loopback, and only the proxies know it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Start
from tests.support.editor import EditorProcess
from tests.support.hostile import HostileGateway, OpenClawKind, hostile_gateway
from tests.support.http_proxy import http_proxy
from tests.support.socks_proxy import socks_proxy
from tests.support.tls import Authority, authority
from tests.support.waits import scaled

pytestmark = pytest.mark.e2e

NAME = "gw.example:8443"
USER, PASSWORD = "me", "pr0xy%20passw0rd"
ACCOUNT = (USER, "pr0xy passw0rd")
KIND = ("--gateway-kind", "openclaw", "-vv")


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    return authority(tmp_path, "gw.example", "127.0.0.1")


@pytest.fixture
async def gateway(ours: Authority) -> AsyncIterator[HostileGateway]:
    async with hostile_gateway(OpenClawKind(), ours.context()) as running:
        yield running


async def converse(editor: EditorProcess, gateway: HostileGateway, home: Path) -> None:
    """Hold a turn, with an answer that takes many reads."""
    session = await editor.open(home, scaled(15))
    turn = editor.prompt(session, "hello")
    await gateway.prompted()
    parts = [f"{number} {'x' * 1_000}" for number in range(300)]
    await gateway.send([*map(gateway.kind.text, parts), gateway.kind.end()])
    assert await turn.stop_reason(scaled(15)) == "end_turn"
    assert turn.text == "".join(parts)
    assert "passw0rd" not in editor.stderr


@pytest.mark.requirement("C080")
@pytest.mark.parametrize("has_account", [False, True], ids=["open", "by password"])
async def test_a_conversation_goes_through_a_socks_proxy_that_looks_up_the_name(
    has_account: bool, gateway: HostileGateway, ours: Authority, bridge: Start, home: Path
) -> None:
    async with socks_proxy(gateway.port) as proxy:
        who = ""
        if has_account:
            proxy.account, who = ACCOUNT, f"{USER}:{PASSWORD}@"
        variables = {"ACP_BRIDGE_PROXY": f"socks5h://{who}127.0.0.1:{proxy.port}"}
        trust = ("--ca-file", str(ours.ca_file))
        async with bridge(f"wss://{NAME}", *KIND, *trust, **variables) as editor:
            await converse(editor, gateway, home)
        assert proxy.asked == [NAME]


async def test_a_gateway_of_the_private_network_is_reached_through_a_socks_proxy(
    bridge: Start, home: Path
) -> None:
    async with hostile_gateway(OpenClawKind()) as gateway, socks_proxy(gateway.port) as proxy:
        variables = {"ALL_PROXY": f"socks5h://127.0.0.1:{proxy.port}"}
        async with bridge("ws://gw.local:18789", *KIND, **variables) as editor:
            await converse(editor, gateway, home)
        assert proxy.asked == ["gw.local:18789"]


@pytest.mark.requirement("C080")
async def test_a_conversation_goes_through_a_proxy_that_speaks_tls_itself(
    gateway: HostileGateway, ours: Authority, bridge: Start, home: Path
) -> None:
    async with http_proxy(gateway.port, ours.context()) as proxy:
        variables = {"HTTPS_PROXY": f"https://{USER}:{PASSWORD}@127.0.0.1:{proxy.port}"}
        trust = ("--ca-file", str(ours.ca_file))
        async with bridge(f"wss://{NAME}", *KIND, *trust, **variables) as editor:
            await converse(editor, gateway, home)
        assert proxy.asked[0].startswith(f"CONNECT {NAME} HTTP/1.1\r\n")
        assert "Proxy-Authorization: Basic" in proxy.asked[0]


async def test_a_tls_proxy_leads_to_a_gateway_in_clear_text_too(
    ours: Authority, bridge: Start, home: Path
) -> None:
    async with (
        hostile_gateway(OpenClawKind()) as gateway,
        http_proxy(gateway.port, ours.context()) as proxy,
    ):
        variables = {"ACP_BRIDGE_PROXY": f"https://127.0.0.1:{proxy.port}"}
        trust = {"SSL_CERT_FILE": str(ours.ca_file)}
        async with bridge("ws://gw.local:18789", *KIND, **variables, **trust) as editor:
            await converse(editor, gateway, home)
