"""One tool call of a run: the data of its events, and what it leaves in the transcript."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from acp_bridge.ids import Json

EXEC = "exec"
_DECISIONS = ("allow-once", "allow-always", "deny")
_NO_MORE = "Exec denied (gateway, {reason}): {command}"


@dataclass(slots=True)
class ToolCall:
    """A tool call; its methods give the ``data`` of the events about it."""

    id: str
    name: str
    args: Json
    meta: str
    started_at: int
    is_old: bool
    ended_at: int | None = None
    text: str = ""
    exit_code: int | None = None
    is_error: bool = False
    has_failed: bool = False

    @property
    def is_command(self) -> bool:
        """Whether the tool runs a command, and so has output of its own."""
        return self.name == EXEC

    def end(self, text: str, exit_code: int | None, is_error: bool | None, now: int) -> None:
        """Settle how the call ended. 2026.9.6 calls no exit code an error; both call it failed."""
        self.text, self.exit_code, self.ended_at = text, exit_code, now
        failed_exit = self.is_command and exit_code != 0
        self.is_error = (failed_exit and self.is_old) if is_error is None else is_error
        self.has_failed = self.is_error or failed_exit

    def started(self) -> Json:
        """The data of ``tool`` phase ``start``."""
        return self._head("start") | {"args": self.args}

    def updated(self, text: str) -> Json:
        """The data of ``tool`` phase ``update``."""
        details = {"status": "running", "startedAt": self.started_at, "tail": text}
        return self._head("update") | {
            "partialResult": {"content": [{"type": "text", "text": text}], "details": details}
        }

    def result(self, details: Json | None) -> Json:
        """The data of ``tool`` phase ``result``."""
        if details is None:
            details = self._exec_details() if self.is_command else {"kind": "text"}
        data = self._head("result") | {
            "meta": self.meta,
            "isError": self.is_error,
            "result": {"content": [{"type": "text", "text": self.text}], "details": details},
        }
        if not self.is_old:
            data["commandBearing"] = self.is_command
        return data

    def items(self, phase: str, text: str = "") -> list[Json]:
        """The data of ``item`` events: of the tool, and in 2026.6.11 of its command too."""
        kinds = ["tool"] + (["command"] if self.is_old and self.is_command else [])
        return [self._item(kind, phase, text) for kind in kinds]

    def output(self, phase: str, text: str) -> Json:
        """The data of a ``command_output`` event; ``text`` is the whole output so far."""
        data: Json = {
            "itemId": f"command:{self.id}",
            "phase": phase,
            "title": f"command {self.meta}",
            "toolCallId": self.id,
            "name": self.name,
            "output": text,
            "status": self._status(phase),
        }
        if phase == "end" and self.exit_code is not None:
            data |= {"exitCode": self.exit_code, "durationMs": self._duration(), "cwd": "/"}
        return data

    def refused(self) -> Json:
        """The data of the ``approval`` event that follows a command that was not allowed."""
        return {
            "phase": "resolved",
            "kind": EXEC,
            "status": "denied",
            "title": "Command approval resolved",
            "itemId": f"command:{self.id}",
            "toolCallId": self.id,
            "message": self.meta,
        }

    def transcript_part(self) -> Json:
        """The call as a part of the assistant's message."""
        return {"type": "toolCall", "id": self.id, "name": self.name, "arguments": self.args}

    def transcript_row(self, now: int) -> Json:
        """The result as a row of its own."""
        return {
            "role": "toolResult",
            "toolCallId": self.id,
            "toolName": self.name,
            "content": [{"type": "text", "text": self.text}],
            "details": self._exec_details() if self.is_command else {},
            "isError": self.is_error,
            "timestamp": now,
        }

    def _head(self, phase: str) -> Json:
        return {"phase": phase, "name": self.name, "toolCallId": self.id}

    def _item(self, kind: str, phase: str, text: str) -> Json:
        data: Json = {
            "itemId": f"{kind}:{self.id}",
            "phase": phase,
            "kind": kind,
            "title": f"{self.name if kind == 'tool' else 'command'} {self.meta}",
            "status": self._status(phase),
            "name": self.name,
            "meta": self.meta,
            "toolCallId": self.id,
        }
        if not self.is_old:
            data["commandBearing"] = self.is_command
        if phase != "update":
            data["startedAt"] = self.started_at
        if phase == "end":
            data["endedAt"] = self.ended_at
            if self.has_failed:
                data["error"] = self.text
        if kind == "command" and phase != "start":
            data["progressText" if phase == "update" else "summary"] = text
        return data

    def _status(self, phase: str) -> str:
        if phase != "end":
            return "running"
        return "failed" if self.has_failed else "completed"

    def _duration(self) -> int:
        return (self.ended_at or self.started_at) - self.started_at

    def _exec_details(self) -> Json:
        details: Json = {
            "status": "failed" if self.is_error else "completed",
            "exitCode": self.exit_code,
            "durationMs": self._duration(),
            "aggregated": self.text,
            "cwd": "/",
        }
        if not self.is_old and self.exit_code is not None:
            details |= {"exitSignal": None, "exitReason": "exit", "noOutputTimedOut": False}
        return details


@dataclass(frozen=True, slots=True)
class ApprovalDetails:
    """What an approval says beside its command."""

    session_key: str
    run_id: str
    tool_call_id: str | None = None
    allowed: Sequence[str] = ("allow-once", "deny")
    cwd: str | None = None
    warning: str | None = None

    def request(self, command: str, *, is_old: bool) -> Json:
        """The ``request`` of ``exec.approval.requested``.

        2026.6.11 names neither the run nor the tool call; a client has to go by session and
        command.
        """
        request: Json = {
            "command": command,
            "systemRunBinding": None,
            "systemRunPlan": None,
            "cwd": self.cwd,
            "nodeId": None,
            "host": "gateway",
            "security": "allowlist",
            "ask": "always",
            "warningText": self.warning,
            "commandAnalysis": {
                "commandCount": 1,
                "nestedCommandCount": 0,
                "riskKinds": [],
                "warningLines": [],
            },
            "unavailableDecisions": [name for name in _DECISIONS if name not in self.allowed],
            "allowedDecisions": list(self.allowed),
            "agentId": "main",
            "resolvedPath": None,
            "sessionKey": self.session_key,
            "turnSourceChannel": "webchat",
            "turnSourceTo": None,
            "turnSourceAccountId": None,
            "turnSourceThreadId": None,
        }
        if is_old:
            return request
        return request | {
            "scope": None,
            "sessionId": None,
            "runId": self.run_id,
            "toolCallId": self.tool_call_id,
            "turnSourceTo": self.session_key,
            "cronExecutionSource": None,
            "cronOperationBinding": None,
        }


def denial(command: str, decision: str) -> str:
    """The text of a command's result when it was not allowed."""
    reasons = {"deny": "user-denied", "expired": "approval-timeout"}
    reason = reasons.get(decision, "Headless runs cannot wait for interactive exec approval")
    return _NO_MORE.format(reason=reason, command=command)
