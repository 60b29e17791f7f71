"""What the editor is asked, and how doubt denies."""

from __future__ import annotations

from typing import Any

import pytest
from acp import schema
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.core.events import PermissionAsked
from acp_bridge.core.permissions import outcome_to_decision, permission_options, permission_params
from acp_bridge.core.ports import EditorAnswer
from acp_bridge.ids import ApprovalId, Json, RunId, SessionId, SessionKey, ToolCallId
from tests.support.acp_oracle import conforms

ALL = ("allow-once", "allow-always", "deny")


def asked(command: str = "ls -l", **changed: Any) -> PermissionAsked:
    fields: dict[str, Any] = {
        "approval_id": ApprovalId("a1"),
        "run_id": RunId("r1"),
        "session_key": SessionKey("k"),
        "tool_call_id": ToolCallId("c1"),
        "command": command,
        "cwd": "/gw/workspace",
        "host": "gateway",
        "allowed": ("allow-once", "deny"),
        "expires_in": 1800.0,
        "warning": None,
    }
    return PermissionAsked(**{**fields, **changed})


def params(permission: PermissionAsked, title: str = "exec: command: ls -l") -> Json:
    given = permission_params(SessionId("s"), permission, ToolCallId("c1"), title)
    conforms(schema.RequestPermissionRequest, given)
    return given


def text(permission: PermissionAsked) -> str:
    (content,) = params(permission)["toolCall"]["content"]
    shown = content["content"]["text"]
    assert isinstance(shown, str)
    return shown


def selected(option_id: Any) -> EditorAnswer:
    return EditorAnswer({"outcome": {"outcome": "selected", "optionId": option_id}})


@pytest.mark.requirement("C039")
@pytest.mark.requirement("ACP-78")
@pytest.mark.parametrize(
    ("allowed", "offered"),
    [
        (ALL, ["allow-once", "allow-always", "deny"]),
        (("deny", "allow-once"), ["allow-once", "deny"]),
        (("allow-always", "deny"), ["allow-always", "deny"]),
        (("allow-always",), ["allow-always", "deny"]),
        (("deny",), ["deny"]),
        (("allow-always", "something-new"), ["allow-always", "deny"]),
        ((), ["allow-once", "deny"]),
        (("something-new",), ["allow-once", "deny"]),
    ],
)
def test_only_what_the_gateway_takes_is_offered_and_a_denial_always(
    allowed: tuple[str, ...], offered: list[str]
) -> None:
    options = permission_options(allowed)
    assert [option["optionId"] for option in options] == offered
    kinds = {"allow-once": "allow_once", "allow-always": "allow_always", "deny": "reject_once"}
    assert all(option["kind"] == kinds[option["optionId"]] for option in options)
    assert all(option["name"] for option in options)


@pytest.mark.requirement("C039")
@pytest.mark.parametrize("allowed", [ALL, ("allow-once", "deny")])
def test_once_means_once(allowed: tuple[str, ...]) -> None:
    assert outcome_to_decision(selected("allow-once"), allowed) == "allow-once"
    assert outcome_to_decision(selected("deny"), allowed) == "deny"


@pytest.mark.requirement("C039")
def test_an_option_that_was_not_offered_is_a_denial() -> None:
    assert outcome_to_decision(selected("allow-always"), ("allow-once", "deny")) == "deny"
    assert outcome_to_decision(selected("allow-once"), ("allow-always", "deny")) == "deny"
    assert outcome_to_decision(selected("allow-always"), ALL) == "allow-always"


@pytest.mark.requirement("ACP-79")
@pytest.mark.parametrize(
    "answer",
    [
        EditorAnswer({"outcome": {"outcome": "cancelled"}}),
        EditorAnswer({"outcome": {"outcome": "cancelled", "optionId": "allow-once"}}),
        EditorAnswer({"outcome": {"outcome": "approved", "optionId": "allow-once"}}),
        EditorAnswer({"outcome": {"optionId": "allow-once"}}),
        EditorAnswer({"outcome": "selected", "optionId": "allow-once"}),
        EditorAnswer({"outcome": {"outcome": "selected"}}),
        EditorAnswer({"optionId": "allow-once"}),
        EditorAnswer(None, {"code": -32603, "message": "boom"}),
        EditorAnswer(
            {"outcome": {"outcome": "selected", "optionId": "allow-once"}}, {"code": -32603}
        ),
        EditorAnswer([]),
        EditorAnswer("allow-once"),
        EditorAnswer(),
        selected(["allow-once"]),
        selected({"allow-once": 1}),
        selected(True),
        selected("Allow once"),
        selected("allow_once"),
    ],
)
def test_anything_but_an_explicit_choice_is_a_denial(answer: EditorAnswer) -> None:
    assert outcome_to_decision(answer, ALL) == "deny"


@given(
    result=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(ALL),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["outcome", "optionId", "x"]), inner, max_size=3)
        ),
        max_leaves=8,
    ),
    allowed=st.lists(st.sampled_from([*ALL, "other"]), max_size=4),
)
@pytest.mark.requirement("ACP-79")
def test_no_answer_gives_more_than_was_offered(result: Any, allowed: list[str]) -> None:
    decision = outcome_to_decision(EditorAnswer(result), allowed)
    assert decision in [option["optionId"] for option in permission_options(allowed)]
    if decision != "deny":
        assert result["outcome"]["outcome"] == "selected"
        assert result["outcome"]["optionId"] == decision


def test_the_request_is_about_the_tool_call_and_says_what_runs_where() -> None:
    given = params(asked())
    assert given["sessionId"] == "s"
    call = given["toolCall"]
    assert call["toolCallId"] == "c1"
    assert (call["kind"], call["status"]) == ("execute", "pending")
    assert call["rawInput"] == {"command": "ls -l", "cwd": "/gw/workspace", "host": "gateway"}
    shown = text(asked())
    assert "gateway" in shown
    assert "/gw/workspace" in shown
    assert "```\nls -l\n```" in shown


def test_an_approval_that_says_little_still_says_that_it_runs_at_the_gateway() -> None:
    shown = text(asked(cwd=None, host=None))
    assert "on the gateway's host:" in shown
    assert params(asked(cwd=None, host=None))["toolCall"]["rawInput"] == {"command": "ls -l"}


def test_a_warning_of_the_gateway_comes_first() -> None:
    assert text(asked(warning="Deletes files")).startswith("Warning: Deletes files")


def test_a_command_cannot_hide_a_part_of_itself() -> None:
    shown = text(asked("echo ok\r\x1b[2K\u202emr\x00\n```\nrm -rf ~"))
    assert "\\u000d\\u001b[2K\\u202emr\\u0000" in shown
    assert "````\necho ok" in shown
    assert shown.endswith("rm -rf ~\n````")


def test_a_huge_command_is_cut_with_a_marker_and_the_title_stays_on_one_line() -> None:
    given = params(asked("x" * 1_000_000 + "\ud83d"), title="a\nb" + "y" * 5_000)
    assert len(str(given)) < 50_000
    assert "characters left out" in given["toolCall"]["content"][0]["content"]["text"]
    assert "\n" not in given["toolCall"]["title"]
    assert len(given["toolCall"]["title"]) < 1_100
