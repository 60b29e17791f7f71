"""Credentials from OpenClaw's own configuration and from a command, at real gateways."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from tests.real.conftest import TURN
from tests.real.gateway import TOKEN, Gateway
from tests.support.editor import EditorProcess, agent_command, editor_environment

pytestmark = [pytest.mark.real_gateway, pytest.mark.timeout(180)]


def started(home: Path, *options: str, **variables: str) -> EditorProcess:
    home.mkdir(exist_ok=True)
    environment = editor_environment(home, **variables)
    return EditorProcess(agent_command(*options), env=environment, cwd=home)


async def answers(editor: EditorProcess, cwd: Path) -> bool:
    return (
        await editor.prompt(await editor.open(cwd, TURN), "Hello").stop_reason(TURN) == "end_turn"
    )


async def test_without_an_option_the_bridge_finds_the_gateway_that_openclaws_tools_would(
    gateway: Gateway, tmp_path: Path
) -> None:
    theirs = {"OPENCLAW_STATE_DIR": str(gateway.state)}
    async with started(tmp_path / "home", **theirs) as editor:
        assert await answers(editor, tmp_path)


async def test_a_token_that_was_rotated_is_asked_for_again_and_used(
    gateway: Gateway, tmp_path: Path
) -> None:
    once = tmp_path / "once"
    script = tmp_path / "token.py"
    script.write_text(
        f"from pathlib import Path; once = Path({str(once)!r}); first = not once.exists();"
        f"once.touch(); print('an-old-token-of-before' if first else {TOKEN!r})"
    )
    command = shlex.join((sys.executable, str(script)))
    options = ("--url", gateway.url, "--token-command", command)
    async with started(tmp_path / "home", *options) as editor:
        assert await answers(editor, tmp_path)
        assert TOKEN not in editor.stderr
