"""The files that a tool call touches, found in its arguments and results.

Where paths are looked for is as in the bridge that OpenClaw ships. Paths are made absolute, since
ACP has no other ones (overview): a relative one is taken to be below the session's working
directory.
"""

from __future__ import annotations

import math
import ntpath
import posixpath
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.parse import unquote

from acp_bridge.ids import Json
from acp_bridge.wire.content import well_formed

LOCATION_LIMIT: Final = 50
"""Locations of one tool call."""

_PATH_LENGTH: Final = 4_096
_DEPTH: Final = 4
_NODES: Final = 100
_SCANNED: Final = 256 * 1024
"""Characters of a text in which marked lines are looked for."""

_WORDS: Final = ("target", "source", "destination", "old", "new", "output", "input")
_PATH_KEYS: Final = (
    "path",
    "filePath",
    "file_path",
    "targetFile",
    "target_file",
    *(f"{word}Path" for word in _WORDS),
    *(f"{word}_path" for word in _WORDS),
)
_LINE_KEYS: Final = ("line", "lineNumber", "line_number", "startLine", "start_line")
_MARKED_LINE = re.compile(r"^(?:FILE|MEDIA):(.*)$", re.MULTILINE)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]|\\\\")
_FORBIDDEN = re.compile(r"[\0\r\n]")


def absolute_path(path: str, cwd: str) -> str | None:
    """``path`` as an absolute, normalised one; None for what is no path of a file here.

    ``file:`` URLs are decoded; other URLs, paths below somebody's ``~``, and paths with line
    breaks or more than 4,096 characters are none.
    """
    path = path.strip()
    if path[:7].lower() == "file://":
        path = unquote(path[7:].removeprefix("localhost"))
        if not path.startswith("/"):
            return None
        if _DRIVE.match(path, 1):
            path = path[1:]
    if not path or len(path) > _PATH_LENGTH or path[0] == "~":
        return None
    if _FORBIDDEN.search(path) or _URL.match(path):
        return None
    if _DRIVE.match(path) or (_DRIVE.match(cwd) and not path.startswith("/")):
        return well_formed(ntpath.normpath(ntpath.join(cwd, path)))
    return well_formed(posixpath.normpath(posixpath.join(cwd, path)))


def locations(values: Iterable[Any], cwd: str) -> list[Json]:
    """The locations in tool arguments and results, each file once, at most 50."""
    return merged([], (found for value in values for found in _walk(value, cwd)))


def merged(known: list[Json], more: Iterable[Json]) -> list[Json]:
    """``known`` and ``more`` with each file once; one with a line replaces one without."""
    by_path = {location["path"]: location for location in known}
    for location in more:
        path = location["path"]
        if path in by_path and ("line" in by_path[path] or "line" not in location):
            continue
        if path not in by_path and len(by_path) >= LOCATION_LIMIT:
            continue
        by_path[path] = location
    return [*by_path.values()]


def _walk(root: Any, cwd: str) -> Iterator[Json]:
    waiting = [(root, 0)]
    for _ in range(_NODES):
        if not waiting:
            return
        value, depth = waiting.pop(0)
        if isinstance(value, str):
            yield from _marked(value, cwd)
        elif isinstance(value, dict):
            yield from _own(value, cwd)
            if depth < _DEPTH:
                waiting += [(child, depth + 1) for child in _children(value)]
        elif isinstance(value, list) and depth < _DEPTH:
            waiting += [(child, depth + 1) for child in value[:_NODES]]


def _children(value: Json) -> Iterator[Any]:
    for index, (name, child) in enumerate(value.items()):
        if index >= _NODES:
            return
        if name == "content" and isinstance(child, list):
            yield from (part.get("text") for part in child[:_NODES] if _is_text_block(part))
        elif name not in _PATH_KEYS:
            yield child


def _is_text_block(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "text"


def _own(value: Json, cwd: str) -> Iterator[Json]:
    line = next((line for key in _LINE_KEYS if (line := _line(value.get(key)))), None)
    for key in _PATH_KEYS:
        path = value.get(key)
        if isinstance(path, str) and (found := absolute_path(path, cwd)):
            yield {"path": found} if line is None else {"path": found, "line": line}


def _line(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return math.floor(value) if 1 <= value < 2**31 else None


def _marked(text: str, cwd: str) -> Iterator[Json]:
    for match in _MARKED_LINE.finditer(text[:_SCANNED]):
        if found := absolute_path(match[1], cwd):
            yield {"path": found}
