"""Writing log lines behind the program's back, so that no reader of them can stop it.

An editor may never read the bridge's stderr; once the pipe is full, a write blocks for ever.
Each destination therefore has a thread of its own and a bounded queue; what does not fit is
counted and the count is told as soon as there is room.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from acp_bridge.logs.redaction import clean_mapping, clean_text, hide_secrets

_LIMIT: Final = 1_000
"""Records that may wait for one destination."""


class Sink:
    """One destination with its queue and its thread, which starts at the first record.

    ``make_target`` is called in that thread, so that it may import what is slow to import.
    """

    def __init__(
        self, level: int, make_target: Callable[[], logging.Handler], *, limit: int = _LIMIT
    ) -> None:
        self.level = level
        self._make_target = make_target
        self._limit = limit
        self._waiting: deque[logging.LogRecord] = deque()
        self._dropped = 0
        self._is_closing = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def put(self, record: logging.LogRecord) -> None:
        """Queue ``record``, or count it as dropped. Never waits for the destination."""
        with self._changed:
            if len(self._waiting) >= self._limit or self._is_closing:
                self._dropped += 1
                return
            self._waiting.append(record)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="log", daemon=True)
                self._thread.start()
            self._changed.notify()

    def stop(self) -> None:
        """Take no more records; those that wait are still written."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()

    def join(self, seconds: float) -> None:
        """Wait until all is written, at most ``seconds``. Call :meth:`stop` first."""
        if self._thread is not None:
            self._thread.join(max(0.0, seconds))

    def _run(self) -> None:
        target = self._make_target()
        while (record := self._next()) is not None:
            target.handle(record)
        with contextlib.suppress(OSError):  # the disk is full: nothing is left to tell it to
            target.close()

    def _next(self) -> logging.LogRecord | None:
        with self._changed:
            while not self._waiting and not self._dropped and not self._is_closing:
                self._changed.wait()
            if self._waiting and not self._dropped:
                return self._waiting.popleft()
            if self._dropped:
                count, self._dropped = self._dropped, 0
                return _loss(count)
            return None


class Fanout(logging.Handler):
    """The one handler of the root logger: cleans each record once and gives it to the sinks."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        super().__init__(min(sink.level for sink in sinks))
        self._sinks = sinks

    def emit(self, record: logging.LogRecord) -> None:
        try:
            cleaned = _cleaned(record)
        except Exception:  # a log call must never break its caller
            self.handleError(record)
            return
        for sink in self._sinks:
            if record.levelno >= sink.level:
                sink.put(cleaned)

    def finish(self, seconds: float) -> None:
        """Write what waits, at most ``seconds`` in all."""
        end = time.monotonic() + seconds
        for sink in self._sinks:
            sink.stop()
        for sink in self._sinks:
            sink.join(end - time.monotonic())


def _cleaned(record: logging.LogRecord) -> logging.LogRecord:
    fields = getattr(record, "fields", None)
    attributes: dict[str, object] = {
        "name": record.name,
        "levelno": record.levelno,
        "levelname": record.levelname,
        "created": record.created,
        "msg": clean_text(record.getMessage()),
        "fields": clean_mapping(fields) if isinstance(fields, dict) else {},
        "failure": None,
        "traceback": None,
    }
    if record.exc_info and record.exc_info[1] is not None:
        attributes["failure"] = clean_text(repr(record.exc_info[1]))
        lines = hide_secrets(logging.Formatter().formatException(record.exc_info)).splitlines()
        attributes["traceback"] = "\n".join(map(clean_text, lines))
    return logging.makeLogRecord(attributes)


def _loss(count: int) -> logging.LogRecord:
    return logging.makeLogRecord(
        {
            "name": __name__,
            "levelno": logging.WARNING,
            "levelname": "WARNING",
            "msg": "log lines dropped, stderr or the log file is too slow",
            "fields": {"count": count},
            "failure": None,
            "traceback": None,
        }
    )
