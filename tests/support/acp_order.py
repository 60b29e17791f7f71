"""The rules on the order of an agent's messages that clients in the field depend on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

CHUNKS = {"agent_message_chunk", "agent_thought_chunk", "user_message_chunk"}
TURN_UPDATES = {*CHUNKS, "tool_call", "tool_call_update", "plan"}
ENDED = {"completed", "failed"}


class Violation(AssertionError):
    """The agent broke a rule of ACP."""


@dataclass
class _Session:
    pending_prompts: int = 0
    pending_loads: int = 0
    prompted: bool = False
    watches_others: bool = False
    """Whether turns of other clients are shown: their updates come while no prompt is pending."""
    tools: dict[str, str] = field(default_factory=dict)
    current: dict[str, str] = field(default_factory=dict)
    message_kinds: dict[str, str] = field(default_factory=dict)
    ended_messages: set[str] = field(default_factory=set)

    def begins_anew(self) -> None:
        """Its history is shown from the beginning."""
        for shown in (self.tools, self.current, self.message_kinds, self.ended_messages):
            shown.clear()


class OrderRules:
    """Follows a conversation and raises ``Violation`` at the first message out of place.

    The rules: nothing but answers before the first ``initialize`` result; no update of a session
    before the editor can know its id; nothing of a turn after its answer; a tool call before its
    updates and its permission request, its id used once, its end before the turn's answer and
    nothing but that end afterwards; a message id belongs to one message.
    """

    def __init__(self) -> None:
        self._initialized = False
        self._sessions: dict[str, _Session] = {}

    def asked(self, method: str, params: Any) -> None:
        """The editor called ``method``."""
        session_id = params.get("sessionId") if isinstance(params, dict) else None
        if not isinstance(session_id, str):
            return
        if method in ("session/load", "session/resume"):
            session = self._sessions.setdefault(session_id, _Session())
            session.pending_loads += 1
            if method == "session/load" and not session.pending_prompts:
                session.begins_anew()
        if method == "session/prompt" and session_id in self._sessions:
            self._sessions[session_id].pending_prompts += 1

    def answered(self, method: str, params: Any, answer: dict[str, Any]) -> None:
        """The agent answered ``method`` with this message."""
        result = answer.get("result")
        if method == "initialize" and result is not None:
            self._initialized = True
        if method == "session/new" and result is not None:
            self._sessions[result["sessionId"]] = _Session()
        session_id = params.get("sessionId") if isinstance(params, dict) else None
        session = self._sessions.get(session_id) if isinstance(session_id, str) else None
        if session is None:
            return
        if method in ("session/load", "session/resume"):
            session.pending_loads -= 1
        if method == "session/prompt" and session.pending_prompts:
            session.pending_prompts -= 1
            session.prompted = True
            # A prompt refused at once says nothing about the one that runs.
            is_last = result is not None or not session.pending_prompts
            if is_last and not _goes_on(answer):
                _no_open_tool(session)

    def called(self, method: str, params: Any) -> None:
        """The agent sent a request or a notification."""
        if not self._initialized:
            raise Violation(f"{method} before the answer to initialize")
        if method == "session/update":
            self._updated(params["sessionId"], params["update"])
        elif method == "session/request_permission":
            session = self._known(params["sessionId"])
            tool = params["toolCall"]["toolCallId"]
            if tool not in session.tools:
                raise Violation(f"permission is asked for the unknown tool call {tool}")
            # A session that was loaded may have a turn that an earlier process began.
            if not session.pending_prompts and session.prompted:
                raise Violation("permission is asked while no prompt is pending")

    def _known(self, session_id: str) -> _Session:
        if session_id not in self._sessions:
            raise Violation(f"session {session_id} is not known to the editor yet")
        return self._sessions[session_id]

    def _updated(self, session_id: str, update: dict[str, Any]) -> None:
        session = self._known(session_id)
        kind = update["sessionUpdate"]
        idle = not (session.pending_prompts or session.pending_loads)
        session.watches_others |= _is_of_others(update)
        if kind in TURN_UPDATES and session.prompted and idle and not session.watches_others:
            raise Violation(f"{kind} after the turn was answered: {update}")
        if kind in CHUNKS:
            _one_message(session, kind, update)
        if kind == "tool_call":
            if update["toolCallId"] in session.tools:
                raise Violation(f"tool call {update['toolCallId']} begins twice")
            session.tools[update["toolCallId"]] = update.get("status", "pending")
        if kind == "tool_call_update":
            _tool_changed(session, update)


def _is_of_others(update: dict[str, Any]) -> bool:
    """Whether an update begins to show a turn of another client."""
    meta = update.get("_meta") or {}
    return "from" in (meta.get("acpBridge") or {})


def _goes_on(answer: dict[str, Any]) -> bool:
    """Whether the turn goes on without this agent, and its tool calls with it."""
    data = answer.get("error", {}).get("data")
    return isinstance(data, dict) and data.get("code") == "detached"


def _no_open_tool(session: _Session) -> None:
    if still := [tool for tool, status in session.tools.items() if status not in ENDED]:
        raise Violation(f"the turn was answered with open tool calls: {still}")


def _tool_changed(session: _Session, update: dict[str, Any]) -> None:
    tool = update["toolCallId"]
    if tool not in session.tools:
        raise Violation(f"tool call {tool} changes before it begins")
    status = update.get("status", session.tools[tool])
    if session.tools[tool] in ENDED and status != session.tools[tool]:
        raise Violation(f"tool call {tool} goes from {session.tools[tool]} to {status}")
    session.tools[tool] = status


def _one_message(session: _Session, kind: str, update: dict[str, Any]) -> None:
    message = update.get("messageId")
    if not message:
        raise Violation(f"a chunk without a message id: {update}")
    if session.message_kinds.setdefault(message, kind) != kind:
        raise Violation(f"message {message} is both {session.message_kinds[message]} and {kind}")
    if message in session.ended_messages:
        raise Violation(f"message {message} goes on after another one of its kind began")
    if session.current.get(kind, message) != message:
        session.ended_messages.add(session.current[kind])
    session.current[kind] = message
