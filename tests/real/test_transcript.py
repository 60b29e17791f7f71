"""What real gateways keep of a session, read by the gateway client itself."""

from __future__ import annotations

import asyncio
import base64
import struct
import uuid
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from acp_bridge.app import new_id
from acp_bridge.core import events as ev
from acp_bridge.core.commands import (
    AbortRun,
    AnswerPermission,
    Attachment,
    DeleteSession,
    ListSessions,
    ReadTranscript,
    SessionFacts,
    StartRun,
)
from acp_bridge.core.heal import additions
from acp_bridge.core.replay import Recorded
from acp_bridge.core.transcript import Part, SaidText, SaidThought, Transcript, UsedTool
from acp_bridge.gateway.client import GatewayClient
from acp_bridge.gateway.dialects.openclaw import encode, rows
from acp_bridge.gateway.settings import GatewaySettings
from acp_bridge.ids import RunId, SessionKey, ToolCallId
from acp_bridge.wire.content import text_block
from acp_bridge.wire.updates import message_chunk
from tests.real.conftest import TURN
from tests.real.gateway import TOKEN, Gateway
from tests.support.client_rig import credentials
from tests.support.gateway_client import Device
from tests.support.gateway_client import GatewayClient as OtherClient

pytestmark = [pytest.mark.real_gateway, pytest.mark.timeout(180)]

E = TypeVar("E", bound=ev.GatewayEvent)

LONG = "y" * 200_000
"""More than the gateways show of one row in a history."""
A_CALL = ToolCallId("a call")


class Talker:
    """A gateway client that allows every command, and one session that it talks in."""

    def __init__(self, client: GatewayClient, key: SessionKey) -> None:
        self.client = client
        self.key = key
        self._events: list[ev.GatewayEvent] = []
        self._news = asyncio.Event()

    async def sink(self, stamped: ev.Stamped) -> None:
        if isinstance(stamped.event, ev.PermissionAsked):
            self.client.submit(AnswerPermission(stamped.event.approval_id, "allow-once"))
        self._events.append(stamped.event)
        self._news.set()

    async def until(self, kind: type[E], fits: Callable[[E], bool]) -> E:
        async with asyncio.timeout(TURN):
            while True:
                for event in self._events:
                    if isinstance(event, kind) and fits(event):
                        return event
                self._news.clear()
                await self._news.wait()

    def begin(self, text: str, *attachments: Attachment, run: str = "") -> RunId:
        run_id = RunId(run or new_id())
        self.client.submit(StartRun(run_id, self.key, text, attachments))
        return run_id

    async def over(self, run_id: RunId) -> RunId:
        await self.until(ev.RunEnded, lambda event: event.run_id == run_id)
        return run_id

    async def say(self, text: str, *attachments: Attachment) -> RunId:
        return await self.over(self.begin(text, *attachments))

    async def transcript(self, fits: Callable[[Transcript], bool]) -> Transcript:
        """The first transcript that fits: rows are written a little after their events."""
        async with asyncio.timeout(TURN):
            while True:
                found = await self.client.request(ReadTranscript(self.key))
                if isinstance(found, Transcript) and fits(found):
                    return found
                await asyncio.sleep(0.1)  # nothing tells of a row


@asynccontextmanager
async def talker(gateway: Gateway, home: Path, key: SessionKey) -> AsyncIterator[Talker]:
    settings = GatewaySettings(
        url=gateway.url,
        url_source="--url",
        credentials=credentials(token_file=gateway.token_file),
        scopes=None,
        state_dir=home,
    )
    client = GatewayClient(settings)
    talk = Talker(client, key)
    await client.start(talk.sink)
    try:
        await client.wait_hello(TURN)
        yield talk
    finally:
        await client.close()


