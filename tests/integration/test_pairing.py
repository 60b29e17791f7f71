"""Pairing with a ZeroClaw gateway, and what is kept of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acp_bridge.errors import (
    AuthenticationFailed,
    BridgeError,
    ConfigError,
    GatewayRefused,
    GatewayUnreachable,
    PairingRequired,
)
from acp_bridge.gateway import pairing
from acp_bridge.gateway.endpoint import Endpoint, acp_endpoint
from acp_bridge.gateway.settings import ACP_URL
from acp_bridge.gateway.zeroclaw import GatewayConfig, config_directory, read_config, token_path
from tests.support.pairing import PairingServer, pairing_server

pytestmark = pytest.mark.integration


@pytest.fixture
def server() -> Iterator[PairingServer]:
    with pairing_server() as running:
        yield running


def test_a_code_is_exchanged_for_a_token_once(server: PairingServer) -> None:
    assert pairing.pair(server.url, "123456").reveal() == "zc_paired"
    with pytest.raises(AuthenticationFailed, match="does not know this code") as caught:
        pairing.pair(server.url, "123456")
    assert "get-paircode --new" in (caught.value.hint or "")


def test_pairing_is_behind_the_prefix_of_the_url(server: PairingServer) -> None:
    server.prefix = "/claw"
    assert pairing.pair(server.url, pairing.open_code(server.url)).reveal() == "zc_paired"
    with pytest.raises(GatewayUnreachable) as caught:
        pairing.pair(server.url.replace("/claw", ""), "1")
    assert "path_prefix" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("status", "answer", "error", "said"),
    [
        (429, {"error": "x", "retry_after": 300}, GatewayRefused, "300 s"),
        (429, {}, GatewayRefused, "some minutes"),
        (500, {}, GatewayRefused, "log"),
        (302, {}, GatewayUnreachable, "--gateway-url"),
        (405, {}, GatewayUnreachable, "path_prefix"),
        (429, {"retry_after": True}, GatewayRefused, "some minutes"),
        (200, {"paired": True}, GatewayRefused, "new code"),
    ],
)
def test_each_refusal_says_what_to_do(
    server: PairingServer, status: int, answer: Any, error: type[BridgeError], said: str
) -> None:
    server.status, server.answer = status, answer
    with pytest.raises(error) as caught:
        pairing.pair(server.url, "123456")
    assert said in (caught.value.hint or "")


def test_a_gateway_that_is_not_there_is_told() -> None:
    with pytest.raises(GatewayUnreachable, match="cannot be reached"):
        pairing.pair("ws://127.0.0.1:9/acp", "1")


def test_a_gateway_that_shows_no_code_says_how_to_get_one(server: PairingServer) -> None:
    server.shows_code = False
    with pytest.raises(PairingRequired) as caught:
        pairing.open_code(server.url)
    assert "get-paircode" in (caught.value.hint or "")
    server.wants_pairing = False
    with pytest.raises(PairingRequired, match="lets everybody in"):
        pairing.open_code(server.url)


# --- the config -------------------------------------------------------------------------------


def config(directory: Path, text: str | bytes) -> Path:
    raw = text if isinstance(text, bytes) else text.encode()
    (directory / "config.toml").write_bytes(raw)
    return directory


def test_a_config_without_a_gateway_has_the_defaults(tmp_path: Path) -> None:
    read = read_config(config(tmp_path, b"\xef\xbb\xbfschema_version = 3\n"))
    assert read == GatewayConfig()
    assert read.url == ACP_URL


def test_the_gateway_of_a_config_is_found(tmp_path: Path) -> None:
    text = """
