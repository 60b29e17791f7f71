"""The in-memory gateway keeps the promises of the port, so that tests on it mean something."""

from __future__ import annotations

import asyncio

import pytest

from acp_bridge.core.commands import AbortRun, ResolveSession, RunCommand
from acp_bridge.core.events import (
    AbortAnswered,
    GatewayEvent,
    GatewayStopping,
    LinkLost,
    LinkUp,
    Stamped,
)
from acp_bridge.errors import (
    AuthenticationFailed,
    GatewayRefused,
    GatewayTimeout,
    GatewayUnreachable,
)
from acp_bridge.errors import LinkLost as LinkLostError
from acp_bridge.gateway.memory import MemoryGateway
from acp_bridge.gateway.port import Gateway
from acp_bridge.ids import RunId, SessionKey

ABORT = AbortRun(RunId("run-1"), SessionKey("key"))
RESOLVE = ResolveSession(label="work")


async def started(gateway: MemoryGateway) -> list[Stamped]:
    seen: list[Stamped] = []

    async def sink(stamped: Stamped) -> None:
        seen.append(stamped)

    await gateway.start(sink)
    return seen


async def test_events_arrive_in_order_and_carry_their_generation() -> None:
    gateway: MemoryGateway = MemoryGateway()
    as_port: Gateway = gateway
    seen = await started(gateway)
    hello = await gateway.up()
    await gateway.emit(GatewayStopping("bye"))
    await gateway.down("gone")
    second = await gateway.up(server_version="next")
    assert [(s.generation, s.event) for s in seen] == [
        (1, LinkUp(hello)),
        (1, GatewayStopping("bye")),
        (1, LinkLost("gone", 1006)),
        (2, LinkUp(second)),
    ]
    assert as_port.hello is second
    await gateway.close()


async def test_a_script_answers_commands_and_commands_without_a_link_are_lost() -> None:
    def script(command: RunCommand) -> list[GatewayEvent]:
        assert isinstance(command, AbortRun)
        return [AbortAnswered(command.run_id, aborted=True)]

    gateway = MemoryGateway(script=script)
    seen = await started(gateway)
    gateway.submit(ABORT)
    await gateway.up()
    gateway.submit(ABORT)
    await gateway.settled()
    assert gateway.lost == [ABORT]
    assert gateway.submitted == [ABORT]
    assert seen[-1].event == AbortAnswered(RunId("run-1"), aborted=True)
    await gateway.close()


async def test_queries_get_the_given_answer_or_error() -> None:
    gateway = MemoryGateway(answers={ResolveSession: lambda query: query.label})
    await started(gateway)
    with pytest.raises(LinkLostError):
        await gateway.request(RESOLVE)
    await gateway.up()
    assert await gateway.request(RESOLVE) == "work"
    gateway.answers[ResolveSession] = GatewayRefused("no")
    with pytest.raises(GatewayRefused):
        await gateway.request(RESOLVE)
    assert gateway.requests == [RESOLVE, RESOLVE]
    await gateway.close()


async def test_a_query_in_flight_fails_when_the_link_ends_or_time_is_up() -> None:
    gateway = MemoryGateway()
    await started(gateway)
    await gateway.up()
    asked = asyncio.Event()

    async def answer(_: ResolveSession) -> None:
        asked.set()
        await asyncio.Event().wait()

    gateway.answers[ResolveSession] = answer
    with pytest.raises(GatewayTimeout):
        await gateway.request(RESOLVE, timeout=0.01)
    asked.clear()
    waiting = asyncio.create_task(gateway.request(RESOLVE))
    await asked.wait()
    await gateway.down()
    with pytest.raises(LinkLostError):
        await waiting
    await gateway.close()


async def test_waiting_for_a_hello_ends_with_it_with_a_refusal_or_with_the_time() -> None:
    gateway = MemoryGateway()
    await started(gateway)
    with pytest.raises(GatewayUnreachable):
        await gateway.wait_hello(0.01)
    await gateway.down(trouble=AuthenticationFailed("wrong token"))
    with pytest.raises(AuthenticationFailed, match="wrong token"):
        await gateway.wait_hello(5)
    await gateway.down()
    waiting = asyncio.create_task(gateway.wait_hello(5))
    hello = await gateway.up()
    assert await waiting is hello
    assert await gateway.wait_hello(5) is hello
    assert gateway.waits == 4
    await gateway.close()


async def test_a_sink_that_fails_fails_the_test_that_emitted() -> None:
    gateway = MemoryGateway()

    async def sink(stamped: Stamped) -> None:
        raise ValueError(type(stamped.event).__name__)

    await gateway.start(sink)
    with pytest.raises(ValueError, match="LinkUp"):
        await gateway.up()
    await gateway.close()
