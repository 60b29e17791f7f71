"""The agent of the campaign, which does what the plan says, and the truth about what it did."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from acp_bridge.demo import RunContext
from tests.faults.plan import PromptPlan


@dataclass
class Truth:
    """What the gateway really did for one prompt."""

    runs: list[RunContext] = field(default_factory=list)
    decisions: list[str] = field(default_factory=list)
    """What the agent was told of its commands: ``allowed`` or ``denied``."""
    tools: dict[str, bool] = field(default_factory=dict)
    """The tool calls that ended: whether they failed."""

    @property
    def status(self) -> str:
        """``none``, ``running``, ``ok``, ``error``, ``aborted`` or ``cut``."""
        return self.runs[-1].status if self.runs else "none"

    @property
    def said(self) -> str:
        """The whole text."""
        return self.runs[-1].answer if self.runs else ""


class Agent:
    """Plays the prompts of one plan. ``truths`` has what became of each, by its text."""

    def __init__(self, prompts: list[PromptPlan]) -> None:
        self._plans = {prompt.text: prompt for prompt in prompts}
        self.truths = {prompt.text: Truth() for prompt in prompts}

    async def play(self, run: RunContext) -> None:
        """The script of the demo gateway."""
        truth = self.truths[run.message]
        truth.runs.append(run)
        for name, *arguments in self._plans[run.message].steps:
            match name:
                case "pause":
                    await asyncio.sleep(arguments[0])  # the agent's own time
                case "tool":
                    await self._tool(run, *arguments)
                case "exec":
                    was_allowed = await run.exec(arguments[0], f"{arguments[0]} is done")
                    truth.decisions.append("allowed" if was_allowed else "denied")
                case "fail":
                    await run.fail("The model broke down.")
                    return
                case "finish":
                    await run.finish(arguments[0], message=arguments[1])
                    return
                case "abort":
                    run.abort("stop")
                    return
                case _:
                    await getattr(run, name)(*arguments)

    async def _tool(self, run: RunContext, name: str, updates: int, failed: bool) -> None:
        call = await run.tool_start("read", {"path": f"/{name}"})
        for number in range(updates):
            await run.tool_update(call, "line\n" * (number + 1))
        self.truths[run.message].tools[call] = failed
        await run.tool_end(call, f"{name} is read", is_error=failed)
