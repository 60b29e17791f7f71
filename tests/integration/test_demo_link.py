"""How the demo gateway breaks its links, and what survives that."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedError

from acp_bridge.demo import QUIRKS_6_11, QUIRKS_9_6, DemoGateway, Refusal, Request, RunContext
from tests.support.gateway_client import CallRefused, Device, GatewayClient
from tests.support.waits import WAIT

pytestmark = pytest.mark.integration

Json = dict[str, Any]


async def hang(run: RunContext) -> None:
    await run.text("so far")
    await asyncio.Event().wait()


async def never(_request: Request) -> None:
    return None


async def test_a_run_goes_on_without_its_connection_and_can_be_followed_on_a_new_one() -> None:
    go = asyncio.Event()

    async def script(run: RunContext) -> None:
        call = await run.tool_start("exec", {"command": "ls"})
        await go.wait()
        await run.tool_end(call, "a")
        await run.text("done")

    async with DemoGateway(script, pace=0) as gateway:
        async with GatewayClient(gateway.url, device=Device()) as first:
            await first.prompt("hi")
            await first.until(lambda e: e["payload"].get("stream") == "item")
            gateway.drop_connections()
            await first.closed.wait()
        assert first.close_code == 1006

        async with GatewayClient(gateway.url, device=Device()) as second:
            await second.call("sessions.messages.subscribe", {"key": "s"})
            go.set()
            final = await second.until_chat("final")

    assert final["message"]["content"][0]["text"] == "done"
    assert second.stream("tool") == []
    assert [each["data"]["phase"] for each in second.named("session.tool")] == ["result"]


async def test_a_dropped_connection_says_why_if_it_is_told_to() -> None:
    async with (
        DemoGateway() as gateway,
        GatewayClient(gateway.url) as client,
    ):
        gateway.drop_connections(1012, "service restart")
        await client.closed.wait()
        with pytest.raises(ConnectionClosedError):
            await client.call("health")

    assert (client.close_code, client.close_reason) == (1012, "service restart")


async def test_a_restart_keeps_the_address_the_devices_and_what_was_said_and_no_run() -> None:
    device = Device()
    async with DemoGateway(hang, quirks=QUIRKS_9_6, token="t", pace=0) as gateway:  # noqa: S106 - opens nothing
        url = gateway.url
        async with GatewayClient(url, auth={"token": "t"}, device=device) as before:
            await before.prompt("hi")
            await before.until_chat("delta")
            await gateway.restart()
            await before.closed.wait()
        own = {"token": before.hello["auth"]["deviceToken"]}
        async with GatewayClient(url, auth=own, device=device) as after:
            waited = await after.call("agent.wait", {"runId": "r1", "timeoutMs": 0})
            history = await after.call("chat.history", {"sessionKey": "s"})
            again = await after.prompt("hi")

    assert gateway.url == url
    assert before.named("shutdown") == [{"reason": "gateway stopping"}]
    assert (before.close_code, before.close_reason) == (1012, "service restart")
    assert before.hello["server"]["bootId"] != after.hello["server"]["bootId"]
    assert waited == {"runId": "r1", "status": "timeout"}
    assert [row["idempotencyKey"] for row in history["messages"]] == ["r1:user"]
    assert history["sessionInfo"]["abortedLastRun"] is True
    assert again["status"] == "started"


async def test_a_prompt_that_comes_while_the_gateway_goes_down_begins_no_run() -> None:
    played: list[str] = []

    async def script(run: RunContext) -> None:
        played.append(run.message)

    async with DemoGateway(script, pace=0) as gateway:
        async with GatewayClient(gateway.url, device=Device()) as client:
            stopping = asyncio.create_task(gateway.stop())
            await asyncio.sleep(0)  # it is on its way down
            with pytest.raises((CallRefused, ConnectionError, ConnectionClosedError)):
                await client.prompt("hi")
            await stopping
        await gateway.wait_request("chat.send")
        await gateway.start()
        async with GatewayClient(gateway.url, device=Device()) as after:
            history = await after.call("chat.history", {"sessionKey": "s"})

    assert played == []
    assert history["messages"] == []


async def test_the_old_version_loses_the_prompt_of_a_text_in_a_restart() -> None:
    async with DemoGateway(hang, quirks=QUIRKS_6_11, pace=0) as gateway:
        async with GatewayClient(gateway.url, device=Device()) as before:
            await before.prompt("hi")
            await before.until_chat("delta")
            await gateway.restart(code=1006)
            await before.closed.wait()
        async with GatewayClient(gateway.url, device=Device()) as after:
            history = await after.call("chat.history", {"sessionKey": "s"})

    assert (before.close_code, before.named("shutdown")) == (1006, [])
    assert history["messages"] == []


async def test_nobody_gets_in_while_the_gateway_is_down() -> None:
    async with DemoGateway() as gateway:
        await gateway.stop()
        with pytest.raises(ConnectionRefusedError):
            await GatewayClient(gateway.url).open()
        await gateway.start()
        async with GatewayClient(gateway.url) as client:
            assert client.hello["type"] == "hello-ok"


async def test_a_held_hello_comes_when_it_is_released() -> None:
    async with DemoGateway() as gateway:
        gateway.hold_hello = asyncio.Event()
        client = GatewayClient(gateway.url)
        opening = asyncio.create_task(client.open())
        await gateway.wait_request("connect")
        assert client.hello == {}
        gateway.hold_hello.set()
        await opening
        await client.close()

    assert client.hello["type"] == "hello-ok"


async def test_a_gateway_that_holds_a_hello_can_be_stopped() -> None:
    async with DemoGateway() as gateway:
        gateway.hold_hello = asyncio.Event()
        opening = asyncio.create_task(GatewayClient(gateway.url).open())
        await gateway.wait_request("connect")
        async with asyncio.timeout(WAIT):
            await gateway.stop()
        with pytest.raises(ConnectionError):
            await opening


async def test_a_refusal_is_given_as_often_as_wished() -> None:
    starting = {
        "code": "UNAVAILABLE",
        "message": "gateway starting; retry shortly",
        "retryable": True,
        "retryAfterMs": 500,
    }
    async with DemoGateway() as gateway:
        gateway.refuse(starting, close_code=1013, times=2)
        for _ in range(2):
            client = GatewayClient(gateway.url)
            with pytest.raises(CallRefused) as caught:
                await client.open()
            assert caught.value.error == starting
            assert client.close_code == 1013
        async with GatewayClient(gateway.url):
            pass

        gateway.refuse({"code": "NOT_PAIRED", "message": "pairing required"})
        with pytest.raises(CallRefused):
            await GatewayClient(gateway.url).open()
        gateway.refuse(None)
        async with GatewayClient(gateway.url):
            pass


async def test_a_method_can_be_answered_otherwise_or_never() -> None:
    async def other(request: Request) -> Json:
        return {"runId": "another", "status": "in_flight", "asked": request.params["message"]}

    async def busy(_request: Request) -> Json:
        raise Refusal("gateway is draining", code="UNAVAILABLE", retry_after_ms=5)

    async with DemoGateway() as gateway, GatewayClient(gateway.url) as client:
        gateway.overrides["chat.send"] = other
        assert (await client.prompt("hi"))["asked"] == "hi"
        gateway.overrides["chat.send"] = busy
        with pytest.raises(CallRefused) as caught:
            await client.prompt("hi")
        assert caught.value.error["retryAfterMs"] == 5
        gateway.overrides["chat.send"] = never
        unanswered = await client.begin("chat.send", {"message": "hi"})
        assert (await client.call("health"))["ok"] is True
        await gateway.stop()
        with pytest.raises(ConnectionError):
            await client.answer(unanswered)


async def test_a_mute_gateway_says_nothing_and_keeps_the_socket_open() -> None:
    async with DemoGateway(pace=0) as gateway, GatewayClient(gateway.url) as client:
        await client.until(lambda e: e["event"] == "health")
        gateway.mute()
        lost = await client.begin("health")
        await gateway.wait_request("health")
        gateway.mute(False)
        assert (await client.call("health"))["ok"] is True

        assert not client.is_answered(lost)
        assert not client.closed.is_set()


async def test_ticks_come_as_often_as_the_hello_says() -> None:
    async with DemoGateway(tick_interval=0.01) as gateway, GatewayClient(gateway.url) as client:
        await client.until(lambda e: e["event"] == "tick")

    assert client.hello["policy"]["tickIntervalMs"] == 10


async def test_a_request_is_waited_for_and_not_for_ever() -> None:
    async with DemoGateway(hang) as gateway, GatewayClient(gateway.url) as client:
        waiting = asyncio.create_task(gateway.wait_request("health", 2))
        await client.call("health", {"number": 1})
        await client.call("health", {"number": 2})
        assert (await waiting).params == {"number": 2}
        with pytest.raises(TimeoutError):
            await gateway.wait_request("health", 3, timeout=0.01)

    assert [each.method for each in gateway.requests] == ["connect", "health", "health"]


async def test_a_client_that_does_not_read_loses_deltas_and_then_its_connection() -> None:
    async def script(run: RunContext) -> None:
        for _ in range(60):
            await run.text("x" * 500_000)

    async with (
        DemoGateway(script, pace=0, max_buffered=100_000) as gateway,
        GatewayClient(gateway.url, device=Device()) as reader,
    ):
        slow = await connect(
            gateway.url, max_queue=1, max_size=None, ping_interval=None, proxy=None
        )
        await slow.recv()
        client = {"id": "cli", "version": "1", "platform": "linux", "mode": "cli"}
        params = {"minProtocol": 4, "maxProtocol": 4, "client": client}
        params["scopes"] = ["operator.read"]
        await slow.send(
            json.dumps({"type": "req", "id": "1", "method": "connect", "params": params})
        )
        await gateway.wait_request("connect", 2)
        await reader.prompt("hi")
        async with asyncio.timeout(WAIT):
            await gateway.runs["r1"].ended.wait()
        got = 0
        with contextlib.suppress(ConnectionClosedError):
            async for _ in slow:
                got += 1

    assert (slow.close_code, slow.close_reason) == (1008, "slow consumer")
    assert got < 60


async def test_a_run_can_be_started_that_no_client_asked_for() -> None:
    async def script(run: RunContext) -> None:
        await run.text("resumed")

    async with DemoGateway(script, pace=0) as gateway, GatewayClient(gateway.url) as client:
        run = gateway.start_run("s", "[System] Your previous turn was interrupted")
        final = await client.until_chat("final", run.run_id)

    assert final["sessionKey"] == "agent:main:s"


async def test_what_is_no_frame_can_be_sent_too() -> None:
    async with DemoGateway() as gateway, GatewayClient(gateway.url) as client:
        gateway.send_text(json.dumps({"type": "event", "event": "odd", "payload": {}}))
        gateway.broadcast("presence", {"presence": []})
        await client.until(lambda e: e["event"] == "odd")
        await client.until(lambda e: e["event"] == "presence")
