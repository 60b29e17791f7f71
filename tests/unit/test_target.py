"""Which gateway it is, and that the credentials of others' tools stay with their gateway."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from acp_bridge.config import load
from acp_bridge.errors import ConfigError
from acp_bridge.gateway.credentials import Credentials
from acp_bridge.target import Target, find_target

THEIRS = {"OPENCLAW_GATEWAY_TOKEN": "theirs", "ZEROCLAW_ACP_BRIDGE_TOKEN": "zc"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory; also for what has no environment of the test's own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("OPENCLAW_HOME")
    return tmp_path


def target(home: Path, *argv: str, **environ: str) -> Target:
    known = {"HOME": str(home), **environ}
    settings = load(["--state-dir", str(home / "state"), *argv], known)
    return find_target(settings, known, lambda _: None)


def openclaw(home: Path, **gateway: Any) -> Path:
    path = home / ".openclaw" / "openclaw.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"gateway": gateway}))
    path.chmod(0o600)
    return path


def used(credentials: Credentials) -> str:
    """Where the credentials come from."""
    return credentials.current().source


def test_with_nothing_said_it_is_the_usual_gateway_without_a_credential(home: Path) -> None:
    found = target(home)

    assert found[:2] == ("ws://127.0.0.1:18789", "default")
    assert used(found.credentials) == used(found.acp_credentials) == "no credential"


def test_with_nothing_said_openclaws_configuration_is_used(home: Path) -> None:
    remote = {"url": "wss://r.example", "token": "tok"}
    path = openclaw(home, mode="remote", remote=remote)

    found = target(home)

    assert found[:2] == ("wss://r.example", f"gateway.remote.url in {path}")
    assert used(found.credentials) == f"gateway.remote.token in {path}"
    assert used(found.acp_credentials) == "no credential"


def test_a_url_of_openclaws_has_to_be_a_good_one(home: Path) -> None:
    path = openclaw(home, mode="remote", remote={"url": "http://r.example"})

    with pytest.raises(ConfigError, match="must begin with ws") as caught:
        target(home)

    assert f"gateway.remote.url in {path}" in caught.value.message


def test_openclaws_configuration_is_not_read_for_a_gateway_that_was_named(home: Path) -> None:
    openclaw(home, auth={"token": "tok"}).write_text("nonsense")

    for option in ("--url=ws://127.0.0.1:18789", "--gateway-kind=acp"):
        assert used(target(home, option).credentials) == "no credential"


def test_what_the_bridge_was_told_goes_before_everything_else(home: Path) -> None:
    openclaw(home, mode="remote", remote={"url": "wss://r.example", "token": "tok"})

    found = target(home, "--token", "ours", **THEIRS)

    assert used(found.credentials) == used(found.acp_credentials) == "--token"
    assert found.url == "wss://r.example"


def test_a_url_of_a_variable_goes_with_credentials_of_variables(home: Path) -> None:
    found = target(home, **THEIRS, ACP_BRIDGE_GATEWAY_URL="wss://x.example")

    assert used(found.credentials) == "OPENCLAW_GATEWAY_TOKEN"
    assert used(found.acp_credentials) == "ZEROCLAW_ACP_BRIDGE_TOKEN"


def test_a_url_of_a_flag_gets_a_variable_only_if_it_is_that_gateways(home: Path) -> None:
    openclaw(home, port=19001)

    named = target(home, "--url=ws://127.0.0.1:19001", **THEIRS)
    other = target(home, "--url=ws://127.0.0.1:42617/acp", **THEIRS)

    assert used(named.credentials) == "OPENCLAW_GATEWAY_TOKEN"
    assert used(named.acp_credentials) == "no credential"
    assert used(other.credentials) == "no credential"
    assert used(other.acp_credentials) == "ZEROCLAW_ACP_BRIDGE_TOKEN"
    assert other.credentials.withheld == (
        "OPENCLAW_GATEWAY_TOKEN is not used: it is for ws://127.0.0.1:19001, and --url names"
        " another gateway."
    )


def test_where_their_gateway_cannot_be_told_their_variables_are_left_out(home: Path) -> None:
    openclaw(home).write_text("nonsense")

    found = target(home, "--url=wss://x.example", **THEIRS)

    assert used(found.credentials) == "no credential"
    assert "a gateway that cannot be told" in (found.credentials.withheld or "")


def test_a_variable_that_is_left_out_makes_room_for_the_token_of_a_pairing(home: Path) -> None:
    found = target(home, "--url=ws://127.0.0.1:5555/acp", **THEIRS)
    assert used(found.acp_credentials) == "no credential"

    directory = home / "state"
    directory.mkdir()
    kept = target(home, "--url=ws://127.0.0.1:5555/acp").acp_credentials.token
    path = getattr(kept, "path")  # noqa: B009 - a source is known by what it reads
    path.write_text("paired\n")
    path.chmod(0o600)

    assert used(found.acp_credentials) == f"the pairing's {path}"


def test_zeroclaws_config_says_whose_its_variable_is(home: Path) -> None:
    (home / "z").mkdir()
    (home / "z" / "config.toml").write_text("[gateway]\nport = 4321\n")
    argv = ["--config-dir", str(home / "z")]

    by_config = target(home, *argv, **THEIRS)
    by_flag = target(home, *argv, "--url=ws://127.0.0.1:4321/acp", **THEIRS)

    assert by_config.url == by_flag.url == "ws://127.0.0.1:4321/acp"
    assert used(by_config.acp_credentials) == used(by_flag.acp_credentials)
    assert used(by_flag.acp_credentials) == "ZEROCLAW_ACP_BRIDGE_TOKEN"


def test_plain_ws_to_anywhere_needs_a_word_of_the_users_wherever_the_url_stands(home: Path) -> None:
    far = "ws://gw.example:1/acp"
    openclaw(home, mode="remote", remote={"url": far})

    for argv in ((), ("--url", far), ("--gateway-kind=acp", "--url", far)):
        with pytest.raises(ConfigError, match="over plain ws"):
            target(home, *argv)
        assert target(home, *argv, "--allow-insecure-ws").url == far
