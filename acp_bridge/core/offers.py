"""What a gateway offers an editor beyond what every gateway does."""

from __future__ import annotations

from typing import NamedTuple

from acp_bridge.ids import NOTHING, Json


class Offers(NamedTuple):
    """Told in the gateway's hello, or known of its kind."""

    prompt_kinds: frozenset[str] = frozenset({"image"})
    """Which of ``image`` and ``audio`` a prompt may hold."""
    mcp_kinds: frozenset[str] = frozenset()
    """Which MCP servers of the editor it takes: of ``stdio``, ``http`` and ``sse``."""
    meta: Json = NOTHING
    """What it says of itself under ``_meta``."""

    def takes(self, server: Json) -> bool:
        """Whether it takes an MCP server; one without a type is of the kind ``stdio`` (ACP, session
        setup)."""
        kind = server.get("type", "stdio")
        return isinstance(kind, str) and kind in self.mcp_kinds
