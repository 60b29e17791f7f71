"""``acp-bridge config init`` and ``validate``: the file with profiles, made and looked through."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from acp_bridge.cli.failures import say_error
from acp_bridge.config import load, route_of
from acp_bridge.config.option import ENV_PREFIX
from acp_bridge.config.settings import Settings, config_file
from acp_bridge.errors import BridgeError, ConfigError
from acp_bridge.gateway.private_files import make_private_directory, write_new
from acp_bridge.gateway.secret_files import check_modes
from acp_bridge.logs import clean_text, register_secret, without_credentials
from ledger.errors import LedgerError

Config = Annotated[
    str | None,
    typer.Option("--config", metavar="PATH", help="As for the bridge.", show_default=False),
]

_TEMPLATE: Final = """\
# Options of acp-bridge, by the names that "acp-bridge --help" lists, with _ instead of -.
# "acp-bridge config show" tells which ones count, "acp-bridge config validate" what is wrong.

# Used where no profile is named. A path that is relative begins beside this file.
[profiles.default]
# gateway_url = "ws://127.0.0.1:18789"
# token_file = "token"

# Used with --profile work. It takes nothing from the one above.
# [profiles.work]
# gateway_url = "wss://gateway.example"
# token_command = "op read op://work/gateway/token"
"""


def named_file(config: str | None) -> Path:
    """The file that the flag names, or the variable, or the usual one. Raises ``ConfigError`` if
    there is no usual place."""
    named = config or os.environ.get("ACP_BRIDGE_CONFIG") or None
    found = config_file(Path(named).expanduser().absolute() if named else None)
    if found is None:
        raise ConfigError(
            "there is no home directory, and so no usual place for the file",
            hint="Name it with --config or ACP_BRIDGE_CONFIG.",
        )
    return found


def init(config: Config = None) -> int:
    """Make a file with profiles, to be filled in. What is there is never overwritten.

    Example: acp-bridge config init
    """
    path = named_file(config)
    if os.path.lexists(path):
        raise ConfigError(
            f"{path} is there already",
            hint="Edit it, or name another place with --config.",
        )
    try:
        make_private_directory(path.parent)
        write_new(path, _TEMPLATE.encode())
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be made: {error.strerror}",
            hint="Name a place that you may write with --config.",
        ) from error
    typer.echo(clean_text(str(path)))
    return 0


def validate(
    config: Config = None,
    as_json: Annotated[
        bool, typer.Option("--json", metavar="", help="One JSON object instead of lines.")
    ] = False,
    insecure_permissions: Annotated[
        bool,
        typer.Option(
            "--insecure-permissions",
            envvar=f"{ENV_PREFIX}INSECURE_PERMISSIONS",
            metavar="",
            help="As for the bridge.",
        ),
    ] = False,
) -> int:
    """Look through every profile of the file, and the files that it names: what is wrong with
    each. Nothing is connected to, and no command for a credential is run. Options and variables
    do not count here; config show tells what they make of a profile.

    Example: acp-bridge config validate

    Exit codes: 0 all are good; 2 some are not, or there is no such file.
    """
    from acp_bridge.config.profiles import profile_names

    path = named_file(config)
    check_modes(not insecure_permissions)
    argv = [f"--config={path}", *(["--insecure-permissions"] if insecure_permissions else [])]
    found = {name: list(_mistakes(argv, name)) for name in profile_names(path)}
    if as_json:
        profiles = {name: [_as_json(each) for each in errors] for name, errors in found.items()}
        typer.echo(json.dumps({"config": str(path), "profiles": profiles}, indent=2))
    else:
        typer.echo(clean_text(str(path)))
        for name, errors in found.items():
            count = f"{len(errors)} mistake{'s' if len(errors) > 1 else ''}"
            typer.echo(clean_text(f"profiles.{name}: {count if errors else 'good'}"))
        for error in (each for errors in found.values() for each in errors):
            say_error(error.message, error.hint)
    return 2 if any(found.values()) else 0


def _as_json(error: BridgeError | LedgerError) -> Any:
    return without_credentials({"message": error.message, "hint": error.hint})


def _mistakes(argv: list[str], name: str) -> Iterator[BridgeError | LedgerError]:
    """All that is wrong with one profile; of its own values only the first."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith(ENV_PREFIX)}
    try:
        settings = load([*argv, f"--profile={name}"], environ)
    except ConfigError as error:
        yield error
        return
    for check in (_target, _headers, _trust, _ledger):
        yield from check(settings, environ)


def _failures(*checks: Callable[[], object]) -> Iterator[BridgeError | LedgerError]:
    for check in checks:
        try:
            check()
        except (BridgeError, LedgerError) as error:
            yield error


def _target(settings: Settings, environ: Mapping[str, str]) -> Iterator[BridgeError | LedgerError]:
    from acp_bridge.gateway.credentials import Slow
    from acp_bridge.gateway.detection import ACP
    from acp_bridge.target import find_target

    try:
        target = find_target(settings, environ, register_secret)
    except ConfigError as error:
        yield error
        return
    is_acp = settings.gateway_kind == ACP
    credentials = target.acp_credentials if is_acp else target.credentials
    sources = (credentials.token, credentials.password)
    yield from _failures(
        *(source.read for source in sources if source is not None and not isinstance(source, Slow)),
        lambda: route_of(settings, target.url, register_secret),
    )


def _headers(settings: Settings, _: Mapping[str, str]) -> Iterator[BridgeError | LedgerError]:
    from acp_bridge.gateway.headers import extra_headers

    route = route_of(settings, "wss://", register_secret)
    return _failures(lambda: extra_headers(route))


def _trust(settings: Settings, _: Mapping[str, str]) -> Iterator[BridgeError | LedgerError]:
    if settings.ca_file is None and settings.client_cert is None:
        return iter(())
    from acp_bridge.gateway.tls import client_context

    route = route_of(settings, "wss://", register_secret)
    return _failures(lambda: client_context(route))


def _ledger(settings: Settings, _: Mapping[str, str]) -> Iterator[BridgeError | LedgerError]:
    from ledger.engine import place_of

    return _failures(lambda: place_of(settings.ledger_url))
