"""OpenClaw's own variables and configuration: its rules for the URL and for credentials."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from acp_bridge.errors import ConfigError
from acp_bridge.gateway.openclaw_config import OpenClawPlace, config_path, find, not_read

posix = pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX's")

HIDDEN = "s3cr3t-value"
URL = "ws://127.0.0.1:18789"


class Home:
    """A home directory with OpenClaw's configuration in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path / ".openclaw" / "openclaw.json"
        self.environ = {"HOME": str(path)}

    def write(self, content: Any) -> None:
        self.file.parent.mkdir(exist_ok=True)
        self.file.write_text(content if isinstance(content, str) else json.dumps(content))
        self.file.chmod(0o600)

    def gateway(self, **section: Any) -> None:
        self.write({"gateway": section})

    def place(self, **environ: str) -> OpenClawPlace:
        return find({**self.environ, **environ})

    def token(self, **environ: str) -> tuple[str, str] | None:
        return read(self.place(**environ), "token")

    def password(self, **environ: str) -> tuple[str, str] | None:
        return read(self.place(**environ), "password")

    def failure(self, **environ: str) -> ConfigError:
        with pytest.raises(ConfigError) as caught:
            self.token(**environ)
        return caught.value


def read(place: OpenClawPlace, kind: str) -> tuple[str, str] | None:
    source = place.token if kind == "token" else place.password
    found = source.read() if source is not None else None
    return None if found is None else (found.secret.reveal(), found.label)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_without_anything_it_is_the_usual_place_and_there_is_no_credential(home: Home) -> None:
    assert home.place()[:2] == (URL, "")
    assert home.token() is None
    assert home.password() is None


@pytest.mark.parametrize(
    ("section", "environ", "url", "source"),
    [
        ({"port": 19001}, {}, "ws://127.0.0.1:19001", "gateway in FILE"),
        ({"port": 1, "tls": {"enabled": True}}, {}, "wss://127.0.0.1:1", "gateway in FILE"),
        ({"tls": {"enabled": True}}, {}, "wss://127.0.0.1:18789", "gateway in FILE"),
        ({"tls": {"enabled": "yes"}}, {}, URL, ""),
        ({"port": 0}, {}, URL, ""),
        ({"port": "x"}, {}, URL, ""),
        ({"port": True}, {}, URL, ""),
        ({"port": 70000}, {}, URL, ""),
        (
            {"port": 19001},
            {"OPENCLAW_GATEWAY_PORT": "4321"},
            "ws://127.0.0.1:4321",
            "OPENCLAW_GATEWAY_PORT",
        ),
        (
            {},
            {"OPENCLAW_GATEWAY_PORT": "[::1]:4321"},
            "ws://127.0.0.1:4321",
            "OPENCLAW_GATEWAY_PORT",
        ),
        (
            {"port": 19001},
            {"OPENCLAW_GATEWAY_PORT": "x"},
            "ws://127.0.0.1:19001",
            "gateway in FILE",
        ),
        (
            {"mode": "remote", "remote": {"url": " wss://r "}},
            {},
            "wss://r",
            "gateway.remote.url in FILE",
        ),
        ({"mode": "local", "remote": {"url": "wss://r"}}, {}, URL, ""),
        (
            {"mode": "remote", "remote": {"url": " "}, "port": 5},
            {},
            "ws://127.0.0.1:5",
            "gateway in FILE",
        ),
        ({"mode": "remote", "remote": 5}, {}, URL, ""),
        (
            {"mode": "remote", "remote": {"url": "wss://r"}},
            {"OPENCLAW_GATEWAY_URL": " wss://v "},
            "wss://v",
            "OPENCLAW_GATEWAY_URL",
        ),
        (
            {"mode": "remote", "remote": {"url": "wss://${NAME}"}},
            {"NAME": "n"},
            "wss://n",
            "gateway.remote.url in FILE",
        ),
    ],
)
def test_the_url_is_that_of_the_variable_the_remote_or_this_machine(
    section: dict[str, Any], environ: dict[str, str], url: str, source: str, home: Home
) -> None:
    home.gateway(**section)

    found = home.place(**environ)

    assert found[:2] == (url, source.replace("FILE", str(home.file)))


BOTH = {
    "auth": {"token": "local-t", "password": "local-p"},
    "remote": {"url": "wss://r", "token": "remote-t", "password": "remote-p"},
}
VARIABLES = {"OPENCLAW_GATEWAY_TOKEN": "env-t", "OPENCLAW_GATEWAY_PASSWORD": "env-p"}


