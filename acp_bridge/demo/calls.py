"""Calls to the demo gateway: reading them, remembering them, answering them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import orjson

from acp_bridge.demo.hub import Connection, Hub, Refusal
from acp_bridge.demo.rpc import Methods
from acp_bridge.demo.session_rpc import Result
from acp_bridge.ids import Json
from acp_bridge.wire.content import well_formed


@dataclass(frozen=True, slots=True)
class Request:
    """A call that a client made."""

    connection: int
    """Number of the connection, counted from 1."""
    id: str
    method: str
    params: Json = field(repr=False)
    """Not shown: they may hold credentials."""


Override = Callable[[Request], Awaitable[Result | None]]
"""Answers a method in the gateway's place; None leaves the call unanswered. May raise
:class:`~acp_bridge.demo.hub.Refusal`."""


class Calls:
    """Takes the frames of all connections and answers them."""

    def __init__(self, hub: Hub, methods: Methods) -> None:
        self.requests: list[Request] = []
        self.overrides: dict[str, Override] = {}
        self._hub = hub
        self._methods = methods
        self._news = asyncio.Condition()

    async def receive(self, connection: Connection, text: str | bytes) -> None:
        """Read one frame after the handshake. What is no JSON is ignored without an answer."""
        try:
            frame = parsed(text)
        except orjson.JSONDecodeError:
            return
        problem = frame_problem(frame)
        if problem is not None:
            given = frame.get("id") if isinstance(frame, dict) else None
            request_id = "invalid" if given is None else given
            connection.send(failure(request_id, Refusal(f"invalid request frame: {problem}")))
            return
        request = await self.note(connection, frame)
        try:
            override = self.overrides.get(request.method)
            if override is not None:
                self._answer_later(connection, request, override(request))
                return
            result = self._methods.call(connection, request.method, request.params)
        except Refusal as refusal:
            connection.send(failure(request.id, refusal))
            return
        if isinstance(result, Awaitable):
            self._answer_later(connection, request, result)
        else:
            connection.send(success(request.id, result))

    def _answer_later(
        self, connection: Connection, request: Request, answer: Awaitable[Result | None]
    ) -> None:
        async def wait() -> None:
            try:
                result = await answer
            except Refusal as refusal:
                connection.send(failure(request.id, refusal))
                return
            if result is not None:
                connection.send(success(request.id, result))

        task = asyncio.create_task(wait())
        self._hub.tasks.add(task)
        task.add_done_callback(self._hub.tasks.discard)
        if isinstance(answer, Coroutine):
            # A task that is cancelled before it began has not begun its answer either.
            task.add_done_callback(lambda _: answer.close())

    async def note(self, connection: Connection, frame: Json) -> Request:
        """Remember a call."""
        request = Request(
            connection.number, frame["id"], frame["method"], frame.get("params") or {}
        )
        self.requests.append(request)
        async with self._news:
            self._news.notify_all()
        return request

    async def wait(self, method: str, count: int, timeout: float) -> Request:
        """The ``count``-th call of a method. Raises ``TimeoutError`` after so many seconds."""

        def found() -> list[Request]:
            return [each for each in self.requests if each.method == method]

        async with asyncio.timeout(timeout), self._news:
            await self._news.wait_for(lambda: len(found()) >= count)
        return found()[count - 1]


def decoded(text: str | bytes) -> Any:
    """The JSON value of a text, or None."""
    with contextlib.suppress(orjson.JSONDecodeError):
        return parsed(text)
    return None


def parsed(text: str | bytes) -> Any:
    """The JSON value of a text; half a surrogate pair, which JavaScript takes as well, becomes
    U+FFFD. Raises ``orjson.JSONDecodeError``."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        try:
            lenient = json.dumps(json.loads(text), ensure_ascii=False)
        except (ValueError, RecursionError):
            raise error from None
        return orjson.loads(well_formed(lenient))


def frame_problem(frame: Any) -> str | None:
    """What is wrong with a request frame, in the gateway's words, or None."""
    if not isinstance(frame, dict):
        return "must be object"
    if "id" not in frame:
        return "must have required property 'id'"
    for name in ("id", "method"):
        if not isinstance(frame.get(name), str):
            return f"at /{name}: must be string"
    return None


def success(request_id: Any, payload: Result) -> Json:
    """An ``ok`` answer."""
    return {"type": "res", "id": request_id, "ok": True, "payload": payload}


def failure(request_id: Any, refusal: Refusal) -> Json:
    """A refusing answer."""
    return {"type": "res", "id": request_id, "ok": False, "error": refusal.error}
