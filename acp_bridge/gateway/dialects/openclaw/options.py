"""What may be chosen for a session of OpenClaw: its settings, and the slash commands.

``sessions.patch`` changes a setting, a session's row reports it. Measured on both versions:

- ``chat.history`` gives the row of any key, and makes no session for one that is not there;
  ``sessions.describe`` gives the row only of a session that is, and in 2026.6.11 with levels of
  thinking that its model does not have.
- 2026.9.6 has the levels in ``models.list`` and not in that row, 2026.6.11 the other way round.
- An unset setting is not in the row. Only thinking, fast mode and, in 2026.9.6, the usage line
  come with what then holds; any other may have a default in the gateway's configuration.
- A level that the model does not have is refused, ``adaptive`` for most. Any model is taken, even
  one that does not exist. ``off`` for the usage line is stored as unset by 2026.6.11.
- With the model the level of thinking may change: the gateway maps it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from acp_bridge.core.events import OptionsChanged
from acp_bridge.core.options import (
    MODEL,
    OPTION_IDS,
    THOUGHT_LEVEL,
    Choice,
    Option,
    Options,
    SlashCommand,
)
from acp_bridge.gateway.dialects.openclaw.encode import Call
from acp_bridge.gateway.dialects.openclaw.frames import as_id, as_list, as_object, as_text
from acp_bridge.gateway.scopes import ADMIN, WRITE
from acp_bridge.ids import Json, SessionKey

INHERIT: Final = "inherit"
"""The choice that leaves a setting to the gateway's configuration."""

_MOST_HINT: Final = 100
_WORDS: Final = {"xhigh": "Extra high", INHERIT: "Gateway default"}
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_WRITE_SINCE = (2026, 9, 6)
_WITH_WRITE: Final = frozenset({MODEL, THOUGHT_LEVEL, "fast_mode"})


class _Setting(NamedTuple):
    """A setting that takes the same values for every model."""

    field: str
    name: str
    description: str
    values: tuple[str, ...]
    unset: str = INHERIT
    """The value that stands for an unset one, unless the row says what holds."""
    effective: str | None = None
    """The field of the row that says what holds."""


_SETTINGS: Final = {
    "fast_mode": _Setting(
        "fastMode",
        "Fast mode",
        "Ask the model's provider for faster answers, where it has them.",
        ("off", "auto", "on"),
        unset="off",
        effective="effectiveFastMode",
    ),
    "verbose_level": _Setting(
        "verboseLevel",
        "Tool verbosity",
        "How much the agent reports of its tools.",
        (INHERIT, "off", "on", "full"),
    ),
    "reasoning_level": _Setting(
        "reasoningLevel",
        "Reasoning",
        "Whether the model's reasoning is shown.",
        (INHERIT, "off", "on", "stream"),
    ),
    "trace_level": _Setting(
        "traceLevel",
        "Plugin trace",
        "Whether plugins report what they do.",
        (INHERIT, "off", "on", "raw"),
    ),
    "response_usage": _Setting(
        "responseUsage",
        "Usage line",
        "What each answer says of the tokens it took.",
        ("off", "tokens", "full"),
        unset="off",
        effective="effectiveResponseUsage",
    ),
    "elevated_level": _Setting(
        "elevatedLevel",
        "Elevated commands",
        "Whether commands may run outside the sandbox, and whether they ask.",
        (INHERIT, "off", "on", "ask", "full"),
    ),
}
_MARKED: Final = (
    "modelProvider",
    "model",
    "thinkingLevel",
    *(setting.field for setting in _SETTINGS.values()),
)


def changeable(version: str, scopes: frozenset[str]) -> frozenset[str]:
    """The ids of the options that a connection with these scopes may change.

    2026.6.11 wants ``operator.admin`` for each, 2026.9.6 only for some; of versions between the
    two nothing is known, so that they count as the older one.
    """
    if ADMIN in scopes:
        return frozenset(OPTION_IDS)
    found = _VERSION.match(version)
    is_new = found is not None and tuple(map(int, found.groups())) >= _WRITE_SINCE
    return _WITH_WRITE if is_new and WRITE in scopes else frozenset()


def row_call(session_key: SessionKey) -> Call:
    """The session's row, whether or not there is a session; of its transcript hardly anything."""
    return "chat.history", {"sessionKey": session_key, "limit": 1, "maxChars": 1}


def models_call() -> Call:
    """The models that were set up; all others, hundreds, are for looking around."""
    return "models.list", {"view": "configured"}


def change_call(session_key: SessionKey, option_id: str, value: str) -> Call:
    """Choose a value. The ids are those of ``core.options``."""
    if option_id == MODEL:
        return _patch(session_key, "model", value)
    if option_id == THOUGHT_LEVEL:
        return _patch(session_key, "thinkingLevel", value)
    setting = _SETTINGS[option_id]
    if setting.field == "fastMode":
        return _patch(session_key, setting.field, {"on": True, "off": False}.get(value, value))
    return _patch(session_key, setting.field, None if value == INHERIT else value)


def commands_call(session_key: SessionKey) -> Call:
    """The slash commands of the session's agent, with the names that a text begins with."""
    parts = session_key.split(":", 2)
    agent = parts[1] if len(parts) == 3 and parts[0].lower() == "agent" else ""
    return "commands.list", {"scope": "text"} | ({"agentId": agent} if agent else {})


