"""From lines of the editor to calls of the handlers.

Requests start in the order of their arrival, each in a task of its own, so that a slow one delays
nobody; notifications are carried out in between, in the same order. Each request gets exactly one
answer, whatever its handler does.

The answer to the first ``initialize`` is the first line that is written: what follows that request
waits for its answer, and errors for lines before it (noise of a shell's start-up files, a call too
early) are held back for a moment, in case it is on its way.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from acp_bridge.core.ports import Handlers, Outbox
from acp_bridge.errors import (
    BridgeError,
    InvalidRequest,
    LocalProtocolError,
    MalformedMessage,
    NotInitialized,
    RequestCancelled,
    TooManyRequests,
    UnknownMethod,
    unsupported,
)
from acp_bridge.front.connection import Connection, Reply
from acp_bridge.front.stdio import Channel
from acp_bridge.ids import Json, SessionId
from acp_bridge.wire import acp, jsonrpc
from acp_bridge.wire.framing import Line, LineReader
from acp_bridge.wire.jsonrpc import BareId, Broken, MessageId, Notification, Request, Response

_log = logging.getLogger(__name__)

REQUESTS: dict[str, Callable[[Handlers, Any], Awaitable[Json]]] = {
    "initialize": lambda handlers, params: handlers.initialize(acp.read_params(params)),
    "authenticate": lambda handlers, params: handlers.authenticate(acp.read_method_id(params)),
    "session/new": lambda handlers, params: handlers.new_session(acp.read_new_session(params)),
    "session/load": lambda handlers, params: handlers.load_session(acp.read_opened_session(params)),
    "session/resume": lambda handlers, params: handlers.resume_session(
        acp.read_opened_session(params)
    ),
    "session/list": lambda handlers, params: handlers.list_sessions(acp.read_list(params)),
    "session/delete": lambda handlers, params: handlers.delete_session(acp.read_session_id(params)),
    "session/close": lambda handlers, params: handlers.close_session(acp.read_session_id(params)),
    "session/set_mode": lambda handlers, params: handlers.set_mode(acp.read_set_mode(params)),
    "session/set_config_option": lambda handlers, params: handlers.set_option(
        acp.read_set_option(params)
    ),
}
"""Requests that are answered by what the handler returns."""

STARTERS: dict[str, Callable[[Handlers, Any, Reply], None]] = {
    "session/prompt": lambda handlers, params, reply: handlers.prompt(
        acp.read_prompt(params), reply
    ),
}
"""Requests that are only started; the handler answers them when it likes. Their life is the
handler's: ``$/cancel_request`` is a wish that goes to it."""

NOTIFICATIONS: dict[str, Callable[[Handlers, Any], None]] = {
    "session/cancel": lambda handlers, params: handlers.cancel(acp.read_session_id(params)),
}

HOLD_TIME = 0.5
"""Seconds that errors before ``initialize`` are held back."""

MAX_HELD = 1000
MAX_UNREAD = 1000
"""Requests that an editor may send while it reads no answers; then it is not read either."""

MAX_UNANSWERED = 1000
"""Requests of an editor that may wait for their answers, as for a gateway that is away."""

MAX_UNANSWERED_BYTES = 128 * 1024 * 1024
"""Bytes that they may have together, prompts with their pictures included."""


