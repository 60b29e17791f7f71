"""Logging: standard library records in, structlog lines out, to stderr and a file.

Every other module logs with ``logging.getLogger(__name__)``, a fixed phrase, and its facts in
``extra={"fields": {...}}``. Prompt and answer text is logged at debug level only.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from acp_bridge.logs.background import Fanout, Sink
from acp_bridge.logs.redaction import (
    clean_text,
    register_secret,
    without_credentials,
    without_secrets,
)

__all__ = [
    "Logging",
    "clean_text",
    "configure",
    "register_secret",
    "wants_colour",
    "without_credentials",
    "without_secrets",
]

_OURS: Final = ("acp_bridge", "ledger")
_STDERR: Final = 2


class Logging:
    """The running log of the process. Made by :func:`configure`."""

    def __init__(self, handler: Fanout) -> None:
        self._handler = handler

    def close(self, seconds: float = 1.0) -> None:
        """Write what waits, at most ``seconds`` long, and log nothing from now on."""
        logging.getLogger().removeHandler(self._handler)
        self._handler.finish(seconds)


def configure(
    *,
    level: str,
    log_format: str = "console",
    log_file: Path | None = None,
    environ: Mapping[str, str],
    descriptor: int = _STDERR,
) -> Logging:
    """Send the log to ``descriptor``, and to ``log_file`` as JSON at info or below.

    Libraries are heard from warning on, whatever ``level`` is: below it they quote the wire.

    Raises:
        OSError: the file cannot be written.
    """
    console_level = _number(level)
    file_level = min(console_level, logging.INFO)
    sinks = [Sink(console_level, _Console(descriptor, log_format, console_level, environ))]
    if log_file is not None:
        os.close(os.open(log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
        sinks.append(Sink(file_level, _File(log_file)))
    handler = Fanout(sinks)
    logging.raiseExceptions = False  # a broken log call must not print a traceback
    root = logging.getLogger()
    root.setLevel(logging.WARNING)
    root.addHandler(handler)
    for name in _OURS:
        logging.getLogger(name).setLevel(min(sink.level for sink in sinks))
    return Logging(handler)


def wants_colour(environ: Mapping[str, str], *, is_terminal: bool) -> bool:
    """Whether to colour: ``NO_COLOR`` beats ``FORCE_COLOR`` beats what the terminal can do."""
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return is_terminal and environ.get("TERM", "") not in ("", "dumb")


def _number(level: str) -> int:
    return logging.getLevelNamesMapping()[level.upper()]


class _Console:
    """Makes the handler for stderr, in the sink's thread."""

    def __init__(
        self, descriptor: int, log_format: str, level: int, environ: Mapping[str, str]
    ) -> None:
        self._descriptor = descriptor
        self._is_json = log_format == "json"
        self._tracebacks = level <= logging.DEBUG or bool(environ.get("ACP_BRIDGE_TRACEBACK"))
        self._colour = wants_colour(environ, is_terminal=os.isatty(descriptor))

    def __call__(self) -> logging.Handler:
        from acp_bridge.logs import render

        formatter = (
            render.json_formatter()
            if self._is_json
            else render.console_formatter(colour=self._colour, tracebacks=self._tracebacks)
        )
        return render.DescriptorHandler(self._descriptor, formatter)


class _File:
    """Makes the handler for the log file, in the sink's thread."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self) -> logging.Handler:
        from acp_bridge.logs import render

        return render.PrivateFileHandler(self._path)
