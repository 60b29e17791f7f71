"""Whom the demo gateway lets in."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin

from acp_bridge.demo import QUIRKS_6_11, QUIRKS_9_6, DemoGateway
from tests.support.gateway_client import CallRefused, Device, GatewayClient

pytestmark = pytest.mark.integration

Json = dict[str, Any]
TOKEN = "good-token"  # noqa: S105 - opens nothing but a server of the test's own
READ_ONLY = ("operator.read",)


async def refused(client: GatewayClient) -> CallRefused:
    with pytest.raises(CallRefused) as caught:
        await client.open()
    return caught.value


@pytest.mark.parametrize("version", ["v2", "v3"])
async def test_a_signed_device_gets_its_scopes_and_a_token(version: str) -> None:
    async with (
        DemoGateway(token=TOKEN) as gateway,
        GatewayClient(gateway.url, auth={"token": TOKEN}, device=Device(), sign=version) as client,
    ):
        assert client.hello["auth"]["scopes"] == list(client.scopes)
        assert client.hello["auth"]["deviceToken"]


DAMAGES: list[tuple[str, Callable[[Json], object]]] = [
    ("DEVICE_AUTH_SIGNATURE_INVALID", lambda p: p.update(role="node")),
    ("DEVICE_AUTH_SIGNATURE_INVALID", lambda p: p["device"].update(signature="AAAA")),
    ("DEVICE_AUTH_SIGNATURE_INVALID", lambda p: p["device"].update(signature=7)),
    ("DEVICE_AUTH_NONCE_MISMATCH", lambda p: p["device"].update(nonce="another")),
    ("DEVICE_AUTH_SIGNATURE_EXPIRED", lambda p: p["device"].update(signedAt=1_000)),
    ("DEVICE_AUTH_DEVICE_ID_MISMATCH", lambda p: p["device"].update(id="00")),
]


@pytest.mark.parametrize(("code", "damage"), DAMAGES)
async def test_a_damaged_identity_is_refused(code: str, damage: Callable[[Json], object]) -> None:
    async with DemoGateway() as gateway:
        client = GatewayClient(gateway.url, device=Device(), tweak=damage)

        assert (await refused(client)).reason == code
        assert client.close_code == 1008


@pytest.mark.parametrize(
    ("auth", "code"), [({"token": "bad"}, "AUTH_TOKEN_MISMATCH"), ({}, "AUTH_TOKEN_MISSING")]
)
async def test_a_token_is_asked_for_if_there_is_one(auth: Json, code: str) -> None:
    async with DemoGateway(token=TOKEN) as gateway:
        client = GatewayClient(gateway.url, auth=auth, device=Device())

        refusal = await refused(client)

    assert refusal.reason == code
    assert client.close_code == 1008
    assert client.close_reason == refusal.error["message"]


async def test_who_brings_neither_device_nor_credentials_is_told_so() -> None:
    async with DemoGateway(token=TOKEN) as gateway:
        assert (await refused(GatewayClient(gateway.url))).reason == "DEVICE_IDENTITY_REQUIRED"


@pytest.mark.parametrize("field", ["token", "deviceToken"])
async def test_a_device_token_opens_the_gateway_for_its_device_alone(field: str) -> None:
    device = Device()
    async with DemoGateway(token=TOKEN) as gateway:
        first = {"token": TOKEN}
        async with GatewayClient(gateway.url, auth=first, device=device) as client:
            later = {field: client.hello["auth"]["deviceToken"]}
        async with GatewayClient(gateway.url, auth=later, device=device) as client:
            assert client.hello["auth"]["scopes"]

        stranger = GatewayClient(gateway.url, auth=later, device=Device())
        assert (await refused(stranger)).reason == "AUTH_TOKEN_MISMATCH"


async def test_a_device_token_does_not_cover_more_scopes_than_were_granted() -> None:
    device, first = Device(), {"token": TOKEN}
    async with DemoGateway(token=TOKEN) as gateway:
        async with GatewayClient(
            gateway.url, auth=first, device=device, scopes=READ_ONLY
        ) as client:
            later = {"token": client.hello["auth"]["deviceToken"]}

        greedy = GatewayClient(gateway.url, auth=later, device=device)
        assert (await refused(greedy)).reason == "AUTH_SCOPE_MISMATCH"


async def test_the_old_version_wants_a_scope_upgrade_approved_and_the_new_one_does_not() -> None:
    for quirks in (QUIRKS_6_11, QUIRKS_9_6):
        device = Device()
        async with DemoGateway(quirks=quirks) as gateway:
            async with GatewayClient(gateway.url, device=device, scopes=READ_ONLY):
                pass
            again = GatewayClient(gateway.url, device=device)
            if quirks.is_old:
                assert (await refused(again)).error["details"]["reason"] == "scope-upgrade"
            else:
                async with again:
                    assert len(again.hello["auth"]["scopes"]) == len(again.scopes)


async def test_a_device_that_changes_its_platform_must_pair_again() -> None:
    device = Device()

    def other_platform(params: Json) -> None:
        params["client"]["platform"] = "darwin"
        params["device"] = device.identity(params, client.challenge)

    async with DemoGateway() as gateway:
        async with GatewayClient(gateway.url, device=device):
            pass
        client = GatewayClient(gateway.url, device=device, tweak=other_platform)

        assert (await refused(client)).error["details"]["reason"] == "metadata-upgrade"


async def test_only_the_old_version_takes_the_scopes_of_a_client_without_a_device() -> None:
    for quirks in (QUIRKS_6_11, QUIRKS_9_6):
        async with DemoGateway(quirks=quirks) as gateway, GatewayClient(gateway.url) as client:
            assert bool(client.hello["auth"]["scopes"]) is not quirks.is_old


MISTAKES: list[tuple[str, Callable[[Json], object]]] = [
    ("at root: unexpected property 'zzz'", lambda p: p.update(zzz=1)),
    ("at /client: unexpected property 'zzz'", lambda p: p["client"].update(zzz=1)),
    ("at /client/id: must be equal to one", lambda p: p["client"].update(id="acp-bridge")),
    ("at /client/mode: must be equal to one", lambda p: p["client"].update(mode="operator")),
    ("must have required property 'client'", lambda p: p.pop("client")),
    ("at /auth: must be object", lambda p: p.update(auth="secret")),
]


@pytest.mark.parametrize(("words", "mistake"), MISTAKES)
async def test_the_schema_of_connect_is_closed(
    words: str, mistake: Callable[[Json], object]
) -> None:
    async with DemoGateway() as gateway:
        client = GatewayClient(gateway.url, tweak=mistake)

        refusal = await refused(client)

    assert words in refusal.error["message"]
    assert client.close_code == 1008


async def test_a_protocol_range_without_4_is_refused_and_closed_as_such() -> None:
    async with DemoGateway() as gateway:
        client = GatewayClient(gateway.url, tweak=lambda p: p.update(minProtocol=5, maxProtocol=6))

        refusal = await refused(client)

    assert refusal.error["details"]["expectedProtocol"] == 4
    assert client.close_code == 1002


FIRST_FRAMES: list[tuple[Any, int]] = [
    ({"type": "req", "id": "1", "method": "health", "params": {}}, 1008),
    ("no JSON", 1008),
    (b"binary", 1008),
    ("[]", 1008),
    ("x" * 70_000, 1009),
]


@pytest.mark.parametrize(("frame", "code"), FIRST_FRAMES, ids=lambda v: str(v)[:20])
async def test_anything_but_a_connect_ends_the_connection(frame: Any, code: int) -> None:
    async with DemoGateway() as gateway:
        client = GatewayClient(gateway.url)
        await client.dial()
        await client.send(frame)
        await client.closed.wait()
        await client.close()

    assert client.close_code == code


async def test_a_browser_is_turned_away_before_it_can_say_a_word() -> None:
    async with DemoGateway() as gateway:
        with pytest.raises(InvalidStatus) as caught:
            await connect(gateway.url, origin=Origin("http://evil.example"), proxy=None)

    assert caught.value.response.status_code == 403


async def test_credentials_do_not_show_where_requests_are_printed() -> None:
    async with (
        DemoGateway(token=TOKEN) as gateway,
        GatewayClient(gateway.url, auth={"token": TOKEN}, device=Device()),
    ):
        (request,) = gateway.requests

    assert request.params["auth"] == {"token": TOKEN}
    assert TOKEN not in repr(gateway.requests)
    assert TOKEN not in json.dumps(str(request))
