"""The service with its ports held by the test: a conversation without processes or threads."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from acp import schema

from acp_bridge.bridge.recorder import Recorder
from acp_bridge.bridge.service import Bridge, Surroundings
from acp_bridge.bridge.timing import Deadlines
from acp_bridge.core.commands import OpenedAt, OpenSession, RunCommand, StartRun
from acp_bridge.core.ports import EditorAnswer, Entry, Unrecorded
from acp_bridge.core.sessions import CreationLimit, SessionOptions
from acp_bridge.errors import BridgeError, LocalProtocolError
from acp_bridge.gateway.memory import MemoryGateway
from acp_bridge.ids import Json, SessionId, SessionKey
from acp_bridge.wire.acp import NewSession, Prompt
from ledger import EventLedger
from ledger.memory import MemoryLedger
from tests.support.acp_oracle import conforms
from tests.support.clock import HandClock

PATIENCE = 5.0

Wanted = TypeVar("Wanted", bound=RunCommand)


class ListOutbox:
    """Records into the ledger at once, and keeps what is shown, in order."""

    def __init__(self, ledger: EventLedger) -> None:
        self._recorder = Recorder(ledger, lambda: 0.0)
        self.shown: list[tuple[SessionId, Json]] = []
        self.records: list[Entry] = []
        self.is_full = False
        self.holds_commits = False
        self._held: list[Callable[[], None]] = []

    def put_message(self, message: Json, *, session_id: SessionId | None = None) -> None:
        assert message["method"] == "session/update", "the service answers through its responders"
        params = message["params"]
        conforms(schema.SessionNotification, params)
        self.shown.append((params["sessionId"], params["update"]))

    def put_update(self, update: Json, entry: Entry) -> None:
        conforms(schema.SessionNotification, {"sessionId": entry.session_id, "update": update})
        self._record(entry)
        self.shown.append((entry.session_id, update))

    def _record(self, entry: Entry) -> None:
        self.records.append(entry)
        self._recorder.record([(entry, 1_700_000_000_000, 1)])

    def put_record(self, entry: Entry, done: Callable[[], None] | None = None) -> None:
        self._record(entry)
        if done is not None and self.holds_commits:
            self._held.append(done)
        elif done is not None:
            asyncio.get_running_loop().call_soon(done)

    def catch_up(self) -> None:
        """Record what the ledger did not take."""
        self._recorder.finish(0, lambda _: None)

    def commit(self) -> None:
        held, self._held = self._held, []
        for done in held:
            done()

    async def flush(self, timeout: float) -> bool:
        return True

    async def unrecorded(self, session_id: SessionId, timeout: float) -> Unrecorded:
        return self._recorder.unrecorded(session_id)

    async def room(self) -> None:
        return


@dataclass
class Asked:
    """One request that the service sent to the editor."""

    method: str
    params: Json
    on_answer: Callable[[EditorAnswer], None]
    is_withdrawn: bool = False

    def withdraw(self) -> None:
        self.is_withdrawn = True

    def choose(self, option_id: str) -> None:
        outcome = {"outcome": "selected", "optionId": option_id}
        self.on_answer(EditorAnswer(result={"outcome": outcome}))


class ListEditor:
    """Keeps the questions; the test answers them."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []

    def ask(
        self,
        method: str,
        params: Json,
        on_answer: Callable[[EditorAnswer], None],
        *,
        session_id: SessionId,
    ) -> Asked:
        question = Asked(method, params, on_answer)
        self.asked.append(question)
        return question


class PendingAnswer:
    """The answer to one prompt: a stop reason or an error."""

    def __init__(self, shown: list[tuple[SessionId, Json]]) -> None:
        self._future: asyncio.Future[Json | BaseException] = (
            asyncio.get_running_loop().create_future()
        )
        self._shown = shown
        self.shown_before = -1
        """How many updates had been shown when the answer was given."""

    def result(self, result: Json) -> None:
        self._settle(result)

    def error(self, error: BaseException) -> None:
        self._settle(error)

    def _settle(self, answer: Json | BaseException) -> None:
        if self._future.done():
            raise LocalProtocolError("answered twice")
        self.shown_before = len(self._shown)
        self._future.set_result(answer)

    @property
    def is_answered(self) -> bool:
        return self._future.done()

    async def stop_reason(self) -> str:
        answer = await asyncio.wait_for(asyncio.shield(self._future), PATIENCE)
        if isinstance(answer, BaseException):
            raise answer
        return str(answer["stopReason"])

    async def failure(self) -> BridgeError:
        answer = await asyncio.wait_for(asyncio.shield(self._future), PATIENCE)
        assert isinstance(answer, BridgeError), answer
        return answer


