"""Secrets by the names under which they stand."""

from __future__ import annotations

from typing import Any

import pytest

from acp_bridge.wire.secrecy import names_secret, secrets_in_query, without_secret_members


@pytest.mark.parametrize(
    "name",
    ["token", "deviceToken", "gateway_token", "X-API-Key", "Authorization", "PASSWORD", "_meta"],
)
def test_a_name_of_a_secret_is_known_however_it_is_spelled(name: str) -> None:
    assert names_secret(name)
    assert not names_secret(f"{name}Count")


def test_members_are_replaced_at_any_depth_and_counts_are_kept() -> None:
    value: Any = {"a": [{"deviceToken": "x", "token": 5, "text": "t"}], "_meta": {"k": 1}}
    hidden = {"a": [{"deviceToken": "[redacted]", "token": 5, "text": "t"}], "_meta": "[redacted]"}
    assert without_secret_members(value) == hidden


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("ws://h/acp?agent=a&token=a%2Bb", ["a%2Bb", "a+b"]),
        ("ws://h/?api_key=k&x", ["k", "k"]),
        ("ws://h/?token=", []),
        ("ws://[", []),
        ("", []),
    ],
)
def test_secrets_in_a_query_are_found(url: str, found: list[str]) -> None:
    assert secrets_in_query(url) == found
