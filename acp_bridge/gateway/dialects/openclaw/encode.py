"""Run commands, turned into methods and parameters. The gateway refuses unknown keys."""

from __future__ import annotations

from typing import assert_never

from acp_bridge.core.commands import (
    AbortRun,
    AnswerPermission,
    Attachment,
    StartRun,
)
from acp_bridge.ids import Json, RunId, SessionKey

Call = tuple[str, Json]
"""A method and its parameters."""

HISTORY_ROWS = 1000
"""The most that ``chat.history`` gives."""
HISTORY_TEXT = 500_000
"""Characters of one text in ``chat.history``, at most; its default of 8,000 cuts answers off."""
MESSAGE_TEXT = 2_000_000
"""Characters that ``chat.message.get`` gives at most."""


def command_to_call(command: StartRun | AbortRun | AnswerPermission) -> Call:
    """The request for a run command that is one request."""
    match command:
        case StartRun():
            return "chat.send", _chat_send(command)
        case AbortRun():
            return "chat.abort", {"sessionKey": command.session_key, "runId": command.run_id}
        case AnswerPermission():
            return "exec.approval.resolve", {
                "id": command.approval_id,
                "decision": command.decision,
            }
        case _:
            assert_never(command)


def follow_call() -> Call:
    """Have the tool events of all sessions sent to this connection: they do not move by themselves
    from the connection that sent the prompt. (``sessions.messages.subscribe`` does not bring them.)
    """
    return "sessions.subscribe", {}


def unfollow_call() -> Call:
    """End that: it also brings each change of each session's row."""
    return "sessions.unsubscribe", {}


def history_call(session_key: SessionKey, *, offset: int = 0) -> Call:
    """The session's transcript, and the run in flight there. ``offset`` is how many of the newest
    rows to pass over; 2026.6.11 knows no such thing."""
    params: Json = {
        "sessionKey": session_key,
        "limit": HISTORY_ROWS,
        "maxChars": HISTORY_TEXT,
    }
    return "chat.history", {**params, "offset": offset} if offset else params


def wait_call(run_id: RunId) -> Call:
    """How the run stands now, without waiting."""
    return "agent.wait", {"runId": run_id, "timeoutMs": 0}


def approvals_call() -> Call:
    """All approvals that wait for a decision; what was asked while we were away is not repeated."""
    return "exec.approval.list", {}


def message_call(session_key: SessionKey, message_id: str) -> Call:
    """One row of the transcript in full, where the history left its text out."""
    return "chat.message.get", {
        "sessionKey": session_key,
        "messageId": message_id,
        "maxChars": MESSAGE_TEXT,
    }


def _chat_send(command: StartRun) -> Json:
    params: Json = {
        "sessionKey": command.session_key,
        "message": command.message,
        "idempotencyKey": command.run_id,
    }
    if command.attachments:
        params["attachments"] = [_attachment(each) for each in command.attachments]
    options = {
        "thinking": command.thinking,
        "deliver": command.deliver,
        "timeoutMs": command.timeout_ms,
    }
    params.update({name: value for name, value in options.items() if value is not None})
    return {**params, **(command.provenance or {})}


def _attachment(attachment: Attachment) -> Json:
    wire = {
        "type": attachment.kind,
        "mimeType": attachment.mime_type,
        "content": attachment.content,
    }
    if attachment.file_name is not None:
        wire["fileName"] = attachment.file_name
    return wire
