"""``config init`` and ``config validate``: the file with profiles, made and looked through."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_config import TOKEN, profiles, shown, written

pytestmark = pytest.mark.e2e


def usual(home: Path) -> Path:
    return home / ".config" / "acp-bridge" / "config.toml"


def test_a_file_is_made_for_its_owner_alone_and_is_valid_as_it_is(home: Path) -> None:
    made = shown(home, "init")

    assert made.returncode == 0, made.stderr
    assert made.stdout == f"{usual(home)}\n"
    assert stat.filemode(usual(home).stat().st_mode) == "-rw-------"
    assert stat.filemode(usual(home).parent.stat().st_mode) == "drwx------"
    looked = shown(home, "validate")
    assert (looked.returncode, looked.stderr) == (0, "")
    assert looked.stdout == f"{usual(home)}\nprofiles.default: good\n"


def test_what_the_file_proposes_is_valid_once_its_comments_are_taken_away(home: Path) -> None:
    shown(home, "init")
    template = usual(home).read_text()
    profiles(home, re.sub(r"(?m)^# (?=\[|\w+ = )", "", template))
    written(home / ".config" / "acp-bridge" / "token", TOKEN)

    looked = shown(home, "validate")

    assert (looked.returncode, looked.stderr) == (0, "")
    assert looked.stdout.splitlines()[1:] == ["profiles.default: good", "profiles.work: good"]


@pytest.mark.parametrize("kind", ["file", "link to nothing", "directory"])
def test_what_is_there_already_is_never_overwritten(kind: str, home: Path) -> None:
    path = usual(home)
    path.parent.mkdir(parents=True)
    if kind == "file":
        path.write_text("precious")
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to(home / "elsewhere")

    made = shown(home, "init")

    assert made.returncode == 2
    assert made.stdout == ""
    assert made.stderr.startswith(f"error: {path} is there already")
    assert "hint: " in made.stderr
    assert kind != "file" or path.read_text() == "precious"
    assert not (home / "elsewhere").exists()


def test_another_place_can_be_named_and_one_that_cannot_be_is_told(home: Path) -> None:
    assert shown(home, "init", "--config", "above/mine.toml").returncode == 0
    assert (home / "above" / "mine.toml").is_file()

    (home / "file").touch()
    made = shown(home, "init", "--config", f"{home}/file/mine.toml")

    assert made.returncode == 2
    assert f"{home}/file/mine.toml cannot be made: Not a directory" in made.stderr


MISTAKEN = """
[profiles.good]
gateway_url = "ws://127.0.0.1:1"
token = "tok-0123456789abcdef"

[profiles.work]
gateway_url = "ws://gw.example"

[profiles.home]
gateway_url = "wss://gw.example"
token_file = "nowhere"
header_file = "headers"
ca_file = "nothing.pem"
ledger_url = "mysql://me:pw@h/x"

[profiles.number]
connect_timeout = -1
"""


def test_every_mistake_of_every_profile_is_told_with_its_place(home: Path) -> None:
    path = profiles(home, MISTAKEN)
    written(path.parent / "headers", "no header")

    looked = shown(home, "validate", ACP_BRIDGE_CONNECT_TIMEOUT="no number, but not asked for")

    assert looked.returncode == 2
    assert looked.stdout.splitlines() == [
        f"{path}",
        "profiles.good: good",
        "profiles.work: 1 mistake",
        "profiles.home: 4 mistakes",
        "profiles.number: 1 mistake",
    ]
    errors = [line for line in looked.stderr.splitlines() if line.startswith("error: ")]
    for error, said in zip(
        errors,
        (
            f"profiles.work.gateway_url in {path}",
            f"profiles.home.token_file in {path} {path.parent}/nowhere does not exist",
            f"profiles.home.header_file in {path} {path.parent}/headers, line 1, is no header",
            f"profiles.home.ca_file in {path} {path.parent}/nothing.pem cannot be read",
            "A ledger cannot be kept in 'mysql'",
            f"profiles.number.connect_timeout in {path} '-1' is not a number",
        ),
        strict=True,
    ):
        assert said in error
    assert TOKEN not in looked.stdout + looked.stderr


def test_as_json_the_mistakes_are_one_document(home: Path) -> None:
    path = profiles(home, MISTAKEN)

    looked = shown(home, "validate", "--json")

    assert (looked.returncode, looked.stderr) == (2, "")
    document: dict[str, Any] = json.loads(looked.stdout)
    assert document["config"] == str(path)
    assert document["profiles"]["good"] == []
    assert [set(each) for each in document["profiles"]["work"]] == [{"message", "hint"}]


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("[profiles.default]\ntokn_file = 'x'\n", "default.tokn_file is no option", "token_file?"),
        ("[profiles.default\n", "is no valid TOML", None),
        ("", "has no profile", "[profiles.default]"),
    ],
)
def test_a_file_without_a_profile_that_can_be_read_is_told(
    text: str, said: str, hint: str | None, home: Path
) -> None:
    profiles(home, text)

    looked = shown(home, "validate")

    assert looked.returncode == 2
    assert said in looked.stderr
    assert hint is None or hint in looked.stderr


def test_without_a_file_the_command_that_makes_one_is_told(home: Path) -> None:
    for argv in (("validate",), ("show", "--profile", "work")):
        looked = shown(home, *argv)
        assert looked.returncode == 2
        assert "acp-bridge config init" in looked.stderr
    assert "acp-bridge config init" in shown(home, "path").stderr
