"""Proxies on the way to a gateway. The names are resolved by none: only loopback is reached."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from acp_bridge.errors import GatewayError
from acp_bridge.gateway import transport
from acp_bridge.gateway.network_errors import (
    ConnectTimeout,
    FingerprintMismatch,
    HostNotFound,
    ProxyFailed,
)
from acp_bridge.gateway.proxies import proxy_for
from acp_bridge.gateway.route import DIRECT, Route
from acp_bridge.gateway.transport import connect
from tests.support.http_proxy import HttpProxy, http_proxy
from tests.support.tls import Authority, authority, listener, shown
from tests.support.waits import scaled
from tests.support.wire_gateway import wire_gateway

pytestmark = pytest.mark.integration

FAR = "wss://gw.example:8443/ws"
NEAR = "ws://gw.local:18789"


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    return authority(tmp_path, "gw.example")


@pytest.fixture
async def proxy(ours: Authority) -> AsyncIterator[HttpProxy]:
    async with wire_gateway(ours.context()) as gateway, http_proxy(gateway.port) as running:
        yield running


async def failure(url: str, route: Route = DIRECT) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        await connect(url, route=route)
    return caught.value


async def test_a_gateway_is_reached_and_trusted_through_the_proxy_of_the_option(
    proxy: HttpProxy, ours: Authority
) -> None:
    learned: list[str] = []
    route = Route(
        proxy=f"http://me:pass%20word@127.0.0.1:{proxy.port}",
        ca_file=ours.ca_file,
        learn=learned.append,
    )
    connection = await connect(FAR, route=route)
    await connection.close(1000, "")
    assert "CONNECT gw.example:8443" in proxy.asked[0]
    assert "Proxy-Authorization: Basic" in proxy.asked[0]
    assert set(learned) == {"pass%20word", "pass word"}
    assert "pass" not in repr(route)


async def test_a_wrong_pin_is_found_through_a_proxy_too(proxy: HttpProxy, ours: Authority) -> None:
    route = Route(proxy=f"http://127.0.0.1:{proxy.port}", fingerprint="ab" * 32)
    error = await failure(FAR, route)
    assert isinstance(error, FingerprintMismatch)
    assert shown(ours.fingerprint) in error.message


@pytest.mark.parametrize(
    ("answer", "said", "hint"),
    [
        ("407 Proxy Authentication Required", "wants a user name", "ACP_BRIDGE_PROXY"),
        ("403 Forbidden", "does not connect to gw.example:8443 (HTTP 403)", "--no-proxy"),
    ],
)
async def test_a_proxy_that_refuses_is_named_and_its_password_is_not(
    proxy: HttpProxy, answer: str, said: str, hint: str
) -> None:
    proxy.answer = answer
    error = await failure(FAR, Route(proxy=f"http://me:hunter2@127.0.0.1:{proxy.port}"))
    assert isinstance(error, ProxyFailed)
    assert f"the proxy http://127.0.0.1:{proxy.port} (--proxy) {said}" in error.message
    assert hint in (error.hint or "")
    assert "hunter2" not in f"{error.message}{error.hint}{error.data}"


@pytest.mark.requirement("C080")
@pytest.mark.parametrize("scheme", ["http", "socks5h"])
async def test_a_proxy_that_is_away_is_named_with_its_variable_and_the_way_around(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"{scheme}://me:hunter2@127.0.0.1:9")
    error = await failure(FAR)
    assert isinstance(error, ProxyFailed)
    assert f"{scheme}://127.0.0.1:9 (HTTPS_PROXY)" in error.message
    assert "NO_PROXY=gw.example" in (error.hint or "")
    assert "hunter2" not in f"{error.message}{error.hint}"


@pytest.mark.requirement("C080")
@pytest.mark.parametrize("proxy", ["auto", "http://127.0.0.1:1"])
@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost", "[::1]"])
def test_this_machine_is_never_reached_through_a_proxy(
    host: str, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert proxy_for(f"ws://{host}:18789", Route(proxy=proxy)) is None


@pytest.mark.requirement("C080")
@pytest.mark.parametrize("proxy", ["auto", "http://other:1"])
def test_a_host_of_no_proxy_is_reached_directly(
    proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("all_proxy", "http://proxy:1")
    assert proxy_for(FAR, Route(proxy=proxy)) is not None
    assert proxy_for(FAR, Route(proxy="none")) is None
    monkeypatch.setenv("no_proxy", "gw.example")
    assert proxy_for(FAR, Route(proxy=proxy)) is None


@pytest.mark.parametrize(
    ("url", "wanted"), [(FAR, "https_proxy"), (NEAR, "https_proxy"), (NEAR, "http_proxy")]
)
def test_the_environments_proxy_is_taken_with_its_name(
    url: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("all_proxy", "http://all:1")
    monkeypatch.setenv(wanted, "proxy:3128")
    found = proxy_for(url, DIRECT)
    assert found is not None
    assert (found.url, found.source) == ("http://proxy:3128", wanted)


@pytest.mark.parametrize("value", ["ftp://me:hunter2@proxy", "http://me:hunter2@"])
def test_a_variable_that_holds_no_proxy_is_named_and_not_quoted(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", value)
    with pytest.raises(ProxyFailed, match="https_proxy holds no proxy's URL") as caught:
        proxy_for(FAR, DIRECT)
    assert "hunter2" not in caught.value.message


async def test_a_name_without_an_address_is_told_as_that() -> None:
    error = await failure("wss://gateway.invalid")
    assert isinstance(error, HostNotFound)
    assert "the name gateway.invalid" in error.message


async def test_a_gateway_that_does_not_answer_in_time_is_told_as_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport, "OPEN_TIMEOUT", 0.2)
    async with listener() as silent:
        error = await failure(f"ws://127.0.0.1:{silent.port}")
        assert isinstance(error, ConnectTimeout)
        assert "did not answer within" in error.message
        assert "hangs" in (error.hint or "")
        proxy = f"http://127.0.0.1:{silent.port}"
        assert f"through the proxy {proxy}" in (await failure(FAR, Route(proxy=proxy))).message


WITHOUT_SOCKS = """
import asyncio, sys
sys.modules["python_socks"] = None
from acp_bridge.gateway.route import Route
from acp_bridge.gateway.transport import connect
asyncio.run(connect("ws://gw.local:1", route=Route(proxy="socks5h://127.0.0.1:9")))
"""


@pytest.mark.requirement("C080")
def test_a_socks_proxy_without_the_extra_says_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SOCKS],
        capture_output=True,
        text=True,
        timeout=scaled(20),
        check=False,
    )
    assert "ProxyFailed" in done.stderr
    assert "speaks SOCKS, which needs a package that is not installed" in done.stderr
