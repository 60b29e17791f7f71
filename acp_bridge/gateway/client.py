"""The gateway client: keeps one connection alive, for ever.

Each hello begins a generation. Events are stamped with it, and what comes from an older one is
dropped in one place, :meth:`GatewayClient._deliver`.

How long it waits between attempts:

- The gateway cannot be reached: exponential back-off with jitter, reset by a hello.
- It is still starting (``UNAVAILABLE``, close 1013): as long as it asks for, at most 2 s.
- It refuses us (credentials, pairing, protocol): twice more within a minute, since a restart may
  heal it, then parked: pairing is tried every 15 s, the rest every minute. One warning tells it.
- Somebody waits for a hello: at once, since the user may have mended what was wrong.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from acp_bridge.core.commands import Query, RunCommand
from acp_bridge.core.events import GatewayEvent, Hello, LinkLost, LinkUp, Stamped, Unreadable
from acp_bridge.errors import (
    CredentialsUnusable,
    GatewayError,
    GatewayTimeout,
    GatewayUnreachable,
    HandshakeRefused,
    PairingRequired,
)
from acp_bridge.errors import LinkLost as LinkLostError
from acp_bridge.gateway import transport
from acp_bridge.gateway.backoff import CAP, reconnect_delay
from acp_bridge.gateway.dialing import Connect, Dialer
from acp_bridge.gateway.link import TIMED_OUT, Link
from acp_bridge.gateway.network_errors import CertificateUntrusted
from acp_bridge.gateway.port import EventSink
from acp_bridge.gateway.scopes import ADMIN, missing_scopes
from acp_bridge.gateway.settings import GatewaySettings
from acp_bridge.gateway.transport import TransportClosed
from acp_bridge.gateway.unreadable import Unread
from acp_bridge.ids import Generation, Json

log = logging.getLogger(__name__)

REFUSED_DELAYS = (10.0, 45.0)
"""Seconds after the first and the second refusal: three attempts in the first minute."""
PARKED_DELAY = 60.0
PAIRING_DELAY = 15.0
"""Seconds between attempts of a parked client; an approval should be noticed soon."""
FAILED_DELAY = 5.0
"""Seconds after a bug: often enough to go on, seldom enough not to flood the log."""
STARTING_CAP = 2.0
"""Seconds between attempts, at most, while the gateway says that it is starting."""
GATEWAY_STARTING = 1013
"""The close code of a gateway that is still starting (2026.9.6)."""

WATCH = 1.0
"""Seconds between two looks at the clocks."""
SLEPT = 10.0
"""Seconds by which one of them must have jumped for the machine to have slept, or for the process
to have been stopped."""


class GatewayClient:
    """``gateway.port.Gateway`` over the network.

    ``connect`` is the way of ``settings.route`` unless a test has one of its own.
    ``clock`` and ``sleep`` are the only time it knows, ``rng`` its only chance. ``wall_clock`` goes
    on while the machine sleeps, which ``clock`` need not do.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,  # noqa: TID251 - the one that is passed in
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: Callable[[], float] = random.random,
        connect: Connect | None = None,
    ) -> None:
        self._settings = settings
        by_route = partial(transport.connect, route=settings.route)
        self._dialer = Dialer(settings, connect or by_route, sleep)
        self._clock = clock
        self._wall_clock = wall_clock
        self._sleep = sleep
        self._rng = rng
        self._sink: EventSink | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._has_slept = False
        self._generation = Generation(0)
        self._hello: Hello | None = None
        self._trouble: GatewayError | None = None
        self._link: Link | None = None
        self._delivering = asyncio.Lock()
        self._changed = asyncio.Condition()
        self._wake = asyncio.Event()
        self._attempts = 0
        self._is_attempting = False
        self._refused_at = 0
        """The number of the last attempt that met a refusal; 0 since the last hello."""
        self._failed_at = 0
        """Likewise of the last attempt that failed in any way."""
        self._failures = 0
        self._refusals = 0
        self._is_up = False
        """Whether a LinkUp has been delivered without its LinkLost."""
        self._told: set[str] = set()
        """What has been warned of since the last hello."""
        self._told_scopes: set[str] = set()

    @property
    def hello(self) -> Hello | None:
        return self._hello

    @property
    def trouble(self) -> GatewayError | None:
        return None if self._hello else self._trouble

    async def wait_hello(self, timeout: float, *, patient: bool = True) -> Hello:
        if hello := self.hello:
            return hello
        if self._is_attempting:
            fresh = self._attempts  # under way: it began when the user could have acted
        else:
            fresh = self._attempts + 1
            self._wake.set()
        try:
            async with asyncio.timeout(timeout), self._changed:
                await self._changed.wait_for(
                    lambda: (
                        self._hello is not None
                        or (self._refused_at if patient else self._failed_at) >= fresh
                    )
                )
        except TimeoutError:
            pass
        if self._hello is not None:
            return self._hello
        raise self._trouble or GatewayUnreachable(
            f"The gateway at {self._settings.url} has not answered yet.",
            hint="It may be starting: try again in a moment, or raise --connect-timeout.",
        )

    def announce(self, capabilities: Json) -> None:
        self._dialer.announce(capabilities)

    def submit(self, command: RunCommand) -> None:
        if self._link is None:
            log.info("a command was dropped: there is no connection")
            return
        self._link.submit(command)

    async def request(self, query: Query, *, timeout: float = 30.0) -> Any:
        if self._link is None:
            raise LinkLostError()
        return await self._link.request(query, timeout)

    async def start(self, sink: EventSink) -> None:
        self._sink = sink
        self._tasks = [
            asyncio.create_task(self._supervise()),
            asyncio.create_task(self._watch_clocks()),
        ]

    async def close(self) -> None:
        if self._link is not None:
            await self._link.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _supervise(self) -> None:
        while True:
            self._wake.clear()
            try:
                delay = await self._attempt()
            except Exception:
                # A bug, ours or the sink's; the next connection may still do.
                log.exception("the gateway client failed")
                delay = FAILED_DELAY
            await self._pause(delay)

    async def _watch_clocks(self) -> None:
        """After a sleep of the machine, or a stop of the process, the connection is stale, though
        nothing says so, and there is no reason to wait before the next one."""
        while True:
            before = self._clock(), self._wall_clock()
            await self._sleep(WATCH)
            passed = max(self._clock() - before[0], self._wall_clock() - before[1])
            if passed < WATCH + SLEPT:
                continue
            log.info("the machine slept", extra={"fields": {"seconds": round(passed)}})
            self._wake.set()
            if self._link is not None:
                self._has_slept = True
                await self._link.drop(f"this machine slept for {passed:.0f} s")

    async def _attempt(self) -> float:
        """Make and serve one connection; returns the seconds to wait before the next."""
        if self._is_up:
            await self._lost("the bridge failed", None)
        self._attempts += 1
        self._is_attempting = True
        try:
            while await self._connect_once():
                log.info("trying another credential")
        except HandshakeRefused as error:
            return await self._refused(error)
        except GatewayError as error:
            return await self._unreached(error)
        finally:
            self._is_attempting = False
        has_slept, self._has_slept = self._has_slept, False
        return 0.0 if has_slept else reconnect_delay(1, self._rng())

    async def _connect_once(self) -> bool:
        """One connection, until its end.

        True if another credential should be tried at once. Raises the ``GatewayError`` that
        prevented a hello.
        """
        dialed = await self._dialer.dial(Generation(self._generation + 1))
        attempt = dialed.attempt
        dialect = attempt.dialect(self._clock())
        unread = Unread(attempt.generation)

        async def opened(hello: Hello) -> None:
            self._dialer.accepted(dialed)
            await self._opened(hello, link)

        async def deliver(event: GatewayEvent) -> None:
            if isinstance(event, Unreadable):
                unread.note(event.reason, self._clock())
            await self._deliver(Stamped(attempt.generation, event))

        link = Link(
            dialed.transport,
            dialect,
            clock=self._clock,
            sleep=self._sleep,
            deliver=deliver,
            on_hello=opened,
        )
        try:
            await link.run()
        except HandshakeRefused as error:
            if not await self._dialer.refused(dialed, error):
                raise
            return True
        except TransportClosed as closed:
            if dialect.hello is None:
                raise self._closed_early(closed) from None
            await self._lost(closed.reason or "the connection was closed", closed.code)
        except GatewayTimeout as error:
            if dialect.hello is None:
                raise
            await self._lost(error.message, TIMED_OUT)
        finally:
            self._link = None
            self._hello = None
            unread.ended()
        return False

    async def _opened(self, hello: Hello, link: Link) -> None:
        self._generation = hello.generation
        self._hello = hello
        self._link = link
        self._is_attempting = False
        self._failures = self._refusals = self._refused_at = self._failed_at = 0
        self._told.clear()
        log.info(
            "connected to the gateway",
            extra={
                "fields": {
                    "generation": hello.generation,
                    "gateway_version": hello.server_version,
                }
            },
        )
        self._tell_missing_scopes(hello)
        self._is_up = True
        await self._notify()
        await self._deliver(Stamped(hello.generation, LinkUp(hello)))

    async def _lost(self, reason: str, code: int | None) -> None:
        self._link = None
        self._hello = None
        self._is_up = False
        self._trouble = LinkLostError(f"The connection to the gateway was lost: {reason}.")
        log.info(
            "lost the connection to the gateway",
            extra={
                "fields": {"generation": self._generation, "close_code": code, "reason": reason}
            },
        )
        await self._deliver(Stamped(self._generation, LinkLost(reason, code)))

    async def _refused(self, error: HandshakeRefused) -> float:
        self._refusals += 1
        self._refused_at = self._failed_at = self._attempts
        self._trouble = error
        is_ours = isinstance(error, CredentialsUnusable)
        what = "cannot be tried" if is_ours else "refused the connection"
        if isinstance(error, CertificateUntrusted):
            what = "is not trusted"
        self._warn_once(error.code, f"the gateway {what}", error)
        await self._notify()
        if self._refusals <= len(REFUSED_DELAYS):
            return REFUSED_DELAYS[self._refusals - 1]
        return PAIRING_DELAY if isinstance(error, PairingRequired) else PARKED_DELAY

    async def _unreached(self, error: GatewayError) -> float:
        self._failures += 1
        self._failed_at = self._attempts
        self._trouble = error
        await self._notify()
        delay = reconnect_delay(self._failures, self._rng())
        asked_ms = error.data.get("retryAfterMs")
        if isinstance(asked_ms, int):
            return max(min(delay, STARTING_CAP), min(asked_ms / 1000, CAP))
        self._warn_once(error.code, "the gateway cannot be reached", error)
        return delay

    def _closed_early(self, closed: TransportClosed) -> GatewayUnreachable:
        is_starting = closed.code == GATEWAY_STARTING
        return GatewayUnreachable(
            f"The gateway at {self._settings.url} closed the connection before its hello:"
            f" {closed}.",
            data={"closeCode": closed.code, **({"retryAfterMs": 0} if is_starting else {})},
        )

    async def _deliver(self, stamped: Stamped) -> None:
        async with self._delivering:
            if stamped.generation != self._generation or self._sink is None:
                log.info("an event of no living connection was dropped")
                return
            await self._sink(stamped)

    async def _pause(self, seconds: float) -> None:
        waits = [
            asyncio.ensure_future(self._sleep(seconds)),
            asyncio.ensure_future(self._wake.wait()),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _warn_once(self, key: str, phrase: str, error: GatewayError) -> None:
        if key in self._told:
            return
        self._told.add(key)
        fields = {
            "reason": error.message,
            "hint": error.hint,
            "url_source": self._settings.url_source,
        }
        log.warning(phrase, extra={"fields": fields})

    def _tell_missing_scopes(self, hello: Hello) -> None:
        for missing in missing_scopes(hello):
            if missing.scope in self._told_scopes:
                continue
            self._told_scopes.add(missing.scope)
            level = logging.INFO if missing.scope == ADMIN else logging.WARNING
            fields = {"scope": missing.scope, "effect": missing.effect}
            log.log(level, "the gateway granted less than was asked for", extra={"fields": fields})
