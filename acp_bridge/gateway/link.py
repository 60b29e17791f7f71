"""One connection at work: reading, writing, deadlines and queries, until it ends.

Four tasks share it. The *reader* alone decides that the link is over, after all that was received
has been delivered, so that an answer just before the end of a connection is not lost. While the
sink waits, the reader waits and the silence is not counted: it is ours, not the gateway's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from acp_bridge.core.commands import Query, RunCommand, StartRun
from acp_bridge.core.events import GatewayEvent, Hello, RunRefused
from acp_bridge.errors import BridgeError, GatewayTimeout, InvalidParams, LinkLost, PromptTooLarge
from acp_bridge.gateway.port import Dialect
from acp_bridge.gateway.transport import Transport, TransportClosed

log = logging.getLogger(__name__)

TICK = 1.0
"""Seconds between two looks at the deadlines."""
SILENT_TICKS = 2
"""Missed signs of life after which the gateway is taken for dead."""
TIMED_OUT = 4000
"""Close code for that."""
FLUSH_TIMEOUT = 0.5
"""Seconds in which the last commands must be written when the client stops."""
MAX_UNSENT = 128 * 1024 * 1024
"""Bytes that may wait to be sent: two messages of the greatest size. A gateway that asks and does
not read the answers is given up there."""
_TEXT = 100
"""Bytes that each of them takes beside its text."""

Deliver = Callable[[GatewayEvent], Awaitable[None]]


class Link:
    """A connection and its dialect. :meth:`run` serves it; the rest is for the client."""

    def __init__(
        self,
        transport: Transport,
        dialect: Dialect,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        deliver: Deliver,
        on_hello: Callable[[Hello], Awaitable[None]],
    ) -> None:
        self._transport = transport
        self._dialect = dialect
        self._clock = clock
        self._sleep = sleep
        self._deliver = deliver
        self._on_hello = on_hello
        self._outgoing: asyncio.Queue[str] = asyncio.Queue()
        self._unsent = 0
        self._own_events: asyncio.Queue[GatewayEvent] = asyncio.Queue()
        self._queries: dict[int, asyncio.Future[Any]] = {}
        self._last_token = 0
        self._heard_at = clock()
        self._is_reading = False
        self._fault: GatewayTimeout | None = None

    async def run(self) -> None:
        """Serve the connection until its end.

        Raises ``TransportClosed`` when it was closed, ``GatewayTimeout`` when the gateway fell
        silent, ``HandshakeRefused`` or ``GatewayUnreachable`` when it refused us.
        """
        self._flush()  # in some dialects the first word is ours
        tasks = [
            asyncio.create_task(work)
            for work in (self._read(), self._write(), self._watch(), self._relay())
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                await task
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._fail_queries()
            await self._transport.close(1000, "")

    def submit(self, command: RunCommand) -> None:
        """Send a run command; what goes wrong with it becomes an event."""
        try:
            for _, event in self._dialect.send(command, None, self._clock()):
                self._own_events.put_nowait(event)
        except (PromptTooLarge, InvalidParams) as error:
            fields = {"command": type(command).__name__, **error.data}
            log.warning("a command is more than the gateway takes", extra={"fields": fields})
            if isinstance(command, StartRun):
                self._own_events.put_nowait(RunRefused(command.run_id, error))
        self._flush()

    async def request(self, query: Query, timeout: float) -> Any:
        """Send a query and wait for its result."""
        self._last_token += 1
        token = self._last_token
        result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        known = self._dialect.send(query, token, self._clock())
        self._queries[token] = result
        for known_token, outcome in known:
            if known_token is None:
                self._own_events.put_nowait(outcome)
            else:
                self._settle(known_token, outcome)
        self._flush()
        try:
            async with asyncio.timeout(timeout):
                return await result
        except TimeoutError:
            raise GatewayTimeout() from None
        finally:
            self._queries.pop(token, None)

    async def close(self) -> None:
        """Write what waits and close normally; bounded."""
        self._dialect.leave()
        self._flush()
        try:
            async with asyncio.timeout(FLUSH_TIMEOUT):
                await self._outgoing.join()
        except TimeoutError:
            log.info("the last commands could not be written before the end")
        await self._transport.close(1000, "")

    async def drop(self, reason: str) -> None:
        """Give the connection up: it is stale, whatever it looks like."""
        self._fault = GatewayTimeout(reason)
        await self._transport.close(TIMED_OUT, "stale")

    async def _read(self) -> None:
        while True:
            self._is_reading = True
            try:
                text = await self._transport.receive()
            except TransportClosed:
                if self._fault is not None:
                    raise self._fault from None
                raise
            self._is_reading = False
            self._heard_at = self._clock()
            had_hello = self._dialect.hello is not None
            outcomes = self._dialect.receive(text, self._heard_at)
            self._flush()
            await self._check_unsent()
            if not had_hello and self._dialect.hello is not None:
                await self._on_hello(self._dialect.hello)
            for token, outcome in outcomes:
                if token is None:
                    await self._deliver(outcome)
                else:
                    self._settle(token, outcome)
            self._heard_at = self._clock()

    async def _write(self) -> None:
        while True:
            text = await self._outgoing.get()
            self._unsent -= len(text) + _TEXT
            try:
                await self._transport.send(text)
            except TransportClosed:
                return  # the reader ends the link once it has read all there is
            finally:
                self._outgoing.task_done()

    async def _watch(self) -> None:
        while True:
            await self._sleep(TICK)
            now = self._clock()
            try:
                self._check_silence(now)
                outcomes = self._dialect.tick(now)
            except GatewayTimeout as error:
                await self.drop(error.message)
                return
            self._flush()
            await self._check_unsent()
            for token, outcome in outcomes:
                if token is None:
                    self._own_events.put_nowait(outcome)
                else:
                    self._settle(token, outcome)

    async def _relay(self) -> None:
        while True:
            await self._deliver(await self._own_events.get())

    def _check_silence(self, now: float) -> None:
        hello = self._dialect.hello
        if hello is None or not self._is_reading:
            return
        if now - self._heard_at > SILENT_TICKS * hello.tick_interval:
            raise GatewayTimeout("The gateway has fallen silent.")

    def _flush(self) -> None:
        for text in self._dialect.data_to_send():
            self._outgoing.put_nowait(text)
            self._unsent += len(text) + _TEXT

    async def _check_unsent(self) -> None:
        if self._unsent > MAX_UNSENT:
            await self.drop("The gateway does not read what it is sent.")

    def _settle(self, token: int, outcome: Any) -> None:
        result = self._queries.get(token)
        if result is None or result.done():
            return
        if isinstance(outcome, BridgeError):
            result.set_exception(outcome)
        else:
            result.set_result(outcome)

    def _fail_queries(self) -> None:
        for result in self._queries.values():
            if not result.done():
                result.set_exception(LinkLost())
