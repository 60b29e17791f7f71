"""Log records as text, with structlog, and the two places where the text goes.

Imported only when a record is really written: structlog costs more than the whole start.
"""

from __future__ import annotations

import json
import logging
import os
import select
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Final

import structlog
from structlog.dev import Column, ConsoleRenderer, KeyValueColumnFormatter, plain_traceback
from structlog.typing import EventDict

_FILE_BYTES: Final = 10 * 1024 * 1024
_FILES_KEPT: Final = 5
_RESERVED: Final = ("ts", "level", "event", "logger", "pid", "error", "exception")

_RESET: Final = "\x1b[0m"
_BOLD: Final = "\x1b[1m"
_DIM: Final = "\x1b[2m"


class DescriptorHandler(logging.Handler):
    """Writes lines to a descriptor. A closed or broken one is no error: nobody can be told."""

    def __init__(self, descriptor: int, formatter: logging.Formatter) -> None:
        super().__init__()
        self._descriptor = descriptor
        self.setFormatter(formatter)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:  # one odd record must not end the thread
            self.handleError(record)
            return
        self._write(line.encode("utf-8", "backslashreplace") + b"\n")

    def _write(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:  # another process made the shared description non-blocking
                select.select([], [self._descriptor], [])
            except OSError:
                return


class PrivateFileHandler(RotatingFileHandler):
    """A rotating file that only its owner can read, also after each rotation."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            path, maxBytes=_FILE_BYTES, backupCount=_FILES_KEPT, encoding="utf-8", delay=True
        )
        self.setFormatter(json_formatter())

    def _open(self) -> TextIOWrapper:
        stream = open(self.baseFilename, "ab", opener=_open_private)  # noqa: SIM115 - the handler closes it
        return TextIOWrapper(stream, encoding="utf-8")


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def console_formatter(*, colour: bool, tracebacks: bool) -> logging.Formatter:
    """One line for people: ``acp-bridge: warning: event key=value``."""
    plain = KeyValueColumnFormatter(None, "", "", str)
    level = KeyValueColumnFormatter(
        None, _BOLD if colour else "", _RESET if colour else "", str, postfix=":"
    )
    pair = KeyValueColumnFormatter(_DIM if colour else "", "", _RESET if colour else "", _shown)
    renderer = ConsoleRenderer(
        columns=[
            Column("program", KeyValueColumnFormatter(None, "", "", str, postfix=":")),
            Column("level", level),
            Column("event", plain),
            Column("", pair),
        ],
        sort_keys=False,
        exception_formatter=plain_traceback,
    )

    def program(_: Any, __: str, event: EventDict) -> EventDict:
        for key in ("ts", "logger", "pid"):
            del event[key]
        if not tracebacks:
            event.pop("exception", None)
        known = {key: value for key, value in event.items() if value not in (None, "")}
        return {"program": "acp-bridge", **known}

    return _formatter(program, renderer)


def json_formatter() -> logging.Formatter:
    """One JSON object a line."""
    return _formatter(structlog.processors.JSONRenderer(serializer=_dumps))


def _formatter(*processors: Any) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(processors=[_from_record, *processors])


def _from_record(_: Any, __: str, event: EventDict) -> EventDict:
    record = event["_record"]
    known = {
        "ts": datetime.fromtimestamp(record.created, tz=UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "event": event["event"],
        "logger": record.name,
        "pid": os.getpid(),
    }
    for key, value in record.fields.items():
        known[f"{key}_" if key in _RESERVED else key] = value
    if record.failure is not None:
        known["error"] = record.failure
        known["exception"] = record.traceback
    return known


def _dumps(event: EventDict, **_: Any) -> str:
    return json.dumps(event, ensure_ascii=False)


def _shown(value: object) -> str:
    if isinstance(value, str) and value and not set(value) & set(" =\"'"):
        return value
    return json.dumps(value, ensure_ascii=False)
