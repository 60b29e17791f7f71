"""Holding a conversation of ``acp-bridge chat`` in a test: a console that is read, lines that are
typed, and the scripted agent."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from acp_bridge.cli.chat import run_chat
from acp_bridge.cli.chat_client import Permission
from acp_bridge.cli.conversation import ChatOptions

Json = dict[str, Any]
Step = Sequence[Any]
_AGENT = Path(__file__).with_name("scripted_agent.py")


class TypedLines:
    """What a user types: one line each time that somebody waits for one; then the end of input.

    ``ahead`` is typed before anybody asks for it.
    """

    def __init__(self, *lines: str, is_interactive: bool = True, ahead: Sequence[str] = ()) -> None:
        self.is_interactive = is_interactive
        self._lines = list(lines)
        self._ahead = list(ahead)

    async def read(self) -> str | None:
        if self._ahead:
            return self._ahead.pop(0)
        return self._lines.pop(0) if self._lines else None

    def discard(self) -> None:
        self._ahead.clear()


class WatchedOutput(io.StringIO):
    """Output that calls ``action`` once each time a new text of ``marks`` is in it."""

    def __init__(self, marks: Sequence[str] = (), action: Callable[[], object] | None = None):
        super().__init__()
        self._marks = list(marks)
        self._action = action

    def write(self, text: str) -> int:
        written = super().write(text)
        while self._action and self._marks and self._marks[0] in self.getvalue():
            self._marks.pop(0)
            self._action()
        return written


def agent_command(*arguments: str) -> tuple[str, ...]:
    """The command line of the scripted agent."""
    return (sys.executable, str(_AGENT), *arguments)


def prompt(*steps: Step) -> str:
    """A prompt that makes the scripted agent take these steps."""
    return json.dumps(steps)


def message(text: str) -> Step:
    """The step of saying something."""
    return chunk("agent_message_chunk", text)


def chunk(kind: str, text: str) -> Step:
    """The step of one chunk of text."""
    return ["update", {"sessionUpdate": kind, "content": {"type": "text", "text": text}}]


def chat(
    *prompts: str,
    lines: TypedLines | None = None,
    output: WatchedOutput | None = None,
    command: Sequence[str] | None = None,
    permission: Permission = Permission.ASK,
    is_interactive: bool = False,
) -> tuple[int, str]:
    """Hold a conversation; return its exit code and what was shown of the agent."""
    output = output or WatchedOutput()
    options = ChatOptions(
        command=tuple(command or agent_command()),
        cwd=Path.cwd(),
        prompts=prompts,
        permission=permission,
        is_interactive=is_interactive,
        typed_permission=permission,
    )
    console = Console(file=output, width=200)
    code = run_chat(options, console=console, lines=lines or TypedLines(is_interactive=False))
    shown = [line for line in output.getvalue().splitlines() if not line.startswith("> [[")]
    return code, "\n".join(shown)
