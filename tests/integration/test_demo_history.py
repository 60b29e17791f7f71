"""The bridge reads the demo gateway's transcripts and sessions as it reads the real ones."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from acp_bridge.core.commands import (
    AbortRun,
    DeleteSession,
    ListSessions,
    ReadTranscript,
    SessionFacts,
    StartRun,
)
from acp_bridge.core.events import LinkUp, RunEnded, TextProgress
from acp_bridge.core.transcript import PastTurn, SaidText, SaidThought, Transcript, UsedTool
from acp_bridge.demo import QUIRKS_6_11, QUIRKS_9_6, DemoGateway, Quirks, RunContext
from acp_bridge.errors import GatewayRefused, ScopeMissing
from acp_bridge.ids import RunId, SessionKey
from tests.support.client_rig import ClientRig, client_rig

pytestmark = pytest.mark.integration

KEY = SessionKey("agent:main:s")
BOTH = pytest.mark.parametrize("quirks", [QUIRKS_6_11, QUIRKS_9_6], ids=lambda q: q.version)


async def agent(run: RunContext) -> None:
    match run.message.split():
        case ["work"]:
            await run.thought("Hm.")
            await run.text("Let me look. ")
            call = await run.tool_start("exec", {"command": "ls"}, tool_call_id="call-1")
            await run.tool_end(call, "a file")
            call = await run.tool_start("exec", {"command": "false"}, tool_call_id="call-2")
            await run.tool_end(call, "no", exit_code=1)
            await run.text("Looked.")
        case ["fail"]:
            await run.text("So far.")
            await run.fail("the model broke")
        case ["break"]:
            await run.fail("the model broke")
        case ["/status"]:
            await run.final_only("all is well")
        case ["wait", *_]:
            await run.text("One.")
            call = await run.tool_start("exec", {"command": "ls"}, tool_call_id="call-1")
            await run.tool_end(call, "a file")
            await run.text("Two.")
            await asyncio.Event().wait()
        case _:
            await run.text(run.message)


@contextlib.asynccontextmanager
async def talking(quirks: Quirks, home: Path) -> AsyncIterator[ClientRig]:
    async with (
        DemoGateway(agent, quirks=quirks, pace=0) as gateway,
        client_rig(gateway.url, home) as rig,
    ):
        await rig.next(LinkUp)
        yield rig


async def say(rig: ClientRig, text: str, key: SessionKey = KEY) -> None:
    run_id = RunId(f"run {text}")
    rig.client.submit(StartRun(run_id, key, text))
    while (await rig.next(RunEnded)).run_id != run_id:
        pass


async def transcript(rig: ClientRig) -> Transcript:
    found = await rig.client.request(ReadTranscript(KEY))
    assert isinstance(found, Transcript)
    return found


@BOTH
async def test_a_turn_is_read_with_its_thoughts_and_tools(quirks: Quirks, tmp_path: Path) -> None:
    async with talking(quirks, tmp_path) as rig:
        await say(rig, "[Working directory: ~/p]\n\nwork")
        await say(rig, "work")
        found = await transcript(rig)

    first, second = found.turns
    assert (first.prompt, second.prompt) == ("work", "work")
    assert (second.run_id, second.stop_reason, second.error) == ("run work", "end_turn", None)
    assert found.is_whole
    # 2026.6.11 shows of an answer with text and a call the text alone.
    calls = [None if quirks.is_old else {"command": "ls"}, {"command": "false"}]
    assert second.parts == (
        SaidText("Let me look."),
        *(() if quirks.is_old else (SaidThought("Hm."),)),
        *(
            UsedTool(f"call-{number}", "exec", args, output, failed=failed)  # type: ignore[arg-type]
            for number, args, output, failed in (
                (1, calls[0], "a file", False),
                (2, calls[1], "no", True),
            )
        ),
        SaidText("Looked."),
    )


@BOTH
async def test_failures_commands_and_aborts_are_read_as_what_they_are(
    quirks: Quirks, tmp_path: Path
) -> None:
    async with talking(quirks, tmp_path) as rig:
        for text in ("fail", "break", "/status"):
            await say(rig, text)
        rig.client.submit(StartRun(RunId("run wait"), KEY, "wait"))
        while (await rig.next(TextProgress)).snapshot not in {"One.Two.", "One.\n\nTwo."}:
            pass
        running = await transcript(rig)
        rig.client.submit(AbortRun(RunId("run wait"), KEY))
        await rig.next(RunEnded)
        found = await transcript(rig)

    failed, broken, command, aborted = found.turns
    assert (failed.parts, failed.stop_reason) == ((SaidText("So far."),), None)
    assert failed.error == (
        "The run failed; the gateway does not say why." if quirks.is_old else "⚠️ the model broke"
    )
    assert (broken.parts, broken.stop_reason) == ((), None)
    assert broken.error == (
        "The agent run failed before producing a reply." if quirks.is_old else "⚠️ the model broke"
    )
    assert (command.parts, command.stop_reason) == ((SaidText("all is well"),), "end_turn")
    assert [part.text for part in aborted.parts if isinstance(part, SaidText)] == ["One.", "Two."]
    assert (aborted.stop_reason, found.running) == ("cancelled", None)
    assert running.running == "run wait"
    assert running.turns[-1].stop_reason is None


async def test_a_prompt_that_was_fed_into_a_running_turn_is_done(tmp_path: Path) -> None:
    async with talking(QUIRKS_9_6, tmp_path) as rig:
        rig.client.submit(StartRun(RunId("run wait"), KEY, "wait"))
        await rig.next(TextProgress)
        await say(rig, "more")
        found = await transcript(rig)

    waiting, fed = found.turns
    assert (waiting.stop_reason, waiting.run_id) == (None, found.running)
    assert fed == PastTurn(RunId("run more"), fed.at, "more", (), (), "end_turn", None)


@BOTH
async def test_a_session_that_is_not_there_is_not_made_by_asking(
    quirks: Quirks, tmp_path: Path
) -> None:
    async with talking(quirks, tmp_path) as rig:
        assert await rig.client.request(ReadTranscript(KEY)) is None
        assert await rig.client.request(ListSessions()) == []
        assert await rig.client.request(DeleteSession(KEY)) is False
        await say(rig, "hello")
        assert await rig.client.request(DeleteSession(KEY)) is True
        assert await rig.client.request(ReadTranscript(KEY)) is None
        with pytest.raises(GatewayRefused, match="main session"):
            await rig.client.request(DeleteSession(SessionKey("main")))


@BOTH
async def test_sessions_are_listed_page_by_page(quirks: Quirks, tmp_path: Path) -> None:
    async with talking(quirks, tmp_path) as rig:
        for name in ("a", "b", "c"):
            await say(rig, name, SessionKey(name))
        rig.client.submit(StartRun(RunId("run wait"), SessionKey("a"), "wait"))
        await rig.next(TextProgress)
        pages: list[list[SessionFacts]] = [
            await rig.client.request(ListSessions(offset, 2)) for offset in (0, 2, 4)
        ]

    assert [len(page) for page in pages] == [2, 1, 0]
    listed = {facts.session_key: facts for page in pages for facts in page}
    assert sorted(listed) == ["agent:main:a", "agent:main:b", "agent:main:c"]
    assert {key: facts.is_running for key, facts in listed.items() if facts.is_running} == {
        "agent:main:a": True
    }
    assert listed[SessionKey("agent:main:b")].title == "b"


async def test_deleting_needs_admin(tmp_path: Path) -> None:
    async with (
        DemoGateway(agent) as gateway,
        client_rig(gateway.url, tmp_path, scopes=("operator.read", "operator.write")) as rig,
    ):
        await rig.next(LinkUp)
        with pytest.raises(ScopeMissing):
            await rig.client.request(DeleteSession(KEY))
