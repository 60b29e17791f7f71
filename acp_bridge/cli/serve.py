"""The command that an editor starts: settings, log, then the bridge.

On this path nothing is imported that the first answer does not need.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from acp_bridge import logs
from acp_bridge.cli.failures import tell
from acp_bridge.config import Settings, load, prepare_state_dir
from acp_bridge.errors import ConfigError
from acp_bridge.wire.secrecy import secrets_in_query

_SECRETS: Final = ("token", "password")
_USAGE: Final = 2
LOG_GRACE: Final = 0.2
"""Seconds for the last lines of the log: an editor may not read them."""

_log = logging.getLogger(__name__)


def run(argv: Sequence[str], wire_fd: int) -> int:
    """Serve an editor on stdin and ``wire_fd`` until it ends; return the exit code.

    Raises:
        UsageError: the arguments or variables are wrong.
    """
    if os.environ.get("HOME") == "":
        del os.environ["HOME"]  # then expanduser asks the password database
    settings = load(argv, os.environ)
    if os.isatty(0):
        _explain()
        return _USAGE
    log = _start_log(settings)
    grace = LOG_GRACE
    try:
        _guard_secrets(settings)
        if not settings.demo:
            prepare_state_dir(settings)
        # Last, so that a wrong option is told without loading the bridge.
        from acp_bridge.app import serve

        return serve(settings, wire_fd)
    except Exception:
        _log.info("serve failed", exc_info=True)  # below the default of stderr: for the log file
        grace = 1.0  # nothing else was waited for, and the reason must reach the file
        raise
    finally:
        log.close(grace)


def _start_log(settings: Settings) -> logs.Logging:
    try:
        return logs.configure(
            level=settings.log_level,
            log_format=settings.log_format,
            log_file=settings.log_file,
            environ=os.environ,
        )
    except OSError as error:
        raise ConfigError(
            f"the log file {settings.log_file} cannot be written: {error.strerror}",
            hint="Name another file with --log-file, or leave the option out.",
        ) from error


def _guard_secrets(settings: Settings) -> None:
    """Keep the credentials out of the log, and warn where a process listing shows them."""
    for field, value in zip(_SECRETS, (settings.token, settings.password), strict=True):
        if value is not None:
            logs.register_secret(value)
        if settings.source(field) == f"--{field}":
            tell(
                f"acp-bridge: warning: --{field} shows the {field} in process listings;"
                f" use --{field}-file or ACP_BRIDGE_{field.upper()}"
            )
    if settings.insecure_permissions:
        tell(
            "acp-bridge: warning: files with secrets may be open to other users, as"
            f" {settings.source('insecure_permissions')} says"
        )
    _guard_proxy(settings)
    for value in settings.unused_secrets:
        logs.register_secret(value)
    if settings.withheld is not None:
        tell(f"acp-bridge: warning: {settings.withheld}")
    from acp_bridge.storage import secrets_of

    for secret in secrets_in_query(settings.gateway_url):
        logs.register_secret(secret)
    in_url = secrets_of(settings.ledger_url)
    for secret in in_url:
        logs.register_secret(secret)
    if in_url and settings.source("ledger_url") == "--ledger-url":
        tell(
            "acp-bridge: warning: --ledger-url shows the password in process listings;"
            " use ACP_BRIDGE_LEDGER_URL, or a password file of PostgreSQL's"
        )


def _guard_proxy(settings: Settings) -> None:
    if "@" not in settings.proxy:
        return
    logs.register_secret(urlsplit(settings.proxy).password or "")
    if settings.source("proxy") == "--proxy":
        tell(
            "acp-bridge: warning: --proxy shows the password in process listings;"
            " use ACP_BRIDGE_PROXY"
        )


def _explain() -> None:
    program = Path(sys.argv[0])
    command = program.absolute() if program.name.startswith("acp-bridge") else "acp-bridge"
    tell(
        "acp-bridge connects an editor that speaks ACP to an agent gateway, over stdin and stdout.",
        f'An editor starts it: put "command": "{command}" into its agent settings.',
        "See a conversation now, without a gateway:  acp-bridge demo",
        "Talk to your gateway from this terminal:    acp-bridge chat",
        "Options and exit codes:                     acp-bridge --help",
    )