@pytest.mark.parametrize(
    ("mode", "environ", "token", "password"),
    [
        ("local", {}, "local-t", "local-p"),
        ("local", VARIABLES, "local-t", "local-p"),
        ("remote", {}, "remote-t", "remote-p"),
        ("remote", VARIABLES, "remote-t", "env-p"),
        ("remote", {**VARIABLES, "OPENCLAW_GATEWAY_URL": "wss://v"}, "env-t", "env-p"),
    ],
)
def test_the_order_of_the_places_of_a_credential_is_openclaws(
    mode: str, environ: dict[str, str], token: str, password: str, home: Home
) -> None:
    home.gateway(mode=mode, **BOTH)

    assert (home.token(**environ) or ("",))[0] == token
    assert (home.password(**environ) or ("",))[0] == password


def test_a_url_of_the_variable_gets_nothing_of_the_file(home: Home) -> None:
    home.gateway(**BOTH)

    assert home.token(OPENCLAW_GATEWAY_URL="wss://v") is None
    assert home.password(OPENCLAW_GATEWAY_URL="wss://v") is None


def test_locally_a_variable_goes_before_the_remote_credential(home: Home) -> None:
    home.gateway(remote=BOTH["remote"])

    assert home.token(**VARIABLES) == ("env-t", "OPENCLAW_GATEWAY_TOKEN")


def test_locally_the_remote_credential_is_the_last_resort(home: Home) -> None:
    home.gateway(remote=BOTH["remote"])
    assert home.token() == ("remote-t", f"gateway.remote.token in {home.file}")
    assert home.password() == ("remote-p", f"gateway.remote.password in {home.file}")

    home.gateway(auth={"mode": "trusted-proxy"}, remote=BOTH["remote"])
    assert home.password() is None


def test_a_changed_file_is_read_anew(home: Home) -> None:
    home.gateway(auth={"token": "old"})
    place = home.place()

    home.gateway(auth={"token": "new"})

    assert (read(place, "token") or ("",))[0] == "new"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("${SECRET}", "of-env"),
        ("a-${SECRET}-b", "a-of-env-b"),
        ("$${SECRET}", "${SECRET}"),
        ("${secret}", "${secret}"),
        ("${UNSET}", None),
        ("x${UNSET}", None),
        ("  ", None),
        (5, None),
    ],
)
def test_variables_are_put_in_and_a_value_without_all_of_them_counts_as_none(
    value: Any, expected: str | None, home: Home
) -> None:
    home.gateway(auth={"token": value})

    found = home.token(SECRET="of-env")  # noqa: S106 - a test's own

    assert found == (expected and (expected, f"gateway.auth.token in {home.file}"))


def test_a_reference_to_a_variable_is_followed_and_one_that_is_unset_is_told(home: Home) -> None:
    reference = {"source": "env", "provider": "default", "id": "SECRET"}
    home.gateway(auth={"token": reference}, remote={"token": "no way around"})

    assert (home.token(SECRET="of-env") or ("",))[0] == "of-env"  # noqa: S106 - a test's own
    assert "refers to the variable SECRET, which is not set" in home.failure().message


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ({"source": "exec", "provider": "vault", "id": HIDDEN}, "a secret of the source 'exec'"),
        ({"source": "file", "id": f"/{HIDDEN}"}, "a secret of the source 'file'"),
        ({"source": "x" * 1_000}, "a secret of the source '" + "x" * 40 + "…'"),
        ({"source": "a\n\x1b[2J"}, "a secret of the source 'a\\n\\x1b[2J'"),
        ({"source": "env", "id": 7}, "a secret of the source 'env' without the name of a variable"),
        ({"token": HIDDEN}, "a secret of no source"),
    ],
)
def test_a_reference_that_is_not_followed_is_told_by_its_source(
    reference: dict[str, Any], said: str, home: Home
) -> None:
    home.gateway(auth={"token": reference}, remote={"token": "no way around"})

    error = home.failure()

    assert error.message == (
        f"gateway.auth.token in {home.file} refers to {said}; the bridge follows references to"
        " variables alone."
    )
    assert HIDDEN not in f"{error.message}{error.hint}"
    assert "--token-command" in (error.hint or "")
    assert home.token(**VARIABLES) == ("env-t", "OPENCLAW_GATEWAY_TOKEN")


