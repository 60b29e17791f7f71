"""Proxies that do not lead to the gateway: each way has its sentence, and none tells a password."""

from __future__ import annotations

from pathlib import Path

import pytest

from acp_bridge.errors import GatewayError
from acp_bridge.gateway.network_errors import ProxyFailed
from acp_bridge.gateway.route import Route
from acp_bridge.gateway.transport import connect
from tests.support.http_proxy import http_proxy
from tests.support.socks_proxy import (
    HOST_UNREACHABLE,
    NOT_ALLOWED,
    REFUSED,
    SocksProxy,
    socks_proxy,
)
from tests.support.tls import authority, listener

pytestmark = pytest.mark.integration

FAR = "wss://gw.example:8443/ws"
NOWHERE = 9
SECRET = "hunter2-of-the-proxy"  # noqa: S105 - a test's own


async def failure(proxy: str, ca_file: Path | None = None) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        await connect(FAR, route=Route(proxy=proxy, ca_file=ca_file))
    error = caught.value
    assert SECRET not in f"{error.message}{error.hint}{error.data}{error!r}"
    return error


def wants_an_account(proxy: SocksProxy) -> None:
    proxy.account = ("me", "another-one")


def has_other_rules(proxy: SocksProxy) -> None:
    proxy.reply = NOT_ALLOWED


def finds_no_way(proxy: SocksProxy) -> None:
    proxy.reply = HOST_UNREACHABLE


def is_refused_there(proxy: SocksProxy) -> None:
    proxy.reply = REFUSED


def is_none(proxy: SocksProxy) -> None:
    proxy.garbage = b"HTTP/1.1 400 Bad Request\r\n\r\n"


@pytest.mark.requirement("C080")
@pytest.mark.parametrize(
    ("made", "who", "said", "hint"),
    [
        (wants_an_account, f"me:{SECRET}@", "authentication fail", "wants to know who asks"),
        (wants_an_account, "", "authentication method", "socks5h://USER:PASSWORD@HOST:PORT"),
        (has_other_rules, "", "not allowed", "See its log"),
        (finds_no_way, "", "unreachable", "See its log"),
        (is_refused_there, "", "refused", "See its log"),
        (is_none, f"me:{SECRET}@", "version", "--no-proxy"),
    ],
)
async def test_a_socks_proxy_that_refuses_is_told_by_its_reason(
    made: object, who: str, said: str, hint: str
) -> None:
    async with socks_proxy(NOWHERE) as proxy:
        assert callable(made)
        made(proxy)
        error = await failure(f"socks5h://{who}127.0.0.1:{proxy.port}")
    assert isinstance(error, ProxyFailed)
    assert (
        f"the proxy socks5h://127.0.0.1:{proxy.port} (--proxy) does not connect to" in error.message
    )
    assert said in error.message
    assert hint in (error.hint or "")


async def test_a_socks_proxy_whose_own_name_is_unknown_is_told_as_that() -> None:
    error = await failure(f"socks5h://me:{SECRET}@proxy.invalid:1080")
    assert isinstance(error, ProxyFailed)
    assert "the proxy socks5h://proxy.invalid:1080 (--proxy) has a name without" in error.message


async def test_a_socks_proxy_that_looks_up_nothing_is_not_blamed_for_an_unknown_name() -> None:
    async with socks_proxy(NOWHERE) as proxy:
        error = await failure(f"socks5://127.0.0.1:{proxy.port}")
    assert "the name gw.example" in error.message
    assert "socks5h" in (error.hint or "")


@pytest.mark.parametrize(
    ("answer", "said", "hint"),
    [
        ("407 Proxy Authentication Required", "wants a user name", "https://USER:PASSWORD@"),
        ("403 Forbidden", "does not connect to gw.example:8443 (HTTP 403)", "--no-proxy"),
    ],
)
async def test_a_tls_proxy_that_refuses_is_told_by_its_status(
    answer: str, said: str, hint: str, tmp_path: Path
) -> None:
    ours = authority(tmp_path)
    async with http_proxy(NOWHERE, ours.context()) as proxy:
        proxy.answer = answer
        url = f"https://me:{SECRET}@127.0.0.1:{proxy.port}"
        error = await failure(url, ours.ca_file)
    assert isinstance(error, ProxyFailed)
    assert f"the proxy https://127.0.0.1:{proxy.port} (--proxy) {said}" in error.message
    assert hint in (error.hint or "")


@pytest.mark.parametrize("what", ["untrusted", "misnamed", "no tls"])
async def test_a_tls_proxy_that_is_not_trusted_gets_no_password(what: str, tmp_path: Path) -> None:
    ours = authority(tmp_path, "proxy.example" if what == "misnamed" else "127.0.0.1")
    context = None if what == "no tls" else ours.context()
    trust = ours.ca_file if what == "misnamed" else None
    async with listener(b"what?\r\n\r\n" if what == "no tls" else b"", context) as proxy:
        error = await failure(f"https://me:{SECRET}@127.0.0.1:{proxy.port}", trust)
        assert b"CONNECT" not in bytes(proxy.heard)
    assert isinstance(error, ProxyFailed)
    assert f"the proxy https://127.0.0.1:{proxy.port} (--proxy)" in error.message
    assert "TLS with the proxy itself failed" in error.message
