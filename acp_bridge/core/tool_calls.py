"""The tool calls of one turn: from the gateway's events to tool call updates.

OpenClaw tells of a tool call twice. The *tool stream* has everything and goes only to the
connection that sent the prompt; *items* and *command output* have less and go to every connection.
Normally both come for the same call, so the poorer news is only used where the tool stream is
absent:

* An item that starts is remembered, not shown: 2026.9.6 sends it before the tool stream's start,
  which knows the arguments. After a reconnect (``assume_no_tool_stream``) it is shown at once.
* Any other news of a call that has no card yet makes the card first (ACP: a tool call comes before
  its updates).
* An approval may be all that is known of a call: 2026.6.11 names no call in it, and after a gap the
  call's own start is missed. Its card has a name of its own (``APPROVAL``), and the first news of
  a command without a card is taken to be of it.
* The first end closes a call. What comes later can add its output, not change its status.

Output arrives as the whole output so far, again and again. So that the bytes sent stay linear in
it, a longer one than 4 KiB is sent again only when it has grown by half; the end always has it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, assert_never

from acp_bridge.core.diffs import changes
from acp_bridge.core.events import (
    CommandOutput,
    ItemChanged,
    ToolEnded,
    ToolEvent,
    ToolProgress,
    ToolStarted,
)
from acp_bridge.core.locations import locations, merged
from acp_bridge.core.tool_text import (
    bounded,
    is_blank,
    one_line,
    parsed_args,
    result_content,
    result_text,
    tool_kind,
    tool_title,
    without_echo,
)
from acp_bridge.ids import Json, ToolCallId
from acp_bridge.wire import updates
from acp_bridge.wire.content import text_block

APPROVAL: Final = "exec:"
"""Begins the ids of cards that were made for an approval; the approval's id follows."""

_SMALL: Final = 4 * 1024
"""Characters of output below which each progress is sent."""
_GROWTH: Final = 1.5

_ITEM_KINDS: Final = {"command": "execute", "patch": "edit"}
_COMMAND_KEYS: Final = ("command", "cmd")


@dataclass(slots=True)
class _Call:
    """One tool call; ``output`` is the text that the editor has last been sent."""

    id: ToolCallId
    title: str
    kind: str
    command: str | None = None
    diffs: tuple[Json, ...] = ()
    locations: list[Json] = field(default_factory=list)
    output: str = ""
    results: list[Json] = field(default_factory=list)
    has_args: bool = False
    has_result: bool = False
    is_open: bool = True

    def content(self) -> list[Json]:
        return [*self.diffs, *self.results]