[gateway]
host = " [::1] "
port = 4321
path_prefix = "claw/"
require_pairing = false
paired_tokens = ["not-a-token"]
tls = { enabled = true }
"""
    read = read_config(config(tmp_path, text))
    assert read.url == "wss://[::1]:4321/claw/acp"
    assert not read.wants_pairing


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104 - not to be dialled
def test_a_gateway_that_listens_everywhere_is_dialled_here(tmp_path: Path, host: str) -> None:
    read = read_config(config(tmp_path, f'[gateway]\nhost = "{host}"\n'))
    assert read.url in ("ws://127.0.0.1:42617/acp", "ws://[::1]:42617/acp")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[gateway", "no valid TOML"),
        (b"\xff\xff", "no valid TOML"),
        ("gateway = 5", "no table"),
        ('[gateway]\nport = "x"', "gateway.port has the wrong type"),
        ("[gateway]\nport = true", "gateway.port has the wrong type"),
        ("[gateway]\nport = 70000", "no port"),
        ("[gateway]\nhost = 5", "gateway.host has the wrong type"),
    ],
)
def test_what_is_wrong_with_a_config_is_told(tmp_path: Path, text: str | bytes, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_config(config(tmp_path, text))


def test_a_missing_config_is_told_with_other_ways(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config(tmp_path)
    assert "--gateway-url" in (caught.value.hint or "")
    (tmp_path / "config.toml").mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        read_config(tmp_path)


def test_the_directory_is_the_given_one_or_that_of_the_variable_or_the_usual_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    environ = {"ZEROCLAW_CONFIG_DIR": "/from/variable"}
    assert config_directory(Path("~/given"), environ) == tmp_path / "given"
    assert config_directory(None, environ) == Path("/from/variable")
    assert config_directory(None, {}) is None
    (tmp_path / ".zeroclaw").mkdir()
    config(tmp_path / ".zeroclaw", "")
    assert config_directory(None, {}) == tmp_path / ".zeroclaw"


@pytest.mark.parametrize("name", ["ZEROCLAW_DATA_DIR", "ZEROCLAW_WORKSPACE"])
@pytest.mark.parametrize(
    ("data", "files", "found"),
    [
        ("a/data", [], "a/.zeroclaw"),
        ("a/workspace", [], "a/.zeroclaw"),
        ("a/mine", [], "a/mine"),
        ("a/mine", ["a/.zeroclaw"], "a/.zeroclaw"),
        ("a/data", ["a/data", "a/.zeroclaw"], "a/data"),
    ],
)
def test_the_directory_is_the_one_that_belongs_to_the_data(
    tmp_path: Path, name: str, data: str, files: list[str], found: str
) -> None:
    for each in files:
        (tmp_path / each).mkdir(parents=True)
        config(tmp_path / each, "")
    environ = {name: f" {tmp_path / data} ", "ZEROCLAW_CONFIG_DIR": " "}
    assert config_directory(None, environ) == tmp_path / found


def test_the_data_directory_counts_before_its_old_name_and_after_the_config_directory() -> None:
    environ = {"ZEROCLAW_WORKSPACE": "/old/mine", "ZEROCLAW_DATA_DIR": "/new/mine"}
    assert config_directory(None, environ) == Path("/new/mine")
    environ["ZEROCLAW_CONFIG_DIR"] = "/config"
    assert config_directory(None, environ) == Path("/config")


def test_on_macos_homebrews_directory_counts_before_the_usual_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    brewed = tmp_path / "brew" / "var" / "zeroclaw"
    for each in (brewed, tmp_path / ".zeroclaw"):
        each.mkdir(parents=True)
        config(each, "")
    environ = {"HOMEBREW_PREFIX": str(tmp_path / "brew")}
    assert config_directory(None, environ, "darwin") == brewed
    assert config_directory(None, environ, "linux") == tmp_path / ".zeroclaw"
    (brewed / "config.toml").unlink()
    assert config_directory(None, environ, "darwin") == tmp_path / ".zeroclaw"


def test_a_token_is_kept_for_the_gateway_that_issued_it_alone(tmp_path: Path) -> None:
    def kept(url: str) -> Path:
        return token_path(url, config_dir=None, state_dir=tmp_path)

    assert kept("ws://127.0.0.1:1/acp") == kept("ws://127.0.0.1:1/acp?agent=main")
    others = ("ws://127.0.0.1:2/acp", "wss://127.0.0.1:1/acp", "ws://localhost:1/acp")
    assert kept("ws://127.0.0.1:1/acp") not in [kept(url) for url in others]
    beside = token_path("ws://x/acp", config_dir=tmp_path, state_dir=Path("/s"))
    assert beside == tmp_path / "acp-bridge-token"


@pytest.mark.parametrize(
    ("url", "is_same"),
    [
        ("ws://127.0.0.1:77/acp?agent=main", True),
        ("ws://localhost:77/claw/acp", True),
        ("ws://127.0.0.1:78/acp", False),
        ("wss://gateway.example:77/acp", False),
    ],
)
def test_a_url_that_leads_to_the_configs_gateway_has_its_token(
    tmp_path: Path, url: str, is_same: bool
) -> None:
    zeroclaw = tmp_path / "zeroclaw"
    zeroclaw.mkdir()
    config(zeroclaw, "[gateway]\nport = 77\nrequire_pairing = false\n")

    def found() -> Endpoint:
        return acp_endpoint(
            url=url,
            url_source="--gateway-url",
            is_url_given=True,
            config_dir=None,
            state_dir=tmp_path / "state",
            environ={"ZEROCLAW_CONFIG_DIR": str(zeroclaw)},
        )

    endpoint = found()
    assert (endpoint.url, endpoint.source) == (url, "--gateway-url")
    assert endpoint.token_path.parent == (zeroclaw if is_same else tmp_path / "state")
    assert endpoint.wants_pairing is not is_same
    config(zeroclaw, "no TOML")  # of whatever gateway: the URL was named
    assert found().token_path.parent == tmp_path / "state"


def test_the_endpoint_is_the_given_one_the_configs_or_the_usual_one(tmp_path: Path) -> None:
    def found(**changes: Any) -> Any:
        plain = {
            "url": "ws://127.0.0.1:5/acp",
            "url_source": "--gateway-url",
            "is_url_given": False,
            "config_dir": None,
            "state_dir": tmp_path,
            "environ": {"ZEROCLAW_CONFIG_DIR": ""},
        }
        return acp_endpoint(**{**plain, **changes})

    assert found(is_url_given=True).url == "ws://127.0.0.1:5/acp"
    config(tmp_path, "[gateway]\nport = 77\n")
    endpoint = found(config_dir=tmp_path)
    assert endpoint.url == "ws://127.0.0.1:77/acp"
    assert endpoint.source == str(tmp_path / "config.toml")
    assert endpoint.token_path == tmp_path / "acp-bridge-token"
    config(tmp_path, '[gateway]\nhost = "far.example"\n')
    with pytest.raises(ConfigError, match="refused"):
        found(config_dir=tmp_path)
