"""How much one turn may bring: what it shows is kept until it ends, to tell what is new.

No real turn comes near. A gateway that never ends one must not fill the memory: past the bound the
turn shows nothing more but its end, and says so.
"""

from __future__ import annotations

from typing import Any, Final

from acp_bridge.core import events as ev
from acp_bridge.ids import ToolCallId
from acp_bridge.wire.weight import weigh, weigh_text

MAX_BYTES: Final = 64 * 1024 * 1024
"""Of text, thoughts, and what is kept of tool calls, counted approximately."""
MAX_CALLS: Final = 5_000
"""Tool calls."""
_CALL: Final = 1024
_CALL_LIMIT: Final = 2 * 1024 * 1024
"""What is kept of one tool call at most, with its pictures."""


class Budget:
    """What is left for one turn."""

    def __init__(self, max_bytes: int = MAX_BYTES, max_calls: int = MAX_CALLS) -> None:
        self._left = max_bytes
        self._max_calls = max_calls
        self._calls: set[ToolCallId] = set()
        self._text = 0
        self._thought = 0

    @property
    def is_spent(self) -> bool:
        """Whether nothing more is taken."""
        return self._left < 0

    def takes(self, event: ev.RunEvent) -> bool:
        """Count the news of a run; whether it is still within the bound."""
        if not self.is_spent:
            self._left -= self._cost(event)
        return not self.is_spent

    def _cost(self, event: ev.RunEvent) -> int:
        match event:
            case ev.TextProgress(_, delta, _, snapshot):
                before, self._text = self._text, max(self._text, len(snapshot or ""))
                return weigh_text(delta) if delta else self._text - before
            case ev.ThoughtProgress(_, delta, snapshot):
                before, self._thought = self._thought, max(self._thought, len(snapshot or ""))
                return weigh_text(delta) if delta else self._thought - before
            case ev.ToolStarted(_, call, _, args):
                return self._call(call) + min(weigh(args), _CALL_LIMIT)
            case ev.ToolEnded():
                return self._call(event.tool_call_id) + min(weigh(event.result), _CALL_LIMIT)
            case ev.ToolProgress() | ev.ItemChanged() | ev.CommandOutput():
                # Told again and again; what is kept is one of them.
                return self._call(event.tool_call_id, event)
            case ev.Updated(_, update) if isinstance(name := update.get("toolCallId"), str):
                return self._call(ToolCallId(name), update)
            case _:
                return 0

    def _call(self, call: ToolCallId, kept: Any = None) -> int:
        if call in self._calls:
            return 0
        if len(self._calls) >= self._max_calls:
            return self._left + 1
        self._calls.add(call)
        return _CALL + len(call) + min(weigh(kept), _CALL_LIMIT)
