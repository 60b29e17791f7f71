"""What one run sends and leaves behind: its event frames and its rows in the transcript."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from acp_bridge.demo.hub import TOOL_EVENTS, Connection, Hub
from acp_bridge.demo.sessions import MODEL, Session, flattened
from acp_bridge.ids import Json

LIVE_WINDOW = 500_000
"""Characters of the answer that live messages carry; of a longer one only the end is sent."""


_NAMES: Json = {"provider": MODEL["modelProvider"], "model": MODEL["model"]}


def assistant(text: str, now: int) -> Json:
    """An assistant message of one text."""
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": text[-LIVE_WINDOW:]}],
        "timestamp": now,
    }


class RunFrames:
    """Emits the events of one run.

    ``agent`` events count up; a ``chat`` event carries the number of the last of them. What comes
    after the ending starts again at 1.
    """

    def __init__(self, hub: Hub, session: Session, run_id: str, sender: Connection | None) -> None:
        self._hub = hub
        self._session = session
        self._run_id = run_id
        self._sender = sender
        self._seq = 0
        self._item_id = str(uuid.uuid4())
        self._is_old = hub.quirks.is_old

    def agent(self, stream: str, data: Json, *, droppable: bool = False) -> None:
        """An ``agent`` event to every reader."""
        self._hub.broadcast("agent", self._agent_payload(stream, data), droppable=droppable)

    def lifecycle(self, phase: str, **data: Any) -> None:
        """An ``agent`` event of the stream ``lifecycle``."""
        payload = self._agent_payload("lifecycle", {"phase": phase, **data})
        payload["sessionId"] = self._session.session_id
        if phase in {"start", "finishing"}:
            payload["agentId"] = "main"
        self._hub.broadcast("agent", payload)

    def assistant(self, segment: int, data: Json, *, droppable: bool = True) -> None:
        """More text of one segment."""
        if not self._is_old:
            data = data | {"itemId": f"{self._item_id}:{segment}"}
        self.agent("assistant", data, droppable=droppable)

    def status(self, phase: str) -> None:
        """A state before the model answers; 2026.9.6 only."""
        if not self._is_old:
            self.chat("status", count=True, phase=phase)
            payload = self._agent_payload("run_status", {"phase": phase})
            self._seq -= 1
            self._hub.broadcast("agent", payload | {"seq": self._seq})

    def tool(self, data: Json) -> None:
        """A ``tool`` event: to the connection that sent the prompt, if it has the cap, and as
        ``session.tool`` to those that follow the session. It drags the session's row along."""
        payload = self._agent_payload("tool", data)
        if self._is_old or data["phase"] != "start":
            payload |= flattened(self._session)
        for connection in self._hub.readers():
            if connection is self._sender:
                if TOOL_EVENTS in connection.caps:
                    connection.send_event("agent", payload, numbered=not self._is_old)
            elif self._session.key in connection.followed_keys:
                connection.send_event("session.tool", payload, numbered=False)

    def chat(self, state: str, *, count: bool = False, **fields: Any) -> None:
        """A ``chat`` event to every reader."""
        if count:
            self._seq += 1
        payload = self._chat_payload(max(self._seq, 1), state)
        if not self._is_old:
            payload["agentId"] = "main"
        self._hub.broadcast("chat", payload | fields, droppable=state == "delta")

    def command_final(self, text: str) -> None:
        """The ``final`` with seq 1 that is all a command of the gateway's own ever sends."""
        message = {
            **assistant(text, self._hub.clock()),
            "stopReason": "stop",
            "usage": {"input": 0, "output": 0, "totalTokens": 0, "cacheRead": 0, "cacheWrite": 0},
            "api": "openai-responses",
            "provider": "openclaw",
            "model": "gateway-injected",
            "idempotencyKey": self._run_id,
        }
        self._hub.broadcast("chat", self._chat_payload(1, "final") | {"message": message})

    def empty_final(self) -> None:
        """A ``final`` without text or reason."""
        self._hub.broadcast("chat", self._chat_payload(1, "final"))

    def failing(self, message: str, now: int) -> None:
        """The run is about to end with an error."""
        observed: Json = {} if self._is_old else {"errorObservation": _NAMES}
        told = {"error": message, "aborted": False, "livenessState": "working"}
        self.lifecycle("finishing", **told, endedAt=now, **observed)

    def failed(self, message: str, kind: str | None, detail: Json | None, started_at: int) -> None:
        """The run has ended with an error: it is told once as the error that it is, and once
        more in longer words."""
        now = self._hub.clock()
        ended: Json = {"error": message, "aborted": False, "endedAt": now}
        extra: Json = {"errorKind": kind} if kind else {}
        if self._is_old:
            extra["message"] = assistant(f"Error: {message}", now)
        else:
            ended |= {"startedAt": started_at, "executionSettled": True}
            extra["errorDetail"] = _NAMES | (detail or {})
        self.lifecycle("error", **ended)
        self.chat("error", errorMessage=message, **extra)
        self.late_error(f"⚠️ Agent failed before reply: {message}")

    def late_error(self, text: str) -> None:
        """A second terminal of the run."""
        payload = self._chat_payload(1, "error") | {"errorMessage": text}
        if self._is_old:
            payload["message"] = assistant(text, self._hub.clock())
        self._hub.broadcast("chat", payload)

    def receipt(self, answer: str, started_at: int, tools: list[str]) -> Json:
        """What the end of a run says of it; 2026.6.11 says nothing."""
        if self._is_old:
            return {"replayInvalid": False}
        disposition = "visible" if answer else "silent"
        return {
            "replayInvalid": False,
            "startedAt": started_at,
            "terminalReply": {"disposition": disposition, "text": answer},
            "terminalReceipt": {
                "runId": self._run_id,
                "sessionId": self._session.session_id,
                "turnId": self._run_id,
                "requested": _NAMES,
                "effective": _NAMES | {"responseModel": MODEL["model"]},
                "successfulToolNames": tools,
                "rerouted": False,
                "terminalDisposition": disposition,
            },
            "executionSettled": True,
        }

    def _agent_payload(self, stream: str, data: Json) -> Json:
        self._seq += 1
        payload: Json = {
            "runId": self._run_id,
            "stream": stream,
            "data": data,
            "sessionKey": self._session.key,
            "seq": self._seq,
            "ts": self._hub.clock(),
            "isHeartbeat": False,
        }
        if not self._is_old:
            payload["agentId"] = "main"
        return payload

    def _chat_payload(self, seq: int, state: str) -> Json:
        return {
            "runId": self._run_id,
            "sessionKey": self._session.key,
            "seq": seq,
            "state": state,
        }