@dataclass
class Conversation:
    """A running service and its surroundings."""

    bridge: Bridge
    gateway: MemoryGateway
    outbox: ListOutbox
    editor: ListEditor
    clock: HandClock
    ledger: MemoryLedger

    async def session(self, cwd: str = "/home/me/project", **meta: Any) -> SessionId:
        result = await asyncio.wait_for(
            self.bridge.new_session(NewSession(cwd=cwd, meta=meta)), PATIENCE
        )
        return SessionId(result["sessionId"])

    def send(self, session_id: SessionId, text: str = "hello", **meta: Any) -> PendingAnswer:
        answer = PendingAnswer(self.outbox.shown)
        blocks = ({"type": "text", "text": text},)
        self.bridge.prompt(Prompt(session_id, blocks, meta), answer)
        return answer

    async def started(self, count: int = 1) -> StartRun:
        """The ``count``-th prompt that reached the gateway."""
        await self.until(lambda: len(self.commands(StartRun)) >= count)
        return self.commands(StartRun)[count - 1]

    def commands(self, kind: type[Wanted]) -> list[Wanted]:
        return [command for command in self.gateway.submitted if isinstance(command, kind)]

    def text(self, session_id: SessionId, kind: str = "agent_message_chunk") -> str:
        return "".join(
            update["content"]["text"]
            for shown_in, update in self.outbox.shown
            if shown_in == session_id and update["sessionUpdate"] == kind
        )

    def kinds(self) -> list[str]:
        return [update["sessionUpdate"] for _, update in self.outbox.shown]

    async def until(self, is_true: Callable[[], bool]) -> None:
        """Let the loop run until a condition holds; it depends on nothing but the loop."""
        for _ in range(1_000):
            if is_true():
                return
            await asyncio.sleep(0)
        raise AssertionError("the condition never came true")

    async def settle(self) -> None:
        """Let everything that can happen now happen."""
        await self.gateway.settled()
        for _ in range(20):
            await asyncio.sleep(0)


gateway_makes_sessions: ContextVar[bool] = ContextVar("gateway_makes_sessions", default=False)
"""Whether the gateways of conversations speak ACP themselves, unless a test says otherwise."""


def first_key() -> SessionKey:
    """The gateway's key of the first session of a conversation."""
    return SessionKey("made-1" if gateway_makes_sessions.get() else "agent:main:acp-bridge:id-1")


def _gateway() -> MemoryGateway:
    """A gateway that names its sessions, where it is asked to."""
    gateway = MemoryGateway(makes_sessions=gateway_makes_sessions.get())
    made = itertools.count(1)
    gateway.answers[OpenSession] = lambda _: OpenedAt(SessionKey(f"made-{next(made)}"))
    return gateway


@asynccontextmanager
async def conversation(
    *,
    options: SessionOptions | None = None,
    limit: CreationLimit | None = None,
    link: bool = True,
    ledger: MemoryLedger | None = None,
    **hello: Any,
) -> AsyncIterator[Conversation]:
    """A service over an in-memory gateway, connected unless ``link`` is false.

    With the ledger of an earlier one it is a new process on the same history.
    """
    ledger = MemoryLedger() if ledger is None else ledger
    gateway, editor, clock = _gateway(), ListEditor(), HandClock()
    outbox = ListOutbox(ledger)
    first = 1 + 1_000 * ledger.stats().sessions
    numbers = itertools.count(first)
    async with asyncio.TaskGroup() as tasks:
        bridge = Bridge(
            gateway=gateway,
            outbox=outbox,
            editor=editor,
            ledger=ledger,
            options=options or SessionOptions(prefix_cwd=False),
            limit=limit or CreationLimit(),
            surroundings=Surroundings(home="/home/me", host="testhost", cwd="/"),
            clock=clock,
            deadlines=Deadlines(),
            tasks=tasks,
            leaving=asyncio.Event(),
            new_id=lambda: f"id-{next(numbers)}",
            now_ms=lambda: 1_700_000_000_000,
        )
        await gateway.start(bridge.on_event)
        if link:
            await gateway.up(**hello)
        yield Conversation(bridge, gateway, outbox, editor, clock, ledger)
        await bridge.stop(0, detach=False)
        await gateway.close()
