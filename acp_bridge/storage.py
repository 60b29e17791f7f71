"""The bridge's ledger, which opens itself when nobody waits for it.

What a database needs takes longer to import than all the rest of the bridge. So it is opened in a
thread of its own, once the first answer is written; who comes sooner than it is ready waits a
little. A ledger that cannot be used costs the record and not the conversation: what a while may
mend (a lock, a server that is away, a full disk) is tried again, and otherwise memory serves. One
whose file was removed or replaced meanwhile is closed, and opened anew; who writes is told so once,
since what it has written last went into the file that is gone.
"""

from __future__ import annotations

import gc
import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar
from urllib.parse import unquote, urlsplit

from acp_bridge.bounded import BoundedLedger
from acp_bridge.config import Settings
from acp_bridge.logs import without_secrets
from ledger import (
    Change,
    EventLedger,
    LedgerBusy,
    LedgerClosed,
    LedgerError,
    LedgerGone,
    Limits,
    Page,
    Replay,
    SessionRecord,
    Stats,
    open_ledger,
)
from ledger.memory import MemoryLedger

log = logging.getLogger(__name__)

LOCK_TIMEOUT: Final = 0.05
"""Seconds that a line to the editor may wait for a lock; what is not written is kept and tried
again by the recorder."""
PATIENCE: Final = 2.0
"""Seconds after its beginning that calls wait for the opening; later ones fail at once."""
RETRY: Final = 2.0
"""Seconds between two tries to open."""
CLOSE_GRACE: Final = 0.2
GONE_WARNING: Final = 60.0
"""Seconds between two warnings that the file is gone."""

_T = TypeVar("_T")


