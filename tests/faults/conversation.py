"""One run of the campaign: a planned conversation over a link that breaks."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path

from acp_bridge.demo import DemoGateway
from ledger.memory import MemoryLedger
from tests.faults.agent import Agent
from tests.faults.plan import SCALE, Plan, PromptPlan
from tests.faults.rig import Json, QuickEditor, quick_bridge
from tests.support.fault_proxy import FaultProxy
from tests.support.waits import scaled

PATIENCE = scaled(12.0)
"""Seconds of the wall until a prompt counts as unanswered, in quick time."""
PIPED_PATIENCE = scaled(60.0)
"""The same at the bridge's own pace: a question that is not answered takes 20 s, and so does the
waiting for a restarted gateway that may go on with the work."""
TICK = 5.0
"""The gateway's sign of life, in the bridge's seconds: twice of it without one is too long."""
REST = scaled(3.0)
"""Seconds of the wall in which cancelled runs must have stopped."""
PACE = 0.02


@dataclass
class Asked:
    """A prompt, as the editor saw it."""

    plan: PromptPlan
    session_id: str
    answer: Json | None = None
    cancelled_at: float | None = None
    answered_at: float = 0.0
    questions: list[Json] = field(default_factory=list)


@dataclass
class Story:
    """All that is known of one run, for the judge."""

    plan: Plan
    agent: Agent
    prompts: list[Asked] = field(default_factory=list)
    shown: dict[str, list[Json]] = field(default_factory=dict)
    """Updates by session."""
    replayed: dict[str, list[Json]] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    dropped: set[str] = field(default_factory=set)
    """Names of answers and events that were dropped."""


class _Session:
    """One session of the editor: prompts go one after the other."""

    def __init__(self, editor: QuickEditor, session_id: str, story: Story, patience: float) -> None:
        self._patience = patience
        self._editor = editor
        self._id = session_id
        self._story = story
        self._current: Asked | None = None

    async def play(self, prompts: list[PromptPlan]) -> None:
        for plan in prompts:
            await asyncio.sleep(plan.wait)  # the user's own time
            asked = self._current = Asked(plan, self._id)
            self._story.prompts.append(asked)
            block = {"type": "text", "text": plan.text}
            call = self._editor.call("session/prompt", sessionId=self._id, prompt=[block])
            if plan.cancel_after is not None:
                loop = asyncio.get_running_loop()
                loop.call_later(plan.cancel_after, self._cancel, asked)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._patience):
                    asked.answer = await call
            asked.answered_at = time.monotonic()

    def ask(self, message: Json) -> None:
        """A question of the bridge's."""
        asked = self._current
        if asked is None:
            return
        asked.questions.append(message)
        loop = asyncio.get_running_loop()
        loop.call_later(asked.plan.choice_after, self._choose, asked, message)

    def _choose(self, asked: Asked, message: Json) -> None:
        choice = asked.plan.choice
        outcome = {"outcome": "selected", "optionId": choice}
        if choice == "cancelled":
            outcome = {"outcome": "cancelled"}
        self._editor.send({"jsonrpc": "2.0", "id": message["id"], "result": {"outcome": outcome}})

    def _cancel(self, asked: Asked) -> None:
        if asked.answer is None and not asked.answered_at:
            asked.cancelled_at = time.monotonic()
            self._editor.notify("session/cancel", sessionId=self._id)


Bridge = Callable[[str, Path, int], AbstractAsyncContextManager[QuickEditor]]
"""Starts a bridge to a URL with a home and a seed; all that have the home share a ledger."""


def in_process() -> Bridge:
    """Bridges in this process, in quick time."""
    ledger = MemoryLedger()
    return lambda url, home, seed: quick_bridge(url, ledger, home / f"state-{seed}", seed)


async def hold(plan: Plan, bridge: Bridge | None = None, *, patience: float = PATIENCE) -> Story:
    """Hold the conversation of a plan, and load its sessions once more. A prompt has ``patience``
    seconds of the wall."""
    bridge = bridge or in_process()
    agent = Agent(plan.prompts)
    story = Story(plan, agent)
    with tempfile.TemporaryDirectory(prefix="faults-") as home:
        async with _gateway(agent) as gateway:
            async with FaultProxy(gateway.url, plan.faults) as proxy:
                async with bridge(proxy.url, Path(home), plan.seed) as editor:
                    restarts = asyncio.create_task(_restart(gateway, story))
                    await _talk(editor, story, patience)
                    await restarts
                    proxy.heal()
                    await _rest(agent)
                    for session_id in {asked.session_id for asked in story.prompts}:
                        story.shown[session_id] = editor.updates(session_id)
                story.violations += editor.violations
                story.faults += proxy.struck
                story.dropped = proxy.dropped
            async with bridge(gateway.url, Path(home), plan.seed + 1) as editor:
                await _load(editor, story)
    return story


@contextlib.asynccontextmanager
async def _gateway(agent: Agent) -> AsyncIterator[DemoGateway]:
    async with DemoGateway(agent.play, pace=PACE, tick_interval=TICK) as gateway:
        ticker = asyncio.create_task(_tick(gateway))
        try:
            yield gateway
        finally:
            ticker.cancel()


async def _tick(gateway: DemoGateway) -> None:
    while True:
        await asyncio.sleep(TICK / SCALE)
        gateway.broadcast("tick", {"ts": 0})


async def _restart(gateway: DemoGateway, story: Story) -> None:
    for after, code, away in story.plan.restarts:
        await asyncio.sleep(after)  # the moment of the fault
        await gateway.stop(code=code)
        await asyncio.sleep(away)
        await gateway.start()
        story.faults[f"restart {code}"] += 1


async def _talk(editor: QuickEditor, story: Story, patience: float) -> None:
    sessions: dict[str, _Session] = {}
    editor.on_permission = lambda message: sessions[message["params"]["sessionId"]].ask(message)
    plays = []
    for number in range(story.plan.sessions):
        async with asyncio.timeout(PATIENCE):
            answer = await editor.call("session/new", cwd="/w", mcpServers=[])
        session_id = answer["result"]["sessionId"]
        sessions[session_id] = _Session(editor, session_id, story, patience)
        prompts = [each for each in story.plan.prompts if each.session == number]
        plays.append(sessions[session_id].play(prompts))
    await asyncio.gather(*plays)


async def _rest(agent: Agent) -> None:
    """Wait until nothing runs any more; the judge tells what should not."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(REST):
            for truth in agent.truths.values():
                for run in truth.runs:
                    if run.status == "running":
                        await run.ended.wait()


async def _load(editor: QuickEditor, story: Story) -> None:
    for session_id in story.shown:
        begin = len(editor.messages)
        async with asyncio.timeout(PATIENCE):
            await editor.call("session/load", sessionId=session_id, cwd="/w", mcpServers=[])
        story.replayed[session_id] = editor.updates(session_id, begin)
    story.violations += editor.violations
