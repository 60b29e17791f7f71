"""Reading the gateway's messages: their texts, thoughts and reasons for stopping."""

from __future__ import annotations

from acp_bridge.gateway.dialects.openclaw.frames import as_list, as_object, as_text

_STOP_REASONS = {
    "stop": "end_turn",
    "end_turn": "end_turn",
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "max_turns": "max_turn_requests",
    "max_turn_requests": "max_turn_requests",
    "refusal": "refusal",
    "content_filter": "refusal",
}


def stop_reason(value: object) -> str | None:
    """The ACP stop reason for the gateway's, where there is one."""
    return _STOP_REASONS.get(value.lower()) if isinstance(value, str) else None


def text_parts(message: object) -> list[str]:
    """The texts of a message, whose content is a string or a list of parts."""
    return _parts(message, "text", "text")


def thought_parts(message: object) -> list[str]:
    """The model's reasoning in a message."""
    return _parts(message, "thinking", "thinking")


def message_text(message: object) -> str | None:
    """All text of a message, or None if it has none."""
    return "\n".join(text_parts(message)) or None


def message_thought(message: object) -> str | None:
    """All reasoning of a message, or None if it has none."""
    return "\n".join(thought_parts(message)) or None


def _parts(message: object, kind: str, field: str) -> list[str]:
    content = as_object(message).get("content")
    if isinstance(content, str):
        return [content] if kind == "text" and content else []
    return [
        text
        for part in as_list(content)
        if as_object(part).get("type") == kind and (text := as_text(as_object(part).get(field)))
    ]
