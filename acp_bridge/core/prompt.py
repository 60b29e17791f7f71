"""From the content blocks of a prompt to the text and the attachments of a run.

All parts stay in order, one line break between them. The address of a resource stays in the text,
so that the agent can name it. What the bridge cannot carry is refused by name and place, never
dropped in silence (ACP, content: only advertised kinds may be sent).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from acp_bridge.core.commands import Attachment
from acp_bridge.errors import InvalidParams, PromptTooLarge
from acp_bridge.ids import Json
from acp_bridge.wire.content import escape_controls, inline_data, utf8_size, well_formed

PREFIX: Final = "[Working directory: "
"""How the line with the working directory begins."""
TITLE_LENGTH: Final = 80

MAX_PROMPT: Final = 2 * 1024 * 1024
"""Bytes of UTF-8 that a prompt's text may have; the limit of the reference bridge. It keeps one
prompt from filling the model's context many times over."""

_CWD_LINE: Final = re.compile(rf"\A{re.escape(PREFIX)}[^\n]*\](\n\n|\Z)")
_DEFAULT_TYPE: Final = "application/octet-stream"
_MAX_NAME: Final = 200


class PreparedPrompt(NamedTuple):
    """What a run is started with."""

    message: str
    attachments: tuple[Attachment, ...]


class _Part(NamedTuple):
    text: str | None = None
    attachment: Attachment | None = None


_Readers = dict[str, Callable[[int, Json], _Part]]


def prompt_to_message(
    blocks: Sequence[Any],
    *,
    cwd: str,
    home: str | None,
    prefix_cwd: bool,
    takes_audio: bool = False,
) -> PreparedPrompt:
    """Read the blocks of ``session/prompt``. Audio is only for gateways that take it.

    With ``prefix_cwd`` the working directory goes before the text, shortened by ``home``; not
    before a slash command, which the gateway recognises at the very start of a message only.

    Raises ``InvalidParams`` naming the block, or ``PromptTooLarge``.
    """
    _check_size(sum(utf8_size(text) for text in _texts(blocks)))
    readers = {**_READERS, "audio": _audio} if takes_audio else _READERS
    parts = [_read(index, block, readers) for index, block in enumerate(blocks)]
    message = well_formed("\n".join(part.text for part in parts if part.text is not None))
    attachments = tuple(part.attachment for part in parts if part.attachment is not None)
    if not message.strip() and not attachments:
        raise InvalidParams("The prompt is empty.", data={"field": "prompt"})
    if prefix_cwd and not message.lstrip().startswith("/"):
        message = f"{PREFIX}{_short(cwd, home)}]\n\n{message}"
    _check_size(utf8_size(message))
    return PreparedPrompt(message, attachments)


def prompt_title(blocks: Sequence[Any]) -> str | None:
    """A title for a session that begins with this prompt: the first line with text, short."""
    for text in _texts(blocks):
        line = next((line.strip() for line in text.splitlines() if line.strip()), "")
        if line:
            shown = escape_controls(line)
            return shown if len(shown) <= TITLE_LENGTH else shown[: TITLE_LENGTH - 1] + "…"
    return None


def history_title(shown: Iterable[Json]) -> str | None:
    """A title after the first prompt of a history, as far back as it goes."""
    prompts = (u["content"] for u in shown if u["sessionUpdate"] == "user_message_chunk")
    titles = (prompt_title([block]) for block in prompts)
    return next((title for title in titles if title), None)


def without_cwd(message: str) -> str:
    """A prompt's message as the user wrote it, without the working directory before it."""
    return _CWD_LINE.sub("", message, count=1)


def _texts(blocks: Sequence[Any]) -> list[str]:
    found = []
    for block in blocks:
        inner = block.get("resource") if isinstance(block, dict) else None
        for holder in (block, inner):
            text = holder.get("text") if isinstance(holder, dict) else None
            if isinstance(text, str):
                found.append(text)
    return found


def _check_size(size: int) -> None:
    if size > MAX_PROMPT:
        raise PromptTooLarge(
            f"The prompt has {size:,} bytes of text; the limit is {MAX_PROMPT:,}.",
            hint="Send less, or link files instead of embedding them.",
            data={"size": size, "limit": MAX_PROMPT},
        )


def _short(cwd: str, home: str | None) -> str:
    root = (home or "").rstrip("/\\")
    if root and cwd == root:
        cwd = "~"
    elif root and cwd.startswith((root + "/", root + "\\")):
        cwd = "~" + cwd[len(root) :]
    return escape_controls(cwd)


