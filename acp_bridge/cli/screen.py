"""What ``acp-bridge chat`` shows: an agent's updates as lines of a terminal.

Everything an agent says is data here: control characters are made visible and nothing is read as
markup, so no text can move the cursor, forge a question or hide a part of itself.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console
from rich.text import Text

_HIDDEN: Final = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
"""Characters that reorder what is shown."""
_OUTPUT_LINES: Final = 12
_DIFF_LINES: Final = 40
_TITLE_LENGTH: Final = 100
_INDENT: Final = "    "
_MARKS: Final = {
    "pending": ("○", "-"),
    "in_progress": ("▸", ">"),
    "completed": ("✓", "+"),
    "failed": ("✗", "x"),
}
_STYLES: Final = {"completed": "green", "failed": "red", "in_progress": "cyan"}
_DIFF_STYLES: Final = {"+": "green", "-": "red", "@": "cyan"}


def clean(text: str, encoding: str = "utf-8") -> str:
    """A text without control characters other than line feed and tab, in what can be shown."""
    shown = "".join(map(_visible, text.replace("\r\n", "\n")))
    return shown.encode(encoding, "replace").decode(encoding, "replace")


def _visible(character: str) -> str:
    code = ord(character)
    if character in "\n\t":
        return character
    if code < 0x20:
        return chr(0x2400 + code)
    if 0x7F <= code < 0xA0 or character in _HIDDEN or 0xD800 <= code < 0xE000:
        return "\ufffd"
    return character


class Screen:
    """Writes a conversation to a console, one block after the other.

    The agent's answer and its thoughts flow on as they come; between them and the lines about
    plans, tools and questions stands an empty line. Without a terminal it is plain text.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._encoding = console.encoding or "utf-8"
        self._is_rich = self._encoding.lower().startswith("utf")
        self._kind: str | None = None
        self._ends_line = True
        self._titles: dict[str, str] = {}
        self._states: dict[str, str | None] = {}
        self._shown: dict[str, set[str]] = {}

    def message(self, text: str) -> None:
        """More of the agent's answer."""
        self._begin("message")
        self._put(text, "")

    def thought(self, text: str) -> None:
        """More of the agent's thoughts, dimmed."""
        self._begin("thought")
        self._put(text, "dim italic")

    def plan(self, entries: Sequence[tuple[str, str]]) -> None:
        """The whole plan: contents and their states."""
        self._begin()
        self.line("Plan", "bold")
        for content, status in entries:
            self.line(f"  {self._mark(status)} {content}", _STYLES.get(status, ""))

    def tool(
        self,
        tool_call_id: str,
        *,
        title: str | None = None,
        status: str | None = None,
        contents: Sequence[Any] = (),
    ) -> None:
        """A tool call or news of one: its title when that is new, its state when that changes,
        and whatever output or diff was not shown before."""
        self._begin()
        is_new = tool_call_id not in self._titles
        title = title or self._titles.get(tool_call_id, tool_call_id)
        if is_new or title != self._titles[tool_call_id] or self._is_news(tool_call_id, status):
            status = status or self._states.get(tool_call_id) or "pending"
            self._titles[tool_call_id], self._states[tool_call_id] = title, status
            shown = _clipped(title)
            self.line(f"{self._mark(status)} {shown}  [{status}]", _STYLES.get(status, ""))
        for content in contents:
            self._tool_content(tool_call_id, content)

    def question(self, title: str, options: Sequence[str]) -> None:
        """A permission that is asked for, with numbered answers."""
        self._begin()
        self.line(f"Permission needed: {title}", "bold yellow")
        for number, name in enumerate(options, 1):
            self.line(f"  {number}. {name}")

    def note(self, text: str) -> None:
        """A remark of the client itself, dimmed."""
        self._begin()
        self.line(text, "dim")

    def error(self, text: str) -> None:
        """A failure."""
        self._begin()
        self.line(text, "bold red")

    def prompt(self, text: str) -> None:
        """What stands before the line that the user types."""
        self._begin()
        self._put(text, "bold")

    def entered(self) -> None:
        """The user's own Enter has ended the line."""
        self._ends_line = True

    def line(self, text: str, style: str = "") -> None:
        """One line, or several, at the start of a line."""
        self._put(f"{text}\n", style)

    # Inside

    def _begin(self, kind: str = "lines") -> None:
        """Begin or go on with a block."""
        if kind == self._kind != "lines":
            return
        if not self._ends_line:
            self._put("\n", "")
        if self._kind not in (None, kind):
            self._put("\n", "")
        self._kind = kind

    def _put(self, text: str, style: str) -> None:
        shown = clean(text, self._encoding)
        if shown:
            self._ends_line = shown.endswith("\n")
            self._console.print(Text(shown, style=style), end="", soft_wrap=True)

    def _is_news(self, tool_call_id: str, status: str | None) -> bool:
        return status is not None and status != self._states.get(tool_call_id)

    def _mark(self, status: str) -> str:
        rich, plain = _MARKS.get(status, ("?", "?"))
        return rich if self._is_rich else plain

    def _tool_content(self, tool_call_id: str, content: Any) -> None:
        seen = self._shown.setdefault(tool_call_id, set())
        if content.type == "diff":
            lines = _diff(content.path, content.old_text or "", content.new_text)
            limit = _DIFF_LINES
        elif content.type == "content" and content.content.type == "text":
            lines = content.content.text.strip("\n").split("\n")
            limit = _OUTPUT_LINES
        else:
            lines, limit = [f"({content.type})"], 1
        text = "\n".join(lines)
        if not text.strip() or text in seen:
            return
        seen.add(text)
        is_diff = content.type == "diff"
        for line in lines[:limit]:
            style = _DIFF_STYLES.get(line[:1], "") if is_diff else "dim"
            self.line(_INDENT + line, style)
        if len(lines) > limit:
            self.line(f"{_INDENT}({len(lines) - limit} more lines)", "dim")


def _clipped(title: str) -> str:
    """A title on one line of bearable length."""
    line = " ".join(title.split())
    return line if len(line) <= _TITLE_LENGTH else f"{line[: _TITLE_LENGTH - 3]}..."


def _diff(path: str, old: str, new: str) -> list[str]:
    """A unified diff, its file named once."""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=2)
    return [path, *list(lines)[2:]]
