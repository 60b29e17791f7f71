"""A ledger on a server, whose callers wait for a short time only.

A server that hangs is no server that refuses: its driver waits, and nothing from outside ends
that, since the connection is as good as ever. So the calls run in threads of their own. A caller
waits for so long, and then is told that the ledger is busy; until the thread has come back,
further calls fail at once. What became of a write that was not waited for is taken account of by
the next one, as is a connection that broke before it was told whether the write is committed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from acp_bridge.bridge.rewriting import has_taken
from ledger import (
    Change,
    EventLedger,
    LedgerBusy,
    LedgerUnreachable,
    NewEntry,
    Page,
    Replay,
    SessionRecord,
    Stats,
)

WRITE_PATIENCE: Final = 0.5
"""Seconds that a line to the editor may wait for a server; a commit over a slow network needs
a tenth of a second or two."""
READ_PATIENCE: Final = 5.0
"""Seconds for reading: a long conversation has to come over the network."""

_T = TypeVar("_T")


class BoundedLedger:
    """Implements ``ledger.port.EventLedger`` with another one. One thread at a time writes.

    Who writes again what was not taken gives the same changes, not copies of them: by that they
    are known if they were taken after all.
    """

    def __init__(
        self,
        ledger: EventLedger,
        *,
        write_patience: float = WRITE_PATIENCE,
        read_patience: float = READ_PATIENCE,
    ) -> None:
        self._ledger = ledger
        self._writer = _Lane("ledger-writer", write_patience)
        self._reader = _Lane("ledger-reader", read_patience)
        self._late: tuple[Future[None], list[Change]] | None = None
        """A write that was not waited for."""
        # Of the writing thread, or of its caller while that thread has nothing to do.
        self._doubtful: list[Change] = []
        """Of a write of which nobody knows whether it was committed."""
        self._taken: dict[int, Change] = {}
        """What was committed after its caller had gone, by identity."""

    def write(self, changes: Sequence[Change]) -> None:
        """As the port has it; ``LedgerBusy`` also means that what became of it is not known yet."""
        if self._late is not None:
            late, batch = self._late
            if not late.done():
                raise _busy()
            self._late = None
            if not late.cancelled() and late.exception() is None:
                self._taken.update((id(change), change) for change in batch)
        batch, call = list(changes), Future[None]()
        try:
            self._writer.run(call, partial(self._write, batch))
        except LedgerBusy:
            self._late = call, batch
            raise
        for change in batch:
            self._taken.pop(id(change), None)

    def confirm(self) -> None:
        """A server has no file that could be gone."""

    def read(self, session_id: str) -> Replay | None:
        return self._read(lambda: self._ledger.read(session_id))

    def find(self, session_id: str, session_key: str) -> SessionRecord | None:
        return self._read(lambda: self._ledger.find(session_id, session_key))

    def find_by_key(self, session_key: str) -> SessionRecord | None:
        return self._read(lambda: self._ledger.find_by_key(session_key))

    def list_sessions(self, page: Page) -> list[SessionRecord]:
        return self._read(lambda: self._ledger.list_sessions(page))

    def stats(self) -> Stats:
        return self._read(lambda: self._ledger.stats())

    def close(self) -> None:
        self._writer.close()
        self._reader.close()
        self._ledger.close()

    def _read(self, operation: Callable[[], _T]) -> _T:
        if self._writer.is_stuck:
            raise _busy()
        return self._reader.run(Future(), operation)

    # --- in the writing thread -----------------------------------------------------------------

    def _write(self, batch: list[Change]) -> None:
        self._resolve()
        left = [change for change in batch if id(change) not in self._taken]
        try:
            self._ledger.write(left)
        except LedgerUnreachable:
            self._doubtful = left
            raise

    def _resolve(self) -> None:
        """Look whether the write was committed whose connection broke. All of it was or nothing."""
        if not self._doubtful:
            return
        by_session: dict[str, list[NewEntry]] = {}
        for change in self._doubtful:
            if isinstance(change, NewEntry):
                by_session.setdefault(change.session_id, []).append(change)
        if by_session and all(
            has_taken(entries, self._ledger.read(name)) for name, entries in by_session.items()
        ):
            self._taken.update((id(change), change) for change in self._doubtful)
        self._doubtful = []


class _Lane:
    """A thread that makes one call after the other; it begins with the first one."""

    def __init__(self, name: str, patience: float) -> None:
        self._name = name
        self._patience = patience
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._has_thread = False
        self._left: Future[Any] | None = None
        """The call whose caller waits no more."""

    @property
    def is_stuck(self) -> bool:
        left = self._left
        return left is not None and not left.done()

    def run(self, call: Future[_T], operation: Callable[[], _T]) -> _T:
        """What the operation returns or raises; ``LedgerBusy`` if it does not in time."""
        with self._lock:
            if self.is_stuck:
                raise _busy()
            if not self._has_thread:
                self._has_thread = True
                threading.Thread(target=self._serve, name=self._name, daemon=True).start()
            self._queue.put(partial(self._make, call, operation))
        try:
            return call.result(self._patience)
        except TimeoutError:
            if call.cancel():
                raise _busy() from None
            if not call.done():
                self._left = call
                raise _busy() from None
        return call.result()

    def close(self) -> None:
        self._queue.put(None)

    def _serve(self) -> None:
        while (make := self._queue.get()) is not None:
            make()

    def _make(self, call: Future[_T], operation: Callable[[], _T]) -> None:
        if not call.set_running_or_notify_cancel():
            return
        try:
            result = operation()
        except BaseException as error:
            call.set_exception(error)
        else:
            call.set_result(result)


def _busy() -> LedgerBusy:
    return LedgerBusy(
        "The ledger's database server does not answer in time.",
        hint="What it has not taken is kept for a while and tried again; look whether the server "
        "hangs, or the way to it.",
    )
