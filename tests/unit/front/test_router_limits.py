"""What an editor may ask for at once: at each limit, and one past it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from acp_bridge.front import router
from tests.support.front import Front, running_front

LIMIT = 5


def answers(front: Front) -> dict[Any, Any]:
    return {message["id"]: message for message in front.read if "method" not in message}


async def held_up(front: Front, count: int) -> asyncio.Event:
    """Ask for ``count`` sessions that are not made before the event is set."""
    release = front.handlers.waits["new_session"] = asyncio.Event()
    for number in range(count):
        front.call(number, "session/new", cwd="/w")
    return release


@pytest.mark.parametrize("method", ["session/new", "session/prompt", "session/list", "_own/x"])
async def test_one_request_more_than_may_wait_is_refused_and_the_others_are_served(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router, "MAX_UNANSWERED", LIMIT)
    async with running_front() as front:
        await front.initialized()
        release = await held_up(front, LIMIT)
        front.call("more", method, sessionId="s1", prompt=[], cwd="/w")
        refused = await front.answer("more")
        assert refused["error"]["code"] == -32600
        assert refused["error"]["data"]["code"] == "too_many_requests"
        assert refused["error"]["data"]["retryable"] is True
        release.set()
        for number in range(LIMIT):
            assert "result" in await front.answer(number)
        front.call("again", "session/new", cwd="/w")
        assert "result" in await front.answer("again")


async def test_requests_that_wait_may_have_as_many_bytes_as_the_limit_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prompt = {"sessionId": "s1", "prompt": ["x" * 1_500]}
    message = {"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": prompt}
    length = len(json.dumps(message))
    for less in (0, 1):
        monkeypatch.setattr(router, "MAX_UNANSWERED_BYTES", 2 * length - less)
        async with running_front() as front:
            await front.initialized()
            for number in (1, 2):
                front.send({**message, "id": number})
            front.call(3, "session/new", cwd="/w")
            if less:
                assert (await front.answer(2))["error"]["data"]["code"] == "too_many_requests"
                assert "result" in await front.answer(3)
            else:
                assert (await front.answer(3))["error"]["data"]["code"] == "too_many_requests"
            front.handlers.end_turns()
            ended = [await front.next() for _ in range(2 - less)]
            assert {message["id"] for message in ended if "result" in message} == {1, 2 - less}
