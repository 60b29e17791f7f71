"""The gateway client on real sockets: connecting, working, losing the link, stopping."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from acp_bridge.core.commands import AbortRun, ProbeRun, ResolveSession, StartRun
from acp_bridge.core.events import (
    AbortAnswered,
    GatewayStopping,
    LinkLost,
    LinkUp,
    RunAccepted,
    RunRefused,
    RunReported,
    RunState,
    TextProgress,
    Unreadable,
)
from acp_bridge.errors import GatewayTimeout, PromptTooLarge
from acp_bridge.errors import LinkLost as LinkLostError
from acp_bridge.gateway.port import Gateway
from acp_bridge.gateway.transport import Transport
from acp_bridge.ids import RunId, SessionKey
from tests.support.client_rig import ClientRig, client_rig
from tests.support.waits import WAIT, scaled
from tests.support.wire_gateway import WireConnection, WireGateway, hello, wire_gateway

pytestmark = pytest.mark.integration

RUN, KEY = RunId("run-1"), SessionKey("agent:main:work")
SEND = StartRun(RUN, KEY, "hello")
FIND = ResolveSession(label="work")


@pytest.fixture
async def gateway() -> AsyncIterator[WireGateway]:
    async with wire_gateway() as running:
        yield running


@pytest.fixture
async def rig(gateway: WireGateway, tmp_path: Path) -> AsyncIterator[ClientRig]:
    async with client_rig(gateway.url, tmp_path / "state") as started:
        yield started


async def connected(gateway: WireGateway, rig: ClientRig) -> WireConnection:
    connection = await gateway.accepted()
    await connection.accept()
    await rig.next(LinkUp)
    return connection


async def test_a_hello_opens_the_first_generation(gateway: WireGateway, rig: ClientRig) -> None:
    as_port: Gateway = rig.client
    assert (as_port.hello, as_port.trouble) == (None, None)
    connection = await gateway.accepted()
    params = await connection.accept()
    opened = await as_port.wait_hello(WAIT)
    assert (await rig.next(LinkUp)).hello == opened
    assert opened.generation == rig.events[0].generation == 1
    assert params["auth"] == {"token": "test-token"}
    assert params["scopes"][-1] == "operator.admin"
    headers = connection.socket.request
    assert headers is not None
    assert "Origin" not in headers.headers
    assert "Sec-WebSocket-Extensions" not in headers.headers


async def test_a_prompt_travels_and_its_events_come_back_stamped(
    gateway: WireGateway, rig: ClientRig
) -> None:
    connection = await connected(gateway, rig)
    rig.client.submit(SEND)
    request = await connection.take("chat.send")
    assert request["params"]["idempotencyKey"] == RUN
    await connection.answer(request, {"runId": RUN, "status": "started"})
    await connection.event("chat", runId=RUN, state="delta", deltaText="\ud83d")
    await connection.send(b"binary")
    await rig.next(RunAccepted)
    assert (await rig.next(TextProgress)).delta == "\ud83d"
    await rig.next(Unreadable)
    assert {stamped.generation for stamped in rig.events} == {1}


async def test_what_comes_before_the_hello_belongs_to_no_generation(
    gateway: WireGateway, rig: ClientRig
) -> None:
    connection = await gateway.accepted()
    request = await connection.challenge()
    await connection.send("not json")
    await connection.answer(request, hello())
    await rig.next(LinkUp)
    assert len(rig.events) == 1


async def test_queries_are_answered_or_given_up(gateway: WireGateway, rig: ClientRig) -> None:
    with pytest.raises(LinkLostError):
        await rig.client.request(FIND)
    connection = await connected(gateway, rig)
    asked = asyncio.create_task(rig.client.request(FIND))
    request = await connection.take("sessions.resolve")
    await connection.answer(request, {"ok": True, "key": KEY})
    assert await asked == KEY
    with pytest.raises(GatewayTimeout):
        await rig.client.request(FIND, timeout=0.01)
    late = await connection.take("sessions.resolve")
    await connection.answer(late, {"ok": True, "key": "too late"})
    again = asyncio.create_task(rig.client.request(FIND))
    request = await connection.take("sessions.resolve")
    await connection.answer(request, {"ok": False})
    assert await again is None


@pytest.mark.requirement("C051")
async def test_a_query_in_flight_fails_at_once_when_the_link_breaks(
    gateway: WireGateway, rig: ClientRig
) -> None:
    connection = await connected(gateway, rig)
    asked = asyncio.create_task(rig.client.request(FIND, timeout=3600))
    await connection.take("sessions.resolve")
    connection.cut()
    with pytest.raises(LinkLostError):
        await asyncio.wait_for(asked, WAIT)
    lost = await rig.next(LinkLost)
    assert lost.close_code == 1006
    assert rig.client.hello is None
    assert isinstance(rig.client.trouble, LinkLostError)


@pytest.mark.requirement("C048")
@pytest.mark.parametrize("code", [1000, 1001, 1005, 1006, 1012, 1013])
async def test_the_next_generation_follows_a_lost_link(
    code: int, gateway: WireGateway, rig: ClientRig
) -> None:
    connection = await connected(gateway, rig)
    await connection.event("shutdown", reason="gateway stopping")
    await rig.next(GatewayStopping)
    if code == 1006:
        connection.cut()
    else:
        await connection.close(1000 if code == 1005 else code, "over")
    assert (await rig.next(LinkLost)).close_code == (1000 if code == 1005 else code)
    rig.client.submit(SEND)  # goes nowhere: the LinkLost has said so
    await rig.over_pause()
    again = await gateway.accepted()
    await again.accept()
    assert (await rig.next(LinkUp)).hello.generation == 2
    rig.client.submit(AbortRun(RUN, KEY))
    await again.take("chat.abort")
    assert [stamped.generation for stamped in rig.events] == [1, 1, 1, 2]


async def test_what_was_received_before_the_end_still_counts(
    gateway: WireGateway, rig: ClientRig
) -> None:
    connection = await connected(gateway, rig)
    rig.gate.clear()
    for number in range(50):
        await connection.event("chat", runId=RUN, state="delta", deltaText=str(number))
    await connection.close(1012, "service restart")
    rig.client.submit(SEND)  # the writer meets the closed socket first
    rig.gate.set()
    await rig.next(LinkLost)
    texts = [s.event.delta for s in rig.events if isinstance(s.event, TextProgress)]
    assert texts == [str(number) for number in range(50)]


async def test_a_gateway_that_has_fallen_silent_is_left(
    gateway: WireGateway, rig: ClientRig
) -> None:
    connection = await connected(gateway, rig)
    asked = asyncio.create_task(rig.client.request(FIND, timeout=3600))
    await connection.take("sessions.resolve")
    await rig.advance(59)
    await connection.event("tick", ts=1)
    await connection.event("shutdown")
    await rig.next(GatewayStopping)
    await rig.advance(59)
    assert rig.client.hello is not None
    await rig.advance(3)
    assert await connection.closed_with() == 4000
    assert (await rig.next(LinkLost)).close_code == 4000
    with pytest.raises(LinkLostError):
        await asyncio.wait_for(asked, WAIT)


@pytest.mark.requirement("C053")
@pytest.mark.parametrize("by_wall_clock_alone", [True, False])
async def test_after_a_sleep_the_stale_connection_is_dropped_and_another_made_at_once(
    gateway: WireGateway, rig: ClientRig, by_wall_clock_alone: bool
) -> None:
    connection = await connected(gateway, rig)
    await rig.advance(5)
    if by_wall_clock_alone:
        rig.slept = 12.0
        await rig.advance(1)
    else:
        rig.clock.advance(12.0)
        await rig.advance(0.25)
    assert "slept" in (await rig.next(LinkLost)).reason
    assert await connection.closed_with() == 4000
    assert await rig.pause() == 0.0
    await rig.advance(0.25)
    await (await gateway.accepted()).accept()
    assert (await rig.next(LinkUp)).hello.generation == 2


@pytest.mark.requirement("C053")
async def test_after_a_sleep_nothing_is_left_of_the_wait_for_the_next_attempt(
    gateway: WireGateway, rig: ClientRig
) -> None:
    await (await gateway.accepted()).close(1011, "no")
    assert await rig.pause() > 0
    rig.slept = 3_600.0
    await rig.advance(1)
    await (await gateway.accepted()).accept()
    await rig.next(LinkUp)


async def test_silence_is_not_counted_while_the_sink_waits(
    gateway: WireGateway, rig: ClientRig
) -> None:
    connection = await connected(gateway, rig)
    rig.gate.clear()
    await connection.event("shutdown", reason="a")
    rig.client.submit(AbortRun(RUN, KEY))
    await connection.take("chat.abort")  # the event before it has been read by now
    await rig.advance(600)
    assert rig.client.hello is not None
    rig.gate.set()
    await rig.next(GatewayStopping)
    await rig.advance(59)
    assert rig.client.hello is not None


async def test_a_sink_that_waits_stops_the_reading(gateway: WireGateway, rig: ClientRig) -> None:
    connection = await connected(gateway, rig)
    rig.gate.clear()
    text = "x" * 1_000_000

    async def flood() -> None:
        for _ in range(100):
            await connection.event("chat", runId=RUN, state="delta", deltaText=text)

    flooding = asyncio.create_task(flood())
    done, _ = await asyncio.wait({flooding}, timeout=scaled(1.0))
    assert not done
    rig.gate.set()
    await asyncio.wait_for(flooding, scaled(20))
    for _ in range(100):
        await rig.next(TextProgress)


@pytest.mark.requirement("C021")
async def test_a_prompt_over_the_gateways_limit_is_refused_here(
    gateway: WireGateway, rig: ClientRig
) -> None:
    connection = await gateway.accepted()
    await connection.accept(policy={"maxPayload": 512, "tickIntervalMs": 30_000})
    await rig.next(LinkUp)
    rig.client.submit(StartRun(RUN, KEY, "x" * 1000))
    refused = await rig.next(RunRefused)
    assert isinstance(refused.error, PromptTooLarge)
    assert refused.error.data["limit"] == 512
    rig.client.submit(SEND)
    await connection.take("chat.send")


@pytest.mark.requirement("C021")
async def test_a_close_for_size_tells_its_code(gateway: WireGateway, rig: ClientRig) -> None:
    connection = await connected(gateway, rig)
    rig.client.submit(SEND)
    await connection.take("chat.send")
    await connection.close(1009)
    assert (await rig.next(LinkLost)).close_code == 1009


async def test_a_frame_of_many_megabytes_is_read(gateway: WireGateway, rig: ClientRig) -> None:
    connection = await connected(gateway, rig)
    await connection.event("chat", runId=RUN, state="delta", deltaText="x" * 30_000_000)
    assert len((await rig.next(TextProgress)).delta or "") == 30_000_000


async def test_deadlines_of_commands_pass_without_a_frame(
    gateway: WireGateway, rig: ClientRig
) -> None:
    connection = await connected(gateway, rig)
    rig.client.submit(AbortRun(RUN, KEY))
    await connection.take("chat.abort")
    await rig.advance(31)
    assert isinstance((await rig.next(AbortAnswered)).error, GatewayTimeout)
    rig.client.submit(ProbeRun(RUN, KEY))
    await connection.take("sessions.subscribe")
    await rig.advance(21)
    assert (await rig.next(RunReported)).state is RunState.UNTOLD


@pytest.mark.requirement("C083")
async def test_closing_is_normal_and_writes_what_waits(
    gateway: WireGateway, rig: ClientRig
) -> None:
    connection = await connected(gateway, rig)
    rig.client.submit(AbortRun(RUN, KEY))
    closing = asyncio.create_task(rig.client.close())
    await connection.take("chat.abort")
    assert await connection.closed_with() == 1000
    await asyncio.wait_for(closing, WAIT)
    assert rig.client.hello is None


async def test_closing_is_quick_though_the_gateway_reads_nothing(
    gateway: WireGateway, rig: ClientRig
) -> None:
    connection = await connected(gateway, rig)
    for number in range(40):
        rig.client.submit(StartRun(RunId(f"run-{number}"), KEY, "x" * 1_000_000))
    began = asyncio.get_running_loop().time()
    await rig.client.close()
    assert asyncio.get_running_loop().time() - began < scaled(2.0)
    connection.cut()


async def test_closing_before_any_connection_is_quick(tmp_path: Path) -> None:
    dialled = asyncio.Event()

    async def never(url: str) -> Transport:
        dialled.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with client_rig("ws://127.0.0.1:1", tmp_path, connect=never) as rig:
        await asyncio.wait_for(dialled.wait(), WAIT)
        await asyncio.wait_for(rig.client.close(), WAIT)


async def test_a_sink_that_fails_costs_the_connection_but_not_the_client(
    gateway: WireGateway, rig: ClientRig, caplog: pytest.LogCaptureFixture
) -> None:
    connection = await connected(gateway, rig)
    rig.failure = ValueError("a bug in the sink")
    with caplog.at_level(logging.ERROR, logger="acp_bridge"):
        await connection.event("shutdown", reason="a")
        assert await connection.closed_with() == 1000
        assert await rig.over_pause() == 5
        lost = await rig.next(LinkLost)
    assert lost.reason == "the bridge failed"
    assert "the gateway client failed" in caplog.messages
    again = await gateway.accepted()
    await again.accept()
    assert (await rig.next(LinkUp)).hello.generation == 2


async def test_no_secret_and_no_text_is_logged(
    gateway: WireGateway, rig: ClientRig, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, logger="acp_bridge"):
        connection = await gateway.accepted()
        await connection.accept(auth={"scopes": [], "deviceToken": "issued-1"})
        await rig.next(LinkUp)
        rig.client.submit(StartRun(RUN, KEY, "a private question"))
        await connection.take("chat.send")
        connection.cut()
        await rig.next(LinkLost)
    ours = [record for record in caplog.records if record.name != "websockets.server"]
    logged = " ".join(str(vars(record)) for record in ours)
    assert "connected to the gateway" in logged
    for secret in ("test-token", "issued-1", "private"):
        assert secret not in logged


async def test_scopes_that_were_not_granted_are_told_once(
    gateway: WireGateway, rig: ClientRig, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="acp_bridge"):
        for _ in range(2):
            connection = await gateway.accepted()
            await connection.accept(auth={"scopes": ["operator.write"]})
            await rig.next(LinkUp)
            connection.cut()
            await rig.over_pause()
    told = [r for r in caplog.records if r.message == "the gateway granted less than was asked for"]
    assert [r.levelname for r in told] == ["WARNING", "INFO"]
    assert "operator.approvals" in str(vars(told[0]))


def test_the_twin_of_a_hello_is_a_hello() -> None:
    assert hello()["type"] == "hello-ok"
