"""Each mistake on the way to a gateway: its code and hint in the thread, its words on stderr, and
its exit code. Everything is on loopback; what is not is reached through a proxy there."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.conftest import Start
from tests.support.editor import AgentError
from tests.support.http_proxy import http_proxy
from tests.support.tls import authority, listener
from tests.support.waits import scaled
from tests.support.wire_gateway import http, wire_gateway

pytestmark = pytest.mark.e2e

FAR = "wss://gw.example:8443"
KIND = ("--gateway-kind", "openclaw")


class Case(NamedTuple):
    """What a bridge is started with, and what it says then."""

    code: str
    exit_code: int
    said: str
    hint: str


CASES = {
    "refused": Case("gateway_unreachable", 3, "nothing listens there", "Start the gateway"),
    "dns": Case("host_not_found", 3, "the name gateway.invalid", "?"),
    "untrusted": Case("tls_untrusted", 3, "is not trusted", "--tls-fingerprint"),
    "name": Case("tls_wrong_name", 3, "for another name than 127.0.0.1", "name of the certificate"),
    "pin": Case("tls_wrong_pin", 3, "is not the pinned one", "openssl x509"),
    "no tls": Case("tls_failed", 3, "speaks no TLS", "ws://"),
    "proxy": Case("proxy_failed", 3, "the proxy http://127.0.0.1", "--no-proxy"),
    "401": Case("handshake_refused", 4, "HTTP 401", "--header-file"),
    "403": Case("handshake_refused", 4, "HTTP 403", "trustedProxies"),
    "404": Case("upgrade_refused", 3, "HTTP 404", "path"),
    "web server": Case("not_websocket", 3, "speaks no WebSocket", "port"),
    "no http": Case("not_websocket", 3, "does not speak WebSocket", "port"),
    "protocol": Case("wrong_protocol", 3, "does not speak OpenClaw's protocol", "--gateway-kind"),
}


@contextlib.asynccontextmanager
async def mistaken(what: str, directory: Path) -> AsyncIterator[tuple[str, ...]]:
    """The URL and options of a bridge that meets the mistake."""
    named = authority(directory, "gw.example" if what == "name" else "127.0.0.1")
    ca = ("--ca-file", str(named.ca_file))
    if what in ("untrusted", "name", "pin"):
        async with listener(context=named.context()) as tls:
            url = f"wss://127.0.0.1:{tls.port}"
            pin = ("--tls-fingerprint", "ab" * 32)
            yield (url, *{"untrusted": (), "name": ca, "pin": pin}[what])
            assert bytes(tls.heard) == b""
    elif what in ("no tls", "web server", "no http"):
        answer = b"what?\r\n" if what == "no http" else b"HTTP/1.1 200 OK\r\n\r\n"
        async with listener(answer) as plain:
            yield (f"{'wss' if what == 'no tls' else 'ws'}://127.0.0.1:{plain.port}",)
    elif what == "proxy":
        async with http_proxy(9) as proxy:
            proxy.answer = "403 Forbidden"
            yield FAR, "--proxy", f"http://127.0.0.1:{proxy.port}"
    elif what in ("refused", "dns"):
        yield ("ws://127.0.0.1:9" if what == "refused" else "wss://gateway.invalid",)
    else:
        async with wire_gateway() as gateway:
            if what.isdecimal():
                gateway.upgrade = lambda _: http(int(what))
            else:
                gateway.on_open = b"\x00\x01"
            yield (gateway.url,)


@pytest.mark.requirement("C009", "C080", "C086")
@pytest.mark.parametrize("what", CASES)
async def test_a_mistake_has_its_words_on_stderr_and_its_exit_code(
    what: str, bridge: Start, tmp_path: Path
) -> None:
    case = CASES[what]
    async with mistaken(what, tmp_path) as (url, *options):
        required = ("--require-gateway", "--connect-timeout", "3")
        async with bridge(url, *KIND, *required, *options) as editor:
            assert await editor.wait_exit(scaled(15)) == case.exit_code
            error, hint = editor.stderr.splitlines()[-2:]
    assert error.startswith("error: ")
    assert case.said in error
    assert hint.startswith("hint: ")
    assert case.hint in hint
    assert "Traceback" not in editor.stderr


@pytest.mark.requirement("C009", "C080", "C086")
@pytest.mark.parametrize("what", CASES)
async def test_a_mistake_has_its_code_and_hint_in_the_thread(
    what: str, bridge: Start, home: Path, tmp_path: Path
) -> None:
    case = CASES[what]
    async with (
        mistaken(what, tmp_path) as (url, *options),
        bridge(url, *KIND, "--connect-timeout", "2", *options) as editor,
    ):
        await editor.initialize()
        with pytest.raises(AgentError) as caught:
            await editor.prompt(await editor.open(home), "Hello")
    assert caught.value.data["code"] == case.code
    assert case.said in caught.value.message
    assert case.hint in caught.value.data["hint"]


async def test_clear_text_to_a_far_host_ends_the_start_before_anything_is_looked_up(
    bridge: Start,
) -> None:
    async with bridge("ws://gw.example:18789") as editor:
        assert await editor.wait_exit(scaled(5)) == 2
    assert "over plain ws:// anyone on the way" in editor.stderr
    for recipe in ("wss://gw.example", "ssh -N -L", "tailscale serve", "--allow-insecure-ws"):
        assert recipe in editor.stderr


async def test_the_password_of_a_proxy_is_warned_of_and_shown_nowhere(bridge: Start) -> None:
    proxy = "http://me:hunter2-long@127.0.0.1:9"
    options = ("--proxy", proxy, "--require-gateway", "--connect-timeout", "1", "-vv")
    async with bridge(FAR, *options) as editor:
        assert await editor.wait_exit(scaled(15)) == 3
    assert "warning: --proxy shows the password in process listings" in editor.stderr
    assert "the proxy http://127.0.0.1:9 (--proxy)" in editor.stderr
    assert "hunter2" not in editor.stderr
