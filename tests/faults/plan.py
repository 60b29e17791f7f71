"""What happens in one run of the campaign, decided by its seed alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.fault_proxy import CODES, KINDS, Fault

SCALE: Final = 20.0
"""How much faster the bridge's seconds pass than those of the wall."""

PROBES: Final = frozenset({"chat.history", "agent.wait"})
ANSWERS: Final = (
    frozenset({"chat.send"}),
    frozenset({"chat.send"}),
    frozenset({"chat.abort"}),
    frozenset({"exec.approval.resolve"}),
    PROBES,
)
EVENTS: Final = (
    frozenset({"chat delta"}),
    frozenset({"agent tool"}),
    frozenset({"agent item", "agent command_output"}),
    frozenset({"agent thinking"}),
)

_TEXTLESS: Final = ("fail", "finish")
"""Ends that carry no text. A delta that the gateway drops just before one of them is lost to the
bridge, which does not look for holes in the numbers of events; so none is dropped then."""

Step = tuple[Any, ...]
"""A name and its arguments: ``text``, ``replace``, ``thought``, ``tool``, ``exec``, ``pause``,
``finish``, ``fail``, ``abort``."""


@dataclass
class PromptPlan:
    """One prompt: what the agent will do, and what the editor does meanwhile."""

    text: str
    session: int
    steps: list[Step]
    wait: float
    """Seconds before it is sent, counted from the end of the one before in its session."""
    cancel_after: float | None = None
    choice: str = "allow-once"
    """The editor's answer to permissions."""
    choice_after: float = 0.0

    @property
    def replaces(self) -> bool:
        """Whether the agent rewrites its answer."""
        return any(step[0] == "replace" for step in self.steps)


@dataclass
class Plan:
    """One run of the campaign."""

    seed: int
    sessions: int
    prompts: list[PromptPlan]
    faults: list[Fault]
    restarts: list[tuple[float, int, float]] = field(default_factory=list)
    """Seconds from the start, close code, seconds until the gateway is there again."""


def plan_of(seed: int) -> Plan:
    """The run of a seed."""
    chance = random.Random(seed)  # noqa: S311 - the same run for the same seed
    sessions = chance.choice([1, 1, 2])
    count = chance.randint(1, 4)
    prompts = [_prompt(chance, number, chance.randrange(sessions)) for number in range(count)]
    faults = [_fault(chance) for _ in range(chance.choice([0, 1, 1, 1, 2, 2, 3]))]
    if any(prompt.steps[-1][0] in _TEXTLESS for prompt in prompts):
        faults = [fault for fault in faults if "chat delta" not in fault.names]
    restarts = []
    if chance.random() < 0.2:
        code = chance.choice([1012, 1006])
        restarts = [(chance.uniform(0.0, 0.2), code, chance.uniform(0.0, 0.05))]
    return Plan(seed, sessions, prompts, faults, restarts)


def _prompt(chance: random.Random, number: int, session: int) -> PromptPlan:
    cancel = chance.uniform(0.0, 0.15) if chance.random() < 0.2 else None
    return PromptPlan(
        text=f"prompt {number}",
        session=session,
        steps=_steps(chance, number),
        wait=chance.choice([0.0, 0.0, chance.uniform(0.0, 0.03)]),
        cancel_after=cancel,
        choice=chance.choice(["allow-once", "allow-once", "deny", "cancelled"]),
        choice_after=chance.choice([0.0, chance.uniform(0.0, 0.1)]),
    )


def _steps(chance: random.Random, number: int) -> list[Step]:
    words = (f"w{number}.{word}" for word in range(1000))
    steps: list[Step] = []
    for _ in range(chance.randint(1, 5)):
        steps += _act(chance, words)
        if chance.random() < 0.5:
            steps.append(("pause", chance.choice([0.0, 0.002, 0.01, 0.03])))
    end = chance.choice(["stop"] * 6 + ["bare", "fail", "fail", "abort"])
    if end in ("stop", "bare") or not any(step[0] == "text" for step in steps):
        steps += _pieces(chance, words)  # a model's last word is a message
    if end == "bare":
        steps.append(("finish", "stop", False))
    elif end != "stop":
        steps.append((end,))
    return steps


def _act(chance: random.Random, words: Iterator[str]) -> list[Step]:
    match chance.choice(["text", "text", "text", "thought", "tool", "exec", "replace"]):
        case "thought":
            return [("thought", f"{next(words)} ") for _ in range(chance.randint(1, 3))]
        case "tool":
            return [("tool", next(words), chance.randint(0, 2), chance.random() < 0.2)]
        case "exec" if chance.random() < 0.6:
            return [("exec", next(words))]
        case "replace" if chance.random() < 0.3:
            return [("replace", f"{next(words)} {next(words)} ")]
        case _:
            return _pieces(chance, words)


def _pieces(chance: random.Random, words: Iterator[str]) -> list[Step]:
    """A text in pieces that know no words."""
    text = " ".join(next(words) for _ in range(chance.randint(1, 12)))
    text += chance.choice(["", " ", "\n\n"])
    steps: list[Step] = []
    while text:
        size = chance.randint(1, 12)
        steps.append(("text", text[:size]))
        text = text[size:]
        if chance.random() < 0.1:
            steps.append(("pause", chance.choice([0.0, 0.001, 0.005])))
    return steps


def _fault(chance: random.Random) -> Fault:
    kind = chance.choice(KINDS)
    after = chance.choice([chance.randint(0, 8), chance.randint(0, 60)])
    match kind:
        case "cut" | "close":
            seconds = chance.choice([0.0, chance.uniform(0.0, 0.1)])
            return Fault(kind, after, seconds, code=chance.choice(CODES))
        case "hold":
            # Up to beyond the silence after which the bridge gives up the link.
            return Fault(kind, after, chance.choice([chance.uniform(0, 0.1), 0.6]))
        case "delay":
            return Fault(kind, after, chance.uniform(0, 0.01), times=chance.randint(1, 10))
        case "drop answers":
            return Fault(kind, after, names=chance.choice(ANSWERS), times=chance.randint(1, 2))
        case _:
            return Fault(kind, after, names=chance.choice(EVENTS), times=chance.randint(1, 8))