class ToolCalls:
    """Open and closed tool calls of a turn. ``cwd`` is the session's working directory."""

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd
        self._calls: dict[ToolCallId, _Call] = {}
        self._items: dict[ToolCallId, ItemChanged] = {}
        """Items that started and have no card yet."""
        self._shown_as: dict[ToolCallId, ToolCallId] = {}
        """Calls that are shown on the card of their approval."""
        self._has_tool_stream = True

    @property
    def open_ids(self) -> tuple[ToolCallId, ...]:
        """The calls that have a card and no end, oldest first."""
        return tuple(call.id for call in self._calls.values() if call.is_open)

    def title_of(self, tool_call_id: ToolCallId) -> str | None:
        """The title of a call that has a card."""
        call = self._calls.get(tool_call_id)
        return None if call is None else call.title

    def knows(self, tool_call_id: ToolCallId, name: str | None, args: Any) -> bool:
        """Whether a call has a card, be it that of its approval."""
        return self._shown(tool_call_id, name, args) in self._calls

    def match_command(self, command: str) -> ToolCallId | None:
        """The open call that executes exactly ``command``, or else one whose command is not known,
        if there is one and no other."""
        running = [c for c in self._calls.values() if c.is_open and c.kind == "execute"]
        matching = [call.id for call in running if call.command == command] or [
            call.id for call in running if call.command is None
        ]
        return matching[0] if len(matching) == 1 else None

    def assume_no_tool_stream(self) -> None:
        """The connection is another one: items are the only news of calls that start now."""
        self._has_tool_stream = False

    def feed(self, event: ToolEvent) -> list[Json]:
        """The updates for one event."""
        args = event.args if isinstance(event, ToolStarted) else None
        call = self._shown(event.tool_call_id, event.name, args)
        if call != event.tool_call_id:
            event = event._replace(tool_call_id=call)
        match event:
            case ToolStarted():
                return self._started(event)
            case ToolProgress():
                return self._progressed(event)
            case ToolEnded():
                return self._ended(event)
            case ItemChanged():
                return self._item(event)
            case CommandOutput():
                return self._command_output(event)
            case _:
                assert_never(event)

    def adopt_end(self, tool_call_id: ToolCallId, failed: bool, output: str | None) -> list[Json]:
        """The transcript shows that a call ended while nobody listened."""
        call, shown = self._card(self._shown_as.get(tool_call_id, tool_call_id), None)
        if not call.is_open:
            return shown
        return [*shown, self._close(call, failed, output or "")]

    def adopt(self, update: Json) -> None:
        """A card, or a change of one, that an earlier process has shown."""
        tool_call_id = ToolCallId(str(update.get("toolCallId")))
        call = self._calls.get(tool_call_id)
        if call is None:
            title, kind = str(update.get("title", "tool")), str(update.get("kind", "other"))
            call = self._calls[tool_call_id] = _Call(tool_call_id, title, kind)
            call.command = _command(parsed_args(update.get("rawInput")))
            call.has_args = "rawInput" in update
        if update.get("status") in ("completed", "failed"):
            call.is_open = False
        if "rawOutput" in update:
            call.has_result = True

    def end_all(self, failed: bool, note: str | None) -> list[Json]:
        """The turn is over: end each open call, and add ``note`` to what it shows."""
        ended = []
        for call in self._calls.values():
            if not call.is_open:
                continue
            call.is_open = False
            content = None
            if note:
                content = [*call.content(), updates.content(text_block(note))]
            status = _status(failed)
            ended.append(updates.tool_call_update(call.id, status=status, content=content))
        return ended

    # --- the tool stream -------------------------------------------------------------------

    def _started(self, event: ToolStarted) -> list[Json]:
        args = parsed_args(event.args)
        self._items.pop(event.tool_call_id, None)
        call = self._calls.get(event.tool_call_id)
        if call is not None and (call.has_args or args is None):
            return []
        is_new = call is None
        if call is None:
            call = _Call(event.tool_call_id, "", "other")
            self._calls[call.id] = call
        changed = changes(event.name, args, self._cwd)
        call.title = tool_title(event.name, args)
        call.kind = tool_kind(event.name)
        call.command = _command(args)
        call.diffs = changed.diffs
        call.locations = merged(locations([args], self._cwd), changed.locations)
        call.has_args = args is not None
        raw_input = None if args is None else bounded(args)
        if is_new:
            return [self._card_of(call, raw_input)]
        enriched = updates.tool_call_update(
            call.id,
            title=call.title,
            kind=call.kind,
            content=call.content() or None,
            locations=call.locations or None,
            raw_input=raw_input,
        )
        return [enriched]

    def _progressed(self, event: ToolProgress) -> list[Json]:
        call, shown = self._card(event.tool_call_id, event.name)
        text = result_text(event.partial)
        if not call.is_open or is_blank(text) or not _is_due(call, text):
            return shown
        if text.strip() == call.output.strip():
            return shown
        return [*shown, self._output(call, text, event.partial)]

    def _ended(self, event: ToolEnded) -> list[Json]:
        call, shown = self._card(event.tool_call_id, event.name)
        if call.has_result:
            return shown
        call.has_result = True
        call.results = result_content(event.result)
        call.locations = merged(call.locations, locations([event.result], self._cwd))
        status = _status(event.is_error or _exit_code(event.result) != 0)
        update = updates.tool_call_update(
            call.id,
            status=status if call.is_open else None,
            content=call.content() or None,
            locations=call.locations or None,
            raw_output=bounded(without_echo(event.result, result_text(event.result))),
        )
        call.is_open = False
        if call.has_args:  # nothing can follow that would show these again
            call.output, call.results, call.diffs = "", [], ()
        return [*shown, update]

    # --- items and command output ----------------------------------------------------------

    def _item(self, event: ItemChanged) -> list[Json]:
        known = self._calls.get(event.tool_call_id)
        if event.phase == "start":
            if known is not None:
                return []
            self._items.setdefault(event.tool_call_id, event)
            return [] if self._has_tool_stream else self._card(event.tool_call_id, None)[1]
        if known is None:
            self._items.setdefault(event.tool_call_id, event)
        call, shown = self._card(event.tool_call_id, event.name)
        text = event.text or ""
        if event.phase == "end" and call.is_open:
            return [*shown, self._close(call, event.failed, text)]
        return shown + self._more(call, text)

    def _command_output(self, event: CommandOutput) -> list[Json]:
        if event.tool_call_id not in self._calls:
            self._items.setdefault(
                event.tool_call_id,
                ItemChanged(
                    event.run_id,
                    event.tool_call_id,
                    "start",
                    "command",
                    event.name,
                    event.title,
                    False,
                    None,
                ),
            )
        call, shown = self._card(event.tool_call_id, event.name)
        if event.is_end and call.is_open and event.exit_code is not None:
            return [*shown, self._close(call, event.exit_code != 0, event.output)]
        return shown + self._more(call, event.output, is_last=event.is_end)

    def _more(self, call: _Call, text: str, *, is_last: bool = False) -> list[Json]:
        """Output that may have been shown already, from either stream."""
        if call.has_result or not (is_last or not call.is_open or _is_due(call, text)):
            return []
        return [self._output(call, text, text)] if _is_news(call, text) else []

    # --- cards -----------------------------------------------------------------------------

    def _shown(self, tool_call_id: ToolCallId, name: str | None, args: Any) -> ToolCallId:
        """The card of a call: its own, or that of the approval that was asked for it."""
        if tool_call_id in self._calls or tool_call_id.startswith(APPROVAL):
            return tool_call_id
        if tool_call_id not in self._shown_as and tool_kind(name) == "execute":
            command = _command(parsed_args(args))
            for call in self._calls.values():
                is_free = call.is_open and call.id not in self._shown_as.values()
                if is_free and call.id.startswith(APPROVAL) and command in (None, call.command):
                    self._shown_as[tool_call_id] = call.id
                    break
        return self._shown_as.get(tool_call_id, tool_call_id)

    def _card(self, tool_call_id: ToolCallId, name: str | None) -> tuple[_Call, list[Json]]:
        """The call, and the update that shows its card if it has none yet."""
        call = self._calls.get(tool_call_id)
        if call is not None:
            return call, []
        item = self._items.pop(tool_call_id, None)
        title, kind = tool_title(name, None), tool_kind(name)
        if item is not None:
            title = one_line(item.title) if item.title else tool_title(item.name or name, None)
            kind = tool_kind(item.name or name)
            if kind == "other":
                kind = _ITEM_KINDS.get(item.kind, kind)
        call = _Call(tool_call_id, title, kind)
        self._calls[tool_call_id] = call
        return call, [self._card_of(call, None)]

    def _card_of(self, call: _Call, raw_input: Any) -> Json:
        return updates.tool_call(
            call.id,
            call.title,
            kind=call.kind,
            status="in_progress",
            content=call.content(),
            locations=call.locations,
            raw_input=raw_input,
        )

    def _output(self, call: _Call, text: str, result: Any) -> Json:
        call.output = text
        call.results = result_content(result)
        return updates.tool_call_update(call.id, content=call.content())

    def _close(self, call: _Call, failed: bool, output: str) -> Json:
        call.is_open = False
        content = None
        if _is_news(call, output):
            call.output = output
            call.results = result_content(output)
            content = call.content()
        return updates.tool_call_update(call.id, status=_status(failed), content=content)


def _is_due(call: _Call, text: str) -> bool:
    """Whether an output so far is to be sent before the end."""
    return len(text) <= _SMALL or len(text) >= len(call.output) * _GROWTH


def _is_news(call: _Call, text: str) -> bool:
    return not is_blank(text) and not call.output.strip().startswith(text.strip())


def _status(failed: bool) -> str:
    return "failed" if failed else "completed"


def _command(args: Any) -> str | None:
    fields: Iterable[Any] = ()
    if isinstance(args, dict):
        fields = (args.get(name) for name in _COMMAND_KEYS)
    return next((value for value in fields if isinstance(value, str)), None)


def _exit_code(result: Any) -> int:
    """The exit code that a result tells; 2026.9.6 does not call a non-zero one an error."""
    details = result.get("details") if isinstance(result, dict) else None
    code = details.get("exitCode") if isinstance(details, dict) else None
    return code if isinstance(code, int) and not isinstance(code, bool) else 0
