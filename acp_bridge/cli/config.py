"""``acp-bridge config``: what the bridge would do with, and who says so."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from acp_bridge.cli.config_file import Config, init, named_file, validate
from acp_bridge.cli.failures import tell
from acp_bridge.config import load
from acp_bridge.errors import ConfigError
from acp_bridge.logs import clean_text, register_secret

if TYPE_CHECKING:
    from acp_bridge.config import Settings
    from acp_bridge.gateway.credentials import Source

config_commands = typer.Typer(
    help="Show the options in force; make the file with profiles, and look it through.",
    no_args_is_help=True,
)
config_commands.command("init")(init)
config_commands.command("validate")(validate)

_Profile = Annotated[
    str | None,
    typer.Option("--profile", metavar="NAME", help="As for the bridge.", show_default=False),
]
_Options = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[-- BRIDGE OPTIONS]",
        help="Options of the bridge itself, after two dashes.",
        show_default=False,
    ),
]


@config_commands.command("show")
def show(
    profile: _Profile = None,
    config: Config = None,
    as_json: Annotated[
        bool, typer.Option("--json", metavar="", help="One JSON object instead of lines.")
    ] = False,
    bridge_options: _Options = None,
) -> int:
    """Show each option with its value and what gives it: a flag, a variable, a profile or the
    default; then the gateway that it makes, and where its credentials come from.

    No credential is shown, and no command for one is run. A file is looked at, so that what is
    wrong with it is told here.

    Example: acp-bridge config show --profile work
    """
    from acp_bridge.config.showing import rows

    settings = _settings(profile, config, bridge_options)
    table = rows(settings)
    gateway = _gateway(settings)
    if as_json:
        options = {row.field: {"value": row.value, "source": row.source} for row in table}
        document = {
            "config": None if settings.config is None else str(settings.config),
            "options": options,
            "gateway": gateway,
        }
        typer.echo(json.dumps(document, indent=2))  # ASCII alone: nothing moves a terminal's cursor
        return 0
    shown = [
        (row.field, "" if row.value is None else _plain(row.value), row.source) for row in table
    ]
    widths = [max(len(line[column]) for line in shown) for column in (0, 1)]
    for field, value, source in shown:
        _print(f"{field:{widths[0]}}  {value:{widths[1]}}  {source}")
    _print("")
    for name, value in gateway.items():
        _print(f"{name}: {value}")
    return 0


@config_commands.command("path")
def path(config: Config = None) -> int:
    """Show which file has the profiles, whether it is there or not.

    Example: acp-bridge config path
    """
    found = named_file(config)
    _print(str(found))
    if not found.exists():
        tell("acp-bridge: this file does not exist; acp-bridge config init makes one")
    return 0


def _settings(
    profile: str | None, config: str | None, bridge_options: list[str] | None
) -> Settings:
    given = {"--profile": profile, "--config": config}
    argv = [f"{flag}={value}" for flag, value in given.items() if value is not None]
    return load([*argv, *(bridge_options or [])], os.environ)


def _gateway(settings: Settings) -> dict[str, str]:
    """The gateway, and whose credentials it gets; a sentence where that cannot be told."""
    from acp_bridge.config.showing import shown_url
    from acp_bridge.gateway import openclaw_config
    from acp_bridge.gateway.detection import ACP, OPENCLAW
    from acp_bridge.target import asks_openclaw, find_target

    target = find_target(settings, os.environ, register_secret)
    found = {"gateway": f"{shown_url(target.url)} ({target.url_source})"}
    kinds = {OPENCLAW: target.credentials, ACP: target.acp_credentials}
    if settings.gateway_kind in kinds:
        kinds = {settings.gateway_kind: kinds[settings.gateway_kind]}
    for credential in ("token", "password"):
        texts = {kind: _whence(getattr(each, credential)) for kind, each in kinds.items()}
        if len(set(texts.values())) == 1:
            found[credential] = next(iter(texts.values()))
        else:
            found |= {f"{credential} ({kind})": text for kind, text in texts.items()}
    notes = {each.withheld for each in kinds.values() if not each.are_told} - {None}
    if asks_openclaw(settings):
        notes.add(openclaw_config.not_read(os.environ))
    if notes - {None}:
        found["note"] = " ".join(sorted(filter(None, notes)))
    return found


def _whence(source: Source | None) -> str:
    from acp_bridge.gateway.credentials import Slow

    if isinstance(source, Slow):
        return f"from {source.label}"
    try:
        found = source.read() if source is not None else None
    except ConfigError as error:
        return f"unusable: {error.message}"
    return "none" if found is None else f"from {found.label}"


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _print(text: str) -> None:
    """One line on standard output, without secrets and control characters."""
    typer.echo(clean_text(text))