def _read(index: int, block: Any, readers: _Readers) -> _Part:
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(kind, str):
        raise refusal(index, "type", "is missing")
    if kind not in readers:
        name = escape_controls(kind[:_MAX_NAME])
        raise refusal(index, "type", f"{name!r} cannot be sent to this gateway")
    return readers[kind](index, block)


def _text(index: int, block: Json) -> _Part:
    return _Part(_string(index, block, "text"))


def _image(index: int, block: Json) -> _Part:
    return _Part(attachment=_attachment(index, block, "data", "image", block.get("uri")))


def _audio(index: int, block: Json) -> _Part:
    return _Part(attachment=_attachment(index, block, "data", "audio", None))


def _resource_link(index: int, block: Json) -> _Part:
    uri = escape_controls(_string(index, block, "uri"))
    title = _optional(block, "title")
    head = f"[Resource link ({_bracketed(title)})]" if title else "[Resource link]"
    name = _optional(block, "name")
    facts = [
        None if name in (title, uri, _file_name(uri)) else name,
        _optional(block, "mimeType"),
        _size(block.get("size")),
    ]
    line = f"{head} {uri}" if uri else head
    if known := [escape_controls(fact) for fact in facts if fact]:
        line += f" ({', '.join(known)})"
    description = _optional(block, "description")
    return _Part(f"{line}: {escape_controls(description)}" if description else line)


def _resource(index: int, block: Json) -> _Part:
    resource = block.get("resource")
    if not isinstance(resource, dict):
        raise refusal(index, "resource", "is missing")
    uri = resource.get("uri")
    shown = escape_controls(uri) if isinstance(uri, str) else ""
    if isinstance(resource.get("text"), str):
        head = f"[Resource] {shown}\n" if shown else ""
        return _Part(head + resource["text"])
    if "blob" not in resource:
        raise refusal(index, "resource", "has neither text nor blob")
    mime_type = resource.get("mimeType")
    kind = "image" if isinstance(mime_type, str) and mime_type.startswith("image/") else "file"
    attachment = _attachment(index, resource, "blob", kind, uri, field="resource.blob")
    return _Part(f"[Attached resource] {shown}" if shown else None, attachment)


_READERS: Final[_Readers] = {
    "text": _text,
    "image": _image,
    "resource_link": _resource_link,
    "resource": _resource,
}


def _attachment(
    index: int, holder: Json, member: str, kind: str, uri: Any, *, field: str | None = None
) -> Attachment:
    data = holder.get(member)
    if not isinstance(data, str):
        raise refusal(index, field or member, "is missing")
    try:
        content, url_type = inline_data(data)
    except ValueError as error:
        raise refusal(index, field or member, str(error)) from None
    mime_type = _optional(holder, "mimeType") or url_type
    if mime_type is None and kind in ("image", "audio"):
        raise refusal(index, "mimeType", "is missing")
    return Attachment(kind, escape_controls(mime_type or _DEFAULT_TYPE), content, _file_name(uri))


def _file_name(uri: Any) -> str | None:
    if not isinstance(uri, str):
        return None
    try:
        path = urlsplit(uri).path
    except ValueError:
        return None
    name = escape_controls(unquote(path).rpartition("/")[2])
    return None if name in ("", ".", "..") else name[:_MAX_NAME]


def _string(index: int, block: Json, member: str) -> str:
    value = block.get(member)
    if not isinstance(value, str):
        raise refusal(index, member, "must be a string")
    return value


def _optional(holder: Json, member: str) -> str | None:
    value = holder.get(member)
    return value if isinstance(value, str) and value.strip() else None


def _size(value: Any) -> str | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return f"{value:,} bytes" if is_count else None


def _bracketed(title: str) -> str:
    """A title that cannot be taken for the end of its brackets."""
    shown = escape_controls(title)
    for character in "()[]":
        shown = shown.replace(character, "\\" + character)
    return shown


def block_text(index: int, block: Any) -> str:
    """One block as text; empty for one that has none. Raises ``InvalidParams`` for a block that
    cannot be read."""
    return _read(index, block, _READERS).text or ""


def refusal(index: int, member: str, what: str) -> InvalidParams:
    """The error for a block that is wrong or cannot be sent."""
    field = f"prompt[{index}].{member}"
    return InvalidParams(f"{field} {what}.", data={"field": field})
