"""The changes of files that a tool's arguments announce, as diffs.

Three kinds of tools are understood: those that write a whole file (``path`` and ``content``), those
that replace pieces of one (``oldText`` and ``newText``, alone or in ``edits[]``) and
``apply_patch`` with its text format. What is not understood gives no diff and no error. A deletion
or a plain move has no text to show and is a location only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from acp_bridge.core.locations import absolute_path, merged
from acp_bridge.core.tool_text import TEXT_LIMIT, tool_kind
from acp_bridge.ids import Json
from acp_bridge.wire import updates
from acp_bridge.wire.content import cut_middle, utf8_size

DIFF_LIMIT: Final = 50
"""Diffs of one tool call."""

_PATH_KEYS: Final = ("path", "file_path", "filePath", "filename", "file")
_OLD_KEYS: Final = ("oldText", "old_text", "old_string", "oldString", "old_str")
_NEW_KEYS: Final = ("newText", "new_text", "new_string", "newString", "new_str")
_CONTENT_KEYS: Final = ("content", "contents", "file_text")
_PATCH_KEYS: Final = ("input", "patch")
_BEGIN: Final = "*** Begin Patch"


class Changes(NamedTuple):
    """``diffs`` are contents of a tool call, ``locations`` all files that change."""

    diffs: tuple[Json, ...] = ()
    locations: tuple[Json, ...] = ()


@dataclass(slots=True)
class _Change:
    path: str
    old: str | None
    new: str | None
    """None: nothing to show."""


@dataclass(slots=True)
class _Hunk:
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)

    def take(self, line: str) -> None:
        mark, text = line[:1], line[1:]
        if mark != "+":
            self.old.append(text)
        if mark != "-":
            self.new.append(text)


def changes(name: str | None, args: Any, cwd: str) -> Changes:
    """What a tool called ``name`` is going to change, as far as its arguments say."""
    if tool_kind(name) != "edit":
        return Changes()
    diffs: list[Json] = []
    locations: list[Json] = []
    room = TEXT_LIMIT
    for change in _changes(args):
        path = absolute_path(change.path, cwd)
        if path is None:
            continue
        locations = merged(locations, [{"path": path}])
        if change.new is None or len(diffs) >= DIFF_LIMIT or room <= 0:
            continue
        old = None if change.old is None else cut_middle(change.old, TEXT_LIMIT // 2)
        new = cut_middle(change.new, TEXT_LIMIT // 2)
        room -= utf8_size(old or "") + utf8_size(new)
        diffs.append(updates.diff(path, old, new))
    return Changes(tuple(diffs), tuple(locations))


def _changes(args: Any) -> Iterator[_Change]:
    if isinstance(args, str):
        yield from _patch(args)
    if not isinstance(args, dict):
        return
    patch = _text(args, _PATCH_KEYS)
    if patch is not None and patch.lstrip().startswith(_BEGIN):
        yield from _patch(patch)
        return
    path = _text(args, _PATH_KEYS)
    if path is None:
        return
    edits = args["edits"] if isinstance(args.get("edits"), list) else [args]
    for edit in edits:
        if isinstance(edit, dict):
            yield from _edit(path, edit)


def _edit(path: str, edit: Json) -> Iterator[_Change]:
    old, new = _text(edit, _OLD_KEYS), _text(edit, _NEW_KEYS)
    if old is not None and new is not None:
        yield _Change(path, old, new)
    elif (content := _text(edit, _CONTENT_KEYS)) is not None:
        yield _Change(path, None, content)


def _text(fields: Json, names: tuple[str, ...]) -> str | None:
    return next((fields[name] for name in names if isinstance(fields.get(name), str)), None)


def _patch(text: str) -> Iterator[_Change]:
    """The changes in OpenClaw's patch format: sections that begin with ``*** Add File: path``,
    ``*** Update File: path`` (then maybe ``*** Move to: path``) or ``*** Delete File: path``."""
    lines = text.strip().split("\n")
    if lines[0].rstrip() != _BEGIN:
        return
    section: list[str] = []
    for line in lines[1:]:
        if line.startswith(("*** Add File: ", "*** Update File: ", "*** Delete File: ")):
            yield from _section(section)
            section = []
        elif line.rstrip() == "*** End Patch":
            break
        section.append(line.rstrip("\r"))
    yield from _section(section)


def _section(lines: list[str]) -> Iterator[_Change]:
    if not lines:
        return
    verb, _, path = lines[0].removeprefix("*** ").partition(" File: ")
    body = lines[1:]
    match verb:
        case "Add":
            added = [line[1:] for line in body if line.startswith("+")]
            yield _Change(path, None, "".join(f"{line}\n" for line in added))
        case "Delete":
            yield _Change(path, None, None)
        case "Update":
            yield from _update(path, body)
        case _:
            return


def _update(path: str, body: list[str]) -> Iterator[_Change]:
    yield _Change(path, None, None)
    if body and body[0].startswith("*** Move to: "):
        path = body[0].removeprefix("*** Move to: ")
        yield _Change(path, None, None)
    hunk = _Hunk()
    for line in [*body, "@@"]:
        if line.startswith("@@"):
            if hunk.old or hunk.new:
                yield _Change(path, _joined(hunk.old), _joined(hunk.new))
            hunk = _Hunk()
        elif not line.startswith("***"):
            hunk.take(line)


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
