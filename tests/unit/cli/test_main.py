"""The command line for people."""

from __future__ import annotations

import json

import pytest

from acp_bridge.cli.failures import EXIT_CODES
from acp_bridge.cli.main import run
from acp_bridge.config import OPTIONS


def test_the_version_names_every_part_that_matters(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0

    (line,) = capsys.readouterr().out.splitlines()
    for part in ("acp-bridge 0.", "python 3.", "ACP v1", "gateway protocol 3-4"):
        assert part in line
    assert "agent-client-protocol 0." in line


def test_the_versions_can_be_had_as_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "--json", "--version"]) == 0

    versions = json.loads(capsys.readouterr().out)
    assert versions["acp"] == 1
    assert versions["gateway-protocol"] == "3-4"


@pytest.mark.parametrize("argv", [["--help"], ["serve", "--help"], ["-h"]])
def test_the_help_has_every_option_and_exit_code(
    argv: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")

    assert run(argv) == 0

    shown = capsys.readouterr().out
    for option in OPTIONS:
        assert option.shown_flag in shown
        assert option.help[:40] in shown
    for code in EXIT_CODES:
        assert f"{code} " in shown


@pytest.mark.parametrize("command", ["serve", "chat", "demo"])
def test_the_help_of_each_command_has_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, "--help"]) == 0

    assert "Example" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["srve"], ("'srve'", "'serve'")),
        (["nothing-like-it"], ("'nothing-like-it'", "--help")),
        (["chat", "--promt", "x"], ("--promt", "--prompt")),
    ],
)
def test_what_is_unknown_is_named_with_a_suggestion(
    argv: list[str], words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(argv) == 2

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    for word in words:
        assert word in captured.err
