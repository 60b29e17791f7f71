"""Settings: precedence, the source of each value, and what a wrong value is answered with."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from acp_bridge.config import OPTIONS, Option, Settings, load, prepare_state_dir
from acp_bridge.errors import ConfigError, UsageError

HIDDEN = "s3cr3t-value"
PROFILES = Path(__file__).resolve().parents[1] / "data" / "profiles.toml"

GOOD = {
    "gateway_url": ("wss://gw.example:8443/ws", "wss://gw.example:8443/ws"),
    "gateway_kind": ("ACP", "acp"),
    "config_dir": ("/z", Path("/z")),
    "token_via": ("query", "query"),
    "connect_timeout": ("2.5", 2.5),
    "reconnect_window": ("0", 0.0),
    "stall_timeout": ("90", 90.0),
    "on_exit": ("cancel", "cancel"),
    "foreign_turns": ("hide", "hide"),
    "require_gateway": ("yes", True),
    "demo": ("1", True),
    "allow_insecure_ws": ("yes", True),
    "ca_file": ("/ca", Path("/ca")),
    "tls_fingerprint": ("sha256:" + "AB:" * 31 + "AB", "ab" * 32),
    "client_cert": ("/c", Path("/c")),
    "client_key": ("/k", Path("/k")),
    "proxy": ("socks5h://me:pw@proxy:1080", "socks5h://me:pw@proxy:1080"),
    "header_file": ("/h", Path("/h")),
    "token_file": ("/t", Path("/t")),
    "token_command": ("get 'the token'", ("get", "the token")),
    "token": (HIDDEN, HIDDEN),
    "password_file": ("/p", Path("/p")),
    "password_command": ("get password", ("get", "password")),
    "keyring": ("Token", "token"),
    "password": (HIDDEN, HIDDEN),
    "scopes": ("a, b,,c", ("a", "b", "c")),
    "session": (" agent:main:x ", "agent:main:x"),
    "session_label": ("Über uns", "Über uns"),
    "require_existing": ("on", True),
    "reset_session": ("TRUE", True),
    "agent": ("main", "main"),
    "session_rate": ("5/0.5", (5, 0.5)),
    "delete_gateway_sessions": ("true", True),
    "prefix_cwd": ("off", False),
    "provenance": ("meta+receipt", "meta+receipt"),
    "ledger": ("memory", "memory"),
    "ledger_url": ("sqlite:////l/x.db", "sqlite:////l/x.db"),
    "max_sessions": ("3", 3),
    "max_events_per_session": ("4", 4),
    "max_bytes": ("1024", 1024),
    "config": (str(PROFILES), PROFILES),
    "profile": ("work", "work"),
    "state_dir": ("/s", Path("/s")),
    "insecure_permissions": ("yes", True),
    "log_level": ("INFO", "info"),
    "log_format": ("json", "json"),
    "log_file": ("/l", Path("/l")),
}

NEEDED = {"profile": {"ACP_BRIDGE_CONFIG": str(PROFILES)}}
"""Variables without which an option means nothing."""

BAD = {
    "gateway_url": "ws://a\nws://b",
    "gateway_kind": "mcp",
    "token_via": "cookie",
    "connect_timeout": "soon",
    "reconnect_window": "-1",
    "stall_timeout": "never",
    "on_exit": "stay",
    "foreign_turns": "some",
    "require_gateway": "maybe",
    "demo": "2",
    "allow_insecure_ws": "maybe",
    "tls_fingerprint": "AB:CD",
    "proxy": "ftp://proxy",
    "token": "two\nlines",
    "token_command": "get 'it",
    "password_command": " ",
    "keyring": "both",
    "profile": "a\nb",
    "password": "\x07",
    "scopes": ",",
    "session": "a\nb",
    "session_label": "\x1b[2J",
    "require_existing": "maybe",
    "reset_session": "maybe",
    "agent": "\udcff",
    "session_rate": "fast",
    "delete_gateway_sessions": "maybe",
    "prefix_cwd": "maybe",
    "provenance": "all",
    "ledger": "cloud",
    "ledger_url": "sqlite:///a\nb",
    "max_sessions": "0",
    "max_events_per_session": "many",
    "max_bytes": "1023",
    "insecure_permissions": "maybe",
    "log_level": "loud",
    "log_format": "xml",
}
"""A wrong value for each option that can have one; any text is a path."""


def settings(*argv: str, **environ: str) -> Settings:
    return load(argv, environ)


def failure(*argv: str, **environ: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        load(argv, environ)
    return caught.value


def test_the_table_has_one_option_for_each_setting() -> None:
    fields = {field.name for field in dataclasses.fields(Settings)} - {
        *("sources", "withheld", "unused_secrets")
    }

    assert {option.field for option in OPTIONS} == fields
    assert set(GOOD) == fields


def test_every_default_in_the_table_can_be_read() -> None:
    defaults = settings()

    assert defaults.gateway_url == "ws://127.0.0.1:18789"
    assert defaults.connect_timeout == 30
    assert defaults.session_rate == (120, 10.0)
    assert defaults.prefix_cwd is True
    assert defaults.scopes is None
    assert {defaults.source(field) for field in GOOD} == {"default"}


@pytest.mark.parametrize("field", GOOD)
def test_a_variable_gives_the_value_and_is_named_as_its_source(field: str) -> None:
    text, value = GOOD[field]
    name = f"ACP_BRIDGE_{field.upper()}"

    found = settings(**{**NEEDED.get(field, {}), name: text})

    assert getattr(found, field) == value
    assert found.source(field) == name


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.field)
def test_a_flag_beats_the_variable(option: Option) -> None:
    text, value = GOOD[option.field]
    argv = [option.shown_flag] if option.is_switch else [option.flag, text]
    weaker = str(not value) if option.is_switch else text

    found = settings(*argv, **{**NEEDED.get(option.field, {}), option.env[0]: weaker})

    assert getattr(found, option.field) == value
    assert found.source(option.field) == argv[0]


def test_a_switch_set_by_a_variable_can_be_taken_back_by_a_flag() -> None:
    found = settings("--no-require-existing", ACP_BRIDGE_REQUIRE_EXISTING="1")

    assert found.require_existing is False
    assert found.source("require_existing") == "--no-require-existing"


ZERO_MEANS_NO_BOUND = ("--reconnect-window", "--stall-timeout")


@pytest.mark.parametrize("flag", ["--connect-timeout", *ZERO_MEANS_NO_BOUND])
@pytest.mark.parametrize("text", ["-1", "nan", "inf", "86401", "soon"])
def test_a_wrong_number_of_seconds_is_told_with_what_would_be_right(flag: str, text: str) -> None:
    message = failure(f"{flag}={text}").message
    right = "0 or more" if flag in ZERO_MEANS_NO_BOUND else "above 0"
    assert right in message
    assert "up to 86400" in message


@pytest.mark.parametrize("flag", ZERO_MEANS_NO_BOUND)
@pytest.mark.parametrize("text", ["0", "0.0", " 0 ", "0.00", "-0"])
def test_zero_is_a_number_of_seconds_where_it_stands_for_no_bound(flag: str, text: str) -> None:
    found = getattr(settings(f"{flag}={text}"), flag.strip("-").replace("-", "_"))
    assert str(found) == "0.0"


def test_the_last_of_repeated_flags_counts() -> None:
    found = settings("--gateway-url", "ws://a", "--url=ws://b")

    assert found.gateway_url == "ws://b"
    assert found.source("gateway_url") == "--url"


@pytest.mark.parametrize("field", GOOD)
def test_an_empty_value_counts_as_unset(field: str) -> None:
    option = next(option for option in OPTIONS if option.field == field)
    argv = [] if option.is_switch else [option.flag, ""]

    found = settings(*argv, **dict.fromkeys(option.env, ""))

    assert found.source(field) == "default"
    assert getattr(found, field) == getattr(settings(), field)


@pytest.mark.requirement("C081")
@pytest.mark.parametrize("field", BAD)
def test_a_bad_variable_is_refused_with_its_name_and_a_remedy(field: str) -> None:
    name = f"ACP_BRIDGE_{field.upper()}"

    error = failure(**{name: BAD[field]})

    assert isinstance(error, ConfigError)
    assert error.message.startswith(name)
    assert error.data == {"field": field, "source": name}
    assert error.hint
    if (example := error.hint.removeprefix("For example: ")) != error.hint:
        key, _, value = example.partition("=")
        load([], {**NEEDED.get(field, {}), key: value})


@pytest.mark.parametrize("field", [field for field in BAD if GOOD[field][1] not in (True, False)])
def test_a_bad_flag_is_refused_with_its_name_and_a_remedy(field: str) -> None:
    option = next(option for option in OPTIONS if option.field == field)

    error = failure(f"{option.flag}={BAD[field]}")

    assert error.message.startswith(option.flag)
    assert error.data["field"] == field
    assert error.hint
    if (example := error.hint.removeprefix("For example: ")) != error.hint:
        load(example.split(" ", 1), NEEDED.get(field, {}))


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1e99", "1 s", "86401"])
def test_a_time_limit_must_be_a_sensible_number_of_seconds(text: str) -> None:
    assert "--connect-timeout" in failure(f"--connect-timeout={text}").message


def test_the_ledger_is_in_the_data_directory_or_with_the_state_that_was_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)

    assert settings().ledger_url == "sqlite:////home/someone/.local/share/acp-bridge/ledger.db"
    assert settings("--state-dir", "/s").ledger_url == "sqlite:////s/ledger.db"
    assert settings(ACP_BRIDGE_HOME="/h").ledger_url == "sqlite:////h/ledger.db"


@pytest.mark.parametrize(
    ("argv", "environ", "expected"),
    [
        ((), {}, "file"),
        (("--no-ledger",), {}, "memory"),
        (("--no-ledger",), {"ACP_BRIDGE_LEDGER_URL": "sqlite:////x"}, "memory"),
        (("--ledger-url", "sqlite:////x"), {"ACP_BRIDGE_LEDGER": "memory"}, "file"),
        (("--demo",), {}, "memory"),
        (("--demo", "--state-dir", "/s"), {}, "memory"),
        (("--demo", "--ledger", "file"), {}, "file"),
        (("--demo", "--ledger-url", "sqlite:////x"), {}, "file"),
        (("--demo",), {"ACP_BRIDGE_LEDGER_URL": "sqlite:////x"}, "file"),
    ],
)
def test_the_ledger_is_kept_unless_memory_is_asked_for_or_it_is_a_demo(
    argv: tuple[str, ...], environ: dict[str, str], expected: str
) -> None:
    assert settings(*argv, **environ).ledger == expected


@pytest.mark.parametrize(
    ("argv", "environ"),
    [
        (("--no-ledger", "--ledger-url", "sqlite:////x"), {}),
        ((), {"ACP_BRIDGE_LEDGER": "memory", "ACP_BRIDGE_LEDGER_URL": "sqlite:////x"}),
    ],
)
def test_memory_and_a_database_from_equal_sources_are_refused(
    argv: tuple[str, ...], environ: dict[str, str]
) -> None:
    assert "names a database" in failure(*argv, **environ).message


def test_the_password_in_a_ledgers_url_shows_nowhere() -> None:
    url = f"postgresql://me:{HIDDEN}@host/db"
    error = failure(f"--ledger-url={url}\nx")

    assert HIDDEN not in repr(settings("--ledger-url", url))
    assert HIDDEN not in f"{error.message} {error.hint}"


@pytest.mark.parametrize("text", ["120", "0/10", "-1/10", "1/0", "1/", "/1", "x/y", "9" * 5000])
def test_a_rate_must_be_a_count_and_a_time(text: str) -> None:
    assert "--session-rate" in failure(f"--session-rate={text}").message


@pytest.mark.requirement("C081")
def test_variables_of_others_are_never_looked_at() -> None:
    found = settings(
        **{
            "BASH_FUNC_x%%": "() {  echo\n}",
            "ACP_BRIDGE": "\udcff",
            "ACP_BRIDGE_NO_SUCH_OPTION": "\n",
            "GATEWAY_URL": "nonsense",
            "BIG": "x" * 200_000,
        }
    )

    assert found == settings()


def test_no_credential_shows_in_the_representation_or_in_an_error() -> None:
    shown = repr(settings("--token", HIDDEN, ACP_BRIDGE_PASSWORD=HIDDEN))
    error = failure(f"--token={HIDDEN}\nmore")

    assert HIDDEN not in shown
    assert HIDDEN not in error.message + (error.hint or "")


def test_a_credential_loses_the_newline_behind_it() -> None:
    assert settings(ACP_BRIDGE_TOKEN=f"{HIDDEN}\r\n").token == HIDDEN


@pytest.mark.requirement("C008")
def test_of_a_credential_and_its_file_the_flag_beats_the_variable() -> None:
    by_file = settings("--token-file", "/t", ACP_BRIDGE_TOKEN=HIDDEN)
    by_value = settings("--password", HIDDEN, **{"ACP_BRIDGE_PASSWORD_FILE": "/p"})

    assert (by_file.token, by_file.token_file) == (None, Path("/t"))
    assert by_file.source("token") == "default"
    assert (by_value.password, by_value.password_file) == (HIDDEN, None)


@pytest.mark.parametrize(
    ("argv", "environ"),
    [
        (("--token", HIDDEN, "--token-file", "/t"), {}),
        ((), {"ACP_BRIDGE_TOKEN": HIDDEN, "ACP_BRIDGE_TOKEN_FILE": "/t"}),
    ],
)
def test_a_credential_and_its_file_from_equal_sources_are_refused(
    argv: tuple[str, ...], environ: dict[str, str]
) -> None:
    error = failure(*argv, **environ)

    assert "both set" in error.message
    assert HIDDEN not in error.message


@pytest.mark.parametrize(
    ("argv", "environ", "level", "source"),
    [
        (("-v",), {}, "info", "-v"),
        (("-vv",), {}, "debug", "-vv"),
        (("-v", "--verbose"), {}, "debug", "-vv"),
        (("-vvv",), {}, "debug", "-vv"),
        (("-v",), {"ACP_BRIDGE_LOG_LEVEL": "debug"}, "info", "-v"),
        (("-v", "--log-level", "debug"), {}, "debug", "--log-level"),
        (("-v", "--log-level", "error"), {}, "info", "-v"),
    ],
)
def test_of_the_flags_for_the_log_level_the_most_talkative_wins(
    argv: tuple[str, ...], environ: dict[str, str], level: str, source: str
) -> None:
    found = settings(*argv, **environ)

    assert (found.log_level, found.source("log_level")) == (level, source)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--gatway-url", "ws://x"), ("--gatway-url", "--gateway-url")),
        (("--gatway-url=ws://x",), ("--gatway-url", "--gateway-url")),
        (("--gateway",), ("--gateway", "--gateway-url")),
        (("--url",), ("--url", "expected one argument")),
        (("--require-gateway=yes",), ("--require-gateway",)),
        (("--url", "ws://x", "chat"), ("chat", "acp-bridge chat")),
        (("ws://x",), ("ws://x", "--help")),
        (("--", "--url", "ws://x"), ("--help",)),
    ],
)
def test_a_wrong_argument_is_named_and_the_right_one_hinted_at(
    argv: tuple[str, ...], words: tuple[str, ...]
) -> None:
    error = failure(*argv)

    for word in words:
        assert word in f"{error.message}\n{error.hint}"


def test_the_value_of_an_unknown_option_is_not_repeated() -> None:
    assert HIDDEN not in failure(f"--tokn={HIDDEN}").message


def test_paths_become_absolute_and_know_the_home_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.chdir(tmp_path)

    assert settings("--token-file", "~/t").token_file == Path("/home/someone/t")
    assert settings("--log-file", "x.log").log_file == tmp_path / "x.log"
    assert settings("--state-dir", os.fsdecode(b"/s\xff")).state_dir == Path("/s\udcff")


@pytest.mark.requirement("C005")
def test_a_home_that_cannot_be_known_is_an_error_only_for_a_path_that_needs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_entry(_: int) -> object:
        raise KeyError

    for name in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", no_entry)

    assert "--state-dir" in (failure().hint or "")
    assert "--token-file" in failure("--token-file", "~/t", "--state-dir", "/s").message
    assert settings("--state-dir", "/s").state_dir == Path("/s")


@pytest.mark.requirement("C005")
def test_without_home_the_password_database_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    import pwd

    for name in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)

    assert settings().state_dir.is_relative_to(pwd.getpwuid(os.getuid()).pw_dir)


def test_the_state_directory_has_two_variables() -> None:
    both = {"ACP_BRIDGE_HOME": "/home-of-it", "ACP_BRIDGE_STATE_DIR": "/state"}

    assert settings(**both).state_dir == Path("/state")
    assert settings(ACP_BRIDGE_HOME="/home-of-it").source("state_dir") == "ACP_BRIDGE_HOME"


def test_a_missing_state_directory_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    found = prepare_state_dir(settings("--state-dir", str(tmp_path / "a" / "b")))

    assert found == tmp_path / "a" / "b"
    assert found.stat().st_mode & 0o777 == 0o700
    assert prepare_state_dir(settings("--state-dir", str(found))) == found


@pytest.mark.requirement("C005")
def test_a_state_directory_that_cannot_be_made_names_the_option(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError) as caught:
        prepare_state_dir(settings(ACP_BRIDGE_HOME=str(tmp_path / "file" / "below")))

    assert "ACP_BRIDGE_HOME" in caught.value.message
    assert "--state-dir" in (caught.value.hint or "")
