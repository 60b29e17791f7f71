"""``acp-bridge chat``: talk to the gateway in a terminal, without an editor."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from acp_bridge.cli.conversation import ChatOptions
    from acp_bridge.cli.keyboard import Lines


def chat(
    prompt: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Send this one prompt, show the answer and leave.",
            show_default=False,
        ),
    ] = None,
    cwd: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Working directory of the session (default: this one).",
            file_okay=False,
            exists=True,
            resolve_path=True,
            show_default=False,
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", metavar="", help="Allow, once, whatever is asked for.")
    ] = False,
    deny: Annotated[
        bool, typer.Option("--deny", metavar="", help="Deny whatever is asked for.")
    ] = False,
    demo: Annotated[
        bool,
        typer.Option(
            "--demo", metavar="", help="Talk to the built-in demo agent; needs no gateway."
        ),
    ] = False,
    bridge_options: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- BRIDGE OPTIONS]",
            help="Options of the bridge itself, after two dashes.",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Talk to your gateway's agent in this terminal.

    It starts the bridge as an editor would and speaks ACP with it. Ctrl-C
    cancels a turn; a second Ctrl-C, Ctrl-D or /quit leaves. Where nobody can
    be asked, permissions are denied unless --yes is given.

    Example: acp-bridge chat --prompt "What is here?" -- --token-file ~/token

    Exit codes: 0 the turn ended well; 1 it failed; 2 wrong option; 3 the bridge
    could not start or reach the gateway; 4 the gateway refused the credentials;
    10 the agent refused; 11 and 12 it ran into a limit of tokens or requests;
    130 cancelled.
    """
    from acp_bridge.cli.chat_client import Permission
    from acp_bridge.cli.conversation import ChatOptions

    if yes and deny:
        raise typer.BadParameter("--yes and --deny exclude each other.")
    permission = Permission.ALLOW if yes else Permission.DENY if deny else Permission.ASK
    return run_chat(
        ChatOptions(
            command=bridge_command(*(["--demo"] if demo else []), *(bridge_options or [])),
            cwd=cwd or Path.cwd(),
            prompts=() if prompt is None else (prompt,),
            permission=permission,
            is_interactive=prompt is None,
            typed_permission=permission,
        )
    )


def run_chat(
    options: ChatOptions, *, console: Console | None = None, lines: Lines | None = None
) -> int:
    """Have a conversation; return the exit code that tells how it ended."""
    # Here and not above: the SDK is slow to import, and --help must not wait for it.
    from acp_bridge.cli.conversation import converse
    from acp_bridge.cli.keyboard import Keyboard
    from acp_bridge.cli.screen import Screen

    screen = Screen(console or make_console())
    return asyncio.run(converse(options, screen, lines or Keyboard()))


def bridge_command(*options: str) -> tuple[str, ...]:
    """The command line that starts this very bridge: ``-P`` keeps modules in the working
    directory from taking its place."""
    return (sys.executable, "-P", "-m", "acp_bridge", *options)


def make_console() -> Console:
    """A console on standard output; with ``NO_COLOR`` set it writes no escape sequence at all.

    When its reader leaves, the rest is said to nobody: an exception in the middle of the
    conversation would leave tasks behind that complain.
    """
    from rich.console import Console

    class Patient(Console):
        def on_broken_pipe(self) -> None:
            self.quiet = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what waits in Python's own buffer

    if os.environ.get("NO_COLOR"):
        return Patient(color_system=None, highlight=False)
    return Patient(highlight=False)
