"""An agent of the Python SDK, served over a WebSocket by the SDK's own server.

The SDK gives an ASGI application; the few messages of ASGI that a WebSocket needs are passed here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast
from uuid import uuid4

from acp import (
    Agent,
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    text_block,
    update_agent_message,
)
from acp.http.asgi import create_asgi_app
from acp.interfaces import Client
from acp.schema import AgentCapabilities, Implementation, PromptCapabilities
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed


class EchoAgent:
    """Says each text block of a prompt again."""

    _client: Client

    def on_connect(self, conn: Client) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        return InitializeResponse(
            protocol_version=protocol_version,
            agent_capabilities=AgentCapabilities(
                prompt_capabilities=PromptCapabilities(image=True)
            ),
            agent_info=Implementation(name="echo", version="1"),
        )

    async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:
        return NewSessionResponse(session_id=uuid4().hex)

    async def prompt(self, prompt: list[Any], session_id: str, **_: Any) -> PromptResponse:
        for block in prompt:
            text = getattr(block, "text", None) or f"({block.type})"
            await self._client.session_update(session_id, update_agent_message(text_block(text)))
        return PromptResponse(stop_reason="end_turn")


@contextlib.asynccontextmanager
async def sdk_agent(path: str = "/acp") -> AsyncIterator[str]:
    """The URL of a running one."""
    app = create_asgi_app(lambda _connection: cast(Agent, EchoAgent()))

    async def served(socket: ServerConnection) -> None:
        is_begun = False

        async def receive() -> dict[str, Any]:
            nonlocal is_begun
            if not is_begun:
                is_begun = True
                return {"type": "websocket.connect"}
            try:
                return {"type": "websocket.receive", "text": await socket.recv()}
            except ConnectionClosed:
                return {"type": "websocket.disconnect", "code": 1000}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "websocket.send":
                with contextlib.suppress(ConnectionClosed):
                    await socket.send(message["text"])

        await app({"type": "websocket", "path": path, "headers": []}, receive, send)

    async with serve(served, "127.0.0.1", 0, compression=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield f"ws://127.0.0.1:{port}{path}"
        await asyncio.sleep(0)
