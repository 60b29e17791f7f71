"""Sessions of a gateway that speaks ACP: loaded, resumed, closed, listed, and after lost links."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from acp_bridge.core.turn_view import UNSEEN
from acp_bridge.demo.acp import AcpDemoGateway, AcpRun
from tests.e2e.conftest import Start
from tests.support.acp_wire import acp_wire
from tests.support.editor import EditorProcess
from tests.support.permission_policies import never
from tests.support.waits import WAIT, scaled

pytestmark = pytest.mark.e2e


class Agent:
    """Says what it is told; "work" waits for ``go_on`` in the middle, with a tool call open."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.fails = False

    async def __call__(self, run: AcpRun) -> None:
        if run.message == "work":
            await self.work(run)
        elif run.message == "talk":
            await run.text("one ")
            await self.go_on.wait()
            await run.text("two")
        elif run.message == "ask":
            await run.text("yes" if await run.exec("ls", "a-file") else "no")
        else:
            await run.text(f"You said: {run.message}")

    async def work(self, run: AcpRun) -> None:
        await run.text("one ")
        call = await run.tool_start("shell", {"command": "make"})
        await self.go_on.wait()
        if self.fails:
            await run.fail("out of tokens")
        await run.tool_end(call, "made")
        await run.text("two")


async def load(editor: EditorProcess, session: str, home: Path, method: str = "load") -> None:
    params = {"sessionId": session, "cwd": str(home), "mcpServers": []}
    await editor.call(f"session/{method}", params).result()


def shown(editor: EditorProcess, session: str) -> list[tuple[str, str]]:
    """Who said what, in order."""
    texts: list[tuple[str, str]] = []
    for update in editor.updates(session):
        kind = update["sessionUpdate"]
        if kind in ("user_message_chunk", "agent_message_chunk"):
            text = update["content"]["text"]
            if texts and texts[-1][0] == kind[:4]:
                texts[-1] = (kind[:4], texts[-1][1] + text)
            else:
                texts.append((kind[:4], text))
    return texts


async def test_a_load_shows_what_the_ledger_has_and_the_session_goes_on(
    acp: Start, home: Path
) -> None:
    agent = Agent()
    agent.go_on.set()
    async with AcpDemoGateway(agent, pace=0) as gateway:
        async with acp(gateway) as editor:
            session = await editor.open(home)
            await editor.prompt(session, "hello")
            await editor.prompt(session, "work")
        async with acp(gateway) as editor:
            await editor.initialize()
            await load(editor, session, home)
            assert shown(editor, session) == [
                ("user", "hello"),
                ("agen", "You said: hello"),
                ("user", "work"),
                ("agen", "one two"),
            ]
            cards = [u for u in editor.updates(session) if u["sessionUpdate"] == "tool_call"]
            assert [card["status"] for card in cards] == ["completed"]
            assert await editor.prompt(session, "and now") == "end_turn"
            assert len(gateway.store) == 1
            assert len(gateway.store[gateway.runs[0].session_key].rows) == 8


async def test_without_a_ledger_the_gateways_own_replay_is_shown(acp: Start, home: Path) -> None:
    agent = Agent()
    agent.go_on.set()
    async with AcpDemoGateway(agent, pace=0) as gateway:
        async with acp(gateway, "--no-ledger") as editor:
            session = await editor.open(home)
            await editor.prompt(session, "hello")
            await editor.prompt(session, "work")
        key = gateway.runs[0].session_key
        async with acp(gateway, "--no-ledger") as editor:
            await editor.initialize()
            await load(editor, key, home)
            texts = shown(editor, key)
            assert [text for who, text in texts if who == "user"] == ["hello", "work"]
            assert texts[1][1].endswith("You said: hello")
            assert texts[3][1].endswith("one two")
            assert await editor.prompt(key, "more") == "end_turn"


async def test_a_turn_of_another_client_is_added(acp: Start, home: Path) -> None:
    async with AcpDemoGateway(Agent(), pace=0) as gateway:
        async with acp(gateway) as editor:
            session = await editor.open(home)
            await editor.prompt(session, "hello")
        key = gateway.runs[0].session_key
        async with acp_wire(gateway.url) as wire:
            await wire.call("session/resume", sessionId=key)
            await wire.call("session/prompt", sessionId=key, prompt="from elsewhere")
        for _ in range(2):
            async with acp(gateway) as editor:
                await editor.initialize()
                await load(editor, session, home)
                users = [text for who, text in shown(editor, session) if who == "user"]
                assert users == ["hello", "from elsewhere"]


async def test_a_resumed_session_goes_on_without_its_history(acp: Start, home: Path) -> None:
    async with AcpDemoGateway(Agent(), pace=0) as gateway:
        async with acp(gateway) as editor:
            session = await editor.open(home)
            await editor.prompt(session, "hello")
        async with acp(gateway) as editor:
            await editor.initialize()
            await load(editor, session, home, "resume")
            turn = editor.prompt(session, "again")
            assert await turn == "end_turn"
            assert shown(editor, session) == [("agen", "You said: again")]


