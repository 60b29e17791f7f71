"""The readers take what real editors send, and name the field of what they cannot take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from acp_bridge.errors import InvalidParams
from acp_bridge.ids import MAX_ID, Json
from acp_bridge.wire import acp
from acp_bridge.wire.acp import (
    NewSession,
    Prompt,
    negotiate_version,
    read_new_session,
    read_opened_session,
    read_params,
    read_prompt,
    read_session_id,
    read_set_mode,
    read_set_option,
)


@pytest.mark.requirement("ACP-29", "ACP-30", "C014")
@pytest.mark.parametrize(
    "version",
    [1, 0, 2, -1, 65535, 70000, 10**30, "1", "1.0", "2025-11-25", 1.5, True, None, [], {}],
    ids=repr,
)
def test_the_version_is_always_answered_with_ours(version: Any) -> None:
    answered = negotiate_version(version)
    assert answered == 1
    assert type(answered) is int


@pytest.mark.requirement("ACP-43", "C016")
@pytest.mark.parametrize(
    "cwd", ["/", "/home/me", "C:\\work", "c:/work", "\\\\host\\share", "//h/s"]
)
def test_an_absolute_working_directory_of_any_system_is_taken(cwd: str) -> None:
    assert read_new_session({"cwd": cwd, "mcpServers": []}) == NewSession(cwd)


@pytest.mark.requirement("ACP-10", "ACP-43", "C016")
@pytest.mark.parametrize(
    "params",
    [
        {"cwd": ""},
        {"cwd": "work"},
        {"cwd": "./work"},
        {"cwd": "~/work"},
        {"cwd": "C:work"},
        {"cwd": "\\work"},
        {"cwd": None},
        {"cwd": 5},
        {},
        None,
    ],
    ids=repr,
)
def test_any_other_working_directory_is_refused_by_name(params: Any) -> None:
    with pytest.raises(InvalidParams, match="cwd") as refused:
        read_new_session(params)
    assert refused.value.data == {"field": "cwd"}


@pytest.mark.requirement("ACP-45", "C016")
@pytest.mark.parametrize("servers", [None, 5, "x", {}, {"name": "x"}], ids=repr)
def test_mcp_servers_that_are_no_list_count_as_none(servers: Any) -> None:
    assert read_new_session({"cwd": "/w", "mcpServers": servers}).servers == ()
    assert read_new_session({"cwd": "/w"}).servers == ()


@pytest.mark.requirement("ACP-45")
def test_broken_mcp_servers_are_skipped() -> None:
    servers: list[Any] = [
        None,
        5,
        {},
        {"name": 3},
        {"name": ""},
        {"name": "good", "command": "c"},
        [],
    ]
    assert read_new_session({"cwd": "/w", "mcpServers": servers}).servers == (servers[5],)


@pytest.mark.requirement("ACP-94", "ACP-96")
def test_meta_and_unknown_members_never_alter_a_parameter() -> None:
    meta = {"cwd": "/evil", "mcpServers": [{"name": "evil"}], "self": 1}
    more = {"cwd": "/evil"}
    session = read_new_session({"cwd": "/w", "_meta": meta, "more": more})
    assert session == NewSession("/w", (), meta, extras={"more": more})


@pytest.mark.requirement("ACP-94")
@pytest.mark.parametrize("meta", [None, "text", 5, []], ids=repr)
def test_meta_that_is_no_object_counts_as_absent(meta: Any) -> None:
    assert read_new_session({"cwd": "/w", "_meta": meta}).meta == {}
    assert read_prompt({"sessionId": "s", "prompt": [], "_meta": meta}).meta == {}


def test_a_prompt_keeps_its_blocks_as_they_are() -> None:
    blocks = [{"type": "text", "text": "hi"}, 5, None]
    prompt = read_prompt({"sessionId": "s", "prompt": blocks, "_meta": {"a": 1}})
    assert prompt == Prompt(prompt.session_id, tuple(blocks), {"a": 1})
    assert prompt.session_id == "s"


@pytest.mark.requirement("ACP-10")
@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"sessionId": "s"}, "prompt"),
        ({"sessionId": "s", "prompt": None}, "prompt"),
        ({"sessionId": "s", "prompt": "hi"}, "prompt"),
        ({"prompt": []}, "sessionId"),
        ({"sessionId": 5, "prompt": []}, "sessionId"),
        ({"sessionId": None, "prompt": []}, "sessionId"),
        (["s", []], "params"),
        ("s", "params"),
    ],
    ids=repr,
)
def test_a_bad_prompt_is_refused_by_the_field_s_name(params: Any, field: str) -> None:
    with pytest.raises(InvalidParams, match=field) as refused:
        read_prompt(params)
    assert refused.value.data == {"field": field}


def test_a_refusal_never_repeats_a_value() -> None:
    with pytest.raises(InvalidParams) as refused:
        read_session_id({"sessionId": {"secret": "s3cret"}})
    assert "s3cret" not in f"{refused.value} {refused.value.data}"


def test_absent_and_null_params_are_empty() -> None:
    assert read_params(None) == {}
    assert read_params({"a": 1}) == {"a": 1}


def test_a_choice_is_read_and_what_is_no_text_refused_by_name() -> None:
    extras = {"type": "select", "_meta": {}}
    option = {"sessionId": "s", "configId": "model", "value": "m", **extras}
    assert read_set_option(option) == ("s", "model", "m", extras)
    switch = {**option, "type": "boolean", "value": True}
    assert read_set_option(switch) == ("s", "model", True, {**extras, "type": "boolean"})
    assert read_set_mode({"sessionId": "s", "modeId": "high", "x": 1}) == ("s", "high", {"x": 1})
    for name, value in (("value", True), ("value", None), ("configId", 1), ("sessionId", None)):
        with pytest.raises(InvalidParams) as refused:
            read_set_option({**option, name: value})
        assert refused.value.data["field"] == name
    with pytest.raises(InvalidParams) as refused:
        read_set_mode({"sessionId": "s"})
    assert refused.value.data["field"] == "modeId"


@pytest.mark.parametrize(
    ("read", "params", "field", "limit"),
    [
        (acp.read_session_id, {}, "sessionId", MAX_ID),
        (acp.read_method_id, {}, "methodId", MAX_ID),
        (acp.read_new_session, {}, "cwd", acp.MAX_PATH),
        (acp.read_new_session, {"cwd": "/"}, "agentAlias", MAX_ID),
        (acp.read_list, {}, "cwd", acp.MAX_PATH),
        (acp.read_list, {}, "cursor", acp.MAX_CURSOR),
        (acp.read_set_mode, {"sessionId": "s"}, "modeId", MAX_ID),
        (acp.read_set_option, {"sessionId": "s", "configId": "c"}, "value", MAX_ID),
    ],
)
def test_a_text_may_be_as_long_as_its_limit_and_no_longer(
    read: Callable[[Json], Any], params: Json, field: str, limit: int
) -> None:
    read({**params, field: "/" * limit})
    with pytest.raises(InvalidParams, match=f"{field} is longer than {limit:,} char") as caught:
        read({**params, field: "/" * (limit + 1)})
    assert caught.value.data == {"field": field}


def test_of_endless_mcp_servers_a_hundred_are_taken_and_none_of_an_endless_name() -> None:
    servers = [{"name": "n" * (MAX_ID + 1)}, *[{"name": "n" * MAX_ID}] * 5_000]
    found = acp.read_new_session({"cwd": "/", "mcpServers": servers}).servers
    assert [len(server["name"]) for server in found] == [MAX_ID] * acp.MAX_SERVERS


@pytest.mark.parametrize(
    ("read", "field"),
    [
        (read_session_id, "sessionId"),
        (read_opened_session, "sessionId"),
        (read_prompt, "sessionId"),
        (read_set_mode, "modeId"),
        (read_set_option, "configId"),
        (read_set_option, "value"),
    ],
)
def test_an_id_with_half_a_surrogate_pair_is_refused_by_name(read: Any, field: str) -> None:
    good = {"sessionId": "s \U0001f600", "cwd": "/w", "prompt": [], "modeId": "m"}
    good |= {"configId": "c", "value": "v"}
    read(good)
    with pytest.raises(InvalidParams, match=f"{field} must be well-formed"):
        read({**good, field: "a\ud800b"})
