"""Profiles: options from a file, mistakes in it, and whose credentials go where."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from acp_bridge.config import Settings, load
from acp_bridge.errors import ConfigError, UsageError

posix = pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX's")

WORK = "wss://work.example"
HIDDEN = "s3cr3t-value"
PROFILES = f"""
[profiles.default]
connect_timeout = 2.5
token_file = "/home/default-token"

[profiles.work]
gateway_url = "{WORK}"
token_command = "get token"
require_existing = true
prefix_cwd = false
max_sessions = 7
scopes = ["operator.read", "operator.write"]
agent = "main"
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The usual file of this user, with two profiles."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "acp-bridge").mkdir()
    return written(tmp_path / "acp-bridge" / "config.toml", PROFILES)


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def settings(*argv: str, **environ: str) -> Settings:
    return load(argv, environ)


def failure(*argv: str, **environ: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        load(argv, environ)
    return caught.value


def test_without_a_file_nothing_is_different(tmp_path: Path) -> None:
    assert settings().config is None
    assert settings().sources == {}


def test_a_profile_gives_values_of_every_type_and_is_named_as_their_source(file: Path) -> None:
    found = settings("--profile", "work")

    assert found.config == file
    assert found.gateway_url == WORK
    assert found.token_command == ("get", "token")
    assert found.require_existing is True
    assert found.prefix_cwd is False
    assert found.max_sessions == 7
    assert found.scopes == ("operator.read", "operator.write")
    assert found.source("max_sessions") == f"profiles.work.max_sessions in {file}"


def test_the_profile_called_default_counts_where_none_is_named(file: Path) -> None:
    found = settings()

    assert (found.connect_timeout, found.token_file) == (2.5, Path("/home/default-token"))
    assert found.agent is None


def test_a_profile_stands_alone(file: Path) -> None:
    found = settings(ACP_BRIDGE_PROFILE="work")

    assert found.connect_timeout == 30
    assert found.token_file is None


def test_a_flag_beats_a_variable_and_a_variable_a_profile(file: Path) -> None:
    found = settings("--agent", "flag", "--profile=work", ACP_BRIDGE_MAX_SESSIONS="9")

    assert (found.agent, found.source("agent")) == ("flag", "--agent")
    assert found.max_sessions == 9
    assert found.source("max_sessions") == "ACP_BRIDGE_MAX_SESSIONS"
    assert settings("--profile=work", ACP_BRIDGE_REQUIRE_EXISTING="no").require_existing is False


def test_an_empty_text_in_a_profile_counts_as_unset(tmp_path: Path) -> None:
    path = written(tmp_path / "c.toml", '[profiles.default]\nagent = ""\n')

    assert settings("--config", str(path)).agent is None


def test_a_relative_path_is_one_beside_the_file(tmp_path: Path) -> None:
    text = '[profiles.default]\ntoken_file = "token"\nlog_file = "~/x.log"\n'
    path = written(tmp_path / "c.toml", text)

    found = settings("--config", str(path))

    assert found.token_file == tmp_path / "token"
    assert found.log_file == Path("~/x.log").expanduser()


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[profiles.default]\ngatway_url = 'x'", "profiles.default.gatway_url", "gateway_url?"),
        ("[profiles.default]\ntoken-file = 'x'", "profiles.default.token-file", "token_file?"),
        ("[profiles.other]\nzzz = 1", "profiles.other.zzz is no option", "--help"),
        ("[profiles.default]\nconfig = 'x'", "profiles.default.config is no option", ""),
        ("[profile.default]\nagent = 'x'", "profile is no option", "Did you mean profiles?"),
        ("agent = 'x'", "agent is no option", "[profiles.default]"),
        ("[profiles]\nagent = 'x'", "profiles.agent is no table", "[profiles.default]"),
        ("profiles = 1", "profiles is no table", "[profiles.default]"),
        ("[profiles.default]\nagent = 1\nagent = 2", "no valid TOML", ""),
        ("[profiles.default", "no valid TOML", ""),
        ("x = " + "[" * 5000, "no valid TOML", ""),
    ],
)
def test_a_mistake_is_told_with_the_file_the_key_and_what_was_meant(
    text: str, message: str, hint: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "c.toml", text)

    error = failure("--config", str(path))

    assert isinstance(error, ConfigError)
    assert str(path) in error.message
    assert message in error.message
    assert hint in (error.hint or "")