@pytest.mark.parametrize(
    ("content", "members"),
    [
        ({"$include": "./a.json5"}, "$include"),
        ({"gateway": {"$include": ["./a.json5"], "port": 5}}, "gateway.$include"),
        (
            {"$include": "a", "gateway": {"auth": {"$include": "b"}, "remote": {"$include": "c"}}},
            "$include, gateway.auth.$include, gateway.remote.$include",
        ),
    ],
)
def test_what_lies_in_other_files_is_named_as_not_read(
    content: dict[str, Any], members: str, home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    (home.path / ".openclaw").mkdir()
    (home.path / ".openclaw" / "a.json5").write_text("{gateway: {auth: {token: 'included'}}}")
    home.write(content)

    with caplog.at_level("INFO", "acp_bridge"):
        assert home.token() is None

    fields = {"path": str(home.file), "members": members}
    assert [vars(record)["fields"] for record in caplog.records][:1] == [fields]
    assert not_read(home.environ) == (
        f"{members} in {home.file} lead to other files, which the bridge does not read."
    )
    assert not_read({**home.environ, "OPENCLAW_GATEWAY_URL": URL}) is None


def test_a_file_that_says_all_itself_leaves_nothing_unread(home: Home) -> None:
    assert not_read(home.environ) is None
    home.gateway(port=5, auth={"token": "$include"})
    assert not_read(home.environ) is None


def test_json5_is_read(home: Home) -> None:
    home.write("// mine\n{gateway: {port: 0x1234, auth: {token: 'tok', /* no */},},}\n")

    assert home.place().url == "ws://127.0.0.1:4660"
    assert (home.token() or ("",))[0] == "tok"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (f"{{gateway: {{auth: {{token: '{HIDDEN}'}}}},\n\n!}}", "is no valid JSON5 (line 3)"),
        ("", "is no valid JSON5 (line 1)"),
        ("[" * 100_000, "is no valid JSON5"),
        ("[]", "holds no object"),
        ('{"gateway": 5}', "gateway is no object"),
        ("x" * (4 * 1024 * 1024 + 1), "is larger than 4096 KiB"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_without_what_it_holds(
    content: str, said: str, home: Home
) -> None:
    home.write(content)

    error = home.failure()

    assert str(home.file) in error.message
    assert said in error.message
    assert "--gateway-url" in (error.hint or "")
    assert HIDDEN not in error.message


def test_a_file_that_is_no_text_is_told(home: Home) -> None:
    home.write("")
    home.file.write_bytes(b"\xff\xfe{}")

    assert "is not UTF-8 text" in home.failure().message


@posix
def test_a_file_that_others_may_read_gives_no_credential(home: Home) -> None:
    home.gateway(port=5, auth={"token": HIDDEN})
    home.file.chmod(0o644)

    assert home.place().url == "ws://127.0.0.1:5"
    error = home.failure()
    assert error.hint == f"chmod 600 {home.file}"
    home.gateway(port=5)
    home.file.chmod(0o644)
    assert home.token() is None


@posix
def test_a_file_that_others_may_write_is_not_believed(home: Home) -> None:
    home.gateway(port=5)
    home.file.chmod(0o622)

    assert home.failure().hint == f"chmod go-w {home.file}"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HOME": "/h"}, "/h/.openclaw/openclaw.json"),
        ({"HOME": "/h", "OPENCLAW_HOME": "~/o"}, "~/o/.openclaw/openclaw.json"),
        ({"HOME": "/h", "OPENCLAW_HOME": "/o"}, "/o/.openclaw/openclaw.json"),
        ({"USERPROFILE": "/u"}, "/u/.openclaw/openclaw.json"),
        ({"HOME": "/h", "OPENCLAW_STATE_DIR": "~/s"}, "/h/s/openclaw.json"),
        ({"HOME": "/h", "OPENCLAW_CONFIG_PATH": "/c.json", "OPENCLAW_STATE_DIR": "/s"}, "/c.json"),
    ],
)
def test_the_file_is_where_the_variables_say(environ: dict[str, str], expected: str) -> None:
    assert config_path(environ) == Path(expected).expanduser()


def test_the_names_of_long_ago_count_where_the_new_ones_are_not(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    (tmp_path / ".clawdbot").mkdir()
    (tmp_path / ".clawdbot" / "clawdbot.json").touch()
    assert config_path(environ) == tmp_path / ".clawdbot" / "clawdbot.json"

    (tmp_path / ".openclaw").mkdir()
    assert config_path(environ) == tmp_path / ".openclaw" / "openclaw.json"


def test_reading_plain_json_imports_no_other_parser(home: Home) -> None:
    home.gateway(auth={"token": "tok"})
    program = (
        "import sys; from acp_bridge.gateway.openclaw_config import find;"
        f"find({home.environ!r}).token.read(); print('pyjson5' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert done.stdout.strip() == b"False"