def read_options(history: Json, models: Json, ids: Iterable[str]) -> Options:
    """The options out of a row (the answer to :func:`row_call`) and the models, of those ``ids``
    only. One without a value of which to be sure is left out."""
    row = as_object(history.get("sessionInfo"))
    rows = [as_object(each) for each in as_list(models.get("models"))]
    wanted = frozenset(ids)
    found: list[Option | None] = [_model(row, rows), _thinking(history, row, rows)]
    found += [_setting(option_id, row) for option_id in _SETTINGS]
    return tuple(option for option in found if option and option.option_id in wanted)


def read_commands(payload: Json) -> tuple[SlashCommand, ...]:
    """The answer to :func:`commands_call`; what has no usable name is left out."""
    commands: dict[str, SlashCommand] = {}
    for each in map(as_object, as_list(payload.get("commands"))):
        name = (as_text(each.get("name")) or "").strip().lstrip("/")
        if name and not re.search(r"\s", name):
            description = as_text(each.get("description")) or name
            commands.setdefault(name, SlashCommand(name, description, _hint(each)))
    return tuple(commands.values())


def row_to_event(key: object, row: Json) -> OptionsChanged | None:
    """What a session's row says of its settings; None if it is no whole row."""
    session_key = as_id(key)
    if session_key is None or as_text(row.get("model")) is None:
        return None
    return OptionsChanged(SessionKey(session_key), tuple(row.get(name) for name in _MARKED))


def _patch(session_key: SessionKey, field: str, value: Any) -> Call:
    return "sessions.patch", {"key": session_key, field: value}


def _model(row: Json, models: list[Json]) -> Option | None:
    provider, model = as_text(row.get("modelProvider")), as_text(row.get("model"))
    if provider is None or model is None:
        return None
    current = _reference(provider, model)
    choices = [
        Choice(_reference(vendor, name), as_text(each.get("name")) or name, vendor)
        for each in models
        if (vendor := as_text(each.get("provider"))) and (name := as_text(each.get("id")))
        if _may_be_chosen(each) or _reference(vendor, name) == current
    ]
    if not choices:
        return None
    if current not in {choice.value for choice in choices}:
        choices.append(Choice(current, model, provider))
    unique = {choice.value: choice for choice in choices}
    vendors = list(dict.fromkeys(choice.group for choice in choices))
    ordered = sorted(unique.values(), key=lambda choice: vendors.index(choice.group))
    return Option(MODEL, "Model", current, tuple(ordered), category="model")


def _may_be_chosen(model: Json) -> bool:
    return model.get("available") is not False and model.get("manualSelectionAllowed") is not False


def _thinking(history: Json, row: Json, models: list[Json]) -> Option | None:
    """The levels of the session's model; left out where the level that holds is not among them:
    it is one that the gateway would refuse."""
    own = next(
        (
            each
            for each in models
            if each.get("provider") == row.get("modelProvider")
            and each.get("id") == row.get("model")
        ),
        {},
    )
    levels = as_list(row.get("thinkingLevels")) or as_list(own.get("thinkingLevels"))
    choices = {
        level: Choice(level, _titled(as_text(each.get("label")) or level))
        for each in map(as_object, levels)
        if (level := as_text(each.get("id")))
    }
    said = (
        row.get("thinkingLevel"),
        history.get("thinkingLevel"),
        row.get("thinkingDefault"),
        own.get("thinkingDefault"),
    )
    current = next(filter(None, map(as_text, said)), None)
    if current is None or current not in choices:
        return None
    return Option(
        THOUGHT_LEVEL,
        "Thought level",
        current,
        tuple(choices.values()),
        "How much the model thinks before it answers.",
        "thought_level",
    )


def _setting(option_id: str, row: Json) -> Option:
    setting = _SETTINGS[option_id]
    said = row.get(setting.effective) if setting.effective else None
    said = row.get(setting.field) if said is None else said
    if isinstance(said, bool):
        said = "on" if said else "off"
    current = as_text(said) or setting.unset
    values = setting.values if current in setting.values else (*setting.values, current)
    choices = tuple(Choice(value, _titled(value)) for value in values)
    return Option(option_id, setting.name, current, choices, setting.description)


def _reference(provider: str, model: str) -> str:
    return f"{provider}/{model}"


def _titled(word: str) -> str:
    return _WORDS.get(word) or word[:1].upper() + word[1:]


def _hint(command: Json) -> str | None:
    """``<wanted> [optional] [one | of | these]``."""
    if command.get("acceptsArgs") is not True:
        return None
    parts = []
    for argument in map(as_object, as_list(command.get("args"))):
        choices = map(as_object, as_list(argument.get("choices")))
        values = (as_text(choice.get("value")) for choice in choices)
        text = " | ".join(filter(None, values)) or as_text(argument.get("name")) or "argument"
        parts.append(f"<{text}>" if argument.get("required") is True else f"[{text}]")
    hint = " ".join(parts) or "[arguments]"
    return hint if len(hint) <= _MOST_HINT else hint[: _MOST_HINT - 1] + "…"
