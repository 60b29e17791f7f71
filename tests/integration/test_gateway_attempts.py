"""When the gateway client tries again, with which credential, and what it says meanwhile."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from acp_bridge.core.events import LinkUp
from acp_bridge.errors import (
    AuthenticationFailed,
    GatewayTimeout,
    GatewayUnreachable,
    HandshakeRefused,
    PairingRequired,
    VersionMismatch,
)
from acp_bridge.gateway.identity import DeviceToken, DeviceTokens, load_or_create
from acp_bridge.gateway.secret import Secret
from acp_bridge.gateway.transport import Transport, connect
from tests.support.client_rig import client_rig
from tests.support.waits import WAIT
from tests.support.wire_gateway import WireGateway, http, wire_gateway

pytestmark = pytest.mark.integration

NOWHERE = "ws://127.0.0.1:9"
READ, WRITE = "operator.read", "operator.write"


@pytest.fixture
async def gateway() -> AsyncIterator[WireGateway]:
    async with wire_gateway() as running:
        yield running


def store_token(url: str, directory: Path) -> str:
    """Keep a token as a gateway would have issued it; the device's id."""
    device_id = load_or_create(directory).device_id
    DeviceTokens(directory).save(url, device_id, DeviceToken(Secret("stored-1"), (READ, WRITE)))
    return device_id


def stored_token(url: str, directory: Path, device_id: str) -> str | None:
    stored = DeviceTokens(directory).load(url, device_id)
    return stored.token.reveal() if stored else None


class Network:
    """Dials for real, or finds nothing; counts the attempts."""

    def __init__(self, *, is_down: bool = True) -> None:
        self.is_down = is_down
        self.attempts = 0

    async def connect(self, url: str) -> Transport:
        self.attempts += 1
        if self.is_down:
            raise GatewayUnreachable("nothing listens there")
        return await connect(url)


