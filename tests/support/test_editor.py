"""The scripted editor notices an agent that misbehaves."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.editor import EditorProcess, Violation, editor_environment

AGENT = """
import json, os, sys
def write(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        write(id=message["id"], result={"protocolVersion": 1})
    elif message["method"] == "session/new":
        write(id=message["id"], result={"sessionId": "s"})
    else:
        {on_prompt}
{at_end}
"""


def agent(tmp_path: Path, on_prompt: str = "pass", at_end: str = "") -> EditorProcess:
    code = AGENT.replace("{on_prompt}", on_prompt).replace("{at_end}", at_end)
    command = [sys.executable, "-c", code]
    return EditorProcess(command, env=editor_environment(tmp_path), grace=1.0)


async def test_a_conversation_is_followed(tmp_path: Path) -> None:
    show = (
        "write(method='session/update', params={'sessionId': 's', 'update': {"
        "'sessionUpdate': 'agent_message_chunk', 'messageId': 'm',"
        "'content': {'type': 'text', 'text': 'hi'}}});"
        "write(id=message['id'], result={'stopReason': 'end_turn'})"
    )
    async with agent(tmp_path, show) as editor:
        await editor.initialize()
        turn = editor.prompt(await editor.new_session("/"), "hello")
        assert await turn == "end_turn"
        assert turn.text == "hi"
        editor.close_stdin()
        assert await editor.wait_exit() == 0


async def test_noise_on_stdout_fails_the_test(tmp_path: Path) -> None:
    with pytest.raises(Violation, match="not strict JSON"):
        async with agent(tmp_path, at_end="print('bye')") as editor:
            await editor.initialize()


async def test_an_agent_that_ignores_the_end_of_its_input_fails_the_test(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError):
        async with agent(tmp_path, at_end="import time; time.sleep(30)") as editor:
            await editor.initialize()


async def test_a_process_left_behind_fails_the_test(tmp_path: Path) -> None:
    spawn = (
        "import subprocess\n"
        "subprocess.Popen(['sleep', '30'], stdin=-3, stdout=-3, stderr=-3)"  # -3 is DEVNULL
    )
    with pytest.raises(AssertionError, match="left a process"):
        async with agent(tmp_path, at_end=spawn) as editor:
            await editor.initialize()


async def test_an_agent_that_dies_is_no_endless_wait(tmp_path: Path) -> None:
    async with agent(tmp_path, "os._exit(3)") as editor:
        await editor.initialize()
        turn = editor.prompt(await editor.new_session("/"), "hello")
        with pytest.raises(AssertionError, match="stdout ended"):
            await turn
        assert await editor.wait_exit() == 3
