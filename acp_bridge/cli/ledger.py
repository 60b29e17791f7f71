"""``acp-bridge ledger``: the store of what editors were shown."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from acp_bridge.config import Settings, load
from acp_bridge.errors import ConfigError
from acp_bridge.logs import clean_text, register_secret

if TYPE_CHECKING:
    from acp_bridge.importing.openclaw import Report
    from acp_bridge.importing.openclaw_files import OldSession, Skipped
    from ledger import EventLedger

ledger_commands: Final = typer.Typer(
    help="Prepare the ledger of what editors were shown, look at it, or fill it.",
    no_args_is_help=True,
)

_Url = Annotated[
    str,
    typer.Option(
        "--ledger-url",
        metavar="URL",
        help="The ledger's database (default: as for serving).",
        show_default=False,
    ),
]
_StateDir = Annotated[
    str,
    typer.Option(
        "--state-dir",
        metavar="PATH",
        help="Directory with ledger.db, if it is not in the user's data directory.",
        show_default=False,
    ),
]


@ledger_commands.command()
def migrate(ledger_url: _Url = "", state_dir: _StateDir = "") -> int:
    """Prepare an empty database for the ledger, or bring an older one up to date.

    A local file needs no such thing: it upgrades itself when it is opened.
    A database of several people should have a backup first.

    Example: acp-bridge ledger migrate --ledger-url postgresql://admin@db/acp

    Exit codes: 0 it is up to date; 1 it cannot be reached or written; 2 wrong
    option; 5 it is newer than this version.
    """
    from ledger.schema import upgrade

    settings = _settings(ledger_url, state_dir)
    before, now = upgrade(settings.ledger_url)
    if before == now:
        typer.echo(f"The ledger has schema {now} already.")
    else:
        typer.echo(f"The ledger has schema {now} now (before: {before or 'none'}).")
    return 0


@ledger_commands.command()
def stats(
    ledger_url: _Url = "",
    state_dir: _StateDir = "",
    as_json: Annotated[
        bool, typer.Option("--json", metavar="", help="As one JSON object.")
    ] = False,
) -> int:
    """Tell how much the ledger holds, of what you may see.

    Example: acp-bridge ledger stats --json

    Exit codes: 0 told; 1 there is no ledger or it cannot be read; 2 wrong
    option; 5 a database has not been prepared.
    """
    settings = _settings(ledger_url, state_dir)
    with _opened(settings, read_only=True) as ledger:
        found = ledger.stats()
    place = _place(settings)
    if as_json:
        fields = ("sessions", "archived", "entries", "bytes", "archived_bytes")
        values = {"ledger": place, **{name: getattr(found, name) for name in fields}}
        typer.echo(json.dumps(values))
        return 0
    typer.echo(clean_text(place))
    typer.echo(f"{found.sessions:,} sessions, {found.archived:,} more archived")
    typer.echo(f"{found.entries:,} entries")
    typer.echo(f"{_size(found.bytes)}, and {_size(found.archived_bytes)} in archives")
    return 0


@ledger_commands.command("import-openclaw")
def import_openclaw(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="[PATH]",
            help="OpenClaw's state directory, or one file of a ledger"
            " (default: OPENCLAW_STATE_DIR, else ~/.openclaw).",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Only tell what would be done.")
    ] = False,
    ledger_url: _Url = "",
    state_dir: _StateDir = "",
) -> int:
    """Take over the sessions that openclaw acp recorded.

    OpenClaw's files are only read. Sessions keep their ids, so that a thread
    which an editor has open still loads. It can be repeated: what is in the
    ledger already is not taken again.

    Example: acp-bridge ledger import-openclaw --dry-run

    Exit codes: 0 done; 1 a file is damaged or in use, or the ledger cannot be
    written; 2 there is nothing to import; 5 the ledger is newer than this version.
    """
    from acp_bridge.importing.openclaw import Report, import_sessions
    from acp_bridge.importing.openclaw_files import find_ledgers

    settings = _settings(ledger_url, state_dir)
    files = find_ledgers(path, os.environ)
    report = Report()
    with _target(settings, dry_run=dry_run) as ledger:
        sessions = _sessions(files, report.skipped)
        import_sessions(sessions, ledger, report, now=time.time_ns() // 1_000_000, dry_run=dry_run)
    for line in _told(report, files, _place(settings), dry_run=dry_run):
        typer.echo(clean_text(line))
    return 0


def _sessions(files: list[Path], skipped: Skipped) -> Iterator[OldSession]:
    from acp_bridge.importing.openclaw_files import read_ledger

    for file in files:
        yield from read_ledger(file, skipped)


def _told(report: Report, files: list[Path], place: str, *, dry_run: bool) -> Iterator[str]:
    names = " and ".join(map(str, files))
    yield f"Read {names}: {report.sessions:,} sessions, {report.events:,} events."
    verb = "Would write" if dry_run else "Wrote"
    yield (
        f"{verb} {report.entries:,} entries to {place}: {report.new:,} new sessions,"
        f" {report.continued:,} that have grown; {report.unchanged:,} were there already."
    )
    if report.incomplete:
        yield f"{report.incomplete:,} sessions are incomplete at OpenClaw, and marked so."
    for line in report.skipped.lines():
        yield f"Left out: {line}."


def _settings(ledger_url: str, state_dir: str) -> Settings:
    from acp_bridge.storage import secrets_of

    settings = load([f"--ledger-url={ledger_url}", f"--state-dir={state_dir}"], os.environ)
    if settings.ledger == "memory":
        raise ConfigError(
            f"{settings.source('ledger')} says memory, which holds nothing to work on",
            hint="Name a ledger with --ledger-url, or unset it.",
        )
    for secret in secrets_of(settings.ledger_url):
        register_secret(secret)
    return settings


@contextmanager
def _opened(settings: Settings, *, read_only: bool = False) -> Iterator[EventLedger]:
    import platform

    from acp_bridge.logs import without_secrets
    from acp_bridge.storage import limits_of
    from ledger import open_ledger

    ledger = open_ledger(
        settings.ledger_url,
        limits=limits_of(settings),
        host=platform.node() or None,
        redact=without_secrets,
        read_only=read_only,
    )
    try:
        yield ledger
    finally:
        ledger.close()


@contextmanager
def _target(settings: Settings, *, dry_run: bool) -> Iterator[EventLedger]:
    """The ledger to write to, or for a dry run the one to look at: none is made for that."""
    from ledger import LedgerMissing
    from ledger.memory import MemoryLedger

    with ExitStack() as stack:
        try:
            ledger = stack.enter_context(_opened(settings, read_only=dry_run))
        except LedgerMissing:
            ledger = MemoryLedger()
        yield ledger


def _place(settings: Settings) -> str:
    from ledger.engine import place_of

    return str(place_of(settings.ledger_url))


def _size(count: int) -> str:
    return f"{count / 1024 / 1024:,.1f} MiB"
