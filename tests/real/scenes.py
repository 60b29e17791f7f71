"""What the tests of outages and restarts look at: at the editor, at the gateway, at the model."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from pathlib import Path

from acp_bridge.core.turn_view import OUTAGE, OUTAGE_OVER
from tests.real.conftest import TURN
from tests.real.fake_model import FakeModel
from tests.real.gateway import TOKEN, Gateway
from tests.support.editor import EditorProcess, Json
from tests.support.gateway_client import Device
from tests.support.gateway_client import GatewayClient as OtherClient
from tests.support.transcript import messages


def marked(prompt: str) -> tuple[str, str]:
    """A prompt with a mark by which it is found anywhere, and the mark."""
    mark = f"mark-{uuid.uuid4().hex[:12]}"
    return f"{prompt} {mark}", mark


def said(updates: Iterable[Json]) -> str:
    """The agent's own text, without notices."""
    chunks = [u for u in updates if ":text:" in str(u.get("messageId"))]
    return "".join(messages(chunks))


def notices(updates: Iterable[Json]) -> list[str]:
    """The notices, without those of an outage, which only a slow machine may see, and of
    approvals, which only a later load shows."""
    ours = (":text:", ":permission")
    chunks = [u for u in updates if not any(end in str(u.get("messageId")) for end in ours)]
    told = (text.strip() for text in messages(chunks))
    return [text for text in told if text not in (OUTAGE, OUTAGE_OVER)]


def prompts(updates: Iterable[Json]) -> list[str]:
    """The user's messages."""
    return messages(updates, "user_message_chunk")


async def load(editor: EditorProcess, session: str, cwd: Path) -> list[Json]:
    """Load a session in a new process; what it shows before its answer."""
    await editor.initialize()
    params = {"sessionId": session, "cwd": str(cwd), "mcpServers": []}
    await editor.call("session/load", params).result(TURN)
    return list(editor.updates(session))


def other_client(gateway: Gateway) -> OtherClient:
    """Another client of the gateway, with all scopes."""
    return OtherClient(gateway.url, auth={"token": TOKEN}, device=Device())


async def rows_of(gateway: Gateway, session: str) -> list[Json]:
    """The rows that the gateway keeps of a session."""
    async with other_client(gateway) as other:
        key = f"agent:main:acp-bridge:{session}"
        history = await other.call("chat.history", {"sessionKey": key, "limit": 1000})
    rows: list[Json] = history["messages"]
    return rows


async def taken(gateway: Gateway, session: str, mark: str) -> int:
    """How often the gateway has taken the prompt with this mark."""
    rows = await rows_of(gateway, session)
    return sum(row["role"] == "user" and mark in str(row["content"]) for row in rows)


def asked_model(model: FakeModel, mark: str) -> int:
    """How often the model was asked about the prompt with this mark."""
    return sum(mark in request.turn.prompt for request in model.requests)
