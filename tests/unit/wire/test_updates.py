"""Each builder gives what ACP v1 knows, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from acp import schema

from acp_bridge.ids import Json, SessionId, ToolCallId
from acp_bridge.wire import updates
from acp_bridge.wire.content import text_block
from tests.support.acp_oracle import conforms

S = SessionId("s")
C = ToolCallId("c")


@pytest.mark.requirement("ACP-61")
@pytest.mark.parametrize(
    "update",
    [
        updates.message_chunk("hi", "m"),
        updates.thought_chunk("hm", "t"),
        updates.user_chunk({"type": "image", "data": "AA==", "mimeType": "image/png"}, "u"),
        updates.tool_call(C, "exec", kind="execute", status="in_progress"),
        updates.tool_call(
            C,
            "edit",
            kind="edit",
            status="pending",
            content=[updates.content(text_block("x")), updates.diff("/a", None, "new")],
            locations=[{"path": "/a", "line": 1}],
            raw_input={"path": "/a"},
        ),
        updates.tool_call_update(C),
        updates.tool_call_update(
            C,
            status="failed",
            title="t",
            kind="read",
            content=[updates.diff("/a", "old", "new")],
            locations=[],
            raw_input=[1],
            raw_output="out",
        ),
        updates.plan([{"content": "a", "priority": "high", "status": "completed"}]),
        updates.plan([]),
        updates.usage(1, 2),
        updates.usage(1, 2, 0.25),
        updates.session_info("t", "2026-11-30T12:00:00Z"),
        updates.session_info(None, None),
    ],
)
def test_an_update_is_valid(update: Json) -> None:
    conforms(schema.SessionNotification, updates.session_update(S, update))


@pytest.mark.requirement("ACP-71")
def test_chunks_carry_the_id_of_their_message() -> None:
    assert updates.message_chunk("a", "m1") == {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "text", "text": "a"},
        "messageId": "m1",
    }
    assert updates.thought_chunk("a", "m2")["messageId"] == "m2"


@pytest.mark.requirement("ACP-76")
def test_a_tool_call_update_holds_only_what_changed() -> None:
    assert updates.tool_call_update(C, status="completed") == {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "c",
        "status": "completed",
    }
    assert updates.tool_call_update(C, content=[])["content"] == []


@pytest.mark.requirement("ACP-74")
@pytest.mark.requirement("C098")
def test_a_plan_is_whole_and_one_odd_entry_does_not_spoil_it() -> None:
    entries: list[Any] = [
        {"content": "a", "priority": "low", "status": "in_progress"},
        {"content": "b\ud83d", "status": "skipped"},
        {"content": "c", "priority": "urgent", "status": ["x"]},
        {"content": "  "},
        {"content": None},
        {},
    ]
    plan = updates.plan(entries)
    assert plan["entries"] == [
        {"content": "a", "priority": "low", "status": "in_progress"},
        {"content": "b\ufffd", "priority": "medium", "status": "pending"},
        {"content": "c", "priority": "medium", "status": "pending"},
    ]
    conforms(schema.SessionNotification, updates.session_update(S, plan))


def test_usage_is_never_negative_and_costs_are_in_dollars() -> None:
    assert updates.usage(-1, -2, 0) == {
        "sessionUpdate": "usage_update",
        "used": 0,
        "size": 0,
        "cost": {"amount": 0, "currency": "USD"},
    }


def test_session_info_leaves_out_what_is_unchanged() -> None:
    assert updates.session_info("a\ud83d", None) == {
        "sessionUpdate": "session_info_update",
        "title": "a\ufffd",
    }


@pytest.mark.requirement("ACP-78")
def test_a_permission_request_is_valid() -> None:
    call = {"toolCallId": "c", "title": "exec", "kind": "execute", "status": "pending"}
    options = [updates.permission_option("deny", "Deny", "reject_once")]
    request = updates.permission_request(S, call, options)
    conforms(schema.RequestPermissionRequest, request)
    assert request == {"sessionId": "s", "toolCall": call, "options": options}
