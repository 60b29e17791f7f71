"""``initialize``, once per connection: what we say, and what the answer tells of the gateway."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

from acp_bridge.core.events import Hello
from acp_bridge.core.offers import Offers
from acp_bridge.core.parts import ZEROCLAW, Takes
from acp_bridge.errors import HandshakeRefused, VersionMismatch
from acp_bridge.gateway.dialects.acp_ws.refusals import METHOD_NOT_FOUND, number, sentence
from acp_bridge.gateway.scopes import ADMIN, APPROVALS, READ, WRITE
from acp_bridge.ids import Generation, Json
from acp_bridge.wire.acp import PROTOCOL_VERSION

SUBPROTOCOL: Final = "zeroclaw.acp.v1"
MAX_MESSAGE: Final = 64 * 1024 * 1024
"""Bytes of a message that ZeroClaw takes (0.8.4, the default of its server library)."""
MAX_FRAME: Final = 8 * 1024 * 1024
"""Bytes of one frame of ours; the gateway takes 16 MiB, and a longer message goes in several."""

_ZEROCLAW: Final = "zeroclaw"
_ALL_SCOPES: Final = frozenset({READ, WRITE, APPROVALS, ADMIN})


class Opening(NamedTuple):
    """One connection's introduction."""

    url: str
    """For messages."""
    generation: Generation
    """The number that the connection gets if it is accepted."""
    version: str
    """Of the bridge."""


class Traits(NamedTuple):
    """What the gateway can do."""

    takes: Takes = Takes()
    can_load: bool = False
    can_resume: bool = False
    can_close: bool = False
    is_zeroclaw: bool = False
    """Whether it is ZeroClaw: a run goes on there unseen when its connection ends."""
    question_seconds: float | None = None
    """How long it waits for the answer to an approval."""

    def without(self, method: str) -> Traits:
        """The traits of a gateway that has announced this way to restore and does not know it."""
        if method == "session/load":
            return self._replace(can_load=False)
        return self._replace(can_resume=False)


def initialize_params(opening: Opening, capabilities: Json) -> Json:
    """The params of ``initialize``; ``capabilities`` are the editor's own."""
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "clientCapabilities": capabilities,
        "clientInfo": {"name": "acp-bridge", "title": "acp-bridge", "version": opening.version},
    }


def refused(error: Json, opening: Opening) -> HandshakeRefused:
    """The error for a refused ``initialize``."""
    if number(error) == METHOD_NOT_FOUND:
        return HandshakeRefused(
            f"What answers at {opening.url} does not know initialize, with which ACP begins.",
            hint="It speaks another protocol: check the address (--gateway-url), or name its kind"
            " (--gateway-kind).",
        )
    return HandshakeRefused(
        f"The gateway at {opening.url} refused to begin: {sentence(error)}",
        hint="See the gateway's log; does it speak ACP at this address?",
    )


def read_hello(result: Any, opening: Opening) -> tuple[Hello, Traits]:
    """Read the answer. Raises ``VersionMismatch`` for another version of ACP than ours."""
    result = as_object(result)
    version = result.get("protocolVersion")
    if version != PROTOCOL_VERSION or isinstance(version, bool):
        raise _mismatch(version, opening)
    info = as_object(result.get("agentInfo"))
    can = as_object(result.get("agentCapabilities"))
    prompts = as_object(can.get("promptCapabilities"))
    sessions = as_object(can.get("sessionCapabilities"))
    name = info.get("name") if isinstance(info.get("name"), str) else "unknown"
    limits = as_object(result.get("_meta")).get(_ZEROCLAW)
    is_zeroclaw = isinstance(limits, dict) or str(name).startswith(_ZEROCLAW)
    takes = Takes(image=prompts.get("image") is True, audio=prompts.get("audio") is True)
    traits = Traits(
        takes=ZEROCLAW._replace(image=takes.image, audio=takes.audio) if is_zeroclaw else takes,
        can_load=can.get("loadSession") is True,
        can_resume=isinstance(sessions.get("resume"), dict),
        can_close=isinstance(sessions.get("close"), dict) or is_zeroclaw,
        is_zeroclaw=is_zeroclaw,
        question_seconds=_seconds(as_object(limits).get("sessionTimeoutSecs")),
    )
    hello = Hello(
        generation=opening.generation,
        server_version=f"{name} {info.get('version', '')}".strip(),
        protocol=PROTOCOL_VERSION,
        scopes=_ALL_SCOPES,  # there are none here: who is let in may do everything
        methods=frozenset(),
        connection_id=None,
        boot_id=None,
        max_payload=MAX_MESSAGE,
        tick_interval=math.inf,  # it never speaks by itself; the transport's pings tell
        default_agent=None,
        makes_sessions=True,
        offers=_offers(result, traits),
    )
    return hello, traits


def _offers(result: Json, traits: Traits) -> Offers:
    """ACP: stdio is no option, an agent has to take it. ZeroClaw (0.8.4) takes no servers at all:
    it drops them unsaid."""
    servers = as_object(as_object(result.get("agentCapabilities")).get("mcpCapabilities"))
    named = {"stdio"} | {name for name in ("http", "sse") if servers.get(name) is True}
    kinds = {"image": traits.takes.image, "audio": traits.takes.audio}
    return Offers(
        frozenset(kind for kind, is_taken in kinds.items() if is_taken),
        frozenset() if traits.is_zeroclaw else frozenset(named),
        as_object(result.get("_meta")),
    )


def as_object(value: Any) -> Json:
    """``value`` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def _mismatch(version: Any, opening: Opening) -> VersionMismatch:
    is_old = version in (0, None) or (isinstance(version, str) and version[:2] in ("0", "0."))
    older, newer = ("gateway", "acp-bridge") if is_old else ("acp-bridge", "gateway")
    shown = version if isinstance(version, int | float) else repr(version)[:40]
    return VersionMismatch(
        f"The gateway at {opening.url} speaks version {shown} of ACP, and the bridge speaks"
        f" {PROTOCOL_VERSION}.",
        hint=f"Upgrade the {older}: it is older than the {newer}.",
        data={"protocolVersion": shown},
    )


def _seconds(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and value > 0 else None
