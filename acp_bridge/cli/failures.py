"""How a command fails: one line that says what, one that says what to do, and an exit code."""

from __future__ import annotations

import logging
import os
import sys
from typing import Final

from acp_bridge.errors import (
    BridgeError,
    GatewayTimeout,
    GatewayUnreachable,
    HandshakeRefused,
    UsageError,
)
from acp_bridge.gateway.network_errors import CertificateUntrusted, WrongProtocol
from acp_bridge.logs import clean_text
from ledger.errors import LedgerError, SchemaAhead, SchemaBehind

EXIT_CODES: Final = {
    0: "end of input, or the editor closed its side",
    1: "failure while running",
    2: "wrong option, variable or command",
    3: "gateway not reachable, or not trusted, at the start (--require-gateway)",
    4: "gateway refused the credentials or the connection at the start (--require-gateway)",
    5: "the ledger's schema is not the one this version knows",
    129: "ended by SIGHUP",
    130: "ended by SIGINT",
    143: "ended by SIGTERM",
}
"""Each exit code of the commands and its meaning, as ``--help`` and the README tell it."""

_CODE_OF: Final[tuple[tuple[type[BaseException], int], ...]] = (
    (UsageError, 2),
    (GatewayUnreachable, 3),
    (GatewayTimeout, 3),
    (CertificateUntrusted, 3),
    (WrongProtocol, 3),
    (HandshakeRefused, 4),
    (SchemaAhead, 5),
    (SchemaBehind, 5),
    (KeyboardInterrupt, 130),
)

_log = logging.getLogger(__name__)


def exit_code(error: BaseException) -> int:
    """The exit code that ``error`` ends a command with."""
    return next((code for kind, code in _CODE_OF if isinstance(error, kind)), 1)


def report(error: BaseException) -> int:
    """Tell the user of ``error`` on stderr and return the exit code.

    A traceback is shown only with ``ACP_BRIDGE_TRACEBACK`` set or at log level debug.
    """
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    if isinstance(error, KeyboardInterrupt):
        return exit_code(error)
    if os.environ.get("ACP_BRIDGE_TRACEBACK") or _log.isEnabledFor(logging.DEBUG):
        import traceback

        tell(*"".join(traceback.format_exception(error)).splitlines())
    if isinstance(error, BridgeError | LedgerError):
        say_error(error.message, error.hint)
    else:
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        say_error(
            f"acp-bridge failed unexpectedly: {what}",
            "Please report it with what ACP_BRIDGE_TRACEBACK=1 shows.",
        )
    return exit_code(error)


def say_error(message: str, hint: str | None) -> None:
    """Write ``error:`` and, if there is one, ``hint:`` to stderr. A hint may have several lines."""
    tell(f"error: {message}", *(f"hint: {hint}".splitlines() if hint else []))


def tell(*lines: str) -> None:
    """Write lines for people to stderr, without secrets and control characters."""
    if sys.stderr is not None:
        sys.stderr.write("".join(f"{clean_text(line)}\n" for line in lines))
        sys.stderr.flush()
