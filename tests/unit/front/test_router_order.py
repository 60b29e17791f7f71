"""The first line, the last line, and an editor that does not read."""

from __future__ import annotations

import asyncio
import json

import pytest

from acp_bridge.front import router
from tests.support.front import INITIALIZE, Front, running_front
from tests.support.handlers import ScriptedHandlers
from tests.support.waits import WAIT

NEW = {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/w"}}
MIB = 1024 * 1024


def slow_start() -> tuple[ScriptedHandlers, asyncio.Event]:
    """Handlers whose ``initialize`` waits for the event."""
    handlers = ScriptedHandlers()
    release = handlers.waits["initialize"] = asyncio.Event()
    return handlers, release


def fill(front: Front) -> int:
    """Show updates that nobody reads until the outbox is full; the bytes that wait then."""
    number = 0
    while not front.outbox.is_full:
        front.show(f"{number} " + "x" * 1000)
        number += 1
    return front.outbox._waiting


@pytest.mark.requirement("ACP-35", "ACP-36")
async def test_what_is_pipelined_behind_initialize_waits_for_its_answer() -> None:
    handlers, release = slow_start()
    async with running_front(handlers) as front:
        front.send(INITIALIZE, NEW, b"noise", {"id": 2, "method": "no/such"})
        await handlers.called("initialize")
        assert handlers.names() == ["initialize"]
        release.set()
        assert [(await front.next())["id"] for _ in range(4)] == [0, 1, None, 2]
        assert handlers.names() == ["initialize", "new_session"]


@pytest.mark.requirement("ACP-36", "C003")
async def test_noise_before_initialize_is_answered_behind_it() -> None:
    handlers, release = slow_start()
    async with running_front(handlers) as front:
        front.send(
            b"Welcome back",
            b"\x1b]0;title\x07",
            b"",
            {"id": 9, "method": "session/new"},
            b"\xef\xbb\xbf" + json.dumps(INITIALIZE).encode(),
        )
        await handlers.called("initialize")
        release.set()
        read = [await front.next() for _ in range(4)]
        assert [message["id"] for message in read] == [0, None, None, 9]
        assert [message["error"]["code"] for message in read[1:]] == [-32700, -32700, -32600]
        await front.settled()
        assert handlers.names() == ["initialize"]


async def test_without_initialize_errors_are_answered_after_a_moment() -> None:
    async with running_front() as front:
        front.send(NEW)
        refused = await front.next()
        assert refused["id"] == 1
        assert refused["error"]["data"]["code"] == "not_initialized"
        front.send(b"noise")
        assert (await front.next())["error"]["code"] == -32700
        await front.initialized()
        front.send(NEW)
        assert (await front.answer(1))["result"]


async def test_an_editor_that_only_makes_noise_is_not_saved_up_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(router, "HOLD_TIME", 1000.0)
    monkeypatch.setattr(router, "MAX_HELD", 10)
    async with running_front() as front:
        front.send(*[b"noise"] * 11)
        assert [(await front.next())["error"]["code"] for _ in range(11)] == [-32700] * 11


@pytest.mark.requirement("ACP-22")
async def test_what_is_held_back_is_answered_at_the_end_of_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(router, "HOLD_TIME", 1000.0)
    async with running_front() as front:
        front.send(b"noise")
        front.close_input()
        assert (await front.next())["error"]["code"] == -32700


async def test_notifications_before_initialize_are_ignored() -> None:
    async with running_front() as front:
        front.notify("session/cancel", sessionId="s1")
        await front.initialized()
        assert front.handlers.names() == ["initialize"]


@pytest.mark.requirement("ACP-34")
async def test_initialize_may_come_again_at_any_time() -> None:
    async with running_front() as front:
        front.send(INITIALIZE, {**INITIALIZE, "id": "again"})
        assert [(await front.next())["id"] for _ in range(2)] == [0, "again"]
        front.send(NEW)
        front.prompt(2)
        await front.answer(1)
        front.send({**INITIALIZE, "id": "third"})
        assert (await front.answer("third"))["result"] == {"protocolVersion": 1}
        front.handlers.end_turns()
        assert (await front.answer(2))["result"]


@pytest.mark.requirement("ACP-36")
async def test_a_failed_initialize_is_the_first_line_as_well() -> None:
    handlers = ScriptedHandlers()
    handlers.faults["initialize"] = ValueError("boom")
    async with running_front(handlers) as front:
        front.send(b"noise", INITIALIZE)
        failed = await front.next()
        assert (failed["id"], failed["error"]["code"]) == (0, -32603)
        assert (await front.next())["id"] is None


@pytest.mark.requirement("ACP-16", "ACP-22")
async def test_requests_read_before_the_end_of_input_are_answered() -> None:
    async with running_front(grace=WAIT) as front:
        last = json.dumps({**NEW, "id": "no newline"}).encode()
        await front.send_much(
            b"".join(json.dumps(m).encode() + b"\n" for m in (INITIALIZE, NEW)) + last
        )
        front.close_input()
        assert [(await front.next())["id"] for _ in range(3)] == [0, 1, "no newline"]


@pytest.mark.requirement("ACP-21", "C083")
@pytest.mark.parametrize("stuck", ["initialize", "new_session"])
async def test_a_request_still_running_after_the_grace_is_answered_as_cancelled(
    stuck: str,
) -> None:
    handlers = ScriptedHandlers()
    handlers.waits[stuck] = asyncio.Event()
    async with running_front(handlers, grace=0.01) as front:
        front.send(INITIALIZE, NEW)
        front.close_input()
        read = [await front.next() for _ in range(2)]
        assert [message["id"] for message in read] == [0, 1]
        assert read[1]["error"]["code"] == -32800


@pytest.mark.requirement("ACP-21", "C083")
async def test_serving_ends_with_the_input_and_leaves_prompts_to_the_caller() -> None:
    async with running_front() as front:
        await front.initialized()
        front.prompt(1)
        await front.settled()
        front.close_input()
        async with asyncio.timeout(WAIT):
            await front.running
        [reply] = front.connection.in_flight(1)
        assert not reply.is_answered
        front.handlers.end_turns()
        assert (await front.answer(1))["result"] == {"stopReason": "end_turn"}
        async with asyncio.timeout(WAIT):
            await front.connection.idle()


@pytest.mark.requirement("ACP-17", "ACP-15", "C020", "C022")
async def test_a_prompt_of_20_mib_arrives_exactly() -> None:
    async with running_front() as front:
        await front.initialized()
        text = "日本 \u2028\u0085\v\0\r\n" * (20 * MIB // 20)
        params = {"sessionId": "s1", "prompt": [{"type": "text", "text": text}]}
        message = {"id": 1, "method": "session/prompt", "params": params}
        await front.send_much(json.dumps(message, ensure_ascii=False).encode() + b"\n")
        await front.settled()
        [(prompt, _)] = front.handlers.open
        assert prompt.blocks[0]["text"] == text
        front.handlers.end_turns()


@pytest.mark.requirement("ACP-17", "C020")
async def test_a_line_over_32_mib_is_refused_and_the_next_is_served() -> None:
    async with running_front() as front:
        await front.initialized()
        await front.send_much(b"x" * (33 * MIB) + b"\n")
        broken = await front.next()
        assert (broken["id"], broken["error"]["code"]) == (None, -32700)
        await front.settled()


@pytest.mark.requirement("C023")
async def test_a_prompt_that_arrives_byte_by_byte_is_whole() -> None:
    async with running_front() as front:
        await front.initialized()
        text = "日本語 \U0001f469\u200d\U0001f4bb e\u0301"
        params = {"sessionId": "s1", "prompt": [text]}
        message = {"id": 1, "method": "session/prompt", "params": params}
        for byte in json.dumps(message, ensure_ascii=False).encode() + b"\n":
            await front.send_much(bytes([byte]))
        await front.settled()
        assert front.handlers.open[0][0].blocks == (text,)
        front.handlers.end_turns()


@pytest.mark.requirement("ACP-25")
async def test_cancel_works_while_the_editor_reads_nothing() -> None:
    async with running_front(limit=MIB) as front:
        await front.initialized()
        front.prompt(1)
        await front.handlers.called("prompt")
        shown = 0
        while not front.outbox.is_full:
            front.show(f"{shown} " + "x" * 1000)
            shown += 1
        assert shown < 2000
        front.notify("session/cancel", sessionId="s1")
        await front.handlers.called("cancel")
        assert (await front.answer(1))["result"] == {"stopReason": "cancelled"}
        assert len(front.read) == 1 + shown + 1


@pytest.mark.requirement("ACP-25")
async def test_a_flood_of_requests_without_reading_is_read_no_further(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_front(limit=MIB) as front:
        await front.initialized()
        filled = fill(front)
        paused = asyncio.Event()
        room = front.outbox.room

        async def watched_room() -> None:
            paused.set()
            await room()

        monkeypatch.setattr(front.outbox, "room", watched_room)
        requests = [{"id": number, "method": "no/such"} for number in range(3000)]
        await front.send_much(b"".join(json.dumps(r).encode() + b"\n" for r in requests))
        front.notify("session/cancel", sessionId="end of flood")
        async with asyncio.timeout(WAIT):
            await paused.wait()
        assert front.outbox._waiting < filled + 4 * MIB
        assert "cancel" not in front.handlers.names()
        await front.answer(2999)
        answered = [message["id"] for message in front.read if "error" in message]
        assert answered == list(range(3000))
        await front.handlers.called("cancel")


@pytest.mark.requirement("ACP-21", "ACP-25", "C083")
async def test_the_end_of_input_is_met_though_a_flood_is_stuck() -> None:
    async with running_front(limit=MIB) as front:
        await front.initialized()
        fill(front)
        await front.send_much(b'{"id":1,"method":"no/such"}\n' * 5000)
        front.close_input()
        async with asyncio.timeout(WAIT):
            await front.running


@pytest.mark.requirement("ACP-24", "C085")
async def test_an_editor_that_has_died_is_noticed() -> None:
    async with running_front() as front:
        await front.initialized()
        front.close_output()
        front.call(1, "session/new", cwd="/w")
        async with asyncio.timeout(WAIT):
            await front.gone.wait()
