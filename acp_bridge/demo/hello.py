"""The demo gateway's answer that opens a connection."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass

from acp_bridge.demo.handshake import PROTOCOL, Admission
from acp_bridge.demo.hub import Hub
from acp_bridge.demo.rpc import health
from acp_bridge.ids import Json

EVENTS = (
    "connect.challenge",
    "agent",
    "chat",
    "session.message",
    "session.tool",
    "sessions.changed",
    "tick",
    "shutdown",
    "health",
    "exec.approval.requested",
    "exec.approval.resolved",
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What the gateway tells its clients to keep to."""

    max_payload: int
    """Bytes of the largest frame that it takes."""
    max_buffered: int
    """Bytes that may wait for a client before deltas are dropped."""
    tick_interval: float
    """Seconds between ticks."""


def hello(
    hub: Hub,
    admission: Admission,
    limits: Limits,
    methods: Iterable[str],
    *,
    connection_id: str,
    boot_id: str,
    booted_at: int,
) -> Json:
    """The payload of ``hello-ok``, in the shape of the version that the quirks ask for."""
    server: Json = {"version": hub.quirks.version, "connId": connection_id}
    features: Json = {"methods": sorted(methods), "events": list(EVENTS)}
    auth: Json = {"role": admission.role, "scopes": list(admission.scopes)}
    policy: Json = {
        "maxPayload": limits.max_payload,
        "maxBufferedBytes": limits.max_buffered,
        "tickIntervalMs": round(limits.tick_interval * 1000),
    }
    if admission.device_token is not None:
        auth |= {"deviceToken": admission.device_token, "issuedAtMs": hub.clock()}
    payload: Json = {
        "type": "hello-ok",
        "protocol": PROTOCOL,
        "server": server,
        "features": features,
        "snapshot": _snapshot(hub, booted_at),
        "auth": auth,
        "policy": policy,
    }
    if not hub.quirks.is_old:
        server |= {"buildId": "demo", "bootId": boot_id, "controlUiBuildSource": "bundled"}
        features["capabilities"] = []
        auth |= {"method": "token", "recoveryScope": secrets.token_urlsafe(8)}
        auth["recoveryMigrationAllowed"] = True
        policy |= {
            "attachments": {"maxBytes": 19_464_192, "maxImageBytes": 6_291_456},
            "allowedSessionVisibilities": ["shared"],
            "hasMultipleSessionSharingIdentities": False,
        }
        payload["controlUiWidgetKinds"] = []
    return payload


def _snapshot(hub: Hub, booted_at: int) -> Json:
    defaults: Json = {
        "defaultAgentId": "main",
        "mainKey": "main",
        "mainSessionKey": "agent:main:main",
        "scope": "per-sender",
    }
    snapshot: Json = {
        "presence": [],
        "health": health(hub),
        "stateVersion": {"presence": 1, "health": 1},
        "uptimeMs": hub.clock() - booted_at,
        "sessionDefaults": defaults,
    }
    if not hub.quirks.is_old:
        defaults |= {"modelConfigured": True, "ownership": "sole", "selectionRequired": False}
        snapshot |= {"suspension": {"phase": "accepting"}, "appliedConfigHash": "demo"}
    return snapshot
