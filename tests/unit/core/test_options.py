"""Options as the editor sees them, and what it is told of changes."""

from __future__ import annotations

import pytest
from acp import schema

from acp_bridge.core.options import (
    Choice,
    Option,
    Shown,
    SlashCommand,
    check_value,
    config_options,
    unknown,
)
from acp_bridge.errors import InvalidParams
from tests.support.acp_oracle import conforms

FLAT = (Choice("a", "A"), Choice("b", "B"))
GROUPED = (Choice("x/a", "A", "x"), Choice("x/b", "B", "x"), Choice("y/a", "A", "y"))


def level(current: str, *values: str) -> Option:
    choices = tuple(Choice(value, value) for value in values or ("low", "high"))
    return Option("thought_level", "Level", current, choices, category="thought_level")


def test_an_option_is_an_acp_select() -> None:
    [shown] = config_options([Option("o", "Name", "a", FLAT, "Why", "model")])
    assert shown == {
        "type": "select",
        "id": "o",
        "name": "Name",
        "description": "Why",
        "category": "model",
        "currentValue": "a",
        "options": [{"value": "a", "name": "A"}, {"value": "b", "name": "B"}],
    }


def test_values_stand_in_groups_if_there_are_several() -> None:
    [grouped, one_group] = config_options(
        [Option("o", "Name", "x/a", GROUPED), Option("p", "Name", "x/a", GROUPED[:2])]
    )
    conforms(schema.SetSessionConfigOptionResponse, {"configOptions": [grouped, one_group]})
    assert [(group["group"], len(group["options"])) for group in grouped["options"]] == [
        ("x", 2),
        ("y", 1),
    ]
    assert [value["value"] for value in one_group["options"]] == ["x/a", "x/b"]


def test_a_value_outside_the_choices_is_refused_with_what_is_allowed() -> None:
    check_value(Option("o", "Name", "a", FLAT), "b", "value")
    with pytest.raises(InvalidParams) as refused:
        check_value(Option("o", "Name", "a", FLAT), "secret", "value")
    assert refused.value.data == {"field": "value", "allowed": ["a", "b"]}
    assert "secret" not in refused.value.message
    assert "none" in unknown("modeId", ()).message


def test_without_options_an_opening_says_nothing_of_them() -> None:
    assert Shown().opened((), 1) == {}
    assert Shown().changed((), 1) == []


def test_a_mode_that_the_opening_did_not_name_is_never_said_to_hold() -> None:
    shown = Shown()
    shown.opened((level("low"),), 1)
    told = shown.changed((level("max", "low", "max"),), 2)
    assert [update["sessionUpdate"] for update in told] == ["config_option_update"]
    told = shown.changed((level("high"),), 3)
    assert [update["sessionUpdate"] for update in told] == [
        "config_option_update",
        "current_mode_update",
    ]


def test_options_that_are_gone_are_told_once() -> None:
    shown = Shown()
    shown.opened((level("low"),), 1)
    assert shown.changed((), 2) == [{"sessionUpdate": "config_option_update", "configOptions": []}]
    assert shown.changed((), 3) == []


def test_an_older_reading_changes_nothing() -> None:
    shown = Shown()
    shown.opened((level("low"),), 2)
    assert shown.changed((level("high"),), 1) == []
    assert shown.options == (level("low"),)


def test_a_list_of_commands_is_told_even_if_it_is_empty_and_only_once() -> None:
    shown = Shown()
    empty = {"sessionUpdate": "available_commands_update", "availableCommands": []}
    assert shown.commands_changed(()) == [empty]
    assert shown.commands_changed(()) == []
    assert len(shown.commands_changed((SlashCommand("help", "Help.", None),))) == 1
