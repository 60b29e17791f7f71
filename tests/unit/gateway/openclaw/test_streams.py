"""The streams of agent events tell thoughts, plans, tools and approvals."""

from __future__ import annotations

from typing import Any

import pytest

from acp_bridge.core import events as ev
from acp_bridge.gateway.dialects.openclaw.streams import agent_event
from acp_bridge.ids import ApprovalId, RunId, SessionKey, ToolCallId

RUN, CALL = RunId("run-1"), ToolCallId("call-1")


def stream(kind_of: Any, /, **data: Any) -> list[ev.GatewayEvent]:
    payload = {"runId": RUN, "stream": kind_of, "sessionKey": "agent:main:w", "data": data}
    return agent_event(payload)


def test_a_tool_starts_goes_on_and_ends() -> None:
    tool = {"toolCallId": CALL, "name": "exec"}
    assert stream("tool", phase="start", args=["odd"], **tool) == [
        ev.ToolStarted(RUN, CALL, "exec", ["odd"])
    ]
    assert stream("tool", phase="update", partialResult="half", **tool) == [
        ev.ToolProgress(RUN, CALL, "exec", "half")
    ]
    assert stream("tool", phase="result", result=5, isError=True, **tool) == [
        ev.ToolEnded(RUN, CALL, "exec", is_error=True, result=5)
    ]
    assert stream("tool", phase="result", toolCallId=CALL, isError="yes") == [
        ev.ToolEnded(RUN, CALL, None, is_error=False, result=None)
    ]
    assert stream("tool", phase="other", **tool) == []
    assert stream("tool", phase="start") == [ev.Unreadable("tool event without a tool call")]


@pytest.mark.parametrize(
    ("fields", "failed", "text"),
    [
        ({"status": "running", "progressText": "so far"}, False, "so far"),
        ({"status": "completed", "summary": "done"}, False, "done"),
        ({"status": "failed", "error": "broken"}, True, "broken"),
        ({"status": ["failed"]}, False, None),
    ],
)
def test_an_item_is_a_card_with_its_state(
    fields: dict[str, Any], failed: bool, text: str | None
) -> None:
    assert stream(
        "item", toolCallId=CALL, phase="update", kind="command", name="exec", title="t", **fields
    ) == [ev.ItemChanged(RUN, CALL, "update", "command", "exec", "t", failed, text)]


def test_an_item_that_is_no_tool_call_is_nothing() -> None:
    assert stream("item", kind="preamble", phase="update", progressText="Calling a tool.") == []
    assert stream("item", toolCallId=CALL, phase=["start"]) == []
    assert stream("item", toolCallId=CALL, phase="start") == [
        ev.ItemChanged(RUN, CALL, "start", "tool", None, None, failed=False, text=None)
    ]


def test_command_output_is_whole_so_far() -> None:
    assert stream("command_output", toolCallId=CALL, phase="delta", output="a", title="t") == [
        ev.CommandOutput(RUN, CALL, None, "t", "a", is_end=False, exit_code=None, cwd=None)
    ]
    assert stream(
        "command_output", toolCallId=CALL, phase="end", exitCode=3, cwd="/w", name="exec"
    ) == [ev.CommandOutput(RUN, CALL, "exec", None, "", is_end=True, exit_code=3, cwd="/w")]
    (odd,) = stream("command_output", toolCallId=CALL, exitCode=True)
    assert isinstance(odd, ev.CommandOutput)
    assert odd.exit_code is None
    assert stream("command_output", output="a") == []


def test_thinking_is_a_thought_with_its_whole() -> None:
    assert stream("thinking", text="Let me see", delta=" see") == [
        ev.ThoughtProgress(RUN, " see", "Let me see")
    ]
    assert stream("thinking", text="", delta="") == []


@pytest.mark.requirement("C098")
def test_each_plan_is_a_full_list_of_entries() -> None:
    steps = [
        "look",
        {"step": "write", "status": "inProgress", "priority": "high"},
        {"text": "test", "status": "completed", "priority": "urgent"},
        {"title": "ship", "status": "in-progress", "priority": ["high"]},
        {"content": "rest", "status": "unheard of"},
        {"step": "  ", "text": "fallback", "status": "done"},
        {"status": "done"},
        "  ",
        5,
    ]
    (plan,) = stream("plan", phase="update", title="Plan", source="x", steps=steps)
    assert isinstance(plan, ev.PlanChanged)
    assert [(e["content"], e["status"], e["priority"]) for e in plan.entries] == [
        ("look", "pending", "medium"),
        ("write", "in_progress", "high"),
        ("test", "completed", "medium"),
        ("ship", "in_progress", "medium"),
        ("rest", "pending", "medium"),
        ("fallback", "completed", "medium"),
    ]


def test_an_emptied_plan_is_told_and_one_without_steps_is_not() -> None:
    assert stream("plan", steps=[]) == [ev.PlanChanged(RUN, ())]
    assert stream("plan", explanation="thinking about it") == []
    assert stream("plan", steps="look") == []


def test_an_approval_asked_for_in_the_stream() -> None:
    asked = {"phase": "requested", "kind": "exec", "approvalId": "a", "toolCallId": CALL}
    assert stream("approval", command="ls", host="gateway", **asked) == [
        ev.PermissionAsked(
            approval_id=ApprovalId("a"),
            run_id=RUN,
            session_key=SessionKey("agent:main:w"),
            tool_call_id=CALL,
            command="ls",
            cwd=None,
            host="gateway",
            allowed=(),
            expires_in=None,
        )
    ]
    (titled,) = agent_event(
        {
            "runId": RUN,
            "stream": "approval",
            "data": {"phase": "requested", "approvalId": "a", "title": "Run ls?"},
        }
    )
    assert isinstance(titled, ev.PermissionAsked)
    assert (titled.command, titled.session_key, titled.tool_call_id) == ("Run ls?", None, None)
    assert stream("approval", phase="resolved", approvalId="a") == []
    assert stream("approval", phase="requested") == []


def test_other_streams_tell_nothing_and_an_event_without_a_run_is_counted() -> None:
    for name in ("assistant", "lifecycle", "usage", "run_status", "patch", None, ["tool"]):
        assert stream(name, phase="end", text="x") == []
    assert agent_event({"stream": "tool"}) == [ev.Unreadable("agent event without a run")]
