"""The ACP dialect with a gateway that the test plays message by message."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from acp_bridge.core.commands import Command, OpenedAt, OpenSession, StartRun
from acp_bridge.core.events import GatewayEvent
from acp_bridge.gateway.dialects.acp_ws.dialect import AcpDialect
from acp_bridge.gateway.dialects.acp_ws.handshake import Opening
from acp_bridge.gateway.dialects.acp_ws.memory import Memory
from acp_bridge.ids import Generation, Json, RunId, SessionKey

S1 = SessionKey("5e0f8a52-0000-4000-8000-000000000001")
R1, R2 = RunId("run-1-aaaaaaaa"), RunId("run-2-bbbbbbbb")

ZEROCLAW: Json = {
    "protocolVersion": 1,
    "agentCapabilities": {
        "loadSession": True,
        "promptCapabilities": {"image": False, "audio": False, "embeddedContext": True},
        "sessionCapabilities": {"resume": {}, "close": {}},
    },
    "agentInfo": {"name": "zeroclaw-acp", "title": "ZeroClaw ACP", "version": "0.8.4"},
    "_meta": {"zeroclaw": {"maxSessions": 10, "sessionTimeoutSecs": 3600}},
}
PLAIN: Json = {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": {"name": "echo"}}


def start(text: str = "hello", run_id: RunId = R1, key: SessionKey = S1) -> StartRun:
    return StartRun(run_id, key, text, blocks=({"type": "text", "text": text},))


def chunk(text: str, kind: str = "agent_message_chunk") -> Json:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}


def stored(text: str) -> Json:
    """The user's text as a replay has it."""
    return chunk(f"[2026-11-30 22:00:00 UTC] {text}", "user_message_chunk")


class Played:
    """One connection; ``memory`` may be that of an earlier one."""

    def __init__(
        self,
        memory: Memory | None = None,
        *,
        generation: int = 1,
        now: float = 100.0,
        ask: Callable[[], None] = lambda: None,
    ) -> None:
        self.memory = memory or Memory()
        self.now = now
        self.dialect = AcpDialect(
            Opening("ws://gw/acp", Generation(generation), "0"), self.memory, now, ask
        )
        self.sent: list[Json] = []
        self.results: dict[int, Any] = {}
        self.events: list[GatewayEvent] = []

    def hello(self, result: Json = ZEROCLAW) -> Played:
        self.answer("initialize", result)
        return self

    def send(self, command: Command, token: int | None = None) -> list[GatewayEvent]:
        return self._take(self.dialect.send(command, token, self.now))

    def receive(self, message: Json | str | bytes) -> list[GatewayEvent]:
        text = json.dumps(message) if isinstance(message, dict) else message
        return self._take(self.dialect.receive(text, self.now))

    def tick(self, seconds: float = 1.0) -> list[GatewayEvent]:
        self.now += seconds
        return self._take(self.dialect.tick(self.now))

    def flush(self) -> list[Json]:
        """What was sent since the last call."""
        fresh = [json.loads(text) for text in self.dialect.data_to_send()]
        self.sent += fresh
        return fresh

    def methods(self) -> list[str]:
        """The methods that were called so far."""
        self.flush()
        return [message["method"] for message in self.sent if "method" in message]

    def request(self, method: str) -> Json:
        """The latest request of a method."""
        self.flush()
        return [message for message in self.sent if message.get("method") == method][-1]

    def answer(self, method: str, result: Any) -> list[GatewayEvent]:
        request = self.request(method)
        return self.receive({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def refuse(self, method: str, code: int, message: str = "no") -> list[GatewayEvent]:
        error = {"code": code, "message": message}
        request = self.request(method)
        return self.receive({"jsonrpc": "2.0", "id": request["id"], "error": error})

    def update(self, update: Json, key: SessionKey = S1) -> list[GatewayEvent]:
        params = {"sessionId": key, "update": update}
        return self.receive({"jsonrpc": "2.0", "method": "session/update", "params": params})

    def opened(self, key: SessionKey = S1) -> Played:
        """With a session that was made on this connection."""
        self.send(OpenSession("/home/me"), 1)
        self.answer("session/new", {"sessionId": key, "workspaceDir": "/home/me"})
        assert self.results[1] == OpenedAt(key, {"workspaceDir": "/home/me"})
        return self

    def _take(self, outcomes: list[tuple[int | None, Any]]) -> list[GatewayEvent]:
        fresh: list[GatewayEvent] = []
        for token, outcome in outcomes:
            if token is None:
                fresh.append(outcome)
            else:
                self.results[token] = outcome
        self.events += fresh
        return fresh
