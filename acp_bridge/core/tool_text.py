"""A tool call in words: its title, its kind, and its results as content of bounded size.

The format of titles and the places where texts are looked for are those of the bridge that
OpenClaw ships, measured with both versions, so that editors show the same cards. The kind differs
on purpose: it is told by whole words of the tool's name, since by substrings ``thread_list`` would
read and ``prune`` would execute.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

from acp_bridge.ids import Json
from acp_bridge.wire import updates
from acp_bridge.wire.content import (
    cut_middle,
    escape_controls,
    image_block,
    inline_data,
    text_block,
    utf8_size,
    utf16_units,
    well_formed,
)

TEXT_LIMIT: Final = 128 * 1024
"""Bytes of UTF-8 of all texts in one update."""
IMAGE_LIMIT: Final = 1024 * 1024
"""Base64 characters of all images in one update."""
_LEAST_TEXT: Final = 256

_VALUE_UNITS: Final = 100
_TITLE_UNITS: Final = 1_000
_TITLE_VALUES: Final = 100
_STRING_LIMIT: Final = 16 * 1024
_DEPTH: Final = 12
_NODES: Final = 2_000
_RAW_BUDGET: Final = 64 * 1024
_LEFT_OUT: Final = "[…]"
_SAFE_INTEGER: Final = 2**63

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_KINDS: Final = (
    ("read", frozenset({"read", "view", "cat", "open"})),
    ("edit", frozenset({"write", "edit", "patch", "create", "replace", "apply"})),
    ("delete", frozenset({"delete", "remove", "rm", "unlink"})),
    ("move", frozenset({"move", "rename", "mv"})),
    ("search", frozenset({"search", "find", "grep", "glob", "rg"})),
    (
        "execute",
        frozenset({"exec", "run", "bash", "sh", "shell", "command", "terminal", "process"}),
    ),
    (
        "fetch",
        frozenset({"fetch", "http", "https", "curl", "browse", "browser", "download", "web"}),
    ),
    ("think", frozenset({"think", "plan", "reason"})),
)


def tool_kind(name: str | None) -> str:
    """The ACP kind for a tool's name, by its words; the first kind of the table that has one."""
    words = {word.lower() for word in _WORD.findall(name or "")}
    return next((kind for kind, known in _KINDS if words & known), "other")


def tool_title(name: str | None, args: Any) -> str:
    """``name: key: value, key2: value2`` on one line, each value cut at 100 UTF-16 units."""
    title = name or "tool"
    if isinstance(args, dict) and args:
        shown = islice(args.items(), _TITLE_VALUES)
        title += ": " + ", ".join(f"{key}: {_short(value)}" for key, value in shown)
    return one_line(title)


def one_line(text: str) -> str:
    """A title of bounded length, with control characters as visible escapes."""
    return _cut_units(escape_controls(_cut_units(text, _TITLE_UNITS)), _TITLE_UNITS)


def parsed_args(args: Any) -> Any:
    """Arguments as the tool got them: a string that holds a JSON object is that object."""
    if isinstance(args, str) and args.lstrip().startswith("{"):
        try:
            parsed = json.loads(args)
        except (ValueError, RecursionError):
            return args
        return parsed
    return args


def bounded(value: Any) -> Any:
    """A JSON value as it can be passed on: strict JSON, and of bounded depth and size.

    Long strings are cut in the middle; what is too deep or too much becomes ``[…]``.
    """
    return _Bounded().value(value, 0)


def result_text(result: Any) -> str:
    """The text of a tool's result, as one string."""
    return "\n".join(text for text in _texts(result) if not is_blank(text))


def is_blank(text: str) -> bool:
    """Whether ``text`` shows nothing. Unlike ``strip`` it copies nothing."""
    return not text or text.isspace()


def result_content(result: Any) -> list[Json]:
    """The content blocks of a tool's result, as contents of a tool call.

    Texts of ``content[]``, else the first of ``text``, ``message`` and ``error``; resources with
    their URI; images. All texts together are at most 128 KiB, all images 1 MiB of base64.
    """
    text_room, image_room = TEXT_LIMIT, IMAGE_LIMIT
    blocks: list[Json] = []
    for block in _blocks(result):
        if block["type"] == "image":
            image_room -= len(block["data"])
            if image_room < 0:
                block = _left_out(block)
        if block["type"] == "text":
            if is_blank(block["text"]):
                continue
            block = text_block(cut_middle(block["text"], max(text_room, _LEAST_TEXT)))
            text_room -= utf8_size(block["text"])
        blocks.append(updates.content(block))
        if text_room < _LEAST_TEXT:
            break
    return blocks


