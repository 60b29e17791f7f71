"""Credentials come from the most specific place, are read anew, and never show themselves."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from acp_bridge.errors import ConfigError
from acp_bridge.gateway.credentials import AuthMaterial, Credentials, Secret

posix = pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX's")


def options(**given: Any) -> Credentials:
    fields: dict[str, Any] = {
        "token": None,
        "token_file": None,
        "password": None,
        "password_file": None,
        "environ": {},
    }
    return Credentials.from_options(**{**fields, **given})


def secret_file(directory: Path, content: bytes, mode: int = 0o600) -> Path:
    path = directory / "the token"
    path.write_bytes(content)
    path.chmod(mode)
    return path


def from_file(path: Path) -> str:
    token = options(token_file=path).current().token
    assert token is not None
    return token.reveal()


def test_a_secret_shows_itself_to_nobody() -> None:
    secret = Secret("hunter2")
    assert "hunter2" not in f"{secret} {secret!r} {[secret]} {AuthMaterial(secret, secret, 'x')!r}"
    assert secret.reveal() == "hunter2"
    assert secret == Secret("hunter2")
    assert secret != Secret("hunter3")
    assert secret != 2
    assert len({secret, Secret("hunter2")}) == 1


def test_without_any_credential_there_is_none_and_the_source_says_so() -> None:
    assert options().current() == AuthMaterial(None, None, "no credential")


@pytest.mark.parametrize(
    ("given", "expected", "source"),
    [
        ({"token": "flag"}, "flag", "--token"),
        ({}, "ours", "ACP_BRIDGE_TOKEN"),
    ],
)
def test_an_option_wins_over_the_environment(
    given: dict[str, Any], expected: str, source: str
) -> None:
    environ = {"ACP_BRIDGE_TOKEN": "ours", "OPENCLAW_GATEWAY_TOKEN": "theirs"}
    assert options(**given, environ=environ).current() == AuthMaterial(
        Secret(expected), None, source
    )


def test_the_gateways_own_variables_are_the_last_resort_and_blank_ones_count_as_absent() -> None:
    environ = {
        "ACP_BRIDGE_TOKEN": " \n",
        "OPENCLAW_GATEWAY_TOKEN": "theirs\n",
        "OPENCLAW_GATEWAY_PASSWORD": "word",
    }
    assert options(environ=environ).current() == AuthMaterial(
        Secret("theirs"),
        Secret("word"),
        "OPENCLAW_GATEWAY_TOKEN and OPENCLAW_GATEWAY_PASSWORD",
    )


def test_a_given_password_keeps_tokens_of_the_environment_out() -> None:
    given = {"password": "word", "environ": {"ACP_BRIDGE_TOKEN": "ours"}}
    material = options(**given).current()
    assert material == AuthMaterial(None, Secret("word"), "--password")


@pytest.mark.parametrize("kind", ["token", "password"])
def test_two_origins_of_one_credential_are_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"--{kind} and --{kind}-file exclude each other"):
        options(**{kind: "x", f"{kind}_file": tmp_path / "x"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"token": "  "}, "--token is empty"),
        ({"token": "a\nb"}, "--token holds more than one line"),
        ({"password": ""}, "--password is empty"),
        ({"token_file": ""}, "--token-file names no file"),
        ({"environ": {"ACP_BRIDGE_TOKEN": "a\rb"}}, "ACP_BRIDGE_TOKEN holds more than one line"),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_it_came_under(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        options(**given)


@pytest.mark.requirement("C008")
@pytest.mark.parametrize(
    "content", [b"tok", b"tok\n", b"tok\r\n", b"tok\n\n", b"\xef\xbb\xbftok\n"]
)
def test_a_files_line_end_and_byte_order_mark_are_no_part_of_the_token(
    content: bytes, tmp_path: Path
) -> None:
    assert from_file(secret_file(tmp_path, content)) == "tok"


def test_a_file_is_read_anew_each_time_so_that_a_rotated_token_is_used(tmp_path: Path) -> None:
    path = secret_file(tmp_path, b"old")
    credentials = options(token_file=path)
    assert credentials.current() == AuthMaterial(Secret("old"), None, f"--token-file {path}")
    path.write_bytes(b"new")
    assert credentials.current().token == Secret("new")


def test_a_tilde_is_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    secret_file(tmp_path, b"tok")
    assert from_file(Path("~/the token")) == "tok"


@pytest.mark.requirement("C008")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"a\nb\n", "holds 2 lines; a credential is exactly one"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"x" * (16 * 1024 + 1), "is larger than 16 KiB"),
    ],
)
def test_a_file_with_wrong_content_is_refused_by_name_and_path(
    content: bytes, message: str, tmp_path: Path
) -> None:
    path = secret_file(tmp_path, content)
    with pytest.raises(ConfigError, match=message) as caught:
        from_file(path)
    assert f"--token-file {path}" in caught.value.message


@pytest.mark.requirement("C008")
def test_a_missing_file_a_directory_and_a_path_through_a_file_are_told_apart(
    tmp_path: Path,
) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        from_file(tmp_path / "none")
    with pytest.raises(ConfigError, match=r"is a directory|cannot be read"):
        from_file(tmp_path)
    below = secret_file(tmp_path, b"tok") / "below"
    with pytest.raises(ConfigError, match=r"cannot be read|does not exist"):
        from_file(below)


@posix
def test_a_pipe_is_refused_without_waiting_for_its_writer(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match="is not a regular file"):
        from_file(pipe)


@posix
@pytest.mark.requirement("C008")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602])
def test_a_file_open_to_others_is_refused_with_the_command_that_mends_it(
    mode: int, tmp_path: Path
) -> None:
    path = secret_file(tmp_path, b"tok", mode)
    with pytest.raises(ConfigError) as caught:
        from_file(path)
    assert caught.value.hint == f"chmod 600 '{path}'"
    assert caught.value.hint in caught.value.message
    path.chmod(0o600)
    assert from_file(path) == "tok"
