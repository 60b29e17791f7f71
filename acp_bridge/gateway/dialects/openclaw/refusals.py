"""The gateway's error objects, turned into the bridge's errors.

Decided by ``error.code`` and ``error.details.code`` alone; the wording differs between versions.
One exception: 2026.6.11 names a missing scope in the message only.
"""

from __future__ import annotations

import re

from acp_bridge.errors import (
    AuthenticationFailed,
    BridgeError,
    GatewayError,
    GatewayRefused,
    GatewayUnreachable,
    HandshakeRefused,
    PairingRequired,
    ScopeMissing,
    VersionMismatch,
)
from acp_bridge.gateway.dialects.openclaw.frames import as_count, as_object, as_text
from acp_bridge.gateway.dialects.openclaw.opening import MAX_PROTOCOL, MIN_PROTOCOL, Opening
from acp_bridge.ids import Json

_MISSING_SCOPE = re.compile(r"\bmissing scope: (?P<scope>[\w.-]+)")

_FOR_RESTART = ("gateway-restarting", "gateway-suspending")

_HOW_TO_GIVE = {
    "token": "Give it with --token-file or ACP_BRIDGE_TOKEN.",
    "password": "Give it with --password-file or ACP_BRIDGE_PASSWORD.",
}


def details_code(error: GatewayError) -> str | None:
    """The gateway's ``error.details.code`` behind ``error``, if it sent one."""
    gateway = as_object(error.data.get("gateway"))
    return as_text(as_object(gateway.get("details")).get("code"))


def is_for_restart(error: BridgeError) -> bool:
    """Whether the gateway takes nothing new since it is about to be restarted (2026.9.6 winds down
    for up to five minutes)."""
    gateway = as_object(error.data.get("gateway"))
    return as_object(gateway.get("details")).get("reason") in _FOR_RESTART


def handshake_refusal(error: Json, opening: Opening) -> GatewayError:
    """Why ``connect`` was refused.

    ``GatewayUnreachable`` for a gateway that is still starting, with its ``retryAfterMs`` in
    ``data``; a ``HandshakeRefused`` for what waiting cannot heal.
    """
    details = as_object(error.get("details"))
    code = as_text(details.get("code")) or ""
    data = _gateway_data(error)
    if error.get("code") == "UNAVAILABLE" or error.get("retryable") is True:
        return GatewayUnreachable(
            f"The gateway at {opening.url} is not ready yet.",
            data={**data, "retryAfterMs": as_count(error.get("retryAfterMs")) or 0},
        )
    if error.get("code") == "NOT_PAIRED" and code != "DEVICE_IDENTITY_REQUIRED":
        return _pairing(details, data, opening)
    if code == "PAIRING_REQUIRED":
        return _pairing(details, data, opening)
    if code == "PROTOCOL_MISMATCH":
        return version_mismatch(details.get("expectedProtocol"), opening, data)
    if code.startswith(("AUTH_", "DEVICE_")):
        return _authentication(code, data, opening)
    return HandshakeRefused(
        f"The gateway at {opening.url} refused the connection: {_sentence(error)}", data=data
    )


def version_mismatch(expected: object, opening: Opening, data: Json) -> VersionMismatch:
    """The gateway wants protocol ``expected``, which is outside our range."""
    ours = f"{MIN_PROTOCOL}-{MAX_PROTOCOL}"
    theirs = as_count(expected)
    if theirs is not None and theirs < MIN_PROTOCOL:
        older = "the gateway"
    elif theirs is not None and theirs > MAX_PROTOCOL:
        older = "acp-bridge"
    else:
        older = "the older of the two"
    return VersionMismatch(
        f"The gateway at {opening.url} speaks protocol {theirs or 'unknown'}, this bridge {ours}.",
        hint=f"Upgrade {older}.",
        data={**data, "ours": ours, "theirs": theirs},
    )


def request_refusal(method: str, error: Json) -> GatewayError:
    """Why the gateway refused a request: ``ScopeMissing`` or ``GatewayRefused``."""
    details = as_object(error.get("details"))
    data = _gateway_data(error)
    scope = as_text(details.get("missingScope")) or _scope_in_message(error)
    if scope:
        return ScopeMissing(
            f"The gateway has not granted {scope}, which {method} needs.",
            hint="Ask for it with --scopes; a known device then needs an approval on the"
            " gateway's machine: openclaw devices approve.",
            data={**data, "scope": scope},
        )
    return GatewayRefused(f"The gateway refused {method}: {_sentence(error)}", data=data)


def _pairing(details: Json, data: Json, opening: Opening) -> PairingRequired:
    request_id = as_text(details.get("requestId"))
    command = f"openclaw devices approve {request_id or ''}".rstrip()
    what = {
        "scope-upgrade": "must approve more scopes for this device",
        "metadata-upgrade": "must approve this device again, since what it says of itself changed",
    }.get(as_text(details.get("reason")) or "", "must approve this device first")
    return PairingRequired(
        f"The gateway at {opening.url} {what}"
        f" (request {request_id or 'unknown'}, device {opening.device.device_id[:12]}).",
        hint=f"On the gateway's machine run: {command}",
        data={**data, "requestId": request_id, "deviceId": opening.device.device_id},
    )


def _authentication(code: str, data: Json, opening: Opening) -> AuthenticationFailed:
    what, hint = _what_was_refused(code, opening)
    return AuthenticationFailed(f"The gateway at {opening.url} {what}", hint=hint, data=data)


def _what_was_refused(code: str, opening: Opening) -> tuple[str, str | None]:
    kind = "password" if "PASSWORD" in code else "token"
    if code.endswith("_MISSING"):
        return f"wants a {kind}, and none was given.", _HOW_TO_GIVE[kind]
    if code == "AUTH_DEVICE_TOKEN_MISMATCH":
        return "refused the token that it once issued to this device.", _HOW_TO_GIVE[kind]
    if code == "AUTH_SCOPE_MISMATCH":
        return (
            "has not approved these scopes for this device.",
            "Ask for fewer with --scopes, or connect once with the gateway's own token.",
        )
    if code == "AUTH_RATE_LIMITED":
        return "refuses more attempts for now.", "Check the credential before trying again."
    if code.startswith("DEVICE_"):
        return f"refused this device's identity ({code}).", None
    return (
        f"refused the {kind} from {opening.source}.",
        f"Compare it with gateway.auth.{kind} on the gateway's machine.",
    )


def _scope_in_message(error: Json) -> str | None:
    match = _MISSING_SCOPE.search(as_text(error.get("message")) or "")
    return match["scope"] if match else None


def _gateway_data(error: Json) -> Json:
    kept = {key: error[key] for key in ("code", "message", "details") if key in error}
    return {"gateway": kept}


def _sentence(error: Json) -> str:
    return as_text(error.get("message")) or as_text(error.get("code")) or "without a reason"
