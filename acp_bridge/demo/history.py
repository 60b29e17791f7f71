"""What ``chat.history`` shows of a transcript, which is not all that is kept."""

from __future__ import annotations

from collections.abc import Iterable

from acp_bridge.ids import Json

_NO_REPLY = "The agent run failed before producing a reply."


def shown_rows(kept: Iterable[Json], *, is_old: bool) -> list[Json]:
    """The rows as clients see them.

    Of an answer with text and tool calls, 2026.6.11 shows the text alone, 2026.9.6 two rows. The
    details of a result and the reason of a failure are taken out; 2026.9.6 puts a sentence about
    it before the text.
    """
    return [shown for row in kept for shown in _shown(row, is_old)]


def shown_activity(kept: Iterable[Json]) -> list[Json]:
    """How tool calls ended, beside the rows (2026.9.6). An exit code makes a failure only here."""
    return [
        {
            "messageId": row["__openclaw"]["id"],
            "items": [
                {
                    "itemId": f"tool:{row['toolCallId']}",
                    "toolCallId": row["toolCallId"],
                    "name": row["toolName"],
                    "kind": "tool",
                    "phase": "end",
                    "status": "failed" if _has_failed(row) else "completed",
                }
            ],
        }
        for row in kept
        if row["role"] == "toolResult"
    ]


def _shown(row: Json, is_old: bool) -> list[Json]:
    if row["role"] != "assistant":
        return [{name: value for name, value in row.items() if name != "details"}]
    if row["stopReason"] == "error":
        return [_failure(row, is_old)]
    texts = [part for part in row["content"] if part["type"] == "text"]
    rest = [part for part in row["content"] if part["type"] != "text"]
    if not texts or all(part["type"] != "toolCall" for part in rest):
        return [row]
    if is_old:
        return [row | {"content": texts}]
    said = {name: row[name] for name in ("role", "timestamp", "__openclaw")}
    return [said | {"content": texts}, row | {"content": rest}]


def _failure(row: Json, is_old: bool) -> Json:
    text = "\n".join(part["text"] for part in row["content"] if part["type"] == "text")
    if is_old:
        text = text or _NO_REPLY
    else:
        text = "\n\n".join(part for part in (f"⚠️ {row['errorMessage']}", text) if part)
    shown = row | {"content": [{"type": "text", "text": text}]}
    del shown["errorMessage"]
    return shown


def _has_failed(row: Json) -> bool:
    return bool(row["isError"] or row["details"].get("exitCode"))
