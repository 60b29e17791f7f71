"""What an editor would show of a list of session updates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Update = dict[str, Any]


@dataclass
class ToolCard:
    """A tool call with all its updates applied."""

    tool_call_id: str
    fields: dict[str, Any] = field(default_factory=dict)
    statuses: list[str] = field(default_factory=list)

    @property
    def status(self) -> str:
        return self.statuses[-1]

    @property
    def kind(self) -> str:
        return str(self.fields.get("kind", "other"))

    @property
    def title(self) -> str:
        return str(self.fields["title"])

    @property
    def text(self) -> str:
        """The text content of the card."""
        contents = [item["content"] for item in self._content if item["type"] == "content"]
        return "\n".join(c["text"] for c in contents if c["type"] == "text")

    @property
    def diffs(self) -> list[dict[str, Any]]:
        return [item for item in self._content if item["type"] == "diff"]

    @property
    def paths(self) -> list[str]:
        return [location["path"] for location in self.fields.get("locations") or []]

    @property
    def _content(self) -> list[dict[str, Any]]:
        return self.fields.get("content") or []

    def apply(self, update: Update) -> None:
        self.fields |= {name: value for name, value in update.items() if name != "sessionUpdate"}
        status = update.get("status") or (None if self.statuses else "pending")
        if status and self.statuses[-1:] != [status]:
            self.statuses.append(status)


def tool_cards(updates: Iterable[Update]) -> list[ToolCard]:
    """The tool calls, in the order in which they began."""
    cards: dict[str, ToolCard] = {}
    for update in updates:
        if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
            name = update["toolCallId"]
            cards.setdefault(name, ToolCard(name)).apply(update)
    return list(cards.values())


def messages(updates: Iterable[Update], kind: str = "agent_message_chunk") -> list[str]:
    """The texts of the messages: chunks of one message id are joined."""
    texts: dict[str | None, str] = {}
    for update in updates:
        if update["sessionUpdate"] == kind and update["content"]["type"] == "text":
            message = update.get("messageId")
            texts[message] = texts.get(message, "") + update["content"]["text"]
    return list(texts.values())


def text_of(updates: Iterable[Update]) -> str:
    """All that the agent said, chunk after chunk."""
    return "".join(messages(updates))


def thoughts_of(updates: Iterable[Update]) -> str:
    """All that the agent thought, chunk after chunk."""
    return "".join(messages(updates, "agent_thought_chunk"))


def of_kind(updates: Iterable[Update], kind: str) -> list[Update]:
    """The updates of one kind."""
    return [update for update in updates if update["sessionUpdate"] == kind]
