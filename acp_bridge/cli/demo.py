"""``acp-bridge demo``: a whole conversation with a scripted agent, without a gateway."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sys
import sysconfig
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from acp_bridge.cli.chat import bridge_command, make_console

if TYPE_CHECKING:
    from rich.console import Console

    from acp_bridge.cli.keyboard import Lines
    from acp_bridge.cli.screen import Screen
    from acp_bridge.demo import DemoGateway
    from acp_bridge.demo.acp import AcpDemoGateway

PROMPT: Final = "Show me around."
_NAME: Final = "acp-bridge demo"
_OURS: Final = ("ACP_BRIDGE_", "OPENCLAW_", "ZEROCLAW_")
_INTRODUCTION: Final = """\
The demo: a gateway with a scripted agent is started on 127.0.0.1, the bridge is started as an
editor would start it, and this terminal plays the editor. Nothing leaves this machine, nothing is
kept, and no command that you see is really run. The one permission is allowed for you.
"""
_IN_ZED: Final = """
Same thing inside Zed. Put this into its settings ("zed: open settings file"), then start a new
thread with "{name}" in the agent panel:
"""


class Kind(StrEnum):
    """A dialect that the demo's gateway has."""

    OPENCLAW = "openclaw"
    ACP = "acp"


def demo(
    port: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Port of the demo's gateway (default: a free one).",
            min=0,
            max=65535,
            show_default=False,
        ),
    ] = 0,
    serve: Annotated[
        bool,
        typer.Option(
            "--serve", metavar="", help="Only run the gateway, for a bridge started elsewhere."
        ),
    ] = False,
    kind: Annotated[
        Kind,
        typer.Option(help="What the demo's gateway speaks: OpenClaw's dialect, or ACP."),
    ] = Kind.OPENCLAW,
    prompt: Annotated[
        str | None,
        typer.Option(
            help="Send this prompt instead of the tour's, then leave.", show_default=False
        ),
    ] = None,
) -> int:
    """See a whole conversation with a scripted agent; needs no gateway and no network.

    On a terminal you can go on talking to it. At the end it prints the lines
    that put the same agent into Zed.

    Example: acp-bridge demo --prompt "say hello"

    Exit code 0 if the conversation ended well, else as for acp-bridge chat.
    """
    return asyncio.run(serve_gateway(port, kind) if serve else run_demo(port, prompt, kind))


async def run_demo(
    port: int = 0,
    prompt: str | None = None,
    kind: Kind = Kind.OPENCLAW,
    *,
    console: Console | None = None,
    lines: Lines | None = None,
    pace: float = 1.0,
) -> int:
    """Start gateway, bridge and client and let them talk; return the exit code."""
    # Here and not above: the SDK and the server are slow to import, and --help must not wait.
    from acp_bridge.cli.chat_client import Permission
    from acp_bridge.cli.conversation import ChatOptions, converse
    from acp_bridge.cli.keyboard import Keyboard
    from acp_bridge.cli.screen import Screen

    screen = Screen(console or make_console())
    lines = lines or Keyboard()
    screen.line(_INTRODUCTION)
    token = secrets.token_urlsafe(16)
    with tempfile.TemporaryDirectory(prefix="acp-bridge-demo-") as state:
        async with _gateway(kind)(token=token, port=port, pace=pace) as gateway:
            profiles = Path(state) / "none.toml"  # those of a real gateway are none of its business
            profiles.touch()
            where = ("--gateway-url", gateway.url, "--state-dir", state, "--config", str(profiles))
            options = ChatOptions(
                command=bridge_command(*where),
                cwd=Path.cwd(),
                prompts=(prompt or PROMPT,),
                permission=Permission.ALLOW,
                is_interactive=prompt is None and lines.is_interactive,
                env=_environment(token),
            )
            code = await converse(options, screen, lines)
    if code == 0:
        _show_settings(screen)
    return code


async def serve_gateway(
    port: int = 0, kind: Kind = Kind.OPENCLAW, *, console: Console | None = None
) -> int:
    """Run the demo's gateway alone, until SIGINT or SIGTERM."""
    from acp_bridge.cli.screen import Screen

    screen = Screen(console or make_console())
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(stopped.set))
    async with _gateway(kind)(port=port) as gateway:
        screen.line(f"The demo's gateway listens on {gateway.url}; it wants no token.")
        screen.line(f"Try: acp-bridge chat -- --gateway-url {gateway.url}")
        screen.line("Ctrl-C ends it.")
        await stopped.wait()
    return 0


def _gateway(kind: Kind) -> type[AcpDemoGateway | DemoGateway]:
    if kind is Kind.ACP:
        from acp_bridge.demo.acp import AcpDemoGateway

        return AcpDemoGateway
    from acp_bridge.demo import DemoGateway

    return DemoGateway


def zed_settings() -> str:
    """What to put into Zed's settings to have the demo agent there."""
    command, *before = own_command()
    server = {"type": "custom", "command": command, "args": [*before, "--demo"], "env": {}}
    return json.dumps({"agent_servers": {_NAME: server}}, indent=2)


def own_command() -> list[str]:
    """How to start this program from anywhere: its own script if there is one."""
    name = "acp-bridge.exe" if sys.platform == "win32" else "acp-bridge"
    started = Path(sys.argv[0])
    for script in (started, Path(sysconfig.get_path("scripts")) / name):
        if script.name == name and script.is_file():
            return [str(script.absolute())]
    return [sys.executable, "-m", "acp_bridge"]


def _show_settings(screen: Screen) -> None:
    screen.line(_IN_ZED.format(name=_NAME))
    screen.line(zed_settings())


def _environment(token: str) -> dict[str, str]:
    """Ours without the settings of a real gateway, which are none of the demo's business."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    return {**kept, "ACP_BRIDGE_TOKEN": token}
