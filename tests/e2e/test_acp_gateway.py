"""Whole conversations over a gateway that speaks ACP itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from acp_bridge.demo.acp import AcpDemoGateway, AcpRun
from tests.e2e.conftest import Start
from tests.support.editor import EditorProcess
from tests.support.permission_policies import never

pytestmark = pytest.mark.e2e


async def script(run: AcpRun) -> None:
    """Does what the prompt's first word says."""
    match run.message.split()[0]:
        case "wait":
            await run.text("begun")
            await asyncio.Event().wait()
        case "ask":
            await run.text("yes" if await run.exec("ls", "a-file") else "no")
        case "edit":
            args = {"path": "/x", "oldText": "a", "newText": "b"}
            await run.text(str(await run.ask_permission("file_edit", args)))
        case "choose":
            await run.text(str(await run.ask_user("Which?", ["red", "blue"])))
        case "cached":
            await run.final_only("from the cache")
        case "fail":
            await run.fail("the model broke down")
        case "everything":
            await everything(run)
        case _:
            await run.text(f"You said: {run.message}")


async def everything(run: AcpRun) -> None:
    await run.thought("Let me think.")
    await run.plan([("one", "in_progress"), ("two", "pending")])
    await run.text("First. ")
    call = await run.tool_start("shell", {"command": "ls"}, tool_call_id="call_0")
    await run.tool_end(call, "a-file")
    await run.text("Second.")


async def turn(editor: EditorProcess, session: str, text: str) -> str:
    handle = editor.prompt(session, text)
    await handle
    return handle.text


async def test_a_turn_with_everything_that_an_agent_shows(acp: Start, home: Path) -> None:
    async with AcpDemoGateway(script, pace=0) as gateway, acp(gateway) as editor:
        session = await editor.open(home)
        handle = editor.prompt(session, "everything")
        assert await handle == "end_turn"
        assert handle.text == "First. Second."
        assert handle.thoughts == "Let me think."
        assert [(card.title, card.status) for card in handle.tools] == [("shell", "completed")]
        kinds = [update["sessionUpdate"] for update in handle.updates]
        assert kinds.index("plan") < kinds.index("tool_call")
        # Two turns may use one name for their calls; an editor must be able to tell them apart.
        again = editor.prompt(session, "everything")
        await again
        assert handle.tools[0].tool_call_id != again.tools[0].tool_call_id


async def test_an_answer_that_is_not_streamed_is_shown(acp: Start, home: Path) -> None:
    async with AcpDemoGateway(script, pace=0) as gateway, acp(gateway) as editor:
        assert await turn(editor, await editor.open(home), "cached") == "from the cache"


async def test_a_failed_turn_says_why(acp: Start, home: Path) -> None:
    async with AcpDemoGateway(script, pace=0) as gateway, acp(gateway) as editor:
        handle = editor.prompt(await editor.open(home), "fail")
        error = await handle.error()
        assert (error.code, error.data["code"]) == (-32603, "run_failed")
        assert "the model broke down" in handle.text


@pytest.mark.parametrize(("choice", "said"), [("allow-once", "yes"), ("reject-once", "no")])
async def test_a_permission_is_asked_and_decides(
    acp: Start, home: Path, choice: str, said: str
) -> None:
    async with AcpDemoGateway(script, pace=0) as gateway, acp(gateway) as editor:
        editor.permission_policy = lambda _: {
            "result": {"outcome": {"outcome": "selected", "optionId": choice}}
        }
        assert await turn(editor, await editor.open(home), "ask") == said
        asked = editor.permissions[0]["params"]
        assert asked["toolCall"]["title"] == "Approve shell?"
        kinds = [option["kind"] for option in asked["options"]]
        assert kinds == ["allow_once", "allow_always", "reject_once"]


async def test_the_fourth_option_has_a_kind_that_strict_editors_know(
    acp: Start, home: Path
) -> None:
    async with AcpDemoGateway(script, pace=0) as gateway, acp(gateway) as editor:
        session = await editor.open(home)
        editor.permission_policy = lambda _: {
            "result": {
                "outcome": {
                    "outcome": "selected",
                    "optionId": "reject-with-edit",
                    "replacementContent": "c",
                }
            }
        }
        assert "'replacementContent': 'c'" in await turn(editor, session, "edit")
        kinds = {o["optionId"]: o["kind"] for o in editor.permissions[0]["params"]["options"]}
        assert kinds["reject-with-edit"] == "reject_once"
        assert editor.permissions[0]["params"]["toolCall"]["proposedEdit"] == "b"
        # Without a text the gateway would give the tool an empty one.
        editor.permission_policy = lambda _: {
            "result": {"outcome": {"outcome": "selected", "optionId": "reject-with-edit"}}
        }
        assert "'optionId': 'reject-once'" in await turn(editor, session, "edit")


async def test_a_cancel_ends_the_turn(acp: Start, home: Path) -> None:
    async with AcpDemoGateway(script, pace=0) as gateway, acp(gateway) as editor:
        session = await editor.open(home)
        handle = editor.prompt(session, "wait")
        await handle.shows("begun")
        editor.cancel(session)
        assert await handle == "cancelled"
        assert gateway.runs[0].aborted
        assert await turn(editor, session, "hello") == "You said: hello"


