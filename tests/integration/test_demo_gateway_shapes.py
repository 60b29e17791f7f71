"""The demo gateway's frames have the fields of the recorded ones, in both versions' shapes."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from acp_bridge.demo import QUIRKS_6_11, QUIRKS_9_6, DemoGateway, Quirks, RunContext
from tests.support.gateway_client import Device, GatewayClient
from tests.support.gateway_shapes import differences, kinds

pytestmark = pytest.mark.integration

Json = dict[str, Any]
BOTH = pytest.mark.parametrize("quirks", [QUIRKS_6_11, QUIRKS_9_6], ids=lambda q: q.version)
INVENTED = {"agent.plan.update", "agent.plan.update:data"}
"""Plans were never recorded; their fields come from the gateway's documentation."""


async def everything(run: RunContext) -> None:
    if run.message == "command":
        await run.final_only("done")
    elif run.message == "fail":
        await run.text("so far")
        await run.fail("the model broke")
    elif run.message == "empty":
        await run.finish(message=False)
    elif run.message == "wait":
        await run.text("waiting")
        await asyncio.Event().wait()
    else:
        await run.thought("hm")
        await run.plan([("one", "completed"), ("two", "pending")])
        await run.text("Let me ")
        await run.text("look.")
        read = await run.tool_start("read", {"path": "/f"})
        await run.tool_end(read, "text", details={"kind": "text", "content": "text"})
        missing = await run.tool_start("read", {"path": "/g"})
        await run.tool_end(missing, "no such file", is_error=True)
        await run.exec("echo hi", "hi", cwd="/")
        await run.exec("rm -r x", "", cwd="/")
        await run.replace("Looked.")
        await run.usage(1000, output=20)


def problems(quirks: Quirks, kind: str, value: Json) -> list[str]:
    return [] if kind in INVENTED else differences(quirks.version, kind, value)


def is_question(command: str, event: Json) -> bool:
    asked = event["event"] == "exec.approval.requested"
    return asked and bool(event["payload"]["request"]["command"] == command)


async def answer_approvals(client: GatewayClient) -> None:
    for command, decision in (("echo hi", "allow-once"), ("rm -r x", "deny")):
        asked = await client.until(partial(is_question, command))
        await client.call(
            "exec.approval.resolve", {"id": asked["payload"]["id"], "decision": decision}
        )


@BOTH
async def test_every_event_of_a_run_has_the_recorded_fields(quirks: Quirks) -> None:
    async with (
        DemoGateway(everything, quirks=quirks, pace=0) as gateway,
        GatewayClient(gateway.url, device=Device()) as client,
    ):
        await client.call("sessions.subscribe")
        await client.prompt("all")
        await answer_approvals(client)
        await client.until_chat("final")
        for run, state in (("command", "final"), ("fail", "error"), ("empty", "final")):
            await client.prompt(run, run=run)
            await client.until_chat(state, run)
        await client.prompt("wait", run="wait")
        await client.until_chat("delta", "wait")
        await client.call("chat.abort", {"sessionKey": "s", "runId": "wait"})
        await client.until_chat("aborted", "wait")
        await gateway.stop()
        await client.closed.wait()

        seen = [pair for event in client.events for pair in kinds(event)]

    assert [found for kind, value in seen for found in problems(quirks, kind, value)] == []
    names = {kind for kind, _ in seen}
    for expected in ("chat.delta", "chat.final", "chat.error.second", "chat.aborted", "shutdown"):
        assert expected in names


@BOTH
async def test_the_greeting_has_the_recorded_fields(quirks: Quirks) -> None:
    async with (
        DemoGateway(quirks=quirks) as gateway,
        GatewayClient(gateway.url, device=Device()) as client,
    ):
        hello, challenge = client.hello, client.challenge

    assert problems(quirks, "connect.challenge", challenge) == []
    assert problems(quirks, "hello", hello) == []
    for part in ("server", "features", "snapshot", "auth", "policy"):
        assert problems(quirks, f"hello:{part}", hello[part]) == []
    defaults = hello["snapshot"]["sessionDefaults"]
    assert problems(quirks, "hello:snapshot.sessionDefaults", defaults) == []


CALLS: list[tuple[str, Json]] = [
    ("sessions.create", {"key": "s", "label": "mine"}),
    ("sessions.patch", {"key": "s", "thinkingLevel": "high"}),
    ("sessions.resolve", {"key": "s"}),
    ("sessions.subscribe", {}),
    ("sessions.messages.subscribe", {"key": "s"}),
    ("sessions.list", {"limit": 1}),
    ("sessions.describe", {"key": "s"}),
    ("chat.abort", {"sessionKey": "s"}),
    ("sessions.reset", {"key": "s"}),
]


@BOTH
@pytest.mark.parametrize(("method", "params"), CALLS, ids=[method for method, _ in CALLS])
async def test_an_answer_has_the_recorded_fields(method: str, params: Json, quirks: Quirks) -> None:
    async with (
        DemoGateway(quirks=quirks) as gateway,
        GatewayClient(gateway.url, device=Device()) as client,
    ):
        await client.call("sessions.create", {"key": "s"})

        answer = await client.call(method, params)

    assert problems(quirks, method, answer) == []


@BOTH
async def test_answers_about_a_run_have_the_recorded_fields(quirks: Quirks) -> None:
    async with (
        DemoGateway(everything, quirks=quirks, pace=0) as gateway,
        GatewayClient(gateway.url, device=Device()) as client,
    ):
        wait = {"runId": "r1", "timeoutMs": 0}
        unknown = await client.call("agent.wait", {"runId": "none", "timeoutMs": 0})
        acknowledged = await client.prompt("wait")
        await client.until_chat("delta")
        running = await client.call("agent.wait", wait)
        history = await client.call("chat.history", {"sessionKey": "s"})
        await client.call("chat.abort", {"sessionKey": "s"})
        await client.prompt("all", run="r2")
        asked = await client.until(lambda e: e["event"] == "exec.approval.requested")
        (listed,) = await client.call("exec.approval.list")
        approval = await client.call("exec.approval.get", {"id": asked["payload"]["id"]})
        await answer_approvals(client)
        await client.until_chat("final", "r2")
        done = await client.call("agent.wait", {"runId": "r2", "timeoutMs": 0})
        rows = (await client.call("chat.history", {"sessionKey": "s"}))["messages"]
        await client.prompt("fail", run="r3")
        failed = await client.call("agent.wait", {"runId": "r3", "timeoutMs": 5000})

    kinds_of = {
        "chat.send": acknowledged,
        "agent.wait.timeout.unknown" if quirks.is_old else "agent.wait.timeout": unknown,
        "agent.wait.timeout": running,
        "agent.wait.ok": done,
        "agent.wait.error": failed,
        "chat.history": history,
        "chat.history:inFlightRun": history["inFlightRun"],
        "chat.history:prompt": next(row for row in rows if row["role"] == "user"),
        "chat.history:toolResult": next(row for row in rows if row["role"] == "toolResult"),
        "exec.approval.list:item": listed,
        "exec.approval.get": approval,
        "session row": history["sessionInfo"],
    }
    assert [p for kind, value in kinds_of.items() for p in problems(quirks, kind, value)] == []
