"""Which process of a ZeroClaw gateway answers: ``GET /health``, beside the WebSocket."""

from __future__ import annotations

from acp_bridge.errors import BridgeError
from acp_bridge.gateway.dialects.acp_ws.memory import Process
from acp_bridge.gateway.route import DIRECT, Route


def ask(url: str, route: Route = DIRECT) -> Process | None:
    """The process behind the WebSocket's address ``url``; None if nobody tells. ``route`` holds as
    for the WebSocket. Blocks for ``pairing.TIMEOUT`` seconds at most."""
    from acp_bridge.gateway.pairing import call  # in a thread: the start must not pay for it

    try:
        runtime = call(url, "/health", None, route).get("runtime")
    except BridgeError:
        return None
    return read_process(runtime)


def read_process(runtime: object) -> Process | None:
    """What ``runtime`` says: ``pid`` and ``uptime_seconds`` (ZeroClaw 0.8.4)."""
    if not isinstance(runtime, dict):
        return None
    pid, uptime = runtime.get("pid"), runtime.get("uptime_seconds")
    if not isinstance(pid, int) or not isinstance(uptime, int):
        return None
    return Process(pid, uptime)
