"""Settings, models and commands of the demo gateway, as measured on the real ones."""

from __future__ import annotations

from typing import Any

import pytest

from acp_bridge.demo import QUIRKS_6_11, QUIRKS_9_6, DemoGateway, Quirks
from tests.support.gateway_client import CallRefused, Device, GatewayClient

pytestmark = pytest.mark.integration

Json = dict[str, Any]
BOTH = pytest.mark.parametrize("quirks", [QUIRKS_6_11, QUIRKS_9_6], ids=lambda q: q.version)
WRITE_ONLY = ("operator.read", "operator.write")


async def patch(client: GatewayClient, **changes: Any) -> Json:
    answer: Json = await client.call("sessions.patch", {"key": "s", **changes})
    return answer


async def row(client: GatewayClient, key: str = "s") -> Json:
    history = await client.call("chat.history", {"sessionKey": key, "limit": 1})
    info: Json = history["sessionInfo"]
    return info


@BOTH
async def test_a_row_can_be_read_without_making_the_session(quirks: Quirks) -> None:
    async with (
        DemoGateway(quirks=quirks) as gateway,
        GatewayClient(gateway.url, device=Device()) as client,
    ):
        assert (await row(client))["model"] == "canned-1"
        assert (await client.call("sessions.list"))["sessions"] == []


@BOTH
async def test_a_patch_is_stored_refused_or_taken_back_and_told_to_followers(
    quirks: Quirks,
) -> None:
    async with (
        DemoGateway(quirks=quirks) as gateway,
        GatewayClient(gateway.url, device=Device()) as client,
    ):
        await client.call("sessions.subscribe")
        await patch(client, thinkingLevel="high", fastMode=True, verboseLevel="full")
        assert (await row(client))["thinkingLevel"] == "high"
        assert (await row(client))["effectiveFastMode"] is True
        for bad in ({"thinkingLevel": "adaptive"}, {"fastMode": "on"}, {"traceLevel": "x"}):
            with pytest.raises(CallRefused, match="use"):
                await patch(client, **bad)
        await patch(client, model="demo/canned-plain", verboseLevel=None)
        plain = await row(client)
        assert (plain["model"], plain["thinkingLevel"]) == ("canned-plain", "off")
        assert "verboseLevel" not in plain
        with pytest.raises(CallRefused, match="use off"):
            await patch(client, thinkingLevel="high")
        reasons = [event["reason"] for event in client.named("sessions.changed")]
        assert reasons == ["patch", "patch"]


async def test_only_the_newer_version_lets_some_settings_be_changed_without_admin() -> None:
    for quirks, allowed in ((QUIRKS_6_11, False), (QUIRKS_9_6, True)):
        async with (
            DemoGateway(quirks=quirks) as gateway,
            GatewayClient(gateway.url, device=Device(), scopes=WRITE_ONLY) as client,
        ):
            with pytest.raises(CallRefused, match=r"missing scope: operator\.admin"):
                await patch(client, verboseLevel="on")
            if allowed:
                await patch(client, thinkingLevel="low")
            else:
                with pytest.raises(CallRefused, match=r"missing scope: operator\.admin"):
                    await patch(client, thinkingLevel="low")


async def test_models_tell_their_levels_in_the_newer_version_only() -> None:
    for quirks in (QUIRKS_6_11, QUIRKS_9_6):
        async with (
            DemoGateway(quirks=quirks) as gateway,
            GatewayClient(gateway.url, device=Device()) as client,
        ):
            models = (await client.call("models.list", {"view": "configured"}))["models"]
            assert [model["id"] for model in models] == ["canned-1", "canned-plain"]
            assert all(("thinkingLevels" in model) is not quirks.is_old for model in models)
            with pytest.raises(CallRefused, match="unexpected property"):
                await client.call("models.list", {"agentId": "main"})
