"""Readers for the ACP messages that the bridge interprets; the rest stays raw."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from acp_bridge.ids import Json, SessionId


@dataclass(frozen=True, slots=True)
class NewSession:
    """``session/new``."""

    cwd: str
    mcp_servers: tuple[str, ...] = ()
    """Names of the MCP servers that the editor offers."""
    meta: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Prompt:
    """``session/prompt``; the blocks are checked by ``core.prompt``."""

    session_id: SessionId
    blocks: tuple[Any, ...]
    meta: Json = field(default_factory=dict)
