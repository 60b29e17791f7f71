"""The embedded gateway: OpenClaw's dialect on loopback, with a scripted agent behind it.

It serves ``acp-bridge demo`` and ``--demo`` to newcomers and is the tests' gateway.
"""

from acp_bridge.demo.calls import Request
from acp_bridge.demo.hub import Refusal
from acp_bridge.demo.quirks import QUIRKS_6_11, QUIRKS_9_6, Quirks
from acp_bridge.demo.runs import RunContext, Script
from acp_bridge.demo.server import DemoGateway

__all__ = [
    "QUIRKS_6_11",
    "QUIRKS_9_6",
    "DemoGateway",
    "Quirks",
    "Refusal",
    "Request",
    "RunContext",
    "Script",
]
