"""The handshake says exactly what the gateway checks, and reads what it grants."""

from __future__ import annotations

from typing import Any

import pytest

from acp_bridge.errors import HandshakeRefused, VersionMismatch
from acp_bridge.gateway.dialects.openclaw.handshake import (
    Challenge,
    connect_params,
    read_challenge,
    read_hello,
    read_issued_token,
)
from acp_bridge.gateway.secret import Secret
from acp_bridge.ids import Generation
from tests.support.replay import opening

CHALLENGE = Challenge("nonce-1", 1_796_000_000_000)
HELLO = {
    "type": "hello-ok",
    "protocol": 4,
    "server": {"version": "2026.9.6", "connId": "c", "bootId": "b"},
    "features": {"methods": ["chat.send", 5], "events": []},
    "snapshot": {"sessionDefaults": {"defaultAgentId": "main"}},
    "auth": {"role": "operator", "scopes": ["operator.write", 5], "deviceToken": "issued"},
    "policy": {"maxPayload": 1000, "tickIntervalMs": 15000},
}


def test_the_gateway_recognises_an_acp_bridge_by_these_fields() -> None:
    params = connect_params(opening(), CHALLENGE)
    assert params["client"] == {
        "id": "cli",
        "mode": "cli",
        "displayName": "ACP",
        "version": "acp",
        "platform": "linux",
    }
    assert (params["minProtocol"], params["maxProtocol"]) == (3, 4)
    assert params["role"] == "operator"
    assert params["caps"] == ["exec-approvals", "model-selection-policy", "tool-events"]
    assert params["scopes"] == [
        "operator.read",
        "operator.write",
        "operator.approvals",
        "operator.admin",
    ]
    assert set(params) == {
        "minProtocol",
        "maxProtocol",
        "client",
        "role",
        "scopes",
        "caps",
        "device",
        "auth",
    }


def test_the_device_signs_version_three_with_the_gateways_own_time() -> None:
    device = connect_params(opening(platform=" MacOS "), CHALLENGE)["device"]
    assert device == {
        "id": "d" * 64,
        "publicKey": "cHVibGljLWtleQ",
        "signedAt": 1_796_000_000_000,
        "nonce": "nonce-1",
        "signature": "signed[v3|" + "d" * 64 + "|cli|cli|operator|"
        "operator.read,operator.write,operator.approvals,operator.admin|"
        "1796000000000|test-token|nonce-1|macos|]",
    }


@pytest.mark.parametrize(
    ("given", "auth", "signed"),
    [
        ({}, {"token": "test-token"}, "test-token"),
        ({"token": None}, None, ""),
        ({"token": None, "password": Secret("word")}, {"password": "word"}, ""),
        ({"token": None, "device_token": Secret("dt")}, {"deviceToken": "dt"}, "dt"),
        (
            {"device_token": Secret("dt")},
            {"token": "test-token", "deviceToken": "dt"},
            "test-token",
        ),
    ],
)
def test_each_credential_goes_where_the_gateway_looks_for_it(
    given: dict[str, Any], auth: dict[str, str] | None, signed: str
) -> None:
    params = connect_params(opening(**given), CHALLENGE)
    assert params.get("auth") == auth
    assert f"|1796000000000|{signed}|nonce-1|" in params["device"]["signature"]


def test_a_challenge_is_read_with_its_blanks_removed() -> None:
    assert read_challenge({"nonce": " n ", "ts": 5, "capabilities": []}) == Challenge("n", 5)


@pytest.mark.parametrize("payload", [{}, {"nonce": " ", "ts": 1}, {"nonce": "n"}, {"nonce": 5}])
def test_a_challenge_that_cannot_be_answered_is_refused(payload: dict[str, Any]) -> None:
    with pytest.raises(HandshakeRefused, match="challenge"):
        read_challenge(payload)


def test_a_hello_is_read() -> None:
    hello = read_hello(HELLO, opening(generation=Generation(7)))
    assert hello.generation == 7
    assert hello.server_version == "2026.9.6"
    assert hello.scopes == {"operator.write", "operator.read"}
    assert hello.methods == {"chat.send"}
    assert (hello.connection_id, hello.boot_id) == ("c", "b")
    assert (hello.max_payload, hello.tick_interval) == (1000, 15.0)
    assert hello.default_agent == "main"


def test_a_hello_that_says_little_gets_the_gateways_defaults() -> None:
    hello = read_hello({"protocol": 3}, opening())
    assert hello.server_version == "unknown"
    assert hello.scopes == frozenset()
    assert (hello.max_payload, hello.tick_interval) == (26_214_400, 30.0)
    assert hello.boot_id is hello.connection_id is hello.default_agent is None


@pytest.mark.parametrize("protocol", [2, 5, None, "4"])
def test_a_hello_in_a_protocol_that_was_not_offered_is_a_mismatch(protocol: Any) -> None:
    with pytest.raises(VersionMismatch):
        read_hello({**HELLO, "protocol": protocol}, opening())


def test_the_issued_token_is_kept_with_its_scopes_and_stays_secret() -> None:
    issued = read_issued_token(HELLO)
    assert issued is not None
    assert issued.token.reveal() == "issued"
    assert issued.scopes == ("operator.write",)
    assert "issued" not in repr(issued)
    assert read_issued_token({}) is None