@pytest.mark.parametrize(
    "line",
    [
        "require_existing = 'yes'",
        "agent = true",
        "agent = ['a']",
        "agent = 2026-01-01",
        "scopes = {a = 1}",
        "max_sessions = [1]",
    ],
)
def test_a_value_of_the_wrong_type_is_told_with_one_that_would_be_right(
    line: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "c.toml", f"[profiles.default]\n{line}\n")

    error = failure("--config", str(path))

    key = line.partition(" ")[0]
    assert error.message == f"profiles.default.{key} in {path} has the wrong type."
    written(path, f"[profiles.default]\n{(error.hint or '').removeprefix('For example: ')}\n")
    settings("--config", str(path))


def test_a_bad_value_is_refused_by_its_place_with_one_that_would_be_right(tmp_path: Path) -> None:
    path = written(tmp_path / "c.toml", "[profiles.default]\nconnect_timeout = -1\n")

    error = failure("--config", str(path))

    assert error.message.startswith(f"profiles.default.connect_timeout in {path} '-1' is not a")
    assert error.hint == 'For example: connect_timeout = "30"'


@pytest.mark.parametrize(
    ("argv", "environ", "words"),
    [
        (("--profile", "wrok"), {}, ("--profile", "wrok", "Did you mean work?")),
        ((), {"ACP_BRIDGE_PROFILE": "zzz"}, ("ACP_BRIDGE_PROFILE", "default, work")),
        (("--config", "/no/such/file"), {}, ("--config", "/no/such/file")),
    ],
)
def test_a_profile_or_file_that_is_not_there_is_an_error(
    argv: tuple[str, ...], environ: dict[str, str], words: tuple[str, ...], file: Path
) -> None:
    error = failure(*argv, **environ)

    for word in words:
        assert word in f"{error.message} {error.hint}"


def test_a_demo_is_the_same_for_everybody_unless_a_profile_is_named(file: Path) -> None:
    assert settings("--demo").config is None
    assert settings("--demo").token_file is None
    assert settings("--demo", "--profile=work").agent == "main"


def test_a_profile_that_is_named_needs_a_file(tmp_path: Path) -> None:
    assert "--profile: there is no file" in failure("--profile", "work").message


@posix
def test_a_file_that_others_may_write_is_refused(file: Path) -> None:
    file.chmod(0o620)

    error = failure()

    assert error.hint == f"chmod go-w {file}"


@posix
def test_a_file_that_others_may_read_must_hold_no_secret(file: Path) -> None:
    file.chmod(0o644)
    assert settings().connect_timeout == 2.5

    for line in (
        f'token = "{HIDDEN}"',
        f'ledger_url = "postgresql://me:{HIDDEN}@host/db"',
        f'proxy = "http://me:{HIDDEN}@proxy:3128"',
    ):
        written(file, f"[profiles.default]\n{line}\n", 0o644)
        error = failure()
        assert error.hint == f"chmod 600 {file}"
        assert HIDDEN not in error.message
        file.chmod(0o600)
        assert HIDDEN in f"{settings().token} {settings().ledger_url} {settings().proxy}"


