"""The gateway client under test, with its time in the test's hand and its events kept."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from acp_bridge.core.events import GatewayEvent, Stamped
from acp_bridge.gateway import openclaw_config
from acp_bridge.gateway.client import GatewayClient
from acp_bridge.gateway.credentials import Credentials
from acp_bridge.gateway.dialing import Connect
from acp_bridge.gateway.link import TICK
from acp_bridge.gateway.settings import GatewaySettings
from acp_bridge.ids import NOTHING
from tests.support.clock import HandClock
from tests.support.waits import WAIT

E = TypeVar("E")

CHANCE = 0.1
"""Takes a twentieth off each back-off: no pause is as long as the tick of a live connection."""


class ClientRig:
    """A client, its clock and what reached its sink."""

    def __init__(self, settings: GatewaySettings, connect: Connect | None) -> None:
        self.clock = HandClock()
        self.slept = 0.0
        """Seconds that only the wall clock has counted."""
        self.events: list[Stamped] = []
        self.gate = asyncio.Event()
        """The sink takes nothing while this is cleared."""
        self.gate.set()
        self.failure: Exception | None = None
        """What the sink raises, once."""
        self._news = asyncio.Event()
        self._pauses: asyncio.Queue[float] = asyncio.Queue()
        self._read = 0
        self.client = GatewayClient(
            settings,
            clock=self.clock.time,
            wall_clock=lambda: self.clock.time() + self.slept,
            sleep=self._sleep,
            rng=lambda: CHANCE,
            connect=connect,
        )

    async def next(self, kind: type[E]) -> E:
        """The next event of this kind, those before it being skipped."""
        async with asyncio.timeout(WAIT):
            while True:
                while self._read < len(self.events):
                    event: GatewayEvent = self.events[self._read].event
                    self._read += 1
                    if isinstance(event, kind):
                        return event
                self._news.clear()
                await self._news.wait()

    async def pause(self) -> float:
        """Wait until the client pauses before its next attempt; for how many seconds."""
        async with asyncio.timeout(WAIT):
            return await self._pauses.get()

    async def over_pause(self) -> float:
        """Let the next pause begin and pass."""
        seconds = await self.pause()
        await self.advance(seconds)
        return seconds

    async def advance(self, seconds: float) -> None:
        """Let time pass, and what wakes up do its work.

        Work on a socket is not waited for: wait for its effect.
        """
        while seconds > 0:
            step = min(seconds, 0.25)
            seconds -= step
            self.clock.advance(step)
            for _ in range(20):
                await asyncio.sleep(0)

    async def sink(self, stamped: Stamped) -> None:
        await self.gate.wait()
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        self.events.append(stamped)
        self._news.set()

    async def _sleep(self, seconds: float) -> None:
        over = asyncio.Event()
        timer = self.clock.call_later(seconds, over.set)
        if seconds != TICK:
            self._pauses.put_nowait(seconds)
        try:
            await over.wait()
        finally:
            timer.cancel()


def credentials(*, environ: Mapping[str, str] | None = None, **given: Any) -> Credentials:
    """Credentials from these options, else from OpenClaw's variables in ``environ``."""
    told = Credentials.from_options(**given)
    return told.or_else(*openclaw_config.of_environment(environ or {}))


@contextlib.asynccontextmanager
async def client_rig(
    url: str,
    state_dir: Path,
    *,
    scopes: tuple[str, ...] | None = None,
    connect: Connect | None = None,
    settings: Mapping[str, Any] = NOTHING,
    **options: Any,
) -> AsyncIterator[ClientRig]:
    """A started client; without options it has the token ``test-token``. ``settings`` replaces
    fields of its ``GatewaySettings``."""
    given = credentials(**(options or {"token": "test-token"}))
    wanted = GatewaySettings(
        url=url,
        url_source="--url",
        credentials=given,
        scopes=scopes,
        state_dir=state_dir,
        acp_credentials=given,
    )
    rig = ClientRig(wanted._replace(**settings), connect)
    await rig.client.start(rig.sink)
    try:
        yield rig
    finally:
        rig.gate.set()
        await rig.client.close()
