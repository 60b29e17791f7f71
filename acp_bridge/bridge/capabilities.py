"""What the bridge can do, as ``initialize`` tells it.

Modes, config options and slash commands need no word here: a session that has some says so itself.
"""

from __future__ import annotations

from acp_bridge import __version__
from acp_bridge.core.offers import Offers
from acp_bridge.ids import Json
from acp_bridge.wire.acp import PROTOCOL_VERSION, negotiate_version

AUTH_METHOD: Json = {
    "id": "gateway",
    "name": "Connect to the gateway",
    "description": "Reads the configured token or password again and connects.",
}
"""Editors show it as a button when a call fails with -32000; it is the retry after mending."""


def outdated(params: Json) -> str | None:
    """What to tell the user of an editor that speaks a version of ACP before the first: it cannot
    show what it gets, and there is nothing to negotiate."""
    version = params.get("protocolVersion")
    if not isinstance(version, int | float) or isinstance(version, bool):
        return None
    if version >= PROTOCOL_VERSION:
        return None
    return (
        f"This editor speaks version {version} of ACP and the bridge {PROTOCOL_VERSION}: upgrade"
        " the editor."
    )


def initialize_result(params: Json, offers: Offers) -> Json:
    """The ``initialize`` result; ``offers`` is what is known of the gateway."""
    prompts = {kind: kind in offers.prompt_kinds for kind in ("image", "audio")}
    servers = {kind: kind in offers.mcp_kinds for kind in ("http", "sse")}
    return {
        **({"_meta": offers.meta} if offers.meta else {}),
        "protocolVersion": negotiate_version(params.get("protocolVersion")),
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {**prompts, "embeddedContext": True},
            "mcpCapabilities": servers,
            "sessionCapabilities": {"close": {}, "list": {}, "resume": {}, "delete": {}},
        },
        "agentInfo": {"name": "acp-bridge", "title": "acp-bridge", "version": __version__},
        "authMethods": [AUTH_METHOD],
    }