class Router:
    """Serves one editor over one channel.

    ``grace`` is the time in seconds that requests get to be answered after the end of input.
    """

    def __init__(
        self, handlers: Handlers, outbox: Outbox, connection: Connection, *, grace: float = 1.0
    ) -> None:
        self._handlers = handlers
        self._outbox = outbox
        self._connection = connection
        self._grace = grace
        self._running: dict[Reply, asyncio.Task[None]] = {}
        self._is_initialized = False
        self._held: list[Json] = []
        self._release_timer: asyncio.TimerHandle | None = None
        self._unread = 0
        self._is_closing = False

    async def run(self, channel: Channel) -> None:
        """Serve until the end of input.

        Returns when all requests but ``session/prompt`` are answered: those still running after
        the grace are cancelled and answered so. Prompts in flight are left to the caller.
        """
        async with asyncio.TaskGroup() as outer:
            watch = outer.create_task(self._cancel_late(channel))
            async with asyncio.TaskGroup() as tasks:
                await self._read(channel, tasks)
            watch.cancel()

    async def _read(self, channel: Channel, tasks: asyncio.TaskGroup) -> None:
        reader = LineReader()
        is_open = True
        while is_open:
            data = await channel.read()
            is_open = bool(data)
            for line in reader.feed(data) if is_open else reader.end():
                await self._wait_while_flooded(channel)
                await self._take(line, tasks)
        self._release()

    async def _cancel_late(self, channel: Channel) -> None:
        await channel.ended.wait()
        await asyncio.sleep(self._grace)
        self._is_closing = True
        for task in self._running.values():
            task.cancel()

    async def _wait_while_flooded(self, channel: Channel) -> None:
        if not self._outbox.is_full:
            self._unread = 0
        while self._unread >= MAX_UNREAD and self._outbox.is_full and not channel.ended.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.1):  # to look for the end of input as well
                    await self._outbox.room()

    async def _take(self, line: Line, tasks: asyncio.TaskGroup) -> None:
        message = Broken(line) if isinstance(line, MalformedMessage) else jsonrpc.decode(line)
        match message:
            case Request():
                size = len(line) if isinstance(line, bytes) else 0
                await self._take_request(message, size, tasks)
            case Notification():
                self._take_notification(message)
            case Response() | BareId():
                self._take_answer(message)
            case Broken(error, message_id):
                _log.info("unreadable line from the editor", extra=_fields(code=error.code))
                self._refuse(message_id, error)
        # Lets the task of a request take its first step before the next line is looked at.
        await asyncio.sleep(0)

    async def _take_request(self, request: Request, size: int, tasks: asyncio.TaskGroup) -> None:
        self._unread += 1
        is_first = request.method == "initialize" and not self._is_initialized
        if is_first:
            self._is_initialized = True
            self._stop_release_timer()
        if refusal := self._refusal(size):
            self._refuse(request.id, refusal)
        elif request.method in REQUESTS:
            task = self._start(request, size, tasks)
            if is_first:
                await asyncio.wait({task})
        elif request.method in STARTERS:
            reply = self._connection.open(request, _session_id(request.params), size=size)
            with self._boundary(request.method, reply):
                STARTERS[request.method](self._handlers, request.params, reply)
        elif _is_ours(request.method):
            self._refuse(request.id, _no_request(request.method))
        else:
            self._start(request, size, tasks)
        if is_first:
            self._release()

    def _refusal(self, size: int) -> BridgeError | None:
        """Why no request can be served now."""
        if not self._is_initialized:
            return NotInitialized()
        if self._is_closing:
            return RequestCancelled("The editor has closed its end.")
        is_too_much = self._connection.unanswered_bytes + size > MAX_UNANSWERED_BYTES
        if is_too_much or self._connection.unanswered >= MAX_UNANSWERED:
            return TooManyRequests(hint="Send it again when others are answered.")
        return None

    def _start(self, request: Request, size: int, tasks: asyncio.TaskGroup) -> asyncio.Task[None]:
        reply = self._connection.open(request, _session_id(request.params), size=size)

        def settle(_: asyncio.Task[None]) -> None:
            del self._running[reply]
            if not reply.is_answered:
                reply.error(RequestCancelled())

        task = tasks.create_task(self._serve(request, reply))
        self._running[reply] = task
        task.add_done_callback(settle)
        return task

    async def _serve(self, request: Request, reply: Reply) -> None:
        with self._boundary(request.method, reply):
            known = REQUESTS.get(request.method)
            if known is not None:
                reply.result(await known(self._handlers, request.params))
            else:
                reply.result(await self._handlers.forward(request.method, request.params))

    def _take_notification(self, notification: Notification) -> None:
        method, params = notification.method, notification.params
        with self._boundary(method, None):
            if method == "$/cancel_request":
                self._cancel_request(acp.read_params(params).get("requestId"))
            elif method in NOTIFICATIONS and self._is_initialized:
                NOTIFICATIONS[method](self._handlers, params)
            elif self._is_initialized and not _is_ours(method):
                self._handlers.notify(method, params)
            else:
                _log.debug("notification ignored", extra=_fields(method=method[:200]))

    def _cancel_request(self, message_id: Any) -> None:
        for reply in self._connection.in_flight(message_id):
            if reply in self._running:
                self._running[reply].cancel()
            else:
                self._handlers.cancel_prompt(reply)

    def _take_answer(self, answer: Response | BareId) -> None:
        with self._boundary("answer", None):
            if self._connection.settle(answer):
                return
            _log.debug("answer to no open request ignored")
            if isinstance(answer, BareId):
                self._refuse(None, InvalidRequest())

    @contextlib.contextmanager
    def _boundary(self, method: str, reply: Reply | None) -> Iterator[None]:
        """Turns what a handler raises into the answer, or into a line of the log."""
        try:
            yield
        except Exception as error:
            is_expected = isinstance(error, BridgeError) and not isinstance(
                error, LocalProtocolError
            )
            level = logging.DEBUG if is_expected else logging.ERROR
            details = _fields(method=method[:200], error=type(error).__name__)
            _log.log(level, "handler failed", exc_info=not is_expected, extra=details)
            if reply is not None and not reply.is_answered:
                reply.error(error)

    def _refuse(self, message_id: MessageId, error: BridgeError) -> None:
        message = jsonrpc.failure(message_id, error)
        if self._is_initialized:
            self._outbox.put_message(message)
            return
        self._held.append(message)
        if len(self._held) > MAX_HELD:
            self._release()
        elif self._release_timer is None:
            loop = asyncio.get_running_loop()
            self._release_timer = loop.call_later(HOLD_TIME, self._release)

    def _release(self) -> None:
        self._stop_release_timer()
        for message in self._held:
            self._outbox.put_message(message)
        self._held.clear()

    def _stop_release_timer(self) -> None:
        if self._release_timer is not None:
            self._release_timer.cancel()
            self._release_timer = None


def _no_request(method: str) -> UnknownMethod:
    """The error for a notification that came as a request: nobody answers such a one (ACP), so that
    its effect could not be told, and it has none."""
    error = unsupported(method)
    error.hint = f"{method[:200]} is a notification: send it without an id."
    return error


def _is_ours(method: str) -> bool:
    """Whether the bridge interprets the method, so that none of the kind is passed on."""
    return method.startswith("$/") or any(
        method in known for known in (REQUESTS, STARTERS, NOTIFICATIONS)
    )


def _session_id(params: Any) -> SessionId | None:
    value = params.get("sessionId") if isinstance(params, dict) else None
    return SessionId(value) if isinstance(value, str) else None


def _fields(**fields: Any) -> Json:
    return {"fields": fields}
