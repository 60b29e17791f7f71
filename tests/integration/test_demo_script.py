"""What the demo's agent answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from acp_bridge.demo import DemoGateway
from tests.support.gateway_client import Device, GatewayClient

pytestmark = pytest.mark.integration

Json = dict[str, Any]
CWD = "[Working directory: /home/me/project]\n\n"


@asynccontextmanager
async def demo() -> AsyncIterator[GatewayClient]:
    async with (
        DemoGateway(pace=0) as gateway,
        GatewayClient(gateway.url, device=Device()) as client,
    ):
        yield client


async def decide(client: GatewayClient, decision: str) -> Json:
    event = await client.until(lambda e: e["event"] == "exec.approval.requested")
    asked: Json = event["payload"]
    await client.call("exec.approval.resolve", {"id": asked["id"], "decision": decision})
    return asked


def text(final: Json) -> str:
    shown: str = final["message"]["content"][0]["text"]
    return shown


@pytest.mark.parametrize(
    ("decision", "words"), [("allow-once", "The test passes"), ("deny", "You said no")]
)
async def test_the_tour_shows_all_that_an_editor_can_draw(decision: str, words: str) -> None:
    async with demo() as client:
        await client.prompt(f"{CWD}Show me around.")
        asked = await decide(client, decision)
        final = await client.until_chat("final")
        row = (await client.call("sessions.describe", {"key": "s"}))["session"]

    assert client.stream("thinking")
    plans = [[step["status"] for step in each["steps"]] for each in client.stream("plan")]
    assert plans[0] == ["in_progress", "pending", "pending"]
    assert plans[-1] == ["completed"] * 3
    starts = [each for each in client.stream("tool") if each["phase"] == "start"]
    assert [each["name"] for each in starts] == ["read", "edit", "exec"]
    edit = starts[1]["args"]
    assert edit["path"] == "/home/me/project/greeting.py"
    assert edit["oldText"] != edit["newText"]
    assert asked["request"]["cwd"] == "/home/me/project"
    assert words in text(final)
    assert row["totalTokensFresh"]


async def test_the_first_answer_says_what_is_real_and_later_ones_do_not_repeat_it() -> None:
    async with demo() as client:
        for run in ("r1", "r2"):
            await client.prompt("hello", run=run)
            await decide(client, "deny")
            await client.until_chat("final", run)
            client.events.clear()
        finals = await client.call("chat.history", {"sessionKey": "s"})

    said = [str(row["content"]) for row in finals["messages"] if row["role"] == "assistant"]
    assert sum("nothing leaves this machine" in each for each in said) == 1
    assert sum("the tour once more" in each for each in said) == 1


SAYINGS = [
    ("say hello there", "hello there"),
    ("SAY  hello", "hello"),
    ("say", "Nothing to say."),
    ("slow 3", "1 2 3 and done."),
    ("slow down", "and done."),
    ("think", "I have thought about it."),
    ("tool", "It says that it is a canned file."),
    ("/help", "`/stop`"),
    ("/status", "demo/canned-1"),
]


@pytest.mark.parametrize(("prompt", "words"), SAYINGS)
async def test_a_keyword_is_answered(prompt: str, words: str) -> None:
    async with demo() as client:
        await client.prompt(CWD + prompt)

        assert words in text(await client.until_chat("final"))


async def test_a_command_of_the_gateway_has_no_deltas() -> None:
    async with demo() as client:
        await client.prompt("/status")
        await client.until_chat("final")

    assert [each["state"] for each in client.named("chat")][-1:] == ["final"]
    assert "delta" not in {each["state"] for each in client.named("chat")}


@pytest.mark.parametrize(
    ("decision", "words"), [("allow-once", "You allowed it."), ("deny", "You did not allow it.")]
)
async def test_it_asks_when_told_to(decision: str, words: str) -> None:
    async with demo() as client:
        await client.prompt("ask")
        await decide(client, decision)

        assert words in text(await client.until_chat("final"))


async def test_it_fails_when_told_to() -> None:
    async with demo() as client:
        await client.prompt("fail")

        assert "as you asked" in (await client.until_chat("error"))["errorMessage"]
