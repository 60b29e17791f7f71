"""What the gateway says of its settings, models and commands, and how they are changed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.core.events import OptionsChanged
from acp_bridge.core.options import OPTION_IDS, Choice, Option, SlashCommand, find
from acp_bridge.gateway.dialects.openclaw.options import (
    change_call,
    changeable,
    commands_call,
    read_commands,
    read_options,
    row_to_event,
)
from acp_bridge.gateway.scopes import with_implied
from acp_bridge.ids import Json, SessionKey

KEY = SessionKey("agent:main:work")
LEVELS = [{"id": level, "label": level} for level in ("off", "low", "xhigh")]
ROW: Json = {"modelProvider": "fake", "model": "one", "effectiveFastMode": False}
OLD: Json = {
    "sessionInfo": {**ROW, "thinkingLevels": LEVELS, "thinkingDefault": "low"},
    "thinkingLevel": "low",
}
NEW: Json = {"sessionInfo": {**ROW, "effectiveResponseUsage": "tokens"}}
MODELS: Json = {
    "models": [
        {"provider": "fake", "id": "one", "name": "One"},
        {"provider": "other", "id": "a/b", "available": True},
        {"provider": "fake", "id": "two", "name": "Two", "manualSelectionAllowed": True},
        {"provider": "fake", "id": "no", "available": False},
        {"provider": "fake", "id": "never", "manualSelectionAllowed": False},
    ]
}
NEW_MODELS: Json = {
    "models": [
        {**MODELS["models"][0], "thinkingLevels": LEVELS, "thinkingDefault": "xhigh"},
        *MODELS["models"][1:],
    ]
}


def option(option_id: str, history: Json, models: Json = MODELS) -> Option | None:
    return find(read_options(history, models, OPTION_IDS), option_id)


def current(history: Json, option_id: str, models: Json = MODELS) -> str | None:
    found = option(option_id, history, models)
    return found.current if found else None


def row(**changes: Any) -> Json:
    return {**OLD, "sessionInfo": {**OLD["sessionInfo"], **changes}}


@pytest.mark.parametrize(
    ("version", "scopes", "ids"),
    [
        ("2026.6.11", ["operator.admin"], OPTION_IDS),
        ("2026.6.11", ["operator.write"], ()),
        ("2026.9.6", ["operator.admin"], OPTION_IDS),
        ("2026.9.6", ["operator.write"], OPTION_IDS[:3]),
        ("2026.10.1-beta.2", ["operator.write"], OPTION_IDS[:3]),
        ("2026.9.6", ["operator.read"], ()),
        ("2026.8.1", ["operator.write"], ()),
        ("unknown", ["operator.write"], ()),
    ],
)
def test_what_may_be_changed_depends_on_version_and_scopes(
    version: str, scopes: list[str], ids: tuple[str, ...]
) -> None:
    assert changeable(version, with_implied(scopes)) == frozenset(ids)


@pytest.mark.parametrize(("history", "models"), [(OLD, MODELS), (NEW, NEW_MODELS)])
def test_all_options_come_in_order_each_with_a_value_that_it_has(
    history: Json, models: Json
) -> None:
    options = read_options(history, models, OPTION_IDS)
    assert tuple(each.option_id for each in options) == OPTION_IDS
    assert all(each.current in each.values for each in options)
    assert read_options(history, models, ["model"]) == options[:1]


def test_models_stand_under_their_providers_without_those_that_may_not_be_chosen() -> None:
    found = option("model", OLD)
    assert found is not None
    assert found.choices == (
        Choice("fake/one", "One", "fake"),
        Choice("fake/two", "Two", "fake"),
        Choice("other/a/b", "a/b", "other"),
    )
    assert (found.current, found.category) == ("fake/one", "model")


@pytest.mark.parametrize("name", ["never", "missing"])
def test_the_model_that_holds_is_among_the_choices_whatever_the_list_says(name: str) -> None:
    found = option("model", row(model=name))
    assert found is not None
    assert found.current == f"fake/{name}"
    assert found.current in found.values


def test_without_models_none_can_be_chosen() -> None:
    assert option("model", OLD, {}) is None
    assert option("model", {"sessionInfo": {}}) is None


def test_the_levels_come_from_the_row_or_from_the_model() -> None:
    for history, models, holds in ((OLD, MODELS, "low"), (NEW, NEW_MODELS, "xhigh")):
        found = option("thought_level", history, models)
        assert found is not None
        assert [(c.value, c.name) for c in found.choices] == [
            ("off", "Off"),
            ("low", "Low"),
            ("xhigh", "Extra high"),
        ]
        assert (found.current, found.category) == (holds, "thought_level")


def test_what_the_session_has_chosen_goes_before_any_default() -> None:
    assert current(row(thinkingLevel="off"), "thought_level") == "off"


def test_a_level_that_is_listed_twice_is_one_choice() -> None:
    found = option("thought_level", row(thinkingLevels=[*LEVELS, *LEVELS]))
    assert found is not None
    assert found.values == ["off", "low", "xhigh"]


@pytest.mark.parametrize("level", ["adaptive", None])
def test_levels_without_the_one_that_holds_are_not_offered(level: str | None) -> None:
    history = {"sessionInfo": {**ROW, "thinkingLevels": LEVELS, "thinkingDefault": level}}
    assert option("thought_level", history) is None


@pytest.mark.parametrize(
    ("option_id", "fields", "holds"),
    [
        ("fast_mode", {"effectiveFastMode": True}, "on"),
        ("fast_mode", {"effectiveFastMode": "auto", "fastMode": False}, "auto"),
        ("fast_mode", {"effectiveFastMode": None, "fastMode": True}, "on"),
        ("fast_mode", {"effectiveFastMode": None}, "off"),
        ("verbose_level", {}, "inherit"),
        ("verbose_level", {"verboseLevel": "full"}, "full"),
        ("reasoning_level", {"reasoningLevel": "stream"}, "stream"),
        ("trace_level", {"traceLevel": "raw"}, "raw"),
        ("response_usage", {}, "off"),
        ("response_usage", {"responseUsage": "full"}, "full"),
        ("response_usage", {"effectiveResponseUsage": "tokens"}, "tokens"),
        ("elevated_level", {"elevatedLevel": "ask"}, "ask"),
        ("elevated_level", {"elevatedLevel": "of a later version"}, "of a later version"),
    ],
)
def test_a_setting_is_what_the_row_says(option_id: str, fields: Json, holds: str) -> None:
    found = option(option_id, row(**fields))
    assert found is not None
    assert found.current == holds
    assert holds in found.values


@pytest.mark.parametrize(
    ("option_id", "value", "patch"),
    [
        ("model", "fake/two", {"model": "fake/two"}),
        ("thought_level", "off", {"thinkingLevel": "off"}),
        ("fast_mode", "on", {"fastMode": True}),
        ("fast_mode", "off", {"fastMode": False}),
        ("fast_mode", "auto", {"fastMode": "auto"}),
        ("verbose_level", "inherit", {"verboseLevel": None}),
        ("reasoning_level", "on", {"reasoningLevel": "on"}),
        ("trace_level", "raw", {"traceLevel": "raw"}),
        ("response_usage", "off", {"responseUsage": "off"}),
        ("elevated_level", "full", {"elevatedLevel": "full"}),
    ],
)
def test_a_choice_becomes_a_patch(option_id: str, value: str, patch: Json) -> None:
    assert change_call(KEY, option_id, value) == ("sessions.patch", {"key": KEY, **patch})


@pytest.mark.parametrize(
    ("key", "agent"),
    [("agent:ops:a:b", {"agentId": "ops"}), ("work", {}), ("agent::x", {}), ("agent:ops", {})],
)
def test_the_commands_are_those_of_the_sessions_agent(key: str, agent: Json) -> None:
    assert commands_call(SessionKey(key)) == ("commands.list", {"scope": "text", **agent})


def test_commands_lose_their_slash_and_gain_a_hint() -> None:
    choices = [{"value": "on", "label": "On"}, {"value": "off"}]
    commands: list[Any] = [
        {"name": "help", "description": "Help.", "acceptsArgs": False},
        {"name": "/think", "acceptsArgs": True, "args": [{"name": "level"}]},
        {"name": "run", "acceptsArgs": True, "args": [{"name": "what", "required": True}, {}]},
        {"name": "fast", "acceptsArgs": True, "args": [{"name": "mode", "choices": choices}]},
        {"name": "long", "acceptsArgs": True, "args": [{"name": "x" * 200}]},
        {"name": "free", "acceptsArgs": True},
        {"name": "help", "description": "Once more."},
        {"name": "two words"},
        {"name": " / "},
        {},
        7,
    ]
    found = read_commands({"commands": commands})
    assert found == (
        SlashCommand("help", "Help.", None),
        SlashCommand("think", "think", "[level]"),
        SlashCommand("run", "run", "<what> [argument]"),
        SlashCommand("fast", "fast", "[on | off]"),
        SlashCommand("long", "long", "[" + "x" * 98 + "…"),
        SlashCommand("free", "free", "[arguments]"),
    )


def test_a_row_is_marked_by_its_settings_alone() -> None:
    one = row_to_event(KEY, {**ROW, "totalTokens": 1})
    assert isinstance(one, OptionsChanged)
    assert row_to_event(KEY, {**ROW, "totalTokens": 2}) == one
    for change in ({"model": "two"}, {"thinkingLevel": "low"}, {"elevatedLevel": "full"}):
        assert row_to_event(KEY, {**ROW, **change}) != one
    assert row_to_event(KEY, {"reason": "delete"}) is None
    assert row_to_event(None, ROW) is None


WORDS = st.sampled_from(["off", "low", "one", "fake", "inherit", ""])
ITEMS = st.dictionaries(
    st.sampled_from(["id", "name", "provider", "label", "available"]), WORDS | st.booleans()
)
VALUES = st.none() | st.booleans() | WORDS | st.text() | st.lists(WORDS | ITEMS)
ROWS = st.dictionaries(
    st.sampled_from(
        [
            *("model", "modelProvider", "thinkingLevels", "thinkingLevel", "thinkingDefault"),
            *("effectiveFastMode", "fastMode", "verboseLevel", "effectiveResponseUsage"),
        ]
    ),
    VALUES,
)
LISTED = st.lists(ITEMS | VALUES)


@given(info=ROWS, models=LISTED, level=VALUES)
def test_whatever_a_gateway_says_each_option_has_the_value_that_holds(
    info: Json, models: list[Any], level: Any
) -> None:
    history = {"sessionInfo": info, "thinkingLevel": level}
    for found in read_options(history, {"models": models}, OPTION_IDS):
        assert found.current in found.values
        assert len(set(found.values)) == len(found.values)
