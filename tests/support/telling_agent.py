"""An ACP agent over a WebSocket that answers each call with what it was told."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from websockets.asyncio.server import ServerConnection, serve

from acp_bridge.ids import Json

SESSION = "5e0f8a52-0000-4000-8000-00000000000a"
META: Json = {"vendor": {"limits": 5}}
MODES: Json = {"currentModeId": "plan", "availableModes": [{"id": "plan", "name": "Plan"}]}
CHUNKS: list[Json] = [
    {"messageId": "m-1", "content": {"type": "text", "text": "one"}, "_meta": {"vendor": 1}},
    {"messageId": "m-1", "content": {"type": "text", "text": " two"}, "_meta": {"vendor": 2}},
    {"messageId": "m-2", "content": {"type": "text", "text": "three"}},
]


class TellingAgent:
    """What it was asked is in ``calls``, by method; ``takes`` are the kinds of blocks and servers
    that it announces."""

    def __init__(self, takes: tuple[str, ...]) -> None:
        self.calls: dict[str, list[Json]] = {}
        self.url = ""
        self._takes = takes
        self.unknown: set[str] = set()
        """Methods that it says not to know."""

    async def serve(self, socket: ServerConnection) -> None:
        async for text in socket:
            message = json.loads(text)
            self.calls.setdefault(message["method"], []).append(message["params"])
            if message["method"] == "session/prompt":
                for chunk in CHUNKS:
                    update = {"sessionUpdate": "agent_message_chunk", **chunk}
                    params = {"sessionId": SESSION, "update": update}
                    await _send(socket, method="session/update", params=params)
            if "id" in message and message["method"] in self.unknown:
                error = {"code": -32601, "message": "Method not found"}
                await _send(socket, id=message["id"], error=error)
            elif "id" in message:
                result = self._result(message["method"], message["params"])
                await _send(socket, id=message["id"], result=result)

    def _result(self, method: str, params: Json) -> Json:
        told: Json = {"_meta": {"told": params}}
        if method == "initialize":
            prompts = {kind: kind in self._takes for kind in ("image", "audio")}
            servers = {kind: kind in self._takes for kind in ("http", "sse")}
            can: Json = {
                "loadSession": True,
                "promptCapabilities": {**prompts, "embeddedContext": True},
                "mcpCapabilities": servers,
                "sessionCapabilities": {"resume": {}},
            }
            info = {"name": "telling", "version": "1"}
            return {
                "protocolVersion": 1,
                "agentCapabilities": can,
                "agentInfo": info,
                "_meta": META,
            }
        if method == "session/new":
            return {"sessionId": SESSION, "modes": MODES, **told}
        if method in ("session/load", "session/resume"):
            return {"modes": MODES, **told}
        if method == "session/prompt":
            return {"stopReason": "end_turn", "cost": 3, **told}
        if method == "session/set_config_option":
            return {"configOptions": [], **told}
        return told


@contextlib.asynccontextmanager
async def telling_agent(*takes: str) -> AsyncIterator[TellingAgent]:
    agent = TellingAgent(takes)
    async with serve(agent.serve, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        agent.url = f"ws://127.0.0.1:{port}/acp"
        yield agent


async def _send(socket: ServerConnection, **message: Any) -> None:
    await socket.send(json.dumps({"jsonrpc": "2.0", **message}))
