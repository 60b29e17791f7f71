"""Where plain ws:// may go, decided by what stands in the URL."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from acp_bridge.errors import ConfigError
from acp_bridge.gateway.addresses import is_near_host
from acp_bridge.gateway.route import Route
from acp_bridge.gateway.settings import check_url

NEAR = [
    "127.0.0.1", "::1", "localhost", "10.0.0.5", "172.16.0.1", "172.31.255.255", "192.168.1.1",
    "169.254.3.4", "100.64.0.1", "100.127.255.255", "fe80::1", "fd12::1", "::ffff:10.0.0.1",
    "box.local", "BOX.LOCAL", "gw.tailnet.ts.net", "box.local.",
]  # fmt: skip
FAR = [
    "1.2.3.4", "172.32.0.1", "172.15.0.1", "100.128.0.1", "192.0.2.1", "2001:db8::1",
    "0.0.0.0",  # noqa: S104 - not to be listened at
    "::ffff:1.2.3.4", "gw.lan", "gw", "local", ".local", ".ts.net", "ts.net", "box.local.evil.com",
    "evil-ts.net", "10.0.0.5.evil.com", "0x0a000005", "10.1", "167772165",
]  # fmt: skip


@pytest.mark.requirement("C010")
@pytest.mark.parametrize("host", NEAR)
def test_clear_text_may_go_to_this_machine_and_private_networks(host: str) -> None:
    assert is_near_host(host)


@pytest.mark.requirement("C010")
@pytest.mark.parametrize("host", FAR)
def test_clear_text_may_go_nowhere_else(host: str) -> None:
    assert not is_near_host(host)


def test_the_rule_can_be_lifted_and_asks_no_name_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object, **__: object) -> None:
        raise AssertionError("a name was looked up")

    monkeypatch.setattr(socket, "getaddrinfo", asked)
    with pytest.raises(ConfigError, match="refused"):
        check_url("ws://gw.example", "--url")
    assert check_url("ws://gw.example", "--url", allow_insecure=True) == "ws://gw.example"


@pytest.mark.parametrize(
    ("route", "said"),
    [
        (Route(fingerprint="ab"), "--tls-fingerprint"),
        (Route(client_key=Path("/k")), "--client-key"),
    ],
)
def test_an_option_that_would_protect_nothing_is_refused(route: Route, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        route.check("ws://127.0.0.1:1")