def without_echo(result: Any, text: str) -> Any:
    """What of ``result`` its content does not show already; None for nothing.

    Left out are the blocks that :func:`result_content` understands and OpenClaw's copies of the
    text (``aggregated`` and ``tail``).
    """
    if isinstance(result, str):
        return None
    if not isinstance(result, dict):
        return result
    rest = dict(result)
    if isinstance(rest.get("content"), list):
        rest["content"] = [part for part in rest["content"] if not _is_understood(part)]
        if not rest["content"]:
            del rest["content"]
    if isinstance(rest.get("details"), dict):
        rest["details"] = {
            name: value
            for name, value in rest["details"].items()
            if name not in ("aggregated", "tail") or not _is_same(value, text)
        }
    return rest or None


def _is_understood(part: Any) -> bool:
    return isinstance(part, dict) and any(True for _ in _block(part))


def _is_same(value: Any, text: str) -> bool:
    return isinstance(value, str) and value.strip() == text.strip()


def _short(value: Any) -> str:
    text = (
        value
        if isinstance(value, str)
        else json.dumps(bounded(value), ensure_ascii=False, separators=(",", ":"))
    )
    return _cut_units(text, _VALUE_UNITS)


def _cut_units(text: str, limit: int) -> str:
    """``text`` with at most ``limit`` UTF-16 units and, if it was longer, three dots."""
    head = well_formed(text[: limit + 1])
    if utf16_units(head) <= limit and len(text) <= limit:
        return head
    units = head.encode("utf-16-le")[: 2 * limit]
    return units.decode("utf-16-le", "ignore") + "..."


def _texts(result: Any) -> Iterable[str]:
    return (block["text"] for block in _blocks(result) if block["type"] == "text")


def _blocks(result: Any) -> list[Json]:
    if isinstance(result, str):
        return [text_block(result)]
    if not isinstance(result, dict):
        return []
    content = result.get("content")
    parts = content if isinstance(content, list) else []
    blocks = [block for part in parts if isinstance(part, dict) for block in _block(part)]
    if any(block["type"] != "text" or not is_blank(block["text"]) for block in blocks):
        return blocks
    texts = (result.get(name) for name in ("text", "message", "error"))
    return [text_block(text) for text in texts if isinstance(text, str)][:1]


def _block(part: Json) -> Iterable[Json]:
    match part:
        case {"type": "text", "text": str(text)}:
            yield text_block(text)
        case {"type": "image", "data": str(data), "mimeType": str(mime_type)}:
            yield _image(data, mime_type)
        case {"type": "resource", "resource": {"uri": str(uri), "text": str(text)}}:
            yield text_block(f"[Resource] {escape_controls(uri)}\n{text}")
        case {"type": "resource", "resource": {"uri": str(uri)}}:
            yield text_block(f"[Resource] {escape_controls(uri)}")
        case {"type": "resource_link", "uri": str(uri)}:
            yield text_block(f"[Resource link] {escape_controls(uri)}")
        case _:
            return


def _image(data: str, mime_type: str) -> Json:
    try:
        data, _ = inline_data(data)
    except ValueError as error:
        return text_block(f"[An image ({escape_controls(mime_type)}) whose data {error}]")
    return image_block(data, well_formed(mime_type))


def _left_out(image: Json) -> Json:
    size = len(image["data"]) * 3 // 4
    return text_block(f"[An image ({escape_controls(image['mimeType'])}, {size} bytes) left out]")


class _Bounded:
    """Copies a JSON value within a budget."""

    def __init__(self) -> None:
        self._nodes = _NODES
        self._bytes = _RAW_BUDGET

    def value(self, value: Any, depth: int) -> Any:
        self._nodes -= 1
        if self._nodes < 0 or self._bytes <= 0 or depth > _DEPTH:
            return _LEFT_OUT
        match value:
            case str():
                return self._text(value)
            case bool() | None:
                return value
            case int():
                return value if -_SAFE_INTEGER <= value < _SAFE_INTEGER else str(value)
            case float():
                return value if math.isfinite(value) else str(value)
            case dict():
                return self._object(value, depth)
            case list():
                return self._list(value, depth)
            case _:
                return _LEFT_OUT

    def _text(self, text: str) -> str:
        text = cut_middle(text, _STRING_LIMIT)
        self._bytes -= utf8_size(text)
        return text

    def _object(self, value: Json, depth: int) -> Json:
        copy: Json = {}
        for name, member in value.items():
            if self._nodes <= 0 or self._bytes <= 0:
                copy[_LEFT_OUT] = len(value) - len(copy)
                break
            copy[self._text(str(name))] = self.value(member, depth + 1)
        return copy

    def _list(self, value: list[Any], depth: int) -> list[Any]:
        copy: list[Any] = []
        for item in value:
            if self._nodes <= 0 or self._bytes <= 0:
                copy.append(_LEFT_OUT)
                break
            copy.append(self.value(item, depth + 1))
        return copy
