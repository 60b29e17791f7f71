"""The client of the official Python SDK talks to the demo agent."""

from __future__ import annotations

from pathlib import Path

import acp
import pytest

from tests.support.editor import agent_command, editor_environment
from tests.support.sdk_editor import SdkEditor
from tests.support.transcript import text_of, tool_cards

pytestmark = pytest.mark.e2e


async def test_the_python_sdk_talks_to_the_demo_agent(home: Path) -> None:
    editor = SdkEditor()
    command, *arguments = agent_command("--demo")
    environment = editor_environment(home)
    async with acp.spawn_agent_process(
        editor.as_client(), command, *arguments, env=environment
    ) as (agent, _):
        hello = await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        assert hello.protocol_version == 1
        session = (await agent.new_session(cwd=str(home), mcp_servers=[])).session_id
        answer = await agent.prompt(session_id=session, prompt=[acp.text_block("Hello")])
        assert answer.stop_reason == "end_turn"
        assert text_of(editor.updates)
        assert tool_cards(editor.updates)
        assert editor.allowed == 1
