"""The one ordered way to the editor: recorded first, then shown.

The event loop only queues. One thread takes all that has gathered, commits its entries in one
transaction and then writes its lines with one call. There is no timer: a single update goes at
once, and a burst groups itself while the burst before it is being written. An editor that does
not read, or a slow ledger, thus holds up the thread and never the loop; meanwhile chunks of one
message are merged, and ``is_full`` tells the producers when to pause.

A ledger that fails costs no line: ``bridge.recorder`` keeps what it does not take. An editor that
is gone costs the lines and not the record.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from acp_bridge.bridge.outbox_items import (
    Chunk,
    Item,
    chunk_text,
    is_notice,
    pieces,
    update_message,
)
from acp_bridge.bridge.recorder import Recorder
from acp_bridge.core.ports import Entry, Unrecorded
from acp_bridge.ids import Json, SessionId
from acp_bridge.wire import jsonrpc
from acp_bridge.wire.weight import weigh, weigh_text
from ledger import EventLedger

_log = logging.getLogger(__name__)

DEFAULT_LIMIT = 8 * 1024 * 1024
"""Bytes that may wait before the outbox counts as full: some minutes of a model's text."""

LAST_PATIENCE = 0.4
"""Seconds for which the end of a conversation is tried to be recorded."""

MAX_LINE = 16 * 1024 * 1024
"""Lines stay below this; one editor in the field closes its connection at it."""


