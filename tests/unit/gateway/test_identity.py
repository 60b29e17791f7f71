"""The device's key is made once and kept; issued tokens are kept by gateway and device."""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from acp_bridge.errors import ConfigError
from acp_bridge.gateway.identity import DeviceToken, DeviceTokens, load_or_create
from acp_bridge.gateway.secret import Secret

posix = pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX's")
URL = "ws://127.0.0.1:18789/gateway"
TOKEN = DeviceToken(Secret("issued"), ("operator.read",))


def store(directory: Path, content: str) -> Path:
    """A file of device tokens."""
    path = directory / "device-tokens.json"
    path.write_text(content)
    path.chmod(0o600)
    return path


def raw(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def test_id_key_and_signature_are_what_the_gateway_checks(tmp_path: Path) -> None:
    identity = load_or_create(tmp_path)
    key = raw(identity.public_key)
    assert len(key) == 32
    assert identity.device_id == hashlib.sha256(key).hexdigest()
    signature = identity.sign("v3|é")
    Ed25519PublicKey.from_public_bytes(key).verify(raw(signature), "v3|é".encode())
    assert "=" not in identity.public_key + signature


def test_the_key_is_written_as_the_library_writes_it(tmp_path: Path) -> None:
    identity = load_or_create(tmp_path)
    pem = (tmp_path / "device.pem").read_bytes()
    key = load_pem_private_key(pem, password=None)
    assert isinstance(key, Ed25519PrivateKey)
    assert key.public_key().public_bytes_raw() == raw(identity.public_key)
    assert key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) == pem


def test_a_key_in_another_form_is_the_same_device(tmp_path: Path) -> None:
    path = tmp_path / "device.pem"
    identity = load_or_create(tmp_path)
    body = b"".join(path.read_bytes().splitlines()[1:-1])
    begin, end = b"-----BEGIN PRIVATE KEY-----", b"-----END PRIVATE KEY-----"
    path.write_bytes(b"\n".join([begin, body[:40], body[40:], end, b""]))
    assert load_or_create(tmp_path).device_id == identity.device_id


def test_the_second_start_finds_the_same_device(tmp_path: Path) -> None:
    assert load_or_create(tmp_path).device_id == load_or_create(tmp_path).device_id


@posix
def test_the_key_is_private_from_the_start(tmp_path: Path) -> None:
    directory = tmp_path / "state" / "acp-bridge"
    load_or_create(directory)
    assert (directory / "device.pem").stat().st_mode & 0o777 == 0o600
    assert directory.stat().st_mode & 0o777 == 0o700
    assert directory.parent.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in directory.iterdir()] == ["device.pem"]


@pytest.mark.requirement("C011")
def test_many_that_start_at_once_end_with_the_same_device(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        devices = pool.map(lambda _: load_or_create(tmp_path / "new").device_id, range(64))
    assert len(set(devices)) == 1


@posix
def test_a_file_system_without_hard_links_holds_a_key_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(self: Path, target: Path) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    monkeypatch.setattr(Path, "hardlink_to", no_links)
    assert load_or_create(tmp_path).device_id == load_or_create(tmp_path).device_id
    assert (tmp_path / "device.pem").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b"garbage", b"-----BEGIN PRIVATE KEY-----\nxx\n"])
def test_a_damaged_key_is_named_and_never_overwritten(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "device.pem"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="is damaged; it was left as it is") as caught:
        load_or_create(tmp_path)
    assert str(path) in caught.value.message
    assert path.read_bytes() == content


def test_a_key_of_another_kind_counts_as_damaged(tmp_path: Path) -> None:
    path = tmp_path / "device.pem"
    path.write_bytes(
        generate_private_key(SECP256R1()).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        )
    )
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="is damaged"):
        load_or_create(tmp_path)


@posix
def test_a_key_open_to_others_is_refused_with_the_command_that_mends_it(tmp_path: Path) -> None:
    load_or_create(tmp_path)
    path = tmp_path / "device.pem"
    path.chmod(0o640)
    with pytest.raises(ConfigError) as caught:
        load_or_create(tmp_path)
    assert caught.value.hint == f"chmod 600 {path}"


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match="cannot be used") as caught:
        load_or_create(tmp_path / "file" / "state")
    assert str(tmp_path / "file" / "state") in caught.value.message


def test_tokens_are_kept_by_origin_and_device(tmp_path: Path) -> None:
    tokens = DeviceTokens(tmp_path / "state")
    assert tokens.load(URL, "device") is None
    tokens.save(URL, "device", TOKEN)
    assert DeviceTokens(tmp_path / "state").load("ws://127.0.0.1:18789", "device") == TOKEN
    assert tokens.load("wss://127.0.0.1:18789", "device") is None
    assert tokens.load(URL, "other") is None
    tokens.save("wss://[::1]", "device", DeviceToken(Secret("second"), ()))
    assert tokens.load("wss://[::1]:443/", "device") == DeviceToken(Secret("second"), ())
    assert tokens.load(URL, "device") == TOKEN


@posix
def test_the_token_file_is_private_and_whole(tmp_path: Path) -> None:
    DeviceTokens(tmp_path).save(URL, "device", TOKEN)
    path = tmp_path / "device-tokens.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_bytes())["version"] == 1


@pytest.mark.requirement("C011")
def test_two_that_save_at_once_do_not_lose_each_others_token(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: DeviceTokens(tmp_path).save(URL, f"device-{n}", TOKEN), range(40)))
    assert all(DeviceTokens(tmp_path).load(URL, f"device-{n}") == TOKEN for n in range(40))


def test_a_refused_token_is_forgotten_but_not_a_newer_one(tmp_path: Path) -> None:
    tokens = DeviceTokens(tmp_path)
    tokens.save(URL, "device", TOKEN)
    tokens.forget(URL, "device", Secret("an older one"))
    assert tokens.load(URL, "device") == TOKEN
    tokens.forget(URL, "device", Secret("issued"))
    assert tokens.load(URL, "device") is None
    tokens.forget(URL, "device", Secret("issued"))


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"tokens": 5}', '{"tokens": {"ws://127.0.0.1:18789": 5}}', "[" * 9000],
)
def test_a_damaged_token_file_counts_as_empty_and_heals(
    content: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store(tmp_path, content)
    tokens = DeviceTokens(tmp_path)
    with caplog.at_level(logging.WARNING, logger="acp_bridge"):
        assert tokens.load(URL, "device") is None
    tokens.save(URL, "device", TOKEN)
    assert tokens.load(URL, "device") == TOKEN


@pytest.mark.parametrize("entry", ["5", "{}", '{"token": 5}'])
def test_a_damaged_entry_counts_as_none(entry: str, tmp_path: Path) -> None:
    content = f'{{"tokens": {{"ws://127.0.0.1:18789": {{"device": {entry}}}}}}}'
    store(tmp_path, content)
    assert DeviceTokens(tmp_path).load(URL, "device") is None


def test_scopes_that_are_none_are_left_out(tmp_path: Path) -> None:
    content = {"tokens": {"ws://127.0.0.1:18789": {"device": {"token": "t", "scopes": [1, "a"]}}}}
    store(tmp_path, json.dumps(content))
    stored = DeviceTokens(tmp_path).load(URL, "device")
    assert stored == DeviceToken(Secret("t"), ("a",))


def test_a_token_file_that_cannot_be_replaced_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space left"):
        DeviceTokens(tmp_path).save(URL, "device", TOKEN)
    assert not [path for path in tmp_path.iterdir() if "lock" not in path.name]
