"""Only URLs over which credentials may travel are accepted."""

from __future__ import annotations

import pytest

from acp_bridge.errors import ConfigError
from acp_bridge.gateway.settings import check_url, is_loopback

LOOPBACK = [
    "ws://127.0.0.1:18789",
    "ws://127.0.0.2",
    "ws://localhost:1/path?query=1",
    "ws://LOCALHOST:18789",
    "ws://[::1]:18789",
]


@pytest.mark.requirement("C010")
@pytest.mark.parametrize("url", [*LOOPBACK, "wss://gw.lan", "wss://1.2.3.4:8443/gateway"])
def test_loopback_and_tls_are_accepted(url: str) -> None:
    assert check_url(f" {url}\n", "--url") == url


@pytest.mark.requirement("C010")
@pytest.mark.parametrize(
    "url",
    [
        "ws://1.2.3.4:18789",
        "ws://gw.lan",
        "ws://[2001:db8::1]",
        "ws://localhost.evil.example",
        "ws://127.0.0.1.evil.example",
        "ws://127.1",
        "ws://0x7f000001",
        "ws://0.0.0.0",
    ],
)
def test_clear_text_to_anywhere_else_is_refused_with_safe_ways(url: str) -> None:
    with pytest.raises(ConfigError, match="refused") as caught:
        check_url(url, "ACP_BRIDGE_URL")
    assert url in caught.value.message
    assert "ACP_BRIDGE_URL" in caught.value.message
    hint = caught.value.hint or ""
    assert "wss://" in hint
    assert "ssh -N -L 18789:127.0.0.1:" in hint
    assert "tailscale serve" in hint
    assert "--allow-insecure-ws" in hint


def test_the_recipes_name_the_host_and_the_port_that_was_asked_for() -> None:
    with pytest.raises(ConfigError) as caught:
        check_url("ws://[2001:db8::1]:2000/x", "--url")
    hint = caught.value.hint or ""
    assert "wss://[2001:db8::1]:2000/x " in hint
    assert "18789:127.0.0.1:2000 2001:db8::1 " in hint


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "must begin with ws:// or wss://"),
        ("127.0.0.1:18789", "must begin with ws:// or wss://"),
        ("http://127.0.0.1:18789", "must begin with ws:// or wss://"),
        ("ws://", "names no host"),
        ("ws://:18789", "names no host"),
        ("ws://127.0.0.1:0", "names port 0"),
        ("ws://127.0.0.1:99999", "cannot be read"),
        ("ws://127.0.0.1:port", "cannot be read"),
        ("ws://[::1", "cannot be read"),
        ("ws://127.0.0.1/#x", "fragment"),
        ("ws://127.0.0.1/a b", "blanks or control characters"),
        ("ws://127.0.\n0.1", "blanks or control characters"),
    ],
)
def test_a_url_that_means_nothing_is_refused_with_its_reason(url: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_url(url, "--url")


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_web_address_is_refused_with_the_address_that_was_meant(scheme: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_url(f"{scheme}://gw.lan/x", "--url")
    assert caught.value.hint == f"Try {scheme.replace('http', 'ws')}://gw.lan/x"


@pytest.mark.parametrize("url", ["ws://me:hunter2@127.0.0.1", "wss://hunter2@gw.lan"])
def test_credentials_in_a_url_are_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(ConfigError, match="user name or password") as caught:
        check_url(url, "--url")
    assert "hunter2" not in f"{caught.value.message}{caught.value.hint}"


def test_a_user_name_cannot_make_a_host_look_like_loopback() -> None:
    assert not is_loopback("ws://127.0.0.1@evil.example")