async def test_a_cancel_right_behind_its_prompt_is_honoured(acp: Start, home: Path) -> None:
    async with AcpDemoGateway(script, pace=0) as gateway, acp(gateway) as editor:
        session = await editor.open(home)
        handle, message = editor.prompt_message(session, "wait")
        editor.send(message, editor.cancel_message(session))
        assert await handle == "cancelled"
        assert await turn(editor, session, "hello") == "You said: hello"
        assert all(run.aborted for run in gateway.runs[:-1])


async def test_a_cancel_answers_the_open_question(acp: Start, home: Path) -> None:
    async with AcpDemoGateway(script, pace=0) as gateway, acp(gateway) as editor:
        editor.permission_policy = never
        session = await editor.open(home)
        handle = editor.prompt(session, "ask")
        await editor.until(lambda: bool(editor.permissions), "the question")
        editor.send(editor.cancel_message(session))
        assert await handle == "cancelled"
        assert gateway.runs[0].aborted
        answer = gateway.answers["zc-out-0"][0]
        assert answer["result"] == {"outcome": {"outcome": "cancelled"}}


async def test_a_question_to_the_user_is_a_form_if_the_editor_can_show_one(
    acp: Start, home: Path
) -> None:
    async with AcpDemoGateway(script, pace=0) as gateway, acp(gateway) as editor:
        await editor.initialize(clientCapabilities={"elicitation": {"form": {}}})
        session = await editor.new_session(home)
        handle = editor.prompt(session, "choose")
        forms: list[dict[str, object]] = []

        def has_form() -> bool:
            forms[:] = [m for m in editor.messages if m.get("method") == "elicitation/create"]
            return bool(forms)

        await editor.until(has_form, "the form")
        content = {"action": "accept", "content": {"choice": "choice-1"}}
        editor.send({"jsonrpc": "2.0", "id": forms[0]["id"], "result": content})
        assert await handle == "end_turn"
        assert handle.text == "blue"


async def test_unknown_methods_and_notifications_pass_both_ways(acp: Start, home: Path) -> None:
    async def trims(run: AcpRun) -> None:
        run.notify("_zeroclaw/history_trimmed", droppedMessages=2, keptTurns=1, reason="full")
        await run.text("done")

    async with AcpDemoGateway(trims, pace=0) as gateway, acp(gateway) as editor:
        session = await editor.open(home)
        await editor.prompt(session, "hello")
        told = [m for m in editor.messages if m.get("method") == "_zeroclaw/history_trimmed"]
        assert told[0]["params"] == {
            "sessionId": session,
            "droppedMessages": 2,
            "keptTurns": 1,
            "reason": "full",
        }
        event = {"sessionId": session, "type": "x"}
        answer = await editor.call("session/event", event).result()
        assert answer["status"] == "processed"
        editor.notify("session/update", event)
        await gateway.wait_call("session/update")
        error = await editor.call("_vendor/x", {}).error()
        assert (error.code, error.data["code"]) == (-32601, "method_not_found")


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"type": "image", "data": "AAAA", "mimeType": "image/png"}, "image"),
        ({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}, "audio"),
    ],
)
async def test_what_the_gateway_would_drop_is_refused_by_name(
    acp: Start, home: Path, block: dict[str, str], said: str
) -> None:
    async with AcpDemoGateway(script, pace=0) as gateway, acp(gateway) as editor:
        error = await editor.prompt(await editor.open(home), "see:", block).error()
        assert error.code == -32602
        assert said in error.message
        assert gateway.runs == []


async def test_links_and_files_arrive(acp: Start, home: Path) -> None:
    async with AcpDemoGateway(script, pace=0) as gateway, acp(gateway) as editor:
        session = await editor.open(home)
        link = {"type": "resource_link", "uri": "file:///a/b.py", "name": "b.py"}
        blob = {"uri": "file:///c.bin", "blob": "AAAA"}
        text = {"uri": "file:///d.txt", "text": "inside"}
        await editor.prompt(
            session,
            "look",
            link,
            {"type": "resource", "resource": blob},
            {"type": "resource", "resource": text},
        )
        message = gateway.runs[0].message
        assert "file:///a/b.py" in message
        assert "[Document: c.bin]" in message
        assert "file:///d.txt\ninside" in message


async def test_the_agent_of_the_url_or_the_option_is_asked_for(acp: Start, home: Path) -> None:
    async with AcpDemoGateway(script, agents=("one", "two"), pace=0) as gateway:
        async with acp(gateway.url + "?agent=two") as editor:
            await editor.open(home)
        async with acp(gateway, "--agent", "one") as editor:
            await editor.open(home)
            await editor.new_session(home, agentAlias="two")
        assert [stored.agent for stored in gateway.store.values()] == ["two", "one", "two"]


async def test_a_directory_that_the_gateway_lacks_is_explained(acp: Start) -> None:
    async with AcpDemoGateway(script, pace=0) as gateway, acp(gateway) as editor:
        await editor.initialize()
        wanted = {"cwd": "/does/not/exist", "mcpServers": []}
        error = await editor.call("session/new", wanted).error()
        assert error.code == -32602
        assert "gateway's machine" in error.data["hint"]
