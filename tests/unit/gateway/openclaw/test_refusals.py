"""The gateway's errors become errors that say what to do, decided by code."""

from __future__ import annotations

from typing import Any

import pytest

from acp_bridge.errors import (
    AuthenticationFailed,
    GatewayError,
    GatewayRefused,
    GatewayUnreachable,
    HandshakeRefused,
    PairingRequired,
    ScopeMissing,
    VersionMismatch,
)
from acp_bridge.gateway.dialects.openclaw.refusals import (
    details_code,
    handshake_refusal,
    request_refusal,
)
from tests.support.replay import opening


def refused(code: str = "INVALID_REQUEST", details: Any = None, **more: Any) -> GatewayError:
    error = {"code": code, "message": "in other words", "details": details, **more}
    return handshake_refusal(error, opening())


@pytest.mark.requirement("C008")
@pytest.mark.parametrize(
    ("code", "words", "hint"),
    [
        ("AUTH_TOKEN_MISMATCH", "refused the token from --token-file /secret/token", "Compare"),
        ("AUTH_PASSWORD_MISMATCH", "refused the password from", "gateway.auth.password"),
        ("AUTH_TOKEN_MISSING", "wants a token, and none was given", "ACP_BRIDGE_TOKEN"),
        ("AUTH_PASSWORD_MISSING", "wants a password", "--password-file"),
        ("AUTH_DEVICE_TOKEN_MISMATCH", "once issued to this device", "--token-file"),
        ("AUTH_SCOPE_MISMATCH", "has not approved these scopes", "--scopes"),
        ("AUTH_RATE_LIMITED", "refuses more attempts", "Check"),
        ("DEVICE_AUTH_SIGNATURE_INVALID", "this device's identity (DEVICE_AUTH_", None),
    ],
)
def test_a_refused_credential_is_named_by_where_it_came_from(
    code: str, words: str, hint: str | None
) -> None:
    error = refused(details={"code": code})
    assert type(error) is AuthenticationFailed
    assert words in error.message
    assert "ws://127.0.0.1:18789" in error.message
    assert (hint is None and error.hint is None) or (hint or "") in (error.hint or "")
    assert details_code(error) == code
    assert "test-token" not in f"{error.message}{error.hint}{error.data}"


@pytest.mark.requirement("C006")
@pytest.mark.parametrize(
    ("code", "reason", "words"),
    [
        ("NOT_PAIRED", "not-paired", "must approve this device first"),
        ("NOT_PAIRED", "scope-upgrade", "must approve more scopes"),
        ("NOT_PAIRED", "metadata-upgrade", "must approve this device again"),
        ("INVALID_REQUEST", None, "must approve this device first"),
    ],
)
def test_a_missing_approval_tells_request_device_and_command(
    code: str, reason: str | None, words: str
) -> None:
    details = {"code": "PAIRING_REQUIRED", "reason": reason, "requestId": "req-7"}
    error = refused(code, details)
    assert type(error) is PairingRequired
    assert words in error.message
    assert "req-7" in error.message
    assert error.hint == "On the gateway's machine run: openclaw devices approve req-7"
    assert error.data["requestId"] == "req-7"
    assert error.data["deviceId"] == "d" * 64


def test_a_pairing_without_details_still_tells_the_command() -> None:
    error = refused("NOT_PAIRED")
    assert type(error) is PairingRequired
    assert (error.hint or "").endswith("openclaw devices approve")


def test_a_gateway_that_wants_a_device_identity_is_no_pairing() -> None:
    error = refused("NOT_PAIRED", {"code": "DEVICE_IDENTITY_REQUIRED"})
    assert type(error) is AuthenticationFailed


@pytest.mark.requirement("C013")
@pytest.mark.parametrize(
    ("expected", "who"),
    [(5, "acp-bridge"), (2, "the gateway"), (4, "the older"), (None, "the older")],
)
def test_a_protocol_mismatch_tells_both_sides_and_which_to_upgrade(
    expected: int | None, who: str
) -> None:
    error = refused(details={"code": "PROTOCOL_MISMATCH", "expectedProtocol": expected})
    assert type(error) is VersionMismatch
    assert f"protocol {expected or 'unknown'}, this bridge 3-4" in error.message
    assert who in (error.hint or "")
    assert (error.data["ours"], error.data["theirs"]) == ("3-4", expected)


@pytest.mark.parametrize(
    ("code", "more", "wait"),
    [
        ("UNAVAILABLE", {"retryable": True, "retryAfterMs": 500}, 500),
        ("UNAVAILABLE", {}, 0),
        ("OTHER", {"retryable": True, "retryAfterMs": "soon"}, 0),
    ],
)
def test_a_gateway_that_is_starting_is_waited_for(
    code: str, more: dict[str, Any], wait: int
) -> None:
    error = refused(code, {"reason": "startup-sidecars"}, **more)
    assert type(error) is GatewayUnreachable
    assert error.data["retryAfterMs"] == wait


def test_any_other_refusal_keeps_the_gateways_words() -> None:
    error = refused(details={"code": "NEW_RULE"})
    assert type(error) is HandshakeRefused
    assert "in other words" in error.message
    assert error.data["gateway"]["code"] == "INVALID_REQUEST"
    assert details_code(error) == "NEW_RULE"
    assert "without a reason" in handshake_refusal({}, opening()).message
    assert details_code(GatewayError()) is None


@pytest.mark.requirement("C012")
@pytest.mark.parametrize(
    "error",
    [
        {"code": "INVALID_REQUEST", "message": "missing scope: operator.write"},
        {
            "code": "FORBIDDEN",
            "message": "you may not",
            "details": {"code": "MISSING_SCOPE", "missingScope": "operator.write"},
        },
    ],
)
def test_a_missing_scope_is_named_in_both_versions(error: dict[str, Any]) -> None:
    refusal = request_refusal("chat.send", error)
    assert type(refusal) is ScopeMissing
    assert "operator.write" in refusal.message
    assert "chat.send" in refusal.message
    assert refusal.data["scope"] == "operator.write"
    assert refusal.data["gateway"]["code"] == error["code"]


@pytest.mark.requirement("C086")
def test_a_refused_request_keeps_the_gateways_own_error() -> None:
    refusal = request_refusal("chat.send", {"code": "INVALID_REQUEST", "message": "no such thing"})
    assert type(refusal) is GatewayRefused
    assert refusal.message == "The gateway refused chat.send: no such thing"
    assert refusal.data["gateway"] == {"code": "INVALID_REQUEST", "message": "no such thing"}
    assert request_refusal("x", {"code": "Y"}).message == "The gateway refused x: Y"