async def test_sessions_are_listed_and_deleted_from_the_ledger(acp: Start, home: Path) -> None:
    async with AcpDemoGateway(Agent(), pace=0) as gateway, acp(gateway) as editor:
        session = await editor.open(home)
        await editor.prompt(session, "hello")
        listed = (await editor.call("session/list", {}).result())["sessions"]
        assert [each["sessionId"] for each in listed] == [session]
        assert listed[0]["title"] == "hello"
        await editor.call("session/close", {"sessionId": session}).result()
        await gateway.wait_call("session/close")
        await editor.call("session/delete", {"sessionId": session}).result()
        assert (await editor.call("session/list", {}).result())["sessions"] == []


async def test_more_sessions_than_the_gateway_keeps_open_take_turns(acp: Start, home: Path) -> None:
    async with AcpDemoGateway(Agent(), pace=0, max_sessions=2) as gateway, acp(gateway) as editor:
        await editor.initialize()
        sessions = [await editor.new_session(home) for _ in range(4)]
        for session in sessions * 2:
            assert await editor.prompt(session, "hello") == "end_turn"


async def test_an_idle_session_goes_on_after_a_lost_link(acp: Start, home: Path) -> None:
    async with AcpDemoGateway(Agent(), pace=0) as gateway, acp(gateway) as editor:
        session = await editor.open(home)
        await editor.prompt(session, "hello")
        gateway.drop_connections()
        await gateway.wait_call("initialize", 2)
        turn = editor.prompt(session, "again")
        assert await turn == "end_turn"
        assert turn.text == "You said: again"
        assert "session/resume" in gateway.methods()
        assert "session/load" not in gateway.methods()


async def test_a_turn_that_ends_unseen_is_shown_once_it_is_stored(acp: Start, home: Path) -> None:
    agent = Agent()
    async with AcpDemoGateway(agent, pace=0) as gateway, acp(gateway) as editor:
        session = await editor.open(home)
        turn = editor.prompt(session, "work")
        await editor.until(lambda: bool(turn.tools), "the tool call")
        gateway.drop_connections()
        await turn.shows(UNSEEN)
        agent.go_on.set()
        assert await turn.stop_reason(scaled(10)) == "end_turn"
        assert turn.text.replace(UNSEEN, "").split() == ["one", "two"]
        assert [card.status for card in turn.tools] == ["completed"]
        assert gateway.methods().count("session/prompt") == 1
        assert await editor.prompt(session, "and now") == "end_turn"
        rows = gateway.store[gateway.runs[0].session_key].rows
        assert [row["text"].rpartition("] ")[2] for row in rows if row["role"] == "user"] == [
            "work",
            "and now",
        ]


async def test_no_second_prompt_goes_into_a_session_that_may_be_busy_unseen(
    acp: Start, home: Path
) -> None:
    agent = Agent()
    async with AcpDemoGateway(agent, pace=0) as gateway, acp(gateway) as editor:
        session = await editor.open(home)
        turn = editor.prompt(session, "work")
        await editor.until(lambda: bool(turn.tools), "the tool call")
        gateway.drop_connections()
        await turn.shows(UNSEEN)
        editor.cancel(session)
        assert await turn == "cancelled"
        error = await editor.prompt(session, "and now").error()
        assert error.data["code"] == "session_busy"
        assert "may still be at work" in error.message
        assert gateway.methods().count("session/prompt") == 1
        agent.go_on.set()
        await asyncio.wait_for(gateway.runs[0].ended.wait(), WAIT)
        again = editor.prompt(session, "and now")
        assert await again == "end_turn"
        assert again.text == "You said: and now"


async def test_a_turn_that_fails_unseen_ends_in_the_honest_sentence(acp: Start, home: Path) -> None:
    agent = Agent()
    agent.fails = True
    async with (
        AcpDemoGateway(agent, pace=0) as gateway,
        acp(gateway, "--reconnect-window", "2") as editor,
    ):
        session = await editor.open(home)
        turn = editor.prompt(session, "work")
        await editor.until(lambda: bool(turn.tools), "the tool call")
        gateway.drop_connections()
        agent.go_on.set()
        error = await turn.error(scaled(10))
        assert error.data["code"] == "outcome_unknown"
        assert "look at the workspace" in turn.text


async def test_a_gateway_without_a_store_has_lost_the_turn(acp: Start, home: Path) -> None:
    async with AcpDemoGateway(Agent(), pace=0) as gateway, acp(gateway) as editor:
        gateway.lose_store()
        session = await editor.open(home)
        turn = editor.prompt(session, "work")
        await editor.until(lambda: bool(turn.tools), "the tool call")
        gateway.drop_connections()
        error = await turn.error()
        assert error.data["code"] == "outcome_unknown"


