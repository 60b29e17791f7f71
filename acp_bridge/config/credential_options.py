"""The options that say with what to authenticate at the gateway; a part of the one table."""

from __future__ import annotations

from typing import Final

from acp_bridge.config import values
from acp_bridge.config.option import Option

CREDENTIAL_OPTIONS: Final = (
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
        "token_command",
        "--token-command",
        values.command,
        "Command that prints the gateway's token; it is run without a shell, for 10 s at most.",
        "Credentials",
        metavar="COMMAND",
        example="'op read op://work/gateway/token'",
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
        "password_command",
        "--password-command",
        values.command,
        "Command that prints the gateway's password; it is run without a shell, for 10 s at most.",
        "Credentials",
        metavar="COMMAND",
        example="'pass show gateway'",
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
        "keyring",
        "--keyring",
        values.keyring,
        "Take the gateway's token, or its password, from the system's keyring: token or password.",
        "Credentials",
        metavar="KIND",
        example="token",
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
)
