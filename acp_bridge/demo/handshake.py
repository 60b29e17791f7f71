"""The demo gateway's side of ``connect``: what is let in, with which scopes, and what is not."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import string
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from acp_bridge.demo.hub import ADMIN, READ, WRITE, Refusal
from acp_bridge.demo.quirks import Quirks
from acp_bridge.ids import Json

PROTOCOL = 4
MAX_SKEW_MS = 10 * 60 * 1000
CLIENT_IDS = frozenset(
    {
        "cli",
        "fingerprint",
        "gateway-client",
        "node-host",
        "openclaw-android",
        "openclaw-control-ui",
        "openclaw-ios",
        "openclaw-macos",
        "openclaw-probe",
        "openclaw-tui",
        "test",
        "webchat",
        "webchat-ui",
    }
)
CLIENT_MODES = frozenset({"backend", "cli", "node", "probe", "test", "ui", "webchat"})
_KEYS: dict[str, frozenset[str]] = {
    "": frozenset(
        {
            "auth",
            "caps",
            "client",
            "commands",
            "device",
            "locale",
            "maxProtocol",
            "minProtocol",
            "pathEnv",
            "permissions",
            "role",
            "scopes",
            "userAgent",
        }
    ),
    "client": frozenset(
        {
            "deviceFamily",
            "displayName",
            "id",
            "instanceId",
            "mode",
            "modelIdentifier",
            "platform",
            "version",
        }
    ),
    "auth": frozenset({"bootstrapToken", "deviceToken", "password", "token"}),
    "device": frozenset({"id", "nonce", "publicKey", "signature", "signedAt"}),
}
_REQUIRED: dict[str, tuple[str, ...]] = {
    "": ("minProtocol", "maxProtocol", "client"),
    "client": ("id", "version", "platform", "mode"),
    "auth": (),
    "device": ("id", "publicKey", "signature", "signedAt", "nonce"),
}
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


class Denied(Refusal):
    """A refused handshake: the answer, and the code that the socket is then closed with."""

    def __init__(
        self,
        message: str,
        *,
        code: str = "INVALID_REQUEST",
        details: Json | None = None,
        close_code: int = 1008,
    ) -> None:
        super().__init__(message, code=code, details=details)
        self.close_code = close_code
        self.reason = message


@dataclass(frozen=True, slots=True)
class Admission:
    """A client that was let in."""

    scopes: tuple[str, ...]
    caps: frozenset[str]
    client: Json
    role: str
    device_token: str | None


@dataclass(slots=True)
class _Device:
    scopes: frozenset[str]
    platform: str
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)


class Doorkeeper:
    """Decides on ``connect``. Remembers the devices it has let in, as pairing does.

    Without ``token`` any credentials are good; a device's signature is verified in any case.
    """

    def __init__(self, token: str | None, quirks: Quirks) -> None:
        self._token = token
        self._quirks = quirks
        self._devices: dict[str, _Device] = {}

    def admit(self, params: Any, nonce: str, now: int) -> Admission:
        """Check a ``connect``. Raises :class:`Denied`."""
        _check_schema(params)
        _check_protocol(params)
        wanted = frozenset(params.get("scopes") or ())
        device: Json | None = params.get("device")
        if device is not None:
            _verify_device(params, device, nonce, now)
        self._check_credentials(params, device, wanted)
        token: str | None = None
        if device is not None:
            token = self._pair(device["id"], wanted, params["client"]["platform"]).token
        return Admission(
            self._granted(params, wanted),
            frozenset(params.get("caps") or ()),
            params["client"],
            params.get("role", "operator"),
            token,
        )

    def _check_credentials(self, params: Json, device: Json | None, wanted: Iterable[str]) -> None:
        if self._token is None:
            return
        auth: Json = params.get("auth") or {}
        if device is None and not auth:
            raise Denied(
                "device identity required",
                code="NOT_PAIRED",
                details={"code": "DEVICE_IDENTITY_REQUIRED"},
            )
        given = [str(auth[name]) for name in ("token", "deviceToken") if auth.get(name)]
        if not self._quirks.is_old and auth.get("password"):
            given.append(str(auth["password"]))
        if not given:
            raise _unauthorized("missing", can_retry=False, step="update_auth_configuration")
        if any(_same(self._token, each) for each in given):
            return
        known = self._devices.get(device["id"]) if device is not None else None
        if known is None or not any(_same(known.token, each) for each in given):
            retry = device is not None
            step = "retry_with_device_token" if retry else "update_auth_credentials"
            raise _unauthorized("mismatch", can_retry=retry, step=step)
        if not _covers(known.scopes, wanted):
            raise Denied(
                "unauthorized: device token scope mismatch",
                details={
                    "code": "AUTH_SCOPE_MISMATCH",
                    "authReason": "scope_mismatch",
                    "canRetryWithDeviceToken": False,
                    "recommendedNextStep": "review_auth_configuration",
                },
            )

    def _pair(self, device_id: str, wanted: frozenset[str], platform: str) -> _Device:
        """A new device is paired silently, as on loopback; a changed one is not."""
        known = self._devices.get(device_id)
        if known is None:
            known = self._devices[device_id] = _Device(wanted, platform)
        if known.platform != platform:
            raise _pairing("metadata-upgrade", device_id, wanted, known.scopes)
        if not _covers(known.scopes, wanted):
            if self._quirks.refuse_scope_upgrade:
                raise _pairing("scope-upgrade", device_id, wanted, known.scopes)
            known.scopes |= wanted
        return known

    def _granted(self, params: Json, wanted: frozenset[str]) -> tuple[str, ...]:
        is_cli = params["client"]["mode"] == "cli"
        if self._quirks.clear_scopes_without_device and is_cli and "device" not in params:
            return ()
        if not self._quirks.is_old:
            return tuple(params.get("scopes") or ())
        return tuple(sorted(wanted | ({READ, WRITE} if ADMIN in wanted else set())))


def _check_schema(params: Any) -> None:
    _check_object("", params)
    for part in ("client", "auth", "device"):
        if part in params:
            _check_object(part, params[part])
    for name, allowed in (("id", CLIENT_IDS), ("mode", CLIENT_MODES)):
        if params["client"][name] not in allowed:
            raise _invalid(f"at /client/{name}: must be equal to one of the allowed values")


def _check_object(part: str, value: Any) -> None:
    place = f"at /{part}: " if part else ""
    if not isinstance(value, dict):
        raise _invalid(f"{place}must be object")
    for name in _REQUIRED[part]:
        if name not in value:
            raise _invalid(f"{place}must have required property '{name}'")
    for name in value:
        if name not in _KEYS[part]:
            raise _invalid(f"{place or 'at root: '}unexpected property '{name}'")


def _check_protocol(params: Json) -> None:
    lowest, highest = params["minProtocol"], params["maxProtocol"]
    if not lowest <= PROTOCOL <= highest:
        raise Denied(
            "protocol mismatch",
            details={
                "code": "PROTOCOL_MISMATCH",
                "clientMinProtocol": lowest,
                "clientMaxProtocol": highest,
                "expectedProtocol": PROTOCOL,
                "minimumProbeProtocol": PROTOCOL,
            },
            close_code=1002,
        )


def _verify_device(params: Json, device: Json, nonce: str, now: int) -> None:
    """Check id, nonce, age and signature (v3, else v2) of a device identity."""
    key = _unpadded(device["publicKey"])
    if hashlib.sha256(key).hexdigest() != device["id"]:
        raise _bad_device("device identity mismatch", "DEVICE_ID_MISMATCH", "device-id-mismatch")
    if device["nonce"] != nonce:
        raise _bad_device("device nonce mismatch", "NONCE_MISMATCH", "device-nonce-mismatch")
    if abs(now - device["signedAt"]) > MAX_SKEW_MS:
        raise _bad_device("device signature expired", "SIGNATURE_EXPIRED", "device-signature-stale")
    signature = _unpadded(device["signature"])
    if not any(_is_signed(key, signature, text) for text in _signed_texts(params, device)):
        raise _bad_device("device signature invalid", "SIGNATURE_INVALID", "device-signature")


def _signed_texts(params: Json, device: Json) -> tuple[str, str]:
    client: Json = params["client"]
    auth: Json = params.get("auth") or {}
    token = auth.get("token") or auth.get("deviceToken") or auth.get("bootstrapToken") or ""
    parts = [
        str(device["id"]),
        client["id"],
        client["mode"],
        params.get("role", "operator"),
        ",".join(params.get("scopes") or ()),
        str(device["signedAt"]),
        str(token),
        str(device["nonce"]),
    ]
    machine = [str(client.get(name) or "").strip() for name in ("platform", "deviceFamily")]
    third = ["v3", *parts, *(text.translate(_LOWER) for text in machine)]
    return "|".join(third), "|".join(["v2", *parts])


def _is_signed(key: bytes, signature: bytes, text: str) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, text.encode())
    except (InvalidSignature, ValueError):
        return False
    return True


def _unpadded(text: Any) -> bytes:
    """Base64url without padding; nothing for what is none."""
    try:
        return base64.urlsafe_b64decode(f"{text}{'=' * (-len(text) % 4)}")
    except (binascii.Error, TypeError, ValueError):
        return b""


def _same(secret: str, given: str) -> bool:
    return hmac.compare_digest(secret.encode(), given.encode())


def _covers(granted: Collection[str], wanted: Iterable[str]) -> bool:
    return ADMIN in granted or all(
        scope in granted or (scope == READ and WRITE in granted) for scope in wanted
    )


def _invalid(what: str) -> Denied:
    return Denied(f"invalid connect params: {what}")


def _bad_device(message: str, code: str, reason: str) -> Denied:
    return Denied(message, details={"code": f"DEVICE_AUTH_{code}", "reason": reason})


def _unauthorized(what: str, *, can_retry: bool, step: str) -> Denied:
    return Denied(
        f"unauthorized: gateway token {what}",
        details={
            "code": f"AUTH_TOKEN_{what.upper()}",
            "authReason": f"token_{what}",
            "canRetryWithDeviceToken": can_retry,
            "recommendedNextStep": step,
        },
    )


def _pairing(reason: str, device_id: str, wanted: Iterable[str], approved: Iterable[str]) -> Denied:
    return Denied(
        f"pairing required: {reason}",
        code="NOT_PAIRED",
        details={
            "code": "PAIRING_REQUIRED",
            "reason": reason,
            "requestId": f"pair-{device_id[:8]}",
            "remediationHint": "Review the request, then approve it.",
            "deviceId": device_id,
            "requestedRole": "operator",
            "requestedScopes": sorted(wanted),
            "approvedRoles": ["operator"],
            "approvedScopes": sorted(approved),
        },
    )
