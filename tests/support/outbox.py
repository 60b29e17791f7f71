"""An outbox on a wire and a ledger that the test holds in its hands."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from acp_bridge.bridge.outbox import DEFAULT_LIMIT, LedgerOutbox
from acp_bridge.core.effects import Record
from acp_bridge.core.ports import Entry
from acp_bridge.ids import Generation, Json, RunId, SessionId
from ledger import Change, EventLedger, Incomplete, Limits, NewSession, Run
from ledger.memory import MemoryLedger
from tests.support.waits import WAIT

SESSIONS = [SessionId(name) for name in ("s1", "s2", "s3")]
S1, S2, _ = SESSIONS


class Wire:
    """What was written. While it is ``held`` a write blocks, as with an editor that does not
    read; ``fail_with`` is raised by the next ones."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.fail_with: OSError | None = None
        self._free = threading.Event()
        self._free.set()
        self._entered = threading.Event()

    def write(self, data: bytes) -> None:
        self._entered.set()
        assert self._free.wait(10 * WAIT)
        if self.fail_with is not None:
            raise self.fail_with
        self.writes.append(data)

    def hold(self) -> None:
        self._entered.clear()
        self._free.clear()

    def release(self) -> None:
        self._free.set()

    async def entered(self) -> None:
        """Return when a write is being held."""
        assert await asyncio.to_thread(self._entered.wait, WAIT)

    @property
    def lines(self) -> list[bytes]:
        return b"".join(self.writes).splitlines()

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]

    def texts(self, session_id: str) -> list[str]:
        """The texts of the chunks of one session, line by line."""
        shown = (message.get("params", {}) for message in self.messages)
        return [
            params["update"]["content"]["text"]
            for params in shown
            if params.get("sessionId") == session_id
        ]


class WatchedLedger(MemoryLedger):
    """Counts transactions; waits or fails as the test wants, but takes note of a gap."""

    def __init__(self) -> None:
        super().__init__(limits=Limits(max_bytes=64 * 1024 * 1024))
        self.writes: list[int] = []
        self.written = threading.Event()
        self.delay = threading.Event()
        self.delay_seconds = 0.0
        self.fail_with: Exception | None = None

    def write(self, changes: Sequence[Change]) -> None:
        if self.delay_seconds:
            self.delay.wait(self.delay_seconds)
        if self.fail_with is not None and not isinstance(changes[0], Incomplete):
            raise self.fail_with
        super().write(changes)
        self.writes.append(len(changes))
        self.written.set()


class Held:
    """An outbox with its surroundings."""

    def __init__(self, limit: int, ledger: WatchedLedger) -> None:
        self.wire = Wire()
        self.ledger = ledger
        self.gone = 0
        self.outbox = LedgerOutbox(
            ledger, self.wire.write, now_ms=lambda: 7, on_gone=self._on_gone, limit=limit
        )

    def _on_gone(self) -> None:
        self.gone += 1

    async def block(self) -> None:
        """Hold the outbox's thread in a write, so that what is put now gathers."""
        self.wire.hold()
        self.outbox.put_message({"mark": 1})
        await self.wire.entered()

    async def until_recorded(self, count: int) -> None:
        """Return when the first session has that many entries."""
        async with asyncio.timeout(WAIT):
            while len(self.recorded()) < count:
                await asyncio.to_thread(self.ledger.written.wait, WAIT)
                self.ledger.written.clear()

    async def flush(self) -> None:
        self.wire.release()
        assert await self.outbox.flush(WAIT)

    def put_chunk(
        self, text: str, session_id: SessionId = S1, message_id: str | None = "m", **more: Any
    ) -> None:
        self.put(chunk(text, message_id, **more), session_id)

    def put(self, update: Json, session_id: SessionId = S1, run: str = "r", gen: int = 1) -> None:
        entry = Entry(session_id, Record("update", update), RunId(run), Generation(gen))
        self.outbox.put_update(update, entry)

    def recorded(self, session_id: str = S1) -> list[Any]:
        return payloads(self.ledger, session_id)

    def runs(self, session_id: str = S1) -> list[Run]:
        replay = self.ledger.read(session_id)
        assert replay is not None
        return list(replay.runs)


def chunk(text: str, message_id: str | None = "m", **more: Any) -> Json:
    """An ``agent_message_chunk``."""
    update: Json = {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "text", "text": text},
        **more,
    }
    return update if message_id is None else {**update, "messageId": message_id}


def payloads(ledger: EventLedger, session_id: str) -> list[Any]:
    replay = ledger.read(session_id)
    assert replay is not None
    return [entry.payload for entry in replay.entries]


def opened_ledger() -> WatchedLedger:
    """One with three open sessions."""
    ledger = WatchedLedger()
    ledger.write([NewSession(name, name, "/w", 1) for name in SESSIONS])
    return ledger


def an_entry(session_id: SessionId = S1, weight: int = 10) -> tuple[Entry, int, int]:
    """What the outbox gives a recorder."""
    return Entry(session_id, Record("update", {"n": 1})), 1, weight


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings."""
    return [record.message for record in caplog.records if record.levelno >= logging.WARNING]


@asynccontextmanager
async def held_outbox(
    limit: int = DEFAULT_LIMIT, ledger: WatchedLedger | None = None
) -> AsyncIterator[Held]:
    """An outbox with three open sessions; its thread has ended afterwards."""
    ledger = ledger or WatchedLedger()
    ledger.write([NewSession(session_id, f"key-{session_id}", "/w", 1) for session_id in SESSIONS])
    ledger.writes.clear()
    before = set(threading.enumerate())
    held = Held(limit, ledger)
    [thread] = set(threading.enumerate()) - before
    try:
        yield held
    finally:
        held.wire.release()
        held.outbox.close()
        await asyncio.to_thread(thread.join, WAIT)
        assert not thread.is_alive()