@pytest.mark.requirement("C050")
async def test_attempts_back_off_up_to_a_cap(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    network = Network()
    async with client_rig(NOWHERE, tmp_path, connect=network.connect) as rig:
        pauses = [await rig.over_pause() for _ in range(10)]
        assert pauses == pytest.approx([0.475, 0.95, 1.9, 3.8, 7.6, 15.2, *[28.5] * 4])
        assert isinstance(rig.client.trouble, GatewayUnreachable)
    warnings = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert [r.message for r in warnings] == ["the gateway cannot be reached"]


@pytest.mark.requirement("C050", "C053")
async def test_waiting_for_a_hello_is_an_attempt_at_once(tmp_path: Path) -> None:
    network = Network()
    async with client_rig(NOWHERE, tmp_path, connect=network.connect) as rig:
        for _ in range(5):
            await rig.over_pause()
        await rig.pause()
        before = network.attempts
        with pytest.raises(GatewayUnreachable, match="nothing listens"):
            await rig.client.wait_hello(0.1)
        assert network.attempts == before + 1


async def test_waiting_in_vain_before_the_first_attempt_is_over_says_so(tmp_path: Path) -> None:
    async def never(url: str) -> Transport:
        await asyncio.Event().wait()
        raise AssertionError

    async with client_rig(NOWHERE, tmp_path, connect=never) as rig:
        with pytest.raises(GatewayUnreachable, match=f"{NOWHERE} has not answered yet"):
            await rig.client.wait_hello(0.05)


@pytest.mark.requirement("C049")
async def test_a_hello_resets_the_back_off(gateway: WireGateway, tmp_path: Path) -> None:
    network = Network()
    async with client_rig(gateway.url, tmp_path, connect=network.connect) as rig:
        for _ in range(6):
            await rig.over_pause()
        await rig.pause()
        network.is_down = False
        waiting = asyncio.create_task(rig.client.wait_hello(WAIT))
        connection = await gateway.accepted()
        await connection.accept()
        await waiting
        network.is_down = True
        connection.cut()
        pauses = [await rig.over_pause() for _ in range(3)]
        assert pauses == pytest.approx([0.475, 0.475, 0.95])


@pytest.mark.requirement("C006", "C050")
async def test_a_refused_token_is_told_once_and_parked(
    gateway: WireGateway, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with client_rig(gateway.url, tmp_path) as rig:
        waiting = asyncio.create_task(rig.client.wait_hello(WAIT))
        await (await gateway.accepted()).reject("AUTH_TOKEN_MISMATCH")
        with pytest.raises(AuthenticationFailed, match="the token from --token"):
            await waiting
        pauses = []
        for _ in range(4):
            pauses.append(await rig.over_pause())
            await (await gateway.accepted()).reject("AUTH_TOKEN_MISMATCH")
        assert pauses == [10, 45, 60, 60]
    warnings = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert [r.message for r in warnings] == ["the gateway refused the connection"]


@pytest.mark.requirement("C006")
async def test_an_approval_is_noticed_by_itself_and_at_once_when_the_user_acts(
    gateway: WireGateway, tmp_path: Path
) -> None:
    async with client_rig(gateway.url, tmp_path) as rig:
        waiting = asyncio.create_task(rig.client.wait_hello(WAIT))
        await (await gateway.accepted()).reject("PAIRING_REQUIRED", requestId="req-7")
        with pytest.raises(PairingRequired, match="req-7"):
            await waiting
        pauses = []
        for _ in range(4):
            pauses.append(await rig.over_pause())
            await (await gateway.accepted()).reject("PAIRING_REQUIRED", requestId="req-7")
        assert pauses == [10, 45, 15, 15]
        await rig.pause()
        waiting = asyncio.create_task(rig.client.wait_hello(WAIT))
        await (await gateway.accepted()).accept()
        assert (await waiting).generation == 1


@pytest.mark.requirement("C013")
async def test_a_mismatch_during_a_restart_heals(gateway: WireGateway, tmp_path: Path) -> None:
    async with client_rig(gateway.url, tmp_path) as rig:
        waiting = asyncio.create_task(rig.client.wait_hello(WAIT))
        await (await gateway.accepted()).reject("PROTOCOL_MISMATCH", expectedProtocol=5)
        with pytest.raises(VersionMismatch, match="protocol 5, this bridge 3-4"):
            await waiting
        await rig.over_pause()
        await (await gateway.accepted()).accept()
        await rig.next(LinkUp)


async def test_a_gateway_that_is_starting_is_asked_again_when_it_said(
    gateway: WireGateway, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with client_rig(gateway.url, tmp_path) as rig:
        pauses = []
        for _ in range(4):
            connection = await gateway.accepted()
            request = await connection.challenge()
            await connection.refuse(request, "UNAVAILABLE", retryable=True, retryAfterMs=900)
            await connection.close(1013, "gateway starting")
            pauses.append(await rig.over_pause())
        assert pauses == pytest.approx([0.9, 0.95, 1.9, 2.0])
        await (await gateway.accepted()).close(1013, "gateway starting")
        assert await rig.over_pause() == 2.0
        await (await gateway.accepted()).accept()
        await rig.next(LinkUp)
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


async def test_a_gateway_that_says_nothing_is_given_up(
    gateway: WireGateway, tmp_path: Path
) -> None:
    async with client_rig(gateway.url, tmp_path) as rig:
        silent = await gateway.accepted()
        await rig.advance(16)
        assert await silent.closed_with() == 4000
        await rig.over_pause()
        assert isinstance(rig.client.trouble, GatewayTimeout)
        slow = await gateway.accepted()
        await slow.challenge()
        await rig.advance(16)
        assert await slow.closed_with() == 4000


async def test_a_connection_closed_before_its_hello_tells_the_gateways_words(
    gateway: WireGateway, tmp_path: Path
) -> None:
    async with client_rig(gateway.url, tmp_path) as rig:
        await (await gateway.accepted()).close(1008, "slow consumer")
        with pytest.raises(GatewayUnreachable, match="1008 slow consumer"):
            await rig.client.wait_hello(0.1)


@pytest.mark.requirement("C008")
async def test_a_rotated_token_file_is_read_at_the_next_attempt(
    gateway: WireGateway, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.touch(0o600)
    file.write_text("old\n")
    async with client_rig(gateway.url, tmp_path / "state", token_file=file) as rig:
        waiting = asyncio.create_task(rig.client.wait_hello(WAIT))
        params = await (await gateway.accepted()).reject("AUTH_TOKEN_MISMATCH")
        assert params["auth"] == {"token": "old"}
        with pytest.raises(AuthenticationFailed, match=str(file)):
            await waiting
        file.write_text("new\n")
        waiting = asyncio.create_task(rig.client.wait_hello(WAIT))
        params = await (await gateway.accepted()).accept()
        assert params["auth"] == {"token": "new"}
        await waiting


async def test_a_token_file_that_is_gone_is_told_without_knocking(
    gateway: WireGateway, tmp_path: Path
) -> None:
    missing = tmp_path / "none"
    async with client_rig(gateway.url, tmp_path / "state", token_file=missing) as rig:
        with pytest.raises(AuthenticationFailed, match="none does not exist"):
            await rig.client.wait_hello(WAIT)
        assert gateway.upgrades == 0


async def test_the_issued_token_is_kept_and_used_when_none_is_configured(
    gateway: WireGateway, tmp_path: Path
) -> None:
    async with client_rig(gateway.url, tmp_path) as rig:
        params = await (await gateway.accepted()).accept(
            auth={"scopes": [READ, WRITE], "deviceToken": "issued-1"}
        )
        await rig.next(LinkUp)
    async with client_rig(gateway.url, tmp_path, environ={}) as rig:
        again = await (await gateway.accepted()).accept()
        await rig.next(LinkUp)
    assert again["auth"] == {"deviceToken": "issued-1"}
    assert again["scopes"] == [READ, WRITE]
    assert again["device"]["id"] == params["device"]["id"]
    assert again["client"]["platform"] == params["client"]["platform"]


@pytest.mark.requirement("C007")
async def test_a_wrong_token_is_helped_out_once_by_the_issued_one(
    gateway: WireGateway, tmp_path: Path
) -> None:
    device_id = store_token(gateway.url, tmp_path)
    async with client_rig(gateway.url, tmp_path) as rig:
        params = await (await gateway.accepted()).reject("AUTH_TOKEN_MISMATCH")
        assert params["auth"] == {"token": "test-token"}
        params = await (await gateway.accepted()).accept()
        assert params["auth"] == {"token": "test-token", "deviceToken": "stored-1"}
        await rig.next(LinkUp)
    assert stored_token(gateway.url, tmp_path, device_id) == "issued-1"


@pytest.mark.requirement("C007")
async def test_a_refused_issued_token_is_dropped_and_the_rest_tried_once(
    gateway: WireGateway, tmp_path: Path
) -> None:
    device_id = store_token(gateway.url, tmp_path)
    async with client_rig(gateway.url, tmp_path) as rig:
        waiting = asyncio.create_task(rig.client.wait_hello(WAIT))
        await (await gateway.accepted()).reject("AUTH_TOKEN_MISMATCH")
        await (await gateway.accepted()).reject("AUTH_DEVICE_TOKEN_MISMATCH")
        params = await (await gateway.accepted()).reject("AUTH_TOKEN_MISMATCH")
        assert params["auth"] == {"token": "test-token"}
        with pytest.raises(AuthenticationFailed):
            await waiting
        assert gateway.upgrades == 3
    assert stored_token(gateway.url, tmp_path, device_id) is None


@pytest.mark.requirement("C007")
async def test_without_another_credential_a_dropped_token_ends_in_a_clear_error(
    gateway: WireGateway, tmp_path: Path
) -> None:
    store_token(gateway.url, tmp_path)
    async with client_rig(gateway.url, tmp_path, environ={}) as rig:
        waiting = asyncio.create_task(rig.client.wait_hello(WAIT))
        await (await gateway.accepted()).reject("AUTH_DEVICE_TOKEN_MISMATCH")
        params = await (await gateway.accepted()).reject("AUTH_TOKEN_MISSING")
        assert "auth" not in params
        with pytest.raises(AuthenticationFailed, match="wants a token, and none was given"):
            await waiting


async def test_explicit_scopes_are_asked_for_as_they_are(
    gateway: WireGateway, tmp_path: Path
) -> None:
    store_token(gateway.url, tmp_path)
    async with client_rig(gateway.url, tmp_path, scopes=(READ,), environ={}):
        params = await (await gateway.accepted()).accept()
        assert params["scopes"] == [READ]


async def test_a_password_is_sent_and_makes_nobody_an_owner(
    gateway: WireGateway, tmp_path: Path
) -> None:
    async with client_rig(gateway.url, tmp_path, password="word"):  # noqa: S106 - a test's own
        params = await (await gateway.accepted()).accept()
        assert params["auth"] == {"password": "word"}
        assert "operator.admin" not in params["scopes"]


async def test_a_state_directory_that_cannot_hold_tokens_hinders_nothing(
    gateway: WireGateway, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    load_or_create(tmp_path)
    (tmp_path / ".device-tokens.json.lock").mkdir()
    async with client_rig(gateway.url, tmp_path) as rig:
        await (await gateway.accepted()).accept()
        await rig.next(LinkUp)
    assert "the file of device tokens cannot be used" in caplog.messages


async def test_an_upgrade_refused_for_good_is_told_with_a_hint(
    gateway: WireGateway, tmp_path: Path
) -> None:
    gateway.upgrade = lambda _: http(403)
    async with client_rig(gateway.url, tmp_path) as rig:
        with pytest.raises(HandshakeRefused, match="HTTP 403") as caught:
            await rig.client.wait_hello(WAIT)
        assert "trustedProxies" in (caught.value.hint or "")


@pytest.mark.parametrize("status", [404, 502, 503])
async def test_any_other_answer_to_the_upgrade_is_tried_again(
    status: int, gateway: WireGateway, tmp_path: Path
) -> None:
    gateway.upgrade = lambda _: http(status)
    async with client_rig(gateway.url, tmp_path) as rig:
        with pytest.raises(GatewayUnreachable, match=f"HTTP {status}"):
            await rig.client.wait_hello(0.2)
        gateway.upgrade = lambda _: None
        waiting = asyncio.create_task(rig.client.wait_hello(WAIT))
        await (await gateway.accepted()).accept()
        await waiting


async def test_a_redirect_is_not_followed(gateway: WireGateway, tmp_path: Path) -> None:
    async with wire_gateway() as other:
        gateway.upgrade = lambda _: http(302, Location=other.url)
        async with client_rig(gateway.url, tmp_path) as rig:
            with pytest.raises(GatewayUnreachable, match="HTTP 302"):
                await rig.client.wait_hello(0.2)
        assert other.upgrades == 0


@pytest.mark.requirement("C080")
async def test_loopback_is_never_reached_through_a_proxy(
    gateway: WireGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    async with client_rig(gateway.url, tmp_path) as rig:
        await (await gateway.accepted()).accept()
        await rig.next(LinkUp)


async def test_a_port_where_nothing_listens_is_told_so() -> None:
    with pytest.raises(GatewayUnreachable, match="nothing listens there"):
        await connect("ws://127.0.0.1:9")


@pytest.mark.parametrize(
    ("scheme", "words"),
    [("ws", "does not speak WebSocket"), ("wss", "speaks no TLS")],
)
async def test_a_server_of_another_kind_is_told_so(scheme: str, words: str) -> None:
    async def mumble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"what?\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(mumble, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(GatewayUnreachable, match=words):
            await connect(f"{scheme}://127.0.0.1:{port}")


@pytest.mark.requirement("C006")
@pytest.mark.parametrize("scheme", ["ws", "wss"])
@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize("begins", [False, True])
async def test_a_tunnel_to_a_gateway_that_does_not_run_is_told_as_that(
    scheme: str, reads: bool, resets: bool, begins: bool
) -> None:
    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if reads:
            await reader.read(100)
        if begins:
            writer.write({"ws": b"HTTP/1.1 10", "wss": b"\x16\x03"}[scheme])
            await writer.drain()
        if resets:
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.close()

    async with await asyncio.start_server(close, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(GatewayUnreachable, match="closes it without an answer") as caught:
            await connect(f"{scheme}://127.0.0.1:{port}")
    assert caught.value.hint is not None
    assert "not running" in caught.value.hint
    assert "ssh" not in caught.value.hint  # the tunnel is there


async def test_a_host_that_does_not_exist_is_unreachable() -> None:
    with pytest.raises(GatewayUnreachable, match="cannot be reached"):
        await connect("wss://gateway.invalid")
