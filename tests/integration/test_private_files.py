"""What is kept on the disk: made for its owner alone, whole, and believed only if it is ours."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acp_bridge import logs
from acp_bridge.cli.main import run
from acp_bridge.core.events import LinkUp
from acp_bridge.errors import ConfigError
from acp_bridge.gateway import private_files
from acp_bridge.gateway.credentials import File, Secret
from acp_bridge.gateway.identity import DeviceToken, DeviceTokens, load_or_create
from tests.support.client_rig import client_rig
from tests.support.pairing import pairing_server
from tests.support.waits import WAIT
from tests.support.wire_gateway import wire_gateway

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX's"),
]
as_root = pytest.mark.skipif(
    os.name != "posix" or os.geteuid() != 0, reason="only root can give files away"
)

URL = "ws://127.0.0.1:18789"
NOBODY = 65534
UMASKS = [0, 0o022, 0o077, 0o007]


@contextlib.contextmanager
def umask(value: int) -> Iterator[None]:
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


def modes(directory: Path) -> dict[str, str]:
    """The mode of each file and directory, by its name."""
    found = [directory, *directory.rglob("*")]
    return {path.name: oct(path.stat().st_mode & 0o777) for path in found}


@pytest.mark.parametrize("value", UMASKS, ids=oct)
def test_the_devices_key_and_tokens_are_private_whatever_the_umask(
    value: int, tmp_path: Path
) -> None:
    state = tmp_path / "above" / "state"
    with umask(value):
        device = load_or_create(state)
        DeviceTokens(state).save(URL, device.device_id, DeviceToken(Secret("t"), ()))

    assert modes(tmp_path / "above") == {
        "above": "0o700",
        "state": "0o700",
        "device.pem": "0o600",
        "device-tokens.json": "0o600",
        ".device-tokens.json.lock": "0o600",
    }


@pytest.mark.parametrize("value", UMASKS, ids=oct)
def test_the_token_of_a_pairing_is_private_whatever_the_umask(value: int, tmp_path: Path) -> None:
    state = tmp_path / "state"
    with pairing_server() as server, umask(value):
        argv = ["pair", "--code", "123456", "--gateway-url", server.url, "--state-dir", str(state)]
        assert run(argv) == 0

    assert set(modes(state).values()) == {"0o700", "0o600"}


@pytest.mark.parametrize("value", UMASKS, ids=oct)
def test_the_log_file_is_private_whatever_the_umask(value: int, tmp_path: Path) -> None:
    with umask(value):
        log = logs.configure(level="warning", log_file=tmp_path / "x.log", environ={})
        log.close(WAIT)

    assert modes(tmp_path)["x.log"] == "0o600"


def test_a_file_is_replaced_in_one_step_and_what_goes_wrong_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    private_files.replace(path, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        private_files.replace(path, b"new")

    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_replacing_a_link_leaves_what_it_leads_to_alone(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "file").symlink_to(victim)

    private_files.replace(tmp_path / "file", b"new")
    private_files.write_new(tmp_path / "file", b"newer")

    assert victim.read_bytes() == b"precious"
    assert (tmp_path / "file").read_bytes() == b"new"
    assert not (tmp_path / "file").is_symlink()


# --- a stranger's file is not believed -------------------------------------------------------


def key(directory: Path) -> Path:
    load_or_create(directory)
    return directory / "device.pem"


def tokens(directory: Path) -> Path:
    DeviceTokens(directory).save(URL, "device", DeviceToken(Secret("t"), ()))
    return directory / "device-tokens.json"


def pairings(directory: Path) -> Path:
    private_files.replace(directory / "acp-bridge-token", b"tok\n")
    return directory / "acp-bridge-token"


def read(path: Path) -> Any:
    if path.name == "device.pem":
        return load_or_create(path.parent)
    if path.name == "device-tokens.json":
        return DeviceTokens(path.parent).load(URL, "device")
    return File("the pairing's", path, is_optional=True).read()


EACH = pytest.mark.parametrize("make", [key, tokens, pairings], ids=lambda make: make.__name__)


@EACH
def test_a_link_in_the_place_of_a_secret_is_refused(make: Any, tmp_path: Path) -> None:
    path = make(tmp_path)
    assert read(path) is not None
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(ConfigError, match="is a symbolic link") as caught:
        read(path)

    assert str(path) in caught.value.message


@EACH
def test_a_link_to_nothing_is_refused_and_not_followed(make: Any, tmp_path: Path) -> None:
    path = make(tmp_path)
    path.unlink()
    path.symlink_to(tmp_path / "not-there")

    with pytest.raises(ConfigError, match="is a symbolic link"):
        read(path)

    assert not (tmp_path / "not-there").exists()


@as_root
@EACH
def test_a_secret_of_another_user_is_refused(make: Any, tmp_path: Path) -> None:
    path = make(tmp_path)
    os.chown(path, NOBODY, -1)

    with pytest.raises(ConfigError, match="belongs to another user"):
        read(path)


@EACH
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_secret_open_to_others_is_refused_with_the_command_that_mends_it(
    make: Any, mode: int, tmp_path: Path
) -> None:
    path = make(tmp_path)
    path.chmod(mode)

    with pytest.raises(ConfigError) as caught:
        read(path)

    assert caught.value.hint == f"chmod 600 {path}"
    path.chmod(0o600)
    assert read(path) is not None


async def test_tokens_that_are_not_believed_hinder_no_other_credential_and_stay_as_they_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tokens(tmp_path)
    path.chmod(0o644)
    before = path.read_bytes()
    async with wire_gateway() as gateway, client_rig(gateway.url, tmp_path) as rig:
        await (await gateway.accepted()).reject("AUTH_TOKEN_MISMATCH")
        waiting = asyncio.create_task(rig.client.wait_hello(WAIT))
        await (await gateway.accepted()).accept()
        await waiting
        await rig.next(LinkUp)

    assert path.read_bytes() == before
    assert json.loads(before)["tokens"]
    reasons = [getattr(record, "fields", {}).get("reason", "") for record in caplog.records]
    assert any("open to other users" in reason for reason in reasons)
