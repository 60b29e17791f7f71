"""Sessions, entries and questions for tests of any ledger."""

from __future__ import annotations

from typing import Any

from ledger import Entry, EventLedger, NewEntry, NewSession, Replay, SessionRecord


def session(session_id: str = "s1", at: int = 1000, **more: Any) -> NewSession:
    """A session that belongs to a key of its own."""
    return NewSession(
        **{
            "session_id": session_id,
            "session_key": f"agent:{session_id}",
            "cwd": "/w/project",
            "at": at,
            **more,
        }
    )


def entry(text: str, session_id: str = "s1", at: int = 2000, **more: Any) -> NewEntry:
    """An entry that can be told by its text."""
    return NewEntry(session_id, "update", {"text": text}, at, **more)


def chunk(
    text: str, message: str | None = "m1", session_id: str = "s1", run: str | None = "r1"
) -> NewEntry:
    """A text chunk of a message, as a bridge records it."""
    payload: dict[str, Any] = {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "text", "text": text},
    }
    if message is not None:
        payload["messageId"] = message
    return NewEntry(session_id, "update", payload, 2000, run_id=run)


def replay(ledger: EventLedger, session_id: str = "s1") -> Replay:
    """The session, which must be there."""
    found = ledger.read(session_id)
    assert found is not None
    return found


def record(ledger: EventLedger, session_id: str = "s1") -> SessionRecord:
    """The session's record; it must be there."""
    return replay(ledger, session_id).session


def text_of(stored: Entry) -> str:
    """The text by which an entry can be told."""
    content = stored.payload.get("content", stored.payload)
    text: str = content["text"]
    return text


def texts(ledger: EventLedger, session_id: str = "s1") -> list[str]:
    """The texts of all entries of a session, whose numbers must have no gap."""
    found = replay(ledger, session_id)
    first = found.session.trimmed + 1
    assert [stored.seq for stored in found.entries] == list(
        range(first, first + len(found.entries))
    )
    assert found.session.entries == len(found.entries)
    return [text_of(stored) for stored in found.entries]
