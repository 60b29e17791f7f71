"""What a user may choose for a session: its options, its modes and its slash commands.

ACP knows two pickers for how much a model thinks: *modes*, which users of OpenClaw's own bridge
know as the thought levels, and the newer config option of category ``thought_level``. Both are
offered, from one :class:`Option`, so that they cannot disagree. ACP wants modes to have a twin
among the config options; that is this option. A second one, of category ``mode``, would show the
same list twice in every editor that knows config options, and is left out.

None of it is recorded: each opening of a session tells it afresh.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

from acp_bridge.errors import InvalidParams
from acp_bridge.ids import Json
from acp_bridge.wire import updates

MODEL: Final = "model"
THOUGHT_LEVEL: Final = "thought_level"
OPTION_IDS: Final = (
    MODEL,
    THOUGHT_LEVEL,
    "fast_mode",
    "verbose_level",
    "reasoning_level",
    "trace_level",
    "response_usage",
    "elevated_level",
)
"""Every option that the bridge knows, the most important one first (ACP: the order is priority)."""


class Choice(NamedTuple):
    """One value of an option."""

    value: str
    name: str
    group: str | None = None
    """The heading it stands under; choices of one group are neighbours."""


class Option(NamedTuple):
    """Something with a few values, of which one holds; ``current`` is among the choices."""

    option_id: str
    name: str
    current: str
    choices: tuple[Choice, ...]
    description: str | None = None
    category: str | None = None
    """What ACP calls it, where it has a word for it."""

    @property
    def values(self) -> list[str]:
        """The values to choose from."""
        return [choice.value for choice in self.choices]


Options = tuple[Option, ...]


class SlashCommand(NamedTuple):
    """Something the gateway does itself when a prompt begins with its name."""

    name: str
    """Without the slash."""
    description: str
    hint: str | None
    """What may follow the name; None if nothing."""


@dataclass(slots=True)
class Shown:
    """What the editor knows of one session's options and commands.

    ``is_open`` is set once the answer that opened the session is on its way: ACP lets no update
    of a new session leave before. ``changing`` counts the editor's own choices under way: each
    is answered with what then holds, and nobody is to tell it before. ``is_stale``: something
    changed in the meantime.
    """

    options: Options | None = None
    mode: str | None = None
    modes: tuple[str, ...] = ()
    """The modes that the opening's answer named; ACP has no way to name others later."""
    commands: tuple[SlashCommand, ...] | None = None
    reading: int = 0
    is_open: bool = False
    changing: int = 0
    is_stale: bool = False

    @property
    def may_be_told(self) -> bool:
        """Whether news may be told at once."""
        return self.is_open and not self.changing

    def opened(self, options: Options, reading: int) -> Json:
        """Take the options of the opening's answer; returns its members for them."""
        self.options, self.reading = options, reading
        answer: Json = {"configOptions": config_options(options)} if options else {}
        if level := find(options, THOUGHT_LEVEL):
            self.mode, self.modes = level.current, tuple(level.values)
            answer["modes"] = _modes(level)
        return answer

    def changed(self, options: Options, reading: int, *, is_answered: bool = False) -> list[Json]:
        """Take options that were read later; returns the updates that tell the editor.

        A reading that began before the last one taken is older and changes nothing. With
        ``is_answered`` an answer carries the list itself.
        """
        if reading < self.reading:
            return []
        is_new = options != (self.options or ())
        self.options, self.reading = options, reading
        told = [updates.config_options(config_options(options))]
        shown = told if is_new and not is_answered else []
        level = find(options, THOUGHT_LEVEL)
        if level and level.current != self.mode and level.current in self.modes:
            self.mode = level.current
            shown = [*shown, updates.current_mode(level.current)]
        return shown

    def commands_changed(self, commands: tuple[SlashCommand, ...]) -> list[Json]:
        """Take the gateway's commands; returns the update for them, if they are new."""
        if commands == self.commands:
            return []
        self.commands = commands
        return [updates.available_commands(map(_command, commands))]


def find(options: Iterable[Option], option_id: str) -> Option | None:
    """The option of that id."""
    return next((option for option in options if option.option_id == option_id), None)


def check_value(option: Option, value: str, field: str) -> None:
    """Raises ``InvalidParams`` unless ``value`` may be chosen; names ``field`` and what may."""
    if value not in option.values:
        raise unknown(field, option.values)


def unknown(field: str, allowed: Sequence[str]) -> InvalidParams:
    """The error for a parameter that names none of what there is."""
    listed = ", ".join(allowed) or "none"
    return InvalidParams(
        f"The parameter {field} is unknown; allowed are: {listed}.",
        data={"field": field, "allowed": [*allowed]},
    )


def config_options(options: Iterable[Option]) -> list[Json]:
    """The options as ACP's ``configOptions``."""
    return [_config_option(option) for option in options]


def _config_option(option: Option) -> Json:
    members: Json = {
        "type": "select",
        "id": option.option_id,
        "name": option.name,
        "currentValue": option.current,
        "options": _values(option.choices),
    }
    if option.category is not None:
        members["category"] = option.category
    if option.description is not None:
        members["description"] = option.description
    return members


def _values(choices: Sequence[Choice]) -> list[Json]:
    """Flat, or in groups if there is more than one."""
    groups = [(name, list(found)) for name, found in groupby(choices, lambda each: each.group)]
    if len(groups) < 2 or any(name is None for name, _ in groups):
        return [_value(choice) for choice in choices]
    return [
        {"group": name, "name": name, "options": [_value(c) for c in found]}
        for name, found in groups
    ]


def _value(choice: Choice) -> Json:
    return {"value": choice.value, "name": choice.name}


def _modes(level: Option) -> Json:
    return {
        "currentModeId": level.current,
        "availableModes": [{"id": c.value, "name": c.name} for c in level.choices],
    }


def _command(command: SlashCommand) -> Json:
    members: Json = {
        "name": command.name,
        "description": command.description,
    }
    if command.hint is not None:
        members["input"] = {"hint": command.hint}
    return members
