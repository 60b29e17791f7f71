"""What the fake model answers: a keyword in the newest prompt scripts the turn.

    fake:echo N=<n>         "chunk-0 chunk-1 …" in n pieces (5)
    fake:say <text>         the text, word by word
    fake:slow N=<n> MS=<m>  "slow-0 slow-1 …", n pieces m milliseconds apart (200, 100)
    fake:stall              nothing for a minute, then "done"
    fake:think              reasoning, then an answer
    fake:tool <command>     a call of the tool exec, then what it said
    fake:toolslow <command> the same, with a long answer that takes a while
    fake:read <path>        a call of the tool read, then what it said
    fake:write <path>       a call of the tool write, then what it said
    fake:edit <path>        a call of the tool edit ("before" to "after"), then what it said
    fake:chain N=<n>        n calls of exec one after another, each after some words and a moment,
                            the second one failing; then what they said
    fake:two                two calls of exec at once, then what they said
    fake:error <status>     an HTTP error (400)
    fake:cut                three words, then the connection breaks
    fake:flood N=<n>        n pieces without a pause (2000)
    fake:image              how many images the prompt carried
    fake:empty              no text at all
    fake:length             a full answer that ends because of its length
    fake:replace            a text that the gateway rewrites after it was streamed
    fake:digest             the SHA-256 of what stands between <<< and >>> in the prompt

Pure: from a request's messages to a list of steps.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]

REPLACED = "Tool result: 1\n2\n3\n\nMore text."
"""The text of ``fake:replace``: what looks like a leaked tool result is stripped by the gateway."""

THOUGHT = ("Let me ", "think about ", "this. ")
FULL_ANSWER = "Thought through answer."


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Thought:
    text: str


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class ToolCall:
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Finish:
    reason: str = "stop"


@dataclass(frozen=True)
class Break:
    """Drop the connection in the middle of the answer."""


@dataclass(frozen=True)
class HttpError:
    status: int


Step = Text | Thought | Pause | ToolCall | Finish | Break | HttpError


@dataclass(frozen=True)
class Turn:
    """The newest turn of a request."""

    keyword: str
    argument: str
    prompt: str
    tool_results: tuple[str, ...]
    images: int


def text_of(content: Any) -> str:
    """The text of a message's content, a string or a list of parts."""
    if isinstance(content, str):
        return content
    return "\n".join(p.get("text", "") for p in content or [] if isinstance(p, dict))


def newest_turn(messages: list[Message]) -> Turn:
    """The turn to answer.

    It begins after the last answer of the assistant that called no tool. The gateway puts context
    of its own into user messages, so the last one with a keyword is the prompt.
    """
    begin = 1 + max(
        (i for i, m in enumerate(messages) if m["role"] == "assistant" and not m.get("tool_calls")),
        default=-1,
    )
    users = [i for i in range(begin, len(messages)) if messages[i]["role"] == "user"]
    keyed = [i for i in users if "fake:" in text_of(messages[i]["content"])]
    if not users:
        return Turn("", "", "", (), 0)
    place = (keyed or users)[-1]
    prompt = text_of(messages[place]["content"])
    found = re.search(r"fake:(\w+)[ \t]*([^\n]*)", prompt)
    keyword, argument = (found[1], found[2].strip()) if found else ("", "")
    results = [text_of(m["content"]) for m in messages[place + 1 :] if m["role"] == "tool"]
    return Turn(keyword, argument, prompt, tuple(results), count_images(messages[begin:]))


def count_images(messages: list[Message]) -> int:
    """Image parts in the user's messages."""
    contents = [m["content"] for m in messages if m["role"] == "user"]
    parts = [p for content in contents if isinstance(content, list) for p in content]
    return sum("image" in part.get("type", "") for part in parts)


def steps_for(turn: Turn) -> Iterator[Step]:
    """The model's answer."""
    if turn.tool_results:
        yield from _after_tools(turn)
    else:
        yield from SCRIPTS.get(turn.keyword, _unscripted)(turn)


def words(text: str, pause: float = 0.0) -> Iterator[Step]:
    """A text word by word."""
    for word in re.findall(r"\S+\s*|\s+", text):
        yield Text(word)
        if pause:
            yield Pause(pause)


def counted(prefix: str, count: int) -> str:
    """The text of ``fake:echo``, ``fake:slow`` (prefix ``slow-``) and ``fake:flood`` (none)."""
    return " ".join(f"{prefix}{index}" for index in range(count))


def number(turn: Turn, name: str, default: int) -> int:
    found = re.search(rf"\b{name}=(\d+)", turn.argument)
    return int(found[1]) if found else default


