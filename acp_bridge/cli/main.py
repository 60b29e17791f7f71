"""The command line for people: help, versions, and the commands that talk to a terminal.

Serving is not done here but in :mod:`acp_bridge.cli.serve`; the options shown are the same table.
"""

from __future__ import annotations

import inspect
import json
import platform
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any, Final

import typer

from acp_bridge import __version__
from acp_bridge.cli.chat import chat
from acp_bridge.cli.config import config_commands
from acp_bridge.cli.demo import demo
from acp_bridge.cli.failures import EXIT_CODES, say_error
from acp_bridge.cli.ledger import ledger_commands
from acp_bridge.cli.pair import pair
from acp_bridge.config import OPTIONS, VERBOSE, VERBOSE_HELP, Option
from acp_bridge.gateway.dialects.openclaw.opening import MAX_PROTOCOL, MIN_PROTOCOL
from acp_bridge.wire.acp import PROTOCOL_VERSION

GATEWAY_PROTOCOLS: Final = f"{MIN_PROTOCOL}-{MAX_PROTOCOL}"

_PROGRAM: Final = "acp-bridge"

_ABOUT: Final = """Connect an editor that speaks ACP to an agent gateway.

An editor starts this command and talks to it over stdin and stdout. On a terminal, begin with:

    acp-bridge demo    see a whole conversation, without a gateway

    acp-bridge chat    talk to your gateway

    acp-bridge pair    get a token from a ZeroClaw gateway

    acp-bridge config  show the options in force, and where each comes from

    acp-bridge ledger  look after what was recorded
"""

_SERVE: Final = """Serve an editor; what acp-bridge does without a command.

Example, in an editor's agent settings:

    "command": "acp-bridge", "args": ["--token-file", "~/gateway-token"]

Each option has a variable too: --session-label is ACP_BRIDGE_SESSION_LABEL. A flag beats it.
"""

_EXIT_CODES: Final = "Exit codes: " + "; ".join(
    f"{code} {meaning}" for code, meaning in EXIT_CODES.items()
)


def run(argv: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    if "--version" in argv:
        typer.echo(_versions(as_json="--json" in argv))
        return 0
    try:
        result = _application()(args=list(argv), prog_name=_PROGRAM, standalone_mode=False)
        sys.stdout.flush()  # noqa: TID251 - here a reader that is gone can still be told apart
    except typer.TyperException as error:
        # Without a command there is no message: the help has been shown instead.
        sys.stdout.flush()  # noqa: TID251 - see above
        context = getattr(error, "ctx", None)
        asked = _PROGRAM if context is None else context.command_path
        message = error.format_message() or f"{asked} needs a command."
        say_error(message, f"{asked} --help explains the commands and options.")
        return error.exit_code
    except typer.Abort:  # Ctrl-C at a question
        return 130
    return result if isinstance(result, int) else 0


def _application() -> typer.Typer:
    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    app.callback(invoke_without_command=True, help=_ABOUT, epilog=_EXIT_CODES)(
        _with_options(version=_VERSION, json=_JSON)
    )
    app.command("serve", help=_SERVE, epilog=_EXIT_CODES)(_with_options())
    app.command("chat")(chat)
    app.command("demo")(demo)
    app.command("pair")(pair)
    app.add_typer(config_commands, name="config")
    app.add_typer(ledger_commands, name="ledger")
    return app


def _with_options(**more: Any) -> Callable[..., None]:
    """A function with one parameter for each option. It is there for its help alone."""

    def explain(**_: object) -> None: ...

    parameters = {option.field: _parameter(option) for option in OPTIONS}
    parameters["verbose"] = Annotated[
        bool,
        typer.Option(*VERBOSE, help=VERBOSE_HELP, metavar="", rich_help_panel="Files and logs"),
    ]
    parameters |= more
    explain.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # typer reads it
        [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=annotation,
                default=None,
            )
            for name, annotation in parameters.items()
        ]
    )
    return explain


def _parameter(option: Option) -> Any:
    flags = (option.shown_flag,) if option.is_switch else option.flags
    default = "" if option.default is None or option.is_switch else f" (default: {option.default})"
    details = typer.Option(
        *flags,
        help=f"{option.help}{default}",
        metavar=option.metavar,
        show_default=False,
        rich_help_panel=option.group,
    )
    return Annotated[bool if option.is_switch else str, details]


_VERSION: Final = Annotated[
    bool,
    typer.Option("--version", metavar="", help="Show the versions of everything that matters."),
]
_JSON: Final = Annotated[
    bool, typer.Option("--json", metavar="", help="With --version: as one JSON object.")
]


def _versions(*, as_json: bool) -> str:
    try:
        sdk = version("agent-client-protocol")
    except PackageNotFoundError:
        sdk = "missing"
    if as_json:
        return json.dumps(
            {
                "acp-bridge": __version__,
                "python": platform.python_version(),
                "acp": PROTOCOL_VERSION,
                "gateway-protocol": GATEWAY_PROTOCOLS,
                "agent-client-protocol": sdk,
                "platform": platform.platform(),
            }
        )
    return (
        f"{_PROGRAM} {__version__} (python {platform.python_version()}, ACP v{PROTOCOL_VERSION},"
        f" gateway protocol {GATEWAY_PROTOCOLS}, agent-client-protocol {sdk})"
    )