@posix
def test_a_link_to_the_file_is_followed(file: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(file)

    assert settings("--config", str(tmp_path / "link")).connect_timeout == 2.5


# --- whose credentials go where --------------------------------------------------------------


def test_the_credentials_of_the_strongest_place_are_used_alone(file: Path) -> None:
    found = settings("--profile=work", ACP_BRIDGE_PASSWORD=HIDDEN)

    assert (found.password, found.token_command) == (HIDDEN, None)
    assert found.source("token_command") == "default"
    assert found.withheld is None
    assert found.unused_secrets == ()


def test_a_credential_that_does_not_count_is_a_secret_nevertheless() -> None:
    assert settings("--token-file=/t", ACP_BRIDGE_PASSWORD=HIDDEN).unused_secrets == (HIDDEN,)
    ours = {"ACP_BRIDGE_GATEWAY_URL": WORK, "ACP_BRIDGE_TOKEN": HIDDEN}
    assert settings("--url=ws://x.example", **ours).unused_secrets == (HIDDEN,)
    assert settings(ACP_BRIDGE_TOKEN=HIDDEN).unused_secrets == ()


@pytest.mark.parametrize("argv", [("--url", "wss://x.example"), ("--gateway-url=ws://127.0.0.1",)])
def test_a_url_of_the_command_line_does_not_get_a_profiles_credentials(
    argv: tuple[str, ...], file: Path
) -> None:
    found = settings(*argv, "--profile", "work")

    assert found.token_command is None
    assert found.withheld == (
        f"profiles.work.token_command in {file} is not used: it is for wss://work.example:443,"
        f" and {argv[0].partition('=')[0]} names another gateway."
    )


def test_nor_does_a_url_of_a_variable(file: Path) -> None:
    found = settings("--profile=work", ACP_BRIDGE_GATEWAY_URL="wss://x.example")

    assert found.token_command is None
    assert "ACP_BRIDGE_GATEWAY_URL names another gateway" in (found.withheld or "")


def test_a_profile_without_a_url_has_credentials_for_the_usual_gateway(file: Path) -> None:
    assert settings("--url", "wss://x.example").token_file is None
    assert settings("--url", "ws://127.0.0.1:18789/x").token_file is not None


def test_another_path_of_the_same_gateway_is_no_other_gateway(file: Path) -> None:
    found = settings("--profile=work", "--url", "wss://WORK.example:443/acp")

    assert (found.token_command, found.withheld) == (("get", "token"), None)


def test_credentials_of_variables_stay_with_the_url_of_variables() -> None:
    ours = {"ACP_BRIDGE_GATEWAY_URL": WORK, "ACP_BRIDGE_TOKEN": HIDDEN}

    assert settings(**ours).token == HIDDEN
    withheld = settings("--url", "wss://x.example", **ours)
    assert withheld.token is None
    assert withheld.withheld == (
        "ACP_BRIDGE_TOKEN is not used: it is for wss://work.example:443, and --url names another"
        " gateway."
    )


def test_a_token_of_a_variable_without_a_url_is_for_the_gateway_that_is_named() -> None:
    assert settings("--url", WORK, ACP_BRIDGE_TOKEN=HIDDEN).token == HIDDEN


def test_headers_stay_with_the_gateway_of_their_place(tmp_path: Path) -> None:
    text = f'[profiles.work]\ngateway_url = "{WORK}"\nheader_file = "/h"\nca_file = "/c"\n'
    work = f"--config={written(tmp_path / 'p.toml', text)}", "--profile=work"

    assert settings(*work).header_file == Path("/h")
    assert settings(*work, "--token=t").header_file == Path("/h")
    elsewhere = settings(*work, "--token=t", "--url=wss://x.example")
    assert (elsewhere.token, elsewhere.header_file, elsewhere.ca_file) == ("t", None, Path("/c"))
    assert "header_file in " in (elsewhere.withheld or "")
    assert "it is for wss://work.example:443" in (elsewhere.withheld or "")
    assert settings(*work, "--header-file=/f", "--url=wss://x.example").header_file == Path("/f")


def test_a_given_credential_goes_where_a_weaker_place_says(file: Path) -> None:
    found = settings("--profile=work", "--token-file", "/t")

    assert (found.gateway_url, found.token_file, found.withheld) == (WORK, Path("/t"), None)


def test_what_the_keyring_has_needs_no_such_rule(tmp_path: Path) -> None:
    text = f'[profiles.default]\ngateway_url = "{WORK}"\nkeyring = "token"\npassword_file = "/p"\n'
    path = written(tmp_path / "c.toml", text)

    found = settings("--config", str(path), "--url", "wss://x.example")

    assert (found.keyring, found.password_file) == ("token", None)


@pytest.mark.parametrize(
    "argv",
    [
        ("--token", "x", "--token-file", "/t"),
        ("--token-file", "/t", "--token-command", "x"),
        ("--password-command", "x", "--keyring", "password"),
    ],
)
def test_two_ways_to_one_credential_in_one_place_are_refused(argv: tuple[str, ...]) -> None:
    message = failure(*argv).message

    assert message == f"{argv[0]} and {argv[2]} are both set"


def test_ways_to_different_credentials_go_together() -> None:
    found = settings("--token-command", "x", "--keyring", "password")

    assert (found.token_command, found.keyring) == (("x",), "password")


def test_the_arguments_of_a_command_show_in_no_representation() -> None:
    assert HIDDEN not in repr(settings("--token-command", f"get {HIDDEN}"))