class RunRows:
    """Writes one run's rows of the transcript."""

    def __init__(self, hub: Hub, session: Session, run_id: str) -> None:
        self._hub = hub
        self._session = session
        self._run_id = run_id
        self._has_prompt = False

    def add(self, row: Json) -> None:
        """Write a row. In 2026.9.6 it names its run."""
        note = {} if self._hub.quirks.is_old else {"__openclaw": {"runId": self._run_id}}
        self._hub.record(self._session, note | row)

    def prompt(self, message: str, at: int, *, steered: str | None = None) -> None:
        """Write the prompt, once. Its key proves to a client that the prompt was taken.

        ``steered`` is the run that it was fed into.
        """
        if not self._has_prompt:
            self._has_prompt = True
            key = f"{self._run_id}:user"
            row = {"role": "user", "content": message, "timestamp": at, "idempotencyKey": key}
            note: Json = {} if steered is None else {"steerTargetRunId": steered}
            self.add({**row, "__openclaw": note})

    def assistant(
        self,
        thought: str,
        text: str,
        parts: Sequence[Json],
        stop_reason: str,
        error: str | None = None,
    ) -> None:
        """Write what the agent thought, said and began, if it did anything or failed."""
        content: list[Json] = []
        if thought:
            content.append({"type": "thinking", "thinking": thought})
        if text:
            content.append({"type": "text", "text": text})
        content.extend(parts)
        if content or error:
            failure = {"errorMessage": error} if error else {}
            self.add(self._answer(content, stop_reason) | failure)

    def aborted(self, answer: str) -> None:
        """Write the whole text of an aborted run, as 2026.9.6 does whatever it wrote before."""
        if answer:
            row = self._answer([{"type": "text", "text": answer}], "stop")
            abort = {"aborted": True, "origin": "rpc", "runId": self._run_id}
            self.add(row | {"openclawAbort": abort})

    def _answer(self, content: list[Json], stop_reason: str) -> Json:
        return {
            "role": "assistant",
            "content": content,
            **_NAMES,
            "stopReason": stop_reason,
            "timestamp": self._hub.clock(),
        }
