"""The cards that an editor builds from the updates of tool calls."""

from __future__ import annotations

import json
from collections.abc import Iterable

from acp import schema

from acp_bridge.core import events as ev
from acp_bridge.core.tool_calls import ToolCalls
from acp_bridge.ids import Json, SessionId
from acp_bridge.wire.updates import session_update
from tests.support.acp_oracle import conforms


class Cards:
    """What an editor holds after the updates, each checked against ACP."""

    def __init__(self, cwd: str = "/w") -> None:
        self.calls = ToolCalls(cwd)
        self.cards: dict[str, Json] = {}
        self.bytes = 0

    def feed(self, *events: ev.ToolEvent) -> list[Json]:
        return self.take(update for event in events for update in self.calls.feed(event))

    def take(self, given: Iterable[Json]) -> list[Json]:
        taken = [*given]
        for update in taken:
            conforms(schema.SessionNotification, session_update(SessionId("s"), update))
            self.bytes += len(json.dumps(update, ensure_ascii=False).encode())
            fields = {k: v for k, v in update.items() if k != "sessionUpdate"}
            if update["sessionUpdate"] == "tool_call":
                assert update["toolCallId"] not in self.cards, "two cards of one call"
                self.cards[update["toolCallId"]] = fields
            else:
                card = self.cards[update["toolCallId"]]
                is_over = card["status"] in ("completed", "failed")
                assert not (is_over and "status" in fields), "ended twice"
                card.update(fields)
        return taken

    def text(self, call: str) -> str:
        contents = self.cards[call].get("content", [])
        return "\n".join(c["content"]["text"] for c in contents if c["type"] == "content")

    def status(self, call: str) -> str:
        status = self.cards[call]["status"]
        assert isinstance(status, str)
        return status
