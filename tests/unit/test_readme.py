"""The README tells what the code does: options, exit codes, error codes, snippets."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from acp_bridge import errors
from acp_bridge.cli.failures import EXIT_CODES
from acp_bridge.config import OPTIONS, Option, load

README = (Path(__file__).resolve().parents[2] / "README.md").read_text("utf-8")

SNIPPETS = re.findall(r"```json\n(.*?)```", README, re.DOTALL)


def row(option: Option) -> str:
    flags = [option.shown_flag, *([option.alias] if option.alias else [])]
    spelled = ", ".join(f"`{flag} {option.metavar}`".replace(" `", "`") for flag in flags)
    variables = ", ".join(f"`{name}`" for name in option.env)
    default = "" if option.default is None else f"`{option.default}`"
    return f"| {spelled} | {variables} | {default} | {option.help} |"


def classes(base: type[errors.BridgeError]) -> set[type[errors.BridgeError]]:
    return {base}.union(*(classes(below) for below in base.__subclasses__()))


def test_the_table_of_options_is_the_tables_of_the_code() -> None:
    expected = "\n".join(row(option) for option in OPTIONS)

    assert expected in README, f"the table should be:\n{expected}"


def test_the_table_of_exit_codes_is_the_codes() -> None:
    expected = "\n".join(f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items())

    assert expected in README, f"the table should be:\n{expected}"


def test_every_error_that_a_user_can_do_something_about_is_explained() -> None:
    explained = set(re.findall(r"^\| `([a-z_]+)` \|", README, re.MULTILINE))
    abstract = {errors.SessionError, errors.GatewayError, errors.TurnError}
    raised = set().union(*(classes(base) for base in abstract)) - abstract

    assert explained == {error.code for error in raised}


@pytest.mark.parametrize("snippet", SNIPPETS, ids=range(len(SNIPPETS)))
def test_a_snippet_is_valid_and_its_arguments_are_options(snippet: str) -> None:
    servers = next(iter(json.loads(snippet).values()))
    for server in servers.values():
        command, *words = server["command"].split()

        assert Path(command).is_absolute()
        load([*words, *server.get("args", [])], {})