class LedgerOutbox:
    """Implements ``core.ports.Outbox``. Made on the event loop; its thread starts at once.

    ``write`` blocks until all is written, and raises ``OSError`` when the editor is gone;
    ``on_gone`` is then called once, on the loop. ``now_ms`` gives the time of an entry in UTC
    milliseconds, ``clock`` monotonic seconds. ``limit`` is in bytes, counted approximately.
    ``hide`` takes the secrets out of notices and outcomes, which may quote an error of the
    gateway's.
    """

    def __init__(
        self,
        ledger: EventLedger,
        write: Callable[[bytes], None],
        *,
        now_ms: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
        on_gone: Callable[[], None] = lambda: None,
        limit: int = DEFAULT_LIMIT,
        hide: Callable[[Json], Json] = lambda notice: notice,
    ) -> None:
        self._recorder = Recorder(ledger, clock)
        self._write = write
        self._now_ms = now_ms
        self._on_gone = on_gone
        self._limit = limit
        self._hide = hide
        self._loop = asyncio.get_running_loop()
        # Of the loop alone.
        self._waiting = 0
        self._has_room = asyncio.Event()
        self._has_room.set()
        # Shared, under the condition.
        self._changed = threading.Condition()
        self._queue: list[Item | Chunk] = []
        self._last: dict[SessionId, Item | Chunk] = {}
        self._is_closed = False
        # Of the thread alone.
        self._is_gone = False
        self._ended = asyncio.Event()
        threading.Thread(target=self._run, name="outbox", daemon=True).start()

    def put_message(self, message: Json, *, session_id: SessionId | None = None) -> None:
        self._put(Item(weigh(message), message=message), session_id)

    def put_update(self, update: Json, entry: Entry) -> None:
        if is_notice(update):
            update = self._hide(update)
            entry = entry._replace(record=entry.record._replace(payload=update))
        text = chunk_text(update, entry)
        if text is None:
            message = update_message(entry.session_id, update)
            item = Item(weigh(update), message=message, entry=entry, at=self._now_ms())
            self._put(item, entry.session_id)
            return
        for piece in pieces(text):
            if self._is_absorbed(update, entry, piece):
                self._count(weigh_text(piece))
            else:
                self._put(Chunk(update, entry, self._now_ms(), piece), entry.session_id)
            if entry.offset is not None:
                entry = entry._replace(offset=entry.offset + len(piece))

    def put_record(self, entry: Entry, done: Callable[[], None] | None = None) -> None:
        if entry.record.kind == "outcome":
            payload = self._hide(entry.record.payload)
            entry = entry._replace(record=entry.record._replace(payload=payload))
        item = Item(weigh(entry.record.payload), entry=entry, at=self._now_ms(), recorded=done)
        self._put(item, entry.session_id)

    @property
    def is_full(self) -> bool:
        return self._waiting >= self._limit

    async def room(self) -> None:
        while self.is_full:
            await self._has_room.wait()

    async def flush(self, timeout: float) -> bool:
        """Wait until all that is queued by now is recorded and written (or dropped, if the editor
        is gone), at most ``timeout`` seconds. Returns whether that was reached."""
        return await self._reached(Item(0), timeout)

    async def unrecorded(self, session_id: SessionId, timeout: float) -> Unrecorded:
        """As ``flush``; then what still waits for a ledger that does not take it."""
        found = Unrecorded([], is_whole=True)

        def look(recorder: Recorder) -> None:
            nonlocal found
            found = recorder.unrecorded(session_id)

        await self._reached(Item(0, look=look), timeout)
        return found

    async def _reached(self, mark: Item, timeout: float) -> bool:
        reached = asyncio.Event()
        mark.shown = reached.set
        self._put(mark, None)
        try:
            async with asyncio.timeout(timeout):
                await reached.wait()
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        """Let the thread end once all that is queued is recorded and written. What is put later
        is lost."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    async def ended(self, timeout: float) -> bool:
        """Wait for the thread's end, at most ``timeout`` seconds; whether it has come."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._ended.wait()
        return self._ended.is_set()

    # --- on the loop ---------------------------------------------------------------------

    def _put(self, item: Item | Chunk, session_id: SessionId | None) -> None:
        with self._changed:
            if self._is_closed:
                return
            self._queue.append(item)
            if session_id is not None:
                self._last[session_id] = item
            self._changed.notify()
        self._count(item.weight)

    def _is_absorbed(self, update: Json, entry: Entry, text: str) -> bool:
        """Whether the session's last item in the queue could take in the text."""
        with self._changed:
            last = self._last.get(entry.session_id)
            return isinstance(last, Chunk) and last.absorb(update, entry, text)

    def _count(self, weight: int) -> None:
        self._waiting += weight
        if self.is_full:
            self._has_room.clear()

    def _settle(self, weight: int, callbacks: Sequence[Callable[[], None]]) -> None:
        self._waiting -= weight
        if not self.is_full:
            self._has_room.set()
        for callback in callbacks:
            callback()

    # --- in the thread -------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while batch := self._take():
                self._recorder.record(
                    (item.entry, item.at, item.weight) for item in batch if item.entry
                )
                for item in batch:
                    if item.look:
                        item.look(self._recorder)
                self._call(0, [item.recorded for item in batch if item.recorded])
                self._show(batch)
                weight = sum(item.weight for item in batch)
                self._call(weight, [item.shown for item in batch if item.shown])
            self._recorder.finish(LAST_PATIENCE, time.sleep)
        finally:
            # Without its thread the bridge is as deaf as without its editor; a bug must end it
            # and not leave it hanging.
            if not self._is_closed:
                self.close()
                self._call(0, [self._on_gone])
            self._call(0, [self._ended.set])

    def _take(self) -> list[Item]:
        while True:
            with self._changed:
                if self._changed.wait_for(self._has_work, self._recorder.patience):
                    batch, self._queue, self._last = self._queue, [], {}
                    break
            # Outside the lock: what waits for the ledger is not to hold up the loop.
            self._recorder.retry()
        return [item.finished() if isinstance(item, Chunk) else item for item in batch]

    def _has_work(self) -> bool:
        return bool(self._queue) or self._is_closed

    def _call(self, weight: int, callbacks: Sequence[Callable[[], None]]) -> None:
        if weight or callbacks:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(partial(self._settle, weight, callbacks))

    def _show(self, batch: list[Item]) -> None:
        if self._is_gone:
            return
        lines = [self._line(item.message) for item in batch if item.message]
        if not lines:
            return
        try:
            self._write(b"".join(lines))
        except OSError as error:
            self._is_gone = True
            _log.info("the editor is gone", extra=_fields(reason=str(error)))
            self._call(0, [self._on_gone])

    def _line(self, message: Json) -> bytes:
        line = jsonrpc.encode(message)
        if len(line) < MAX_LINE:
            return line
        fields = _fields(bytes=len(line), method=message.get("method"))
        _log.warning("a line too long for the editor was left out", extra=fields)
        return b""


def _fields(**fields: Any) -> Json:
    return {"fields": fields}
