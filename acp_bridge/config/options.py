"""The options of the bridge: one table.

The parser of the serve path, the help of the command line and the README are made from it or
checked against it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from acp_bridge.config import values

ENV_PREFIX: Final = "ACP_BRIDGE_"

DEFAULT: Final = "default"
"""The source of a value that neither a flag nor a variable gave."""


class Option(NamedTuple):
    """One option.

    ``default`` is text like any other value and read the same way; ``None`` means unset.
    ``extra_env`` are variables asked after the one that bears the option's name. ``off`` is the
    value that ``--no-...`` stands for, of an option that takes a value.
    """

    field: str
    flag: str
    read: Callable[[str], object]
    help: str
    group: str
    metavar: str = ""
    default: str | None = None
    example: str = ""
    alias: str | None = None
    extra_env: tuple[str, ...] = ()
    is_secret: bool = False
    off: str | None = None

    @property
    def env(self) -> tuple[str, ...]:
        """The variables that may give the value, first one first."""
        return (ENV_PREFIX + self.field.upper(), *self.extra_env)

    @property
    def is_switch(self) -> bool:
        """Whether it takes no value on the command line."""
        return self.read is values.switch

    @property
    def shown_flag(self) -> str:
        """The spelling that changes something: the negative one of a switch that is on."""
        return self.flags[-1] if self.default == "true" else self.flag

    @property
    def flags(self) -> tuple[str, ...]:
        """Every spelling on the command line, the negative of a switch last."""
        spellings = (self.flag,) if self.alias is None else (self.flag, self.alias)
        return (*spellings, self.negative) if self.is_switch else spellings

    @property
    def negative(self) -> str:
        """The flag that says no, of those that have one."""
        return f"--no-{self.flag[2:]}"


OPTIONS: Final = (
    Option(
        "gateway_url",
        "--gateway-url",
        values.line,  # what a URL may be is the gateway's rule: gateway/settings.py
        "Address of the gateway.",
        "Gateway",
        metavar="URL",
        default="ws://127.0.0.1:18789",
        example="ws://127.0.0.1:18789",
        alias="--url",
    ),
    Option(
        "gateway_kind",
        "--gateway-kind",
        values.gateway_kind,
        "What the gateway speaks: openclaw, acp (as ZeroClaw does), or auto to find out.",
        "Gateway",
        metavar="KIND",
        default="auto",
        example="acp",
    ),
    Option(
        "config_dir",
        "--config-dir",
        values.path,
        "ZeroClaw's directory on this machine; its config tells where its gateway is.",
        "Gateway",
        metavar="PATH",
        example="~/.zeroclaw",
    ),
    Option(
        "connect_timeout",
        "--connect-timeout",
        values.seconds,
        "How long a request of the editor waits for the gateway before it fails.",
        "Gateway",
        metavar="SECONDS",
        default="30",
        example="30",
    ),
    Option(
        "reconnect_window",
        "--reconnect-window",
        values.seconds_or_none,
        "How long a prompt waits for a connection that was lost; 0 is for ever.",
        "Gateway",
        metavar="SECONDS",
        default="1800",
        example="1800",
    ),
    Option(
        "stall_timeout",
        "--stall-timeout",
        values.seconds_or_none,
        "After how long a silence the gateway is asked what became of a run; 0 is never.",
        "Gateway",
        metavar="SECONDS",
        default="60",
        example="60",
    ),
    Option(
        "require_gateway",
        "--require-gateway",
        values.switch,
        "Answer no request before the gateway's hello, and end with exit code 3 or 4 if it cannot"
        " be reached within --connect-timeout, refuses, or has not answered when the input ends.",
        "Gateway",
        default="false",
    ),
    Option(
        "demo",
        "--demo",
        values.switch,
        "Serve a scripted agent from an embedded gateway; nothing leaves this machine.",
        "Gateway",
        default="false",
    ),
    Option(
        "token_file",
        "--token-file",
        values.path,
        "File with the gateway's token, readable by you alone.",
        "Credentials",
        metavar="PATH",
        example="~/.config/acp-bridge/token",
    ),
    Option(
        "token",
        "--token",
        values.secret,
        "The gateway's token. Other users see it in process listings: prefer the file.",
        "Credentials",
        metavar="TEXT",
        example="TOKEN",
        is_secret=True,
    ),
    Option(
        "token_via",
        "--token-via",
        values.token_via,
        "Where a gateway that speaks ACP gets the token: header, subprotocol or query.",
        "Credentials",
        metavar="PLACE",
        default="header",
        example="subprotocol",
    ),
    Option(
        "password_file",
        "--password-file",
        values.path,
        "File with the gateway's password, readable by you alone.",
        "Credentials",
        metavar="PATH",
        example="~/.config/acp-bridge/password",
    ),
    Option(
        "password",
        "--password",
        values.secret,
        "The gateway's password. Other users see it in process listings: prefer the file.",
        "Credentials",
        metavar="TEXT",
        example="PASSWORD",
        is_secret=True,
    ),
    Option(
        "scopes",
        "--scopes",
        values.names,
        "Scopes to ask the gateway for, instead of all that the bridge can use.",
        "Credentials",
        metavar="NAMES",
        example="operator.read,operator.write",
    ),
    Option(
        "session",
        "--session",
        values.line,
        "Key of the gateway session that each session of the editor uses.",
        "Sessions",
        metavar="KEY",
        example="agent:main:main",
    ),
    Option(
        "session_label",
        "--session-label",
        values.line,
        "Label of the gateway session to use; the gateway finds its key.",
        "Sessions",
        metavar="LABEL",
        example="inbox",
    ),
    Option(
        "require_existing",
        "--require-existing",
        values.switch,
        "Fail instead of creating a gateway session that does not exist yet.",
        "Sessions",
        default="false",
    ),
    Option(
        "reset_session",
        "--reset-session",
        values.switch,
        "Start the gateway session afresh, once, before its first use.",
        "Sessions",
        default="false",
    ),
    Option(
        "agent",
        "--agent",
        values.line,
        "Agent that new gateway sessions belong to.",
        "Sessions",
        metavar="ID",
        example="main",
    ),
    Option(
        "session_rate",
        "--session-rate",
        values.rate,
        "At most N new sessions in S seconds.",
        "Sessions",
        metavar="N/S",
        default="120/10",
        example="120/10",
    ),
    Option(
        "delete_gateway_sessions",
        "--delete-gateway-sessions",
        values.switch,
        "When the editor deletes a session, delete the gateway's session and transcript too.",
        "Sessions",
        default="false",
    ),
    Option(
        "prefix_cwd",
        "--prefix-cwd",
        values.switch,
        "Do not put the working directory before each prompt.",
        "Prompts",
        default="true",
    ),
    Option(
        "provenance",
        "--provenance",
        values.provenance,
        f"Tell the gateway where a prompt comes from: {', '.join(values.PROVENANCE)}.",
        "Prompts",
        metavar="MODE",
        default="off",
        example="meta",
    ),
    Option(
        "foreign_turns",
        "--foreign-turns",
        values.foreign_turns,
        "Whether what other clients of a session prompt for is shown as it happens: show or hide.",
        "Prompts",
        metavar="HOW",
        default="show",
        example="hide",
    ),
    Option(
        "on_exit",
        "--on-exit",
        values.on_exit,
        "What becomes of running turns when the editor leaves: detach lets them go on at the"
        " gateway, and loading the session shows the rest; cancel stops them. Ctrl-C always stops"
        " them.",
        "Prompts",
        metavar="HOW",
        default="detach",
        example="cancel",
    ),
    Option(
        "ledger",
        "--ledger",
        values.ledger,
        "Where what the editor is shown is recorded: file (or the database of --ledger-url), or"
        " memory, which is forgotten at the end. --no-ledger is memory.",
        "Ledger",
        metavar="KIND",
        default="file",
        example="memory",
        off="memory",
    ),
    Option(
        "ledger_url",
        "--ledger-url",
        values.line,  # what a URL may be is the ledger's rule, and no reason not to serve
        "The ledger's database, SQLite or PostgreSQL (default: ledger.db in --state-dir if that is"
        " given, else in the user's data directory).",
        "Ledger",
        metavar="URL",
        example="postgresql+psycopg://user@host/database",
    ),
    Option(
        "max_sessions",
        "--max-sessions",
        values.count,
        "Sessions that the ledger keeps; older ones are archived.",
        "Ledger",
        metavar="N",
        default="200",
        example="200",
    ),
    Option(
        "max_events_per_session",
        "--max-events-per-session",
        values.count,
        "Entries that the ledger keeps of one session; older ones are dropped.",
        "Ledger",
        metavar="N",
        default="5000",
        example="5000",
    ),
    Option(
        "max_bytes",
        "--max-bytes",
        values.size,
        "Bytes that the ledger keeps; older sessions are archived, in as many again.",
        "Ledger",
        metavar="N",
        default="16777216",
        example="16777216",
    ),
    Option(
        "state_dir",
        "--state-dir",
        values.path,
        "Directory for the device key and other state (default: the user's state directory).",
        "Files and logs",
        metavar="PATH",
        example="~/.local/state/acp-bridge",
        extra_env=(ENV_PREFIX + "HOME",),
    ),
    Option(
        "log_level",
        "--log-level",
        values.log_level,
        f"What to log: {', '.join(values.LOG_LEVELS)}.",
        "Files and logs",
        metavar="LEVEL",
        default="warning",
        example="info",
    ),
    Option(
        "log_format",
        "--log-format",
        values.log_format,
        "How log lines on stderr look: console or json.",
        "Files and logs",
        metavar="FORMAT",
        default="console",
        example="json",
    ),
    Option(
        "log_file",
        "--log-file",
        values.path,
        "Log to this file too, as JSON, at info or below; five old ones of 10 MiB are kept.",
        "Files and logs",
        metavar="PATH",
        example="/tmp/acp-bridge.log",  # noqa: S108 - an example in a help text, never opened
    ),
)

VERBOSE: Final = ("-v", "--verbose")
"""Raises the log level: once to info, twice to debug. It has no variable: log_level has one."""

VERBOSE_HELP: Final = "Log more: -v for info, -vv for debug."
