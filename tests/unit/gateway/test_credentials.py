"""Credentials come from the most specific place, are read anew, and never show themselves."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from acp_bridge.errors import ConfigError
from acp_bridge.gateway.credentials import (
    AuthMaterial,
    Credentials,
    File,
    Secret,
    from_environment,
)

posix = pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX's")


def options(**given: Any) -> Credentials:
    return Credentials.from_options(**given)


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


def test_a_value_is_known_by_the_flag_that_gave_it() -> None:
    given = {"token": "flag"}
    assert options(**given).current() == AuthMaterial(Secret("flag"), None, "--token")


def test_what_the_bridge_was_told_is_used_alone() -> None:
    theirs = from_environment("OPENCLAW_GATEWAY_TOKEN", {"OPENCLAW_GATEWAY_TOKEN": "theirs"})

    told = options(**{"password": "word"}).or_else(theirs)

    assert told.current() == AuthMaterial(None, Secret("word"), "--password")


def test_where_it_was_told_nothing_the_gateways_own_variables_count() -> None:
    environ = {"THEIR_TOKEN": "theirs\n", "THEIR_PASSWORD": "word", "BLANK": " \n"}
    token, password = (from_environment(name, environ) for name in list(environ)[:2])

    assert from_environment("BLANK", environ) is None
    assert options().or_else(token, password).current() == AuthMaterial(
        Secret("theirs"), Secret("word"), "THEIR_TOKEN and THEIR_PASSWORD"
    )


def test_a_variable_of_two_lines_is_refused_by_its_name() -> None:
    with pytest.raises(ConfigError, match="THEIR_TOKEN holds more than one line"):
        from_environment("THEIR_TOKEN", {"THEIR_TOKEN": "a\rb"})


def test_the_token_of_a_pairing_is_used_as_soon_as_there_is_one(tmp_path: Path) -> None:
    kept = File("the pairing's", tmp_path / "the token", is_optional=True)
    credentials = options().or_else(kept)

    assert credentials.current() == AuthMaterial(None, None, "no credential")
    path = secret_file(tmp_path, b"tok\n")
    assert credentials.current() == AuthMaterial(Secret("tok"), None, f"the pairing's {path}")


@pytest.mark.parametrize("kind", ["token", "password"])
def test_two_origins_of_one_credential_are_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"--{kind} and --{kind}-file exclude each other"):
        options(**{kind: "x", f"{kind}_file": tmp_path / "x"})
    with pytest.raises(ConfigError, match=f"--{kind}-command and --keyring exclude each other"):
        options(**{f"{kind}_command": ("x",), "keyring": kind})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"token": "  "}, "--token is empty"),
        ({"token": "a\nb"}, "--token holds more than one line"),
        ({"password": ""}, "--password is empty"),
        ({"token_file": ""}, "--token-file names no file"),
        (
            {"password": "a\rb", "sources": {"password": "ACP_BRIDGE_PASSWORD"}},
            "ACP_BRIDGE_PASSWORD holds more than one line",
        ),
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


@posix
def test_a_link_is_refused_with_the_file_that_it_leads_to(tmp_path: Path) -> None:
    path = secret_file(tmp_path, b"tok")
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(ConfigError, match="is a symbolic link") as caught:
        from_file(link)
    assert str(path) in (caught.value.hint or "")


@posix
@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_refused_and_one_of_roots_is_taken(tmp_path: Path) -> None:
    path = secret_file(tmp_path, b"tok")
    os.chown(path, 65534, -1)
    with pytest.raises(ConfigError, match="belongs to another user") as caught:
        from_file(path)
    assert f"chown {os.geteuid()} '{path}'" in (caught.value.hint or "")
    os.chown(path, 0, -1)
    assert from_file(path) == "tok"


def test_a_file_of_just_16_kib_is_read_and_one_byte_more_is_refused(tmp_path: Path) -> None:
    assert len(from_file(secret_file(tmp_path, b"x" * 16 * 1024))) == 16 * 1024
    with pytest.raises(ConfigError, match="is larger than 16 KiB"):
        from_file(secret_file(tmp_path, b"x" * (16 * 1024 + 1)))


@posix
def test_a_socket_is_no_file_either(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        with pytest.raises(ConfigError, match="is not a regular file"):
            from_file(tmp_path / "socket")
