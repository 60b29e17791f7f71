"""The handshake: challenge, signed ``connect`` request, ``hello-ok``.

The gateway recognises an ACP bridge by exactly id ``cli``, mode ``cli``, display name ``ACP`` and
version ``acp``. Unknown keys are refused at every level of ``connect``.
"""

from __future__ import annotations

from typing import NamedTuple

from acp_bridge.core.events import Hello
from acp_bridge.errors import HandshakeRefused
from acp_bridge.gateway.dialects.openclaw.frames import as_count, as_list, as_object, as_text
from acp_bridge.gateway.dialects.openclaw.opening import MAX_PROTOCOL, MIN_PROTOCOL, Opening
from acp_bridge.gateway.dialects.openclaw.options import changeable
from acp_bridge.gateway.dialects.openclaw.refusals import version_mismatch
from acp_bridge.gateway.scopes import with_implied
from acp_bridge.gateway.secret import Secret
from acp_bridge.ids import Json

ROLE = "operator"
CLIENT = {"id": "cli", "mode": "cli", "displayName": "ACP", "version": "acp"}
CAPS = ("exec-approvals", "model-selection-policy", "tool-events")
"""``tool-events`` brings the stream ``tool``; without ``exec-approvals`` 2026.9.6 denies each
command that needs an approval at once; ``model-selection-policy`` has it mark the models that may
not be chosen."""

DEFAULT_MAX_PAYLOAD = 25 * 1024 * 1024
DEFAULT_TICK_MS = 30_000


class Challenge(NamedTuple):
    """What has to be signed to prove who we are."""

    nonce: str
    ts: int
    """The gateway's clock in milliseconds."""


class IssuedToken(NamedTuple):
    """A device token out of a hello, to be kept for the next connection."""

    token: Secret
    scopes: tuple[str, ...]


def read_challenge(payload: Json) -> Challenge:
    """Read ``connect.challenge``. Raises ``HandshakeRefused`` if it cannot be answered."""
    nonce = (as_text(payload.get("nonce")) or "").strip()
    ts = as_count(payload.get("ts"))
    if not nonce or ts is None:
        raise HandshakeRefused("The gateway's challenge cannot be read.")
    return Challenge(nonce, ts)


def connect_params(opening: Opening, challenge: Challenge) -> Json:
    """The parameters of ``connect``. The challenge's time is signed: our clock may be wrong."""
    params: Json = {
        "minProtocol": MIN_PROTOCOL,
        "maxProtocol": MAX_PROTOCOL,
        "client": {**CLIENT, "platform": opening.platform},
        "role": ROLE,
        "scopes": list(opening.scopes),
        "caps": list(CAPS),
        "device": {
            "id": opening.device.device_id,
            "publicKey": opening.device.public_key,
            "signature": opening.device.sign(text_to_sign(opening, challenge)),
            "signedAt": challenge.ts,
            "nonce": challenge.nonce,
        },
    }
    auth = {
        "token": opening.token,
        "password": opening.password,
        "deviceToken": opening.device_token,
    }
    if given := {name: secret.reveal() for name, secret in auth.items() if secret is not None}:
        params["auth"] = given
    return params


def text_to_sign(opening: Opening, challenge: Challenge) -> str:
    """The text of signature version 3; its last two fields are platform and device family."""
    token = opening.token or opening.device_token
    return "|".join(
        (
            "v3",
            opening.device.device_id,
            CLIENT["id"],
            CLIENT["mode"],
            ROLE,
            ",".join(opening.scopes),
            str(challenge.ts),
            token.reveal() if token else "",
            challenge.nonce,
            opening.platform.strip().lower(),
            "",
        )
    )


def read_hello(payload: Json, opening: Opening) -> Hello:
    """Read ``hello-ok``. Raises ``VersionMismatch`` for a protocol that we did not offer."""
    protocol = as_count(payload.get("protocol"))
    if protocol is None or not MIN_PROTOCOL <= protocol <= MAX_PROTOCOL:
        raise version_mismatch(protocol, opening, {})
    server = as_object(payload.get("server"))
    policy = as_object(payload.get("policy"))
    features = as_object(payload.get("features"))
    defaults = as_object(as_object(payload.get("snapshot")).get("sessionDefaults"))
    tick_ms = as_count(policy.get("tickIntervalMs")) or DEFAULT_TICK_MS
    version = as_text(server.get("version")) or "unknown"
    scopes = with_implied(_granted(payload))
    return Hello(
        generation=opening.generation,
        server_version=version,
        protocol=protocol,
        scopes=scopes,
        methods=frozenset(m for m in as_list(features.get("methods")) if isinstance(m, str)),
        connection_id=as_text(server.get("connId")),
        boot_id=as_text(server.get("bootId")),
        max_payload=as_count(policy.get("maxPayload")) or DEFAULT_MAX_PAYLOAD,
        tick_interval=tick_ms / 1000,
        default_agent=as_text(defaults.get("defaultAgentId")),
        changeable=changeable(version, scopes),
    )


def read_issued_token(payload: Json) -> IssuedToken | None:
    """The device token that came with ``hello-ok``."""
    token = as_text(as_object(payload.get("auth")).get("deviceToken"))
    return IssuedToken(Secret(token), tuple(_granted(payload))) if token else None


def _granted(payload: Json) -> list[str]:
    scopes = as_list(as_object(payload.get("auth")).get("scopes"))
    return [scope for scope in scopes if isinstance(scope, str)]