def red_dot() -> str:
    """A PNG of one red pixel, in base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checked = kind + data
        return struct.pack(">I", len(data)) + checked + struct.pack(">I", zlib.crc32(checked))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + head + body).decode()


def a_session() -> SessionKey:
    return SessionKey(f"agent:main:transcript-{uuid.uuid4().hex[:8]}")


def anonymous(parts: tuple[Part, ...]) -> list[Part]:
    """Parts without the ids of their calls, which the model made."""
    return [p._replace(tool_call_id=A_CALL) if isinstance(p, UsedTool) else p for p in parts]


def used(name: str, args: object, output: str, *, failed: bool = False) -> UsedTool:
    return UsedTool(A_CALL, name, args, output, failed)


async def test_a_session_is_read_as_it_was_had(gateway: Gateway, tmp_path: Path) -> None:
    key = a_session()
    picture = red_dot()
    async with (
        talker(gateway, tmp_path, key) as talk,
        OtherClient(gateway.url, auth={"token": TOKEN}, device=Device()) as other,
    ):
        runs = [
            await talk.say("[Working directory: ~/p]\n\nfake:say hello there"),
            await talk.say("fake:think"),
            await talk.say("fake:tool echo hi there"),
            await talk.say("fake:tool ls /no/such/directory"),
            await talk.say("fake:two"),
            await talk.say("/status"),
            await talk.say("fake:image", Attachment("image", "image/png", picture)),
            RunId(new_id()),
        ]
        sent = {"type": "image", "mimeType": "image/png", "content": picture}
        await other.prompt("fake:image of mine", key=key, run=runs[-1], attachments=[sent])
        await talk.over(runs[-1])
        slow = talk.begin("fake:slow N=200 MS=50")
        await talk.until(ev.TextProgress, lambda event: event.run_id == slow)
        in_flight = await talk.transcript(lambda found: bool(found.running_text))
        talk.client.submit(AbortRun(slow, key))
        await talk.over(slow)
        await talk.transcript(lambda found: found.turns[-1].stop_reason is not None)
        runs += [slow, await talk.say("fake:error 400")]
        found = await talk.transcript(lambda found: found.turns[-1].error is not None)

    assert in_flight.running == slow
    assert (in_flight.running_text or "").startswith("slow-0")
    assert [turn.run_id for turn in found.turns] == runs
    assert (found.running, found.is_whole) == (None, True)
    assert not any(turn.is_system for turn in found.turns)
    times = [turn.at or 0 for turn in found.turns]
    assert times == sorted(times)
    assert all(times)

    def lost_by_old(args: object) -> object:
        return None if gateway.is_old else args

    said, thought, tool, failed_tool, two, status, seen, foreign, aborted, error = found.turns
    assert (said.prompt, said.parts) == ("fake:say hello there", (SaidText("hello there"),))
    assert thought.parts == (
        SaidThought("Let me think about this."),
        SaidText("Thought through answer."),
    )
    assert anonymous(tool.parts) == [
        SaidText("Calling a tool."),
        used("exec", lost_by_old({"command": "echo hi there"}), "hi there"),
        SaidText("The tool said: hi there"),
    ]
    before, failure, after = failed_tool.parts
    assert isinstance(failure, UsedTool)
    assert (failure.name, failure.failed) == ("exec", True)
    assert failure.args == lost_by_old({"command": "ls /no/such/directory"})
    assert "/no/such/directory" in (failure.output or "")
    assert before == SaidText("Calling a tool.")
    assert after == SaidText(f"The tool said: {(failure.output or '').strip()}")
    assert anonymous(two.parts) == [
        used("exec", {"command": "echo one"}, "one"),
        used("exec", {"command": "echo two"}, "two"),
        SaidText("The tool said: one | two"),
    ]
    (answer,) = status.parts
    assert (status.prompt, isinstance(answer, SaidText)) == ("/status", True)
    assert (seen.parts, seen.attachments) == ((SaidText("images=1"),), ())
    (so_far,) = aborted.parts
    assert isinstance(so_far, SaidText)
    assert so_far.text.startswith("slow-0")
    assert aborted.stop_reason == "cancelled"
    assert foreign.prompt == "fake:image of mine"
    assert foreign.attachments == (Attachment("image", "image/png", ""),)
    assert isinstance(foreign.parts[-1], SaidText)
    assert (error.parts, error.stop_reason) == ((), None)
    assert error.error
    assert "failed" in error.error
    ended = {turn.stop_reason for turn in found.turns if turn not in (error, aborted)}
    assert ended == {"end_turn"}


async def test_a_run_may_be_masked_and_is_known_all_the_same(
    gateway: Gateway, tmp_path: Path
) -> None:
    run = "5f56e886-f1b4-482c-8efc-75ab5ca61b47"
    async with talker(gateway, tmp_path, a_session()) as talk:
        await talk.over(talk.begin("fake:say hello", run=run))
        found = await talk.transcript(lambda found: found.turns[0].stop_reason is not None)
    shown = found.turns[0].run_id
    assert shown == ("5f56e886-f1b4-482c-8e***" if gateway.is_old else run)
    prompt = {"prompt": [text_block("fake:say hello")]}
    entries = [
        Recorded("prompt", prompt, RunId(run), 1),
        Recorded("update", message_chunk("hello", "m"), RunId(run), 2),
        Recorded("outcome", {"stop_reason": "end_turn"}, RunId(run), 3),
    ]
    assert additions(entries, found, cwd="/w", now=4) == []


async def test_a_long_transcript_is_read_to_its_beginning(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages of four rows stand for pages of a thousand. 2026.6.11 has one page only."""
    monkeypatch.setattr(encode, "HISTORY_ROWS", 4)
    monkeypatch.setattr(rows, "HISTORY_ROWS", 4)
    async with talker(gateway, tmp_path, a_session()) as talk:
        said = [f"word {number}" for number in range(5)]
        for text in said:
            await talk.say(f"fake:say {text}")
        found = await talk.transcript(
            lambda found: bool(found.turns) and found.turns[-1].stop_reason is not None
        )
    told = [turn.prompt.removeprefix("fake:say ") for turn in found.turns]
    assert told == (said[-2:] if gateway.is_old else said)
    assert found.is_whole is not gateway.is_old


