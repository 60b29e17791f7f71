"""Runs, sessions and approvals of the demo gateway, as its clients see them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from acp_bridge.demo import QUIRKS_6_11, QUIRKS_9_6, DemoGateway, Quirks, RunContext, Script
from tests.support.gateway_client import CallRefused, Device, GatewayClient
from tests.support.waits import WAIT

pytestmark = pytest.mark.integration

Json = dict[str, Any]
BOTH = pytest.mark.parametrize("quirks", [QUIRKS_6_11, QUIRKS_9_6], ids=lambda q: q.version)


@asynccontextmanager
async def playing(
    script: Script, quirks: Quirks | None = None, **client: Any
) -> AsyncIterator[tuple[DemoGateway, GatewayClient]]:
    """A gateway with this script and one client of it."""
    async with (
        DemoGateway(script, quirks=quirks or Quirks(), pace=0) as gateway,
        GatewayClient(gateway.url, device=Device(), **client) as one,
    ):
        yield gateway, one


async def echo(run: RunContext) -> None:
    await run.text(run.message)


async def hang(run: RunContext) -> None:
    await run.text("so far ")
    await asyncio.Event().wait()


def shown(payload: Json) -> str:
    text: str = payload["message"]["content"][0]["text"]
    return text


def deltas(client: GatewayClient) -> list[tuple[str, str]]:
    chats = [each for each in client.named("chat") if each["state"] == "delta"]
    return [(each["deltaText"], shown(each)) for each in chats]


async def refusal(call: Awaitable[Any]) -> CallRefused:
    with pytest.raises(CallRefused) as caught:
        await call
    return caught.value


# Text


async def test_a_delta_has_the_new_part_and_the_whole_text_without_trailing_space() -> None:
    async def script(run: RunContext) -> None:
        for chunk in ("Hello ", "world", " \n", "again "):
            await run.text(chunk)

    async with playing(script) as (_, client):
        await client.prompt("hi")
        final = await client.until_chat("final")

    assert deltas(client) == [
        ("Hello", "Hello"),
        (" world", "Hello world"),
        (" \nagain", "Hello world \nagain"),
    ]
    assert shown(final) == "Hello world \nagain"


@BOTH
async def test_text_before_and_after_a_tool_is_glued_as_the_version_does_it(quirks: Quirks) -> None:
    async def script(run: RunContext) -> None:
        await run.text("Before. ")
        await run.tool_end(await run.tool_start("read", {"path": "/f"}), "")
        await run.text("After.")

    async with playing(script, quirks) as (_, client):
        await client.prompt("hi")
        final = await client.until_chat("final")

    glue = "" if quirks.is_old else "\n\n"
    assert shown(final) == f"Before.{glue}After."
    assert deltas(client)[-1] == (f"{glue}After.", f"Before.{glue}After.")
    assert client.stream("assistant")[-1]["text"] == "After."


async def test_a_rewrite_replaces_the_whole_text() -> None:
    async def script(run: RunContext) -> None:
        await run.text("Tool result: 1")
        await run.replace("1")

    async with playing(script) as (_, client):
        await client.prompt("hi")
        final = await client.until_chat("final")

    rewrite = next(each for each in client.named("chat") if each.get("replace"))
    assert rewrite["deltaText"] == "1"
    assert shown(final) == "1"


async def test_live_messages_hold_the_last_500_000_characters() -> None:
    async def script(run: RunContext) -> None:
        await run.text("a" * 400_000)
        await run.text("b" * 400_000)

    async with playing(script) as (_, client):
        await client.prompt("hi")
        final = await client.until_chat("final")

    assert shown(final) == "a" * 100_000 + "b" * 400_000


@BOTH
async def test_thoughts_are_live_in_the_new_version_only(quirks: Quirks) -> None:
    async def script(run: RunContext) -> None:
        await run.thought("Let me ")
        await run.thought("think.")

    async with playing(script, quirks) as (_, client):
        await client.prompt("hi")
        await client.until_chat("final")

    texts = [each["text"] for each in client.stream("thinking")]
    assert texts == ([] if quirks.is_old else ["Let me ", "Let me think."])


# Endings


async def test_a_commands_answer_is_a_final_and_nothing_else() -> None:
    async def script(run: RunContext) -> None:
        await run.final_only("All is well.")

    async with playing(script) as (_, client):
        await client.prompt("/status")
        final = await client.until_chat("final")

    assert (shown(final), final["seq"], deltas(client)) == ("All is well.", 1, [])


async def test_a_failure_is_told_twice() -> None:
    async def script(run: RunContext) -> None:
        await run.fail("the model broke", kind="timeout")

    async with playing(script) as (_, client):
        await client.prompt("hi")
        first = await client.until_chat("error")
        waited = await client.call("agent.wait", {"runId": "r1", "timeoutMs": 0})
        errors = [each for each in client.named("chat") if each["state"] == "error"]

    assert (first["errorMessage"], first["errorKind"]) == ("the model broke", "timeout")
    assert [each["seq"] for each in errors][1:] == [1]
    assert (waited["status"], waited["error"]) == ("error", "the model broke")


@BOTH
async def test_only_the_old_version_reports_a_failed_tool_after_the_final(quirks: Quirks) -> None:
    async def script(run: RunContext) -> None:
        await run.tool_end(await run.tool_start("read", {"path": "/f"}), "gone", is_error=True)

    async with playing(script, quirks) as (_, client):
        await client.prompt("hi")
        await client.until_chat("final")
        await client.call("health")

    errors = [each["state"] for each in client.named("chat") if each["state"] == "error"]
    assert errors == (["error"] if quirks.second_terminal else [])


async def test_an_abort_ends_the_script_and_tells_what_was_said() -> None:
    ended = asyncio.Event()

    async def script(run: RunContext) -> None:
        try:
            await hang(run)
        finally:
            assert run.aborted
            ended.set()

    async with playing(script) as (_, client):
        await client.prompt("hi")
        await client.until_chat("delta")
        answer = await client.call("chat.abort", {"sessionKey": "s", "runId": "r1"})
        again = await client.call("chat.abort", {"sessionKey": "s", "runId": "r1"})
        async with asyncio.timeout(WAIT):
            await ended.wait()
        aborted = await client.until_chat("aborted")

    assert answer == {"ok": True, "aborted": True, "runIds": ["r1"]}
    assert again == {"ok": True, "aborted": False, "runIds": []}
    assert (shown(aborted), aborted["stopReason"]) == ("so far", "rpc")


async def test_a_stop_command_is_answered_in_its_acknowledgement_alone() -> None:
    async with playing(hang) as (gateway, client):
        await client.prompt("hi")
        await client.until_chat("delta")
        stopped = await client.prompt("[Working directory: ~/x]\n\n/stop", run="r2")
        idle = await client.prompt("/stop", run="r3")

    assert stopped == {"ok": True, "aborted": True, "runIds": ["r1"]}
    assert idle == {"ok": True, "aborted": False, "runIds": []}
    assert set(gateway.runs) == {"r1"}


async def test_a_broken_script_fails_its_run_and_whoever_wrote_it() -> None:
    async def script(run: RunContext) -> None:
        raise ZeroDivisionError("oops")

    gateway = DemoGateway(script)
    await gateway.start()
    async with GatewayClient(gateway.url) as client:
        await client.prompt("hi")
        error = await client.until_chat("error")

    assert "oops" in error["errorMessage"]
    with pytest.raises(ZeroDivisionError):
        await gateway.__aexit__(None, None, None)


# Keys and queues


@BOTH
async def test_a_prompt_runs_once_for_its_key(quirks: Quirks) -> None:
    async with playing(echo, quirks) as (gateway, client):
        first = await client.prompt("hi")
        await client.until_chat("final")
        gateway.runs["r1"].unregister()
        again = await client.prompt("hi")

    assert (first["status"], again["status"]) == ("started", "ok")
    assert len(deltas(client)) == 1


@BOTH
async def test_the_key_of_a_running_prompt_is_in_flight(quirks: Quirks) -> None:
    async with playing(hang, quirks) as (_, client):
        await client.prompt("hi")
        again = await client.prompt("hi")
        if quirks.is_old:
            assert (await client.prompt("other"))["status"] == "in_flight"
        else:
            conflict = await refusal(client.prompt("other"))
            assert conflict.reason == "chat-request-conflict"

    assert again == {"runId": "r1", "status": "in_flight"}


async def test_the_old_version_swallows_the_text_of_a_run_that_is_still_registered() -> None:
    quirks = Quirks(version="2026.6.11", swallow_same_text=True, linger=None)
    async with playing(echo, quirks) as (gateway, client):
        await client.prompt("hi")
        await client.until_chat("final")
        swallowed = await client.prompt("hi", run="r2")
        other = await client.prompt("ho", run="r3")
        gateway.runs["r1"].unregister()
        taken = await client.prompt("hi", run="r2")

    assert swallowed == {"runId": "r1", "status": "in_flight"}
    assert other == {"runId": "r3", "status": "started"}
    assert taken == {"runId": "r2", "status": "started"}


async def test_a_second_prompt_waits_for_the_first() -> None:
    go = asyncio.Event()

    async def script(run: RunContext) -> None:
        await run.text(run.message)
        await go.wait()

    async with playing(script) as (_, client):
        await client.prompt("one", run="r1")
        await client.until_chat("delta", "r1")
        await client.prompt("two", run="r2")
        await client.call("health")
        assert [whole for _, whole in deltas(client)] == ["one"]
        go.set()
        await client.until_chat("final", "r2")

    assert [whole for _, whole in deltas(client)] == ["one", "two"]


async def test_a_steered_prompt_gets_an_empty_final() -> None:
    async with playing(hang, Quirks(steer=True)) as (gateway, client):
        await client.prompt("one", run="r1")
        await client.until_chat("delta", "r1")
        await client.prompt("two", run="r2")
        final = await client.until_chat("final", "r2")

    assert "message" not in final
    assert gateway.runs["r1"].steered == ["two"]


# Tools


async def one_exec(run: RunContext) -> None:
    call = await run.tool_start("exec", {"command": "ls"})
    await run.tool_update(call, "a")
    await run.tool_end(call, "a\nb", exit_code=3)


@BOTH
async def test_a_failing_command_is_an_error_in_the_old_version_only(quirks: Quirks) -> None:
    async with playing(one_exec, quirks) as (_, client):
        await client.prompt("hi")
        await client.until_chat("final")

    result = client.stream("tool")[-1]
    assert result["isError"] is quirks.is_old
    assert result["result"]["details"]["exitCode"] == 3
    assert client.stream("item")[-1]["status"] == "failed"
    assert client.stream("command_output")[-1]["output"] == "a\nb"


async def test_tool_events_go_to_the_sender_with_the_cap_and_to_followers_of_the_session() -> None:
    async with (
        playing(one_exec) as (gateway, sender),
        GatewayClient(gateway.url, device=Device()) as other,
        GatewayClient(gateway.url, device=Device()) as follower,
        GatewayClient(gateway.url, device=Device(), caps=()) as plain,
    ):
        await follower.call("sessions.messages.subscribe", {"key": "S"})
        await sender.prompt("hi", run="r1")
        await plain.prompt("hi", key="p", run="r2")
        everybody = (sender, other, follower, plain)
        for client in everybody:
            await client.until_chat("final", "r1")
            await client.until_chat("final", "r2")

    def tools(client: GatewayClient) -> int:
        return len(client.stream("tool"))

    assert [tools(client) for client in everybody] == [3, 0, 0, 0]
    assert [len(client.named("session.tool")) for client in everybody] == [0, 0, 3, 0]
    assert len({len(client.stream("item")) for client in everybody}) == 1


# Approvals


async def ask(run: RunContext) -> None:
    call = await run.tool_start("exec", {"command": "ls"})
    await run.text(await run.ask_approval("ls", tool_call_id=call, cwd="/"))


async def approval(client: GatewayClient) -> Json:
    payload: Json = (await client.until(lambda e: e["event"] == "exec.approval.requested"))[
        "payload"
    ]
    return payload


@BOTH
@pytest.mark.parametrize("decision", ["allow-once", "deny"])
async def test_an_approval_waits_for_the_decision(decision: str, quirks: Quirks) -> None:
    async with playing(ask, quirks) as (_, client):
        await client.prompt("hi")
        asked = await approval(client)
        resolve = {"id": asked["id"], "decision": decision}
        assert await client.call("exec.approval.resolve", resolve) == {"ok": True}
        assert await client.call("exec.approval.resolve", resolve) == {"ok": True}
        final = await client.until_chat("final")
        (resolved,) = client.named("exec.approval.resolved")

    assert ("runId" in asked["request"]) is not quirks.is_old
    assert shown(final).endswith(decision)
    assert (resolved["decision"], resolved["resolvedBy"]) == (decision, "cli")


async def test_what_cannot_be_decided_is_refused_and_stays_open() -> None:
    async with playing(ask) as (_, client):
        await client.prompt("hi")
        asked = await approval(client)

        def resolve(approval_id: str, decision: str) -> Awaitable[Any]:
            params = {"id": approval_id, "decision": decision}
            return client.call("exec.approval.resolve", params)

        always = await refusal(resolve(asked["id"], "allow-always"))
        unknown = await refusal(resolve("none", "deny"))
        bogus = await refusal(resolve(asked["id"], "bogus"))
        (still_open,) = await client.call("exec.approval.list")

    assert always.reason == "APPROVAL_ALLOW_ALWAYS_UNAVAILABLE"
    assert unknown.reason == "APPROVAL_NOT_FOUND"
    assert bogus.error["message"] == "invalid decision"
    assert still_open["id"] == asked["id"]


async def test_an_approval_can_be_settled_by_somebody_else_or_expire() -> None:
    async def script(run: RunContext) -> None:
        first = await run.ask_approval("one")
        await run.text(f"{first} {await run.ask_approval('two', expires_in=0.0)}")

    async with playing(script) as (gateway, client):
        await client.prompt("hi")
        gateway.resolve_approval((await approval(client))["id"], "allow-once")
        final = await client.until_chat("final")
        left = await client.call("exec.approval.list")

    assert shown(final) == "allow-once expired"
    assert left == []


CANNOT_ASK: list[Json] = [
    {"caps": ("tool-events",)},
    {"scopes": ("operator.read", "operator.write")},
]


@pytest.mark.parametrize("client_options", CANNOT_ASK)
async def test_the_new_version_asks_nobody_who_cannot_answer(client_options: Json) -> None:
    async with playing(ask, **client_options) as (_, client):
        await client.prompt("hi")
        final = await client.until_chat("final")

    assert shown(final) == "unavailable"
    assert client.named("exec.approval.requested") == []


@BOTH
async def test_only_the_new_version_closes_the_approval_of_an_aborted_run(quirks: Quirks) -> None:
    async with playing(ask, quirks) as (_, client):
        await client.prompt("hi")
        await approval(client)
        await client.call("chat.abort", {"sessionKey": "s"})
        await client.until_chat("aborted")
        left = await client.call("exec.approval.list")

    assert len(left) == (1 if quirks.is_old else 0)


# Sessions


async def test_a_session_has_one_canonical_key_for_all_its_spellings() -> None:
    async with playing(echo) as (_, client):
        await client.prompt("hi", key="My Key")
        final = await client.until_chat("final")
        resolved = await client.call("sessions.resolve", {"key": "AGENT:MAIN:my key"})
        listed = await client.call("sessions.list", {"includeDerivedTitles": True})

    assert final["sessionKey"] == resolved["key"] == "agent:main:my key"
    assert [row["derivedTitle"] for row in listed["sessions"]] == ["hi"]


async def test_a_missing_session_is_an_error_unless_it_may_be_missing() -> None:
    async with playing(echo) as (_, client):
        by_key = await refusal(client.call("sessions.resolve", {"key": "none"}))
        by_label = await refusal(client.call("sessions.resolve", {"label": "none"}))
        allowed = await client.call("sessions.resolve", {"key": "none", "allowMissing": True})
        described = await client.call("sessions.describe", {"key": "none"})

    assert by_key.error["message"] == "No session found: none"
    assert by_label.error["message"] == "No session found with label: none"
    assert (allowed, described) == ({"ok": False}, {"session": None})


@BOTH
async def test_a_reset_empties_the_transcript(quirks: Quirks) -> None:
    async with playing(echo, quirks) as (_, client):
        await client.prompt("hi")
        await client.until_chat("final")
        before = await client.call("chat.history", {"sessionKey": "s"})
        await client.call("sessions.reset", {"key": "s"})
        after = await client.call("chat.history", {"sessionKey": "s"})

    roles = [row["role"] for row in before["messages"]]
    assert roles == ["user", "assistant"]
    assert [row["role"] for row in after["messages"]] == ([] if quirks.is_old else ["system"])
    assert (before["sessionId"] == after["sessionId"]) is not quirks.is_old


async def test_token_counts_reach_the_session_row_and_its_followers() -> None:
    async def script(run: RunContext) -> None:
        await run.usage(1234, context=8000, output=34)

    async with playing(script) as (_, client):
        await client.call("sessions.subscribe")
        await client.prompt("hi")
        await client.until_chat("final")
        row = (await client.call("sessions.describe", {"key": "s"}))["session"]
        changed = client.named("sessions.changed")[-1]

    for place in (row, changed["session"], changed):
        assert (place["totalTokens"], place["contextTokens"]) == (1234, 8000)
        assert place["totalTokensFresh"] is True


@BOTH
async def test_the_prompt_of_a_running_text_is_in_the_history_of_the_new_version_only(
    quirks: Quirks,
) -> None:
    async with playing(hang, quirks) as (_, client):
        await client.prompt("hi")
        await client.until_chat("delta")
        running = await client.call("chat.history", {"sessionKey": "s"})
        await client.call("chat.abort", {"sessionKey": "s"})
        after = await client.call("chat.history", {"sessionKey": "s"})

    assert running["inFlightRun"]["text"] == "so far"
    assert len(running["messages"]) == (0 if quirks.is_old else 1)
    assert after["messages"][0]["idempotencyKey"] == "r1:user"
    assert "inFlightRun" not in after


# Scopes and frames

NEEDS: list[tuple[str, Json, str]] = [
    ("chat.send", {}, "operator.write"),
    ("agent.wait", {"runId": "x"}, "operator.write"),
    ("sessions.reset", {"key": "s"}, "operator.admin"),
    ("exec.approval.list", {}, "operator.approvals"),
]


@BOTH
@pytest.mark.parametrize(("method", "params", "scope"), NEEDS)
async def test_a_call_without_its_scope_is_refused(
    method: str, params: Json, scope: str, quirks: Quirks
) -> None:
    async with playing(echo, quirks, scopes=("operator.read",)) as (_, client):
        refused = await refusal(client.call(method, params))

    assert refused.error["message"] == f"missing scope: {scope}"
    assert refused.error["code"] == ("INVALID_REQUEST" if quirks.is_old else "FORBIDDEN")


async def test_provenance_needs_the_admin_scope() -> None:
    async with playing(echo, scopes=("operator.write",)) as (_, client):
        refused = await refusal(client.prompt("hi", systemInputProvenance={}))

    assert "system provenance fields require admin scope" in refused.error["message"]


BAD_CALLS: list[tuple[Callable[[GatewayClient], Awaitable[Any]], str]] = [
    (lambda c: c.call("no.such"), "unknown method: no.such"),
    (lambda c: c.call("connect"), "connect is only valid as the first request"),
    (lambda c: c.prompt("hi", zzz=1), "at root: unexpected property 'zzz'"),
    (lambda c: c.prompt(""), "message or attachment required"),
    (lambda c: c.call("chat.send", {"sessionKey": "s"}), "required property 'idempotencyKey'"),
    (lambda c: c.call("chat.history", {"sessionKey": "s", "limit": 5000}), "must be <= 1000"),
    (lambda c: c.call("sessions.patch", {"key": "s", "thinkingLevel": "x"}), "thinkingLevel"),
]


@pytest.mark.parametrize(("call", "words"), BAD_CALLS)
async def test_a_bad_call_is_refused_in_the_gateways_words(
    call: Callable[[GatewayClient], Awaitable[Any]], words: str
) -> None:
    async with playing(echo) as (_, client):
        assert words in (await refusal(call(client))).error["message"]


async def test_a_frame_that_is_no_json_is_ignored_and_a_wrong_one_answered() -> None:
    async with playing(echo) as (_, client):
        await client.send("no JSON")
        waiting = asyncio.get_running_loop().create_future()
        client.expect("invalid", waiting)
        await client.send({"type": "req", "method": "health"})
        async with asyncio.timeout(WAIT):
            answer = await waiting
        assert (await client.call("health"))["ok"] is True

    assert answer["error"]["message"] == ("invalid request frame: must have required property 'id'")
