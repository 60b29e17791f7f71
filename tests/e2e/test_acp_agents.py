"""Any agent that speaks ACP over a WebSocket."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import Start
from tests.support.sdk_agent import sdk_agent

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("path", ["/acp", "/agent"])
async def test_an_agent_of_the_python_sdk_talks_over_its_own_server(
    acp: Start, home: Path, path: str
) -> None:
    async with sdk_agent(path) as url, acp(url) as editor:
        await editor.initialize()
        session = await editor.new_session(home, timeout=15)
        image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
        turn = editor.prompt(session, "hello", image)
        assert await turn == "end_turn"
        assert turn.text == "hello(image)"
        error = await editor.call("foo/bar", {}).error()
        assert error.code == -32601


async def test_an_agent_that_keeps_nothing_has_lost_the_session_with_its_connection(
    acp: Start, home: Path
) -> None:
    async with sdk_agent() as url:
        async with acp(url) as editor:
            session = await editor.open(home)
            assert await editor.prompt(session, "hello") == "end_turn"
        async with acp(url) as editor:
            await editor.initialize()
            params = {"sessionId": session, "cwd": str(home), "mcpServers": []}
            await editor.call("session/load", params).result()
            shown = [update["sessionUpdate"] for update in editor.updates(session)]
            assert shown[:2] == ["user_message_chunk", "agent_message_chunk"]
            error = await editor.prompt(session, "again").error()
            assert error.data["code"] == "session_not_found"
            assert "new session" in error.data["hint"]