async def test_a_late_answer_decides_no_question_of_the_next_connection(
    acp: Start, home: Path
) -> None:
    async with AcpDemoGateway(Agent(), pace=0) as gateway, acp(gateway) as editor:
        editor.permission_policy = never
        one, two = await editor.open(home), await editor.new_session(home)
        lost = editor.prompt(one, "ask")
        await editor.until(lambda: len(editor.permissions) == 1, "the first question")
        gateway.drop_connections()
        await lost.shows(UNSEEN)
        assert editor.withdrawn() == [editor.permissions[0]["id"]]
        turn = editor.prompt(two, "ask")
        await editor.until(lambda: len(editor.permissions) == 2, "the second question")
        # Both were zc-out-0 at the gateway.
        allow = {"result": {"outcome": {"outcome": "selected", "optionId": "allow-once"}}}
        deny = {"result": {"outcome": {"outcome": "selected", "optionId": "reject-once"}}}
        editor.answer_permission(editor.permissions[0], allow)
        editor.answer_permission(editor.permissions[1], deny)
        assert await turn == "end_turn"
        assert turn.text == "no"
        assert len(gateway.answers["zc-out-0"]) == 1


async def test_leaving_answers_the_open_question_so_that_the_run_does_not_hang(
    acp: Start, home: Path
) -> None:
    async with AcpDemoGateway(Agent(), pace=0) as gateway:
        async with acp(gateway) as editor:
            editor.permission_policy = never
            editor.prompt(await editor.open(home), "ask")
            await editor.until(lambda: bool(editor.permissions), "the question")
        await asyncio.wait_for(gateway.runs[0].ended.wait(), WAIT)
        assert gateway.runs[0].status == "ok"
        assert gateway.runs[0].answer == "no"


async def test_what_ended_after_the_editor_left_is_shown_by_the_next_load(
    acp: Start, home: Path
) -> None:
    agent = Agent()
    async with AcpDemoGateway(agent, pace=0) as gateway:
        async with acp(gateway) as editor:
            session = await editor.open(home)
            turn = editor.prompt(session, "work")
            await editor.until(lambda: bool(turn.tools), "the tool call")
        agent.go_on.set()
        await asyncio.wait_for(gateway.runs[0].ended.wait(), WAIT)
        async with acp(gateway) as editor:
            await editor.initialize()
            await load(editor, session, home)
            assert shown(editor, session) == [("user", "work"), ("agen", "one two")]


@pytest.mark.parametrize("method", ["load", "resume"])
async def test_a_run_of_an_earlier_process_is_waited_for_too(
    acp: Start, home: Path, method: str
) -> None:
    agent = Agent()
    async with AcpDemoGateway(agent, pace=0) as gateway:
        async with acp(gateway) as editor:
            session = await editor.open(home)
            turn = editor.prompt(session, "talk")
            await turn.shows("one")
        async with acp(gateway) as editor:
            await editor.initialize()
            await load(editor, session, home, method)
            await editor.until(lambda: UNSEEN in editor.text_of(session), "the notice")
            second = editor.prompt(session, "and now")
            agent.go_on.set()
            assert await second.stop_reason(scaled(10)) == "end_turn"
            assert "two" in editor.text_of(session)
            assert gateway.methods().count("session/prompt") == 2
            assert gateway.runs[1].rows[0]["text"].endswith("and now")
            stored = gateway.store[gateway.runs[0].session_key].rows
            assert [row["role"] for row in stored].count("user") == 2
        async with acp(gateway) as editor:
            await editor.initialize()
            await load(editor, session, home)
            users = [text for who, text in shown(editor, session) if who == "user"]
            assert users == ["talk", "and now"]


async def test_a_large_file_is_delivered_recorded_and_shown_again(acp: Start, home: Path) -> None:
    blob = base64.b64encode(bytes(10 << 20)).decode()

    async def deliver(run: AcpRun) -> None:
        await run.deliver("big", "application/octet-stream", blob)
        await run.text("done")

    def delivered(updates: list[dict[str, Any]]) -> bool:
        contents = [part for update in updates for part in update.get("content", ())]
        blocks = [part["content"] for part in contents if isinstance(part, dict)]
        return any(block.get("resource", {}).get("blob") == blob for block in blocks)

    async with AcpDemoGateway(deliver, pace=0) as gateway:
        async with acp(gateway) as editor:
            session = await editor.open(home)
            turn = editor.prompt(session, "hello")
            assert await turn.stop_reason(scaled(20)) == "end_turn"
            assert delivered(turn.updates)
        async with acp(gateway) as editor:
            await editor.initialize()
            await load(editor, session, home)
            assert delivered(editor.updates(session))