def _after_tools(turn: Turn) -> Iterator[Step]:
    if turn.keyword == "chain" and len(turn.tool_results) < number(turn, "N", 3):
        yield from _chain(turn)
        return
    said = " | ".join(result.strip()[:200] for result in turn.tool_results)
    if turn.keyword == "toolslow":
        yield from words(f"The tool said: {said} " + "and then " * 30, 0.1)
    else:
        yield from words(f"The tool said: {said}")
    yield Finish()


def _unscripted(turn: Turn) -> Iterator[Step]:
    yield from words(f"You said: {turn.prompt[-300:]}")
    yield Finish()


def _counted(prefix: str, count: int, pause: float) -> Iterator[Step]:
    # No white space at the end: the gateway would trim it.
    for index in range(count):
        yield Text(f" {prefix}{index}" if index else f"{prefix}{index}")
        if pause:
            yield Pause(pause)
    yield Finish()


def _echo(turn: Turn) -> Iterator[Step]:
    yield from _counted("chunk-", number(turn, "N", 5), 0.02)


def _say(turn: Turn) -> Iterator[Step]:
    yield from words(turn.argument, 0.02)
    yield Finish()


def _slow(turn: Turn) -> Iterator[Step]:
    yield from _counted("slow-", number(turn, "N", 200), number(turn, "MS", 100) / 1000)


def _stall(turn: Turn) -> Iterator[Step]:
    yield Pause(60)
    yield Text("done")
    yield Finish()


def _think(turn: Turn) -> Iterator[Step]:
    for part in THOUGHT:
        yield Thought(part)
        yield Pause(0.05)
    yield from words(FULL_ANSWER, 0.02)
    yield Finish()


def _tool(turn: Turn) -> Iterator[Step]:
    yield from words("Calling a tool. ")
    yield ToolCall("exec", {"command": turn.argument or "echo hi"})
    yield Finish("tool_calls")


def _read(turn: Turn) -> Iterator[Step]:
    yield ToolCall("read", {"path": turn.argument})
    yield Finish("tool_calls")


def _write(turn: Turn) -> Iterator[Step]:
    yield ToolCall("write", {"path": turn.argument, "content": "written\n"})
    yield Finish("tool_calls")


def _edit(turn: Turn) -> Iterator[Step]:
    edits = [{"oldText": "before", "newText": "after"}]
    yield ToolCall("edit", {"path": turn.argument, "edits": edits})
    yield Finish("tool_calls")


def chained(count: int) -> list[str]:
    """What ``fake:chain`` says before each of its calls."""
    return [f"Now comes step {index} of the {count}." for index in range(1, count + 1)]


def _chain(turn: Turn) -> Iterator[Step]:
    place = len(turn.tool_results)
    yield from words(chained(number(turn, "N", 3))[place] + " ", 0.06)
    command = f"sleep 0.5; echo step-{place + 1}"
    yield ToolCall("exec", {"command": command + "; false" * (place == 1)})
    yield Finish("tool_calls")


def _two(turn: Turn) -> Iterator[Step]:
    yield ToolCall("exec", {"command": "echo one"})
    yield ToolCall("exec", {"command": "echo two"})
    yield Finish("tool_calls")


def _error(turn: Turn) -> Iterator[Step]:
    yield HttpError(int(turn.argument) if turn.argument.isdigit() else 400)


def _cut(turn: Turn) -> Iterator[Step]:
    yield from words("one two three ")
    yield Break()


def _flood(turn: Turn) -> Iterator[Step]:
    yield from _counted("", number(turn, "N", 2000), 0.0)


def _image(turn: Turn) -> Iterator[Step]:
    yield Text(f"images={turn.images}")
    yield Finish()


def _empty(turn: Turn) -> Iterator[Step]:
    yield Finish()


def _length(turn: Turn) -> Iterator[Step]:
    yield from words("This answer ends too")
    yield Finish("length")


def _replace(turn: Turn) -> Iterator[Step]:
    yield from words(REPLACED, 0.02)
    yield Finish()


def _digest(turn: Turn) -> Iterator[Step]:
    _, _, rest = turn.prompt.partition("<<<")
    body, end, _ = rest.rpartition(">>>")
    digest = hashlib.sha256(body.encode()).hexdigest() if end else "no body"
    yield Text(f"digest={digest}")
    yield Finish()


SCRIPTS: dict[str, Callable[[Turn], Iterator[Step]]] = {
    "echo": _echo,
    "say": _say,
    "slow": _slow,
    "stall": _stall,
    "think": _think,
    "tool": _tool,
    "toolslow": _tool,
    "read": _read,
    "write": _write,
    "edit": _edit,
    "chain": _chain,
    "two": _two,
    "error": _error,
    "cut": _cut,
    "flood": _flood,
    "image": _image,
    "empty": _empty,
    "length": _length,
    "replace": _replace,
    "digest": _digest,
}
