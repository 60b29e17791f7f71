"""Ledgers that real ``openclaw acp`` processes wrote, and what those showed again on a load.

``<version>.sqlite`` has the two tables of the bridge, taken out of OpenClaw's database; in
``<version>.loaded.json`` are the updates of ``session/load`` without those that tell a state. The
conversation is in tests/real/test_import.py.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.support.transcript import Update, tool_cards

VERSIONS = ("2026.6.11", "2026.9.6")

_DATA = Path(__file__).parent.parent / "data" / "openclaw_ledgers"
_SHOWN = ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk")


def state_directory(version: str, directory: Path) -> Path:
    """A state directory of OpenClaw's that holds the ledger of a version."""
    database = directory / "state" / "openclaw.sqlite"
    database.parent.mkdir(parents=True)
    shutil.copyfile(_DATA / f"{version}.sqlite", database)
    return directory


def json_ledger(version: str, directory: Path) -> Path:
    """The same ledger as the JSON file of older versions; returns the file."""
    with closing(sqlite3.connect(_DATA / f"{version}.sqlite")) as database:
        database.row_factory = sqlite3.Row
        sessions = database.execute("SELECT * FROM acp_replay_sessions").fetchall()
        events = database.execute("SELECT * FROM acp_replay_events ORDER BY seq").fetchall()
    content: dict[str, Any] = {
        session["session_id"]: {
            "sessionId": session["session_id"],
            "sessionKey": session["session_key"],
            "cwd": session["cwd"],
            "complete": bool(session["complete"]),
            "createdAt": session["created_at"],
            "updatedAt": session["updated_at"],
            "nextSeq": session["next_seq"],
            "events": [
                {
                    "seq": event["seq"],
                    "at": event["at"],
                    "sessionId": event["session_id"],
                    "sessionKey": event["session_key"],
                    **({"runId": event["run_id"]} if event["run_id"] else {}),
                    "update": json.loads(event["update_json"]),
                }
                for event in events
                if event["session_id"] == session["session_id"]
            ],
        }
        for session in sessions
    }
    file = directory / "acp" / "event-ledger.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"version": 1, "sessions": content}))
    return file


def loaded(version: str) -> dict[str, list[Update]]:
    """By session id, what ``openclaw acp`` showed of a session that it loaded."""
    found: dict[str, list[Update]] = json.loads((_DATA / f"{version}.loaded.json").read_text())
    return found


def marks(updates: Iterable[Update]) -> list[str]:
    """What the bridge says of imports."""
    return [
        update["content"]["text"]
        for update in updates
        if str(update.get("messageId", "")).endswith(":imported")
    ]


def without_marks(updates: Iterable[Update]) -> list[Update]:
    """Only what OpenClaw showed."""
    return [u for u in updates if not str(u.get("messageId", "")).endswith(":imported")]


def visible(updates: Iterable[Update]) -> list[Any]:
    """What a reader sees, however it is cut into updates: texts, other contents, and tool calls
    in their last state."""
    updates = list(updates)
    cards = {card.tool_call_id: card for card in tool_cards(updates)}
    seen: list[Any] = []
    for update in updates:
        kind = update["sessionUpdate"]
        if kind == "tool_call":
            card = cards[update["toolCallId"]]
            kept = ("title", "kind", "rawInput", "rawOutput", "locations")
            seen.append((kind, card.status, {name: card.fields.get(name) for name in kept}))
        elif kind in _SHOWN and update["content"]["type"] != "text":
            seen.append((kind, update["content"]))
        elif kind in _SHOWN:
            if kind == "user_message_chunk" or not seen or seen[-1][0] != kind:
                seen.append((kind, ""))
            seen[-1] = (kind, seen[-1][1] + update["content"]["text"])
    return seen