async def test_what_a_history_leaves_out_is_read_all_the_same(
    gateway: Gateway, tmp_path: Path
) -> None:
    async with talker(gateway, tmp_path, a_session()) as talk:
        await talk.say(f"fake:say fine {LONG}")
        found = await talk.transcript(lambda found: found.turns[0].stop_reason is not None)
    (turn,) = found.turns
    assert turn.prompt == f"fake:say fine {LONG}"
    assert turn.parts == (SaidText(f"fine {LONG}"),)


async def test_a_run_that_has_ended_is_not_running_whatever_the_history_says(
    gateway: Gateway, tmp_path: Path
) -> None:
    """2026.6.11 calls a run "in flight" for ever after it has failed in this way."""
    async with talker(gateway, tmp_path, a_session()) as talk:
        await talk.say("fake:say before")
        await talk.say("fake:length")
        found = await talk.transcript(lambda found: found.running is None)
    assert [turn.stop_reason for turn in found.turns] == ["end_turn", "max_tokens"]


async def test_sessions_are_listed_by_page_and_deleted(gateway: Gateway, tmp_path: Path) -> None:
    keys = [a_session(), a_session()]
    async with talker(gateway, tmp_path, keys[0]) as talk:
        assert await talk.client.request(ReadTranscript(keys[0])) is None
        assert await talk.client.request(DeleteSession(keys[0])) is False
        for key in keys:
            talk.key = key
            await talk.say("[Working directory: ~/p]\n\nfake:say listed")
        pages: list[list[SessionFacts]] = [
            await talk.client.request(ListSessions(offset, 1)) for offset in (0, 1)
        ]
        assert [[facts.session_key for facts in page] for page in pages] == [[keys[1]], [keys[0]]]
        # 2026.9.6 has its own idea of a title.
        assert {facts.title for (facts,) in pages} <= {"fake:say listed", None}
        assert all(facts.updated_at_ms for (facts,) in pages)
        for key in keys:
            assert await talk.client.request(DeleteSession(key)) is True
            assert await talk.client.request(ReadTranscript(key)) is None