class LazyLedger:
    """Implements ``ledger.port.EventLedger``. Made without any cost.

    ``opener`` opens the real one and may raise ``LedgerError``. ``clock`` gives monotonic seconds.
    """

    def __init__(
        self,
        opener: Callable[[], EventLedger],
        limits: Limits,
        *,
        clock: Callable[[], float] = time.monotonic,
        patience: float = PATIENCE,
    ) -> None:
        self._opener = opener
        self._limits = limits
        self._clock = clock
        self._patience = patience
        self._lock = threading.Lock()
        self._has_tried = threading.Event()
        self._is_opening = False
        self._is_closed = False
        self._tried_at = 0.0
        self._wait_until = 0.0
        self._ledger: EventLedger | None = None
        self._failure: LedgerError | None = None
        self._gone: LedgerGone | None = None
        """Why the ledger was opened anew, as long as no writer was told."""
        self._gone_at = -math.inf
        self._warned_at = -math.inf

    def warm(self) -> None:
        """Begin to open it in the background, unless that was done already. Returns at once."""
        if self._ledger is not None:
            return
        with self._lock:
            is_early = self._has_tried.is_set() and self._clock() - self._tried_at < RETRY
            if self._is_opening or self._is_closed or self._ledger is not None or is_early:
                return
            self._is_opening = True
            if not self._has_tried.is_set():
                self._wait_until = self._clock() + self._patience
        threading.Thread(target=self._open, name="ledger", daemon=True).start()

    def write(self, changes: Sequence[Change]) -> None:
        """As the port has it. A ``LedgerGone`` comes once for each file that is gone, whoever has
        noticed it; the next call goes to the file that is there then."""
        self._tell_gone()
        self._tell_if_gone(self._opened(), lambda ledger: ledger.write(changes))

    def confirm(self) -> None:
        self._tell_gone()
        if (ledger := self._ledger) is None:
            raise self._reason()
        self._tell_if_gone(ledger, lambda opened: opened.confirm())

    def read(self, session_id: str) -> Replay | None:
        return self._call(lambda ledger: ledger.read(session_id))

    def find(self, session_id: str, session_key: str) -> SessionRecord | None:
        return self._call(lambda ledger: ledger.find(session_id, session_key))

    def find_by_key(self, session_key: str) -> SessionRecord | None:
        return self._call(lambda ledger: ledger.find_by_key(session_key))

    def list_sessions(self, page: Page) -> list[SessionRecord]:
        return self._call(lambda ledger: ledger.list_sessions(page))

    def stats(self) -> Stats:
        return self._call(lambda ledger: ledger.stats())

    def close(self) -> None:
        """Close what is open, and what is being opened as soon as it is. Waits for a short time
        only."""
        with self._lock:
            self._is_closed = True
            opened = self._ledger
        if opened is not None:
            closing = threading.Thread(target=opened.close, daemon=True)
            closing.start()
            closing.join(CLOSE_GRACE)

    def _call(self, operation: Callable[[EventLedger], _T]) -> _T:
        ledger = self._opened()
        try:
            return operation(ledger)
        except LedgerGone as error:
            self._forget(ledger, error)
        except LedgerClosed:
            # Another thread may have found it gone; otherwise it was closed by who closed this.
            if self._is_closed or self._ledger is ledger:
                raise
        return operation(self._opened())

    def _tell_if_gone(self, ledger: EventLedger, operation: Callable[[EventLedger], None]) -> None:
        try:
            operation(ledger)
        except LedgerGone as error:
            self._forget(ledger, error)
            self._tell_gone()
            raise
        except LedgerClosed:
            self._tell_gone()  # another thread has found it gone
            raise

    def _tell_gone(self) -> None:
        with self._lock:
            gone, self._gone = self._gone, None
        if gone is not None:
            raise gone

    def _forget(self, ledger: EventLedger, reason: LedgerGone) -> None:
        """Close a ledger whose file is gone, so that the next call opens it anew; only the first
        thread that finds it gone has something to do."""
        now = self._clock()
        with self._lock:
            if self._ledger is not ledger:
                return
            self._ledger, self._failure, self._gone = None, reason, reason
            if now - self._gone_at >= RETRY:  # else it goes away all the time
                self._has_tried.clear()
            self._gone_at = now
        level = logging.WARNING if now - self._warned_at >= GONE_WARNING else logging.DEBUG
        if level == logging.WARNING:
            self._warned_at = now
        log.log(
            level,
            "the ledger's file was removed or replaced; recording goes on in the file that is there"
            " now, or in a new one",
            extra={"fields": {"reason": reason.message, "hint": reason.hint}},
        )
        ledger.close()

    def _opened(self) -> EventLedger:
        if self._is_closed:
            raise LedgerClosed("The ledger is closed.")
        self.warm()
        opened = self._ledger
        if opened is None:
            self._has_tried.wait(max(0.0, self._wait_until - self._clock()))
            opened = self._ledger
        if opened is None:
            raise self._reason()
        return opened

    def _reason(self) -> LedgerError:
        failure = self._failure
        if failure is None:
            return LedgerBusy("The ledger is still being opened.")
        return type(failure)(failure.message, hint=failure.hint)

    def _open(self) -> None:
        opened: EventLedger | None = MemoryLedger(self._limits, redact=without_secrets)
        try:
            opened = self._opener()
        except LedgerError as error:
            if error.is_retryable:
                opened, self._failure = None, error
            else:
                fields = {"reason": error.message, "hint": error.hint}
                log.warning("this conversation is not kept", extra={"fields": fields})
        finally:
            with self._lock:
                self._ledger = opened
                self._tried_at = self._clock()
                self._is_opening = False
                is_late = self._is_closed
            # All modules are there now, and most objects will stay: the garbage collector need not
            # look at them again and again, which stops every thread for some 30 ms.
            gc.freeze()
            self._has_tried.set()
        if is_late and opened is not None:
            opened.close()


def ledger_of(settings: Settings, *, host: str) -> LazyLedger:
    """The ledger that the settings name; it is not opened yet.

    Credentials never reach it, whoever said them: a gateway that quotes a token in an error, or a
    tool that printed it.
    """
    limits = limits_of(settings)

    def opener() -> EventLedger:
        if settings.ledger == "memory":
            return MemoryLedger(limits, redact=without_secrets)
        url = settings.ledger_url
        opened = open_ledger(
            url, limits=limits, host=host, lock_timeout=LOCK_TIMEOUT, redact=without_secrets
        )
        return BoundedLedger(opened) if url.startswith("postgresql") else opened

    return LazyLedger(opener, limits)


def limits_of(settings: Settings) -> Limits:
    """How much the ledger holds."""
    return Limits(settings.max_sessions, settings.max_events_per_session, settings.max_bytes)


def secrets_of(url: str) -> list[str]:
    """The passwords in a ledger's URL, as written and as meant."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return []
    written = [parts.password] if parts.password else []
    for pair in parts.query.split("&"):
        name, _, value = pair.partition("=")
        if name in ("password", "sslpassword") and value:
            written.append(value)
    return [*written, *(unquote(secret) for secret in written)]
