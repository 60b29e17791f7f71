"""Each event and answer of the gateway means one thing, however odd its fields are."""

from __future__ import annotations

from typing import Any

import pytest

from acp_bridge.core import events as ev
from acp_bridge.core.commands import AbortRun, AnswerPermission, StartRun
from acp_bridge.errors import GatewayTimeout
from acp_bridge.gateway.dialects.openclaw.decode import (
    abort_to_event,
    ack_to_event,
    approval_to_event,
    event_to_events,
    failure_to_event,
    session_to_event,
)
from acp_bridge.gateway.dialects.openclaw.frames import Event
from acp_bridge.gateway.dialects.openclaw.hearing import Hearing
from acp_bridge.gateway.dialects.openclaw.refusals import request_refusal
from acp_bridge.ids import ApprovalId, Json, RunId, SessionKey, ToolCallId

RUN, KEY = RunId("run-1"), SessionKey("agent:main:work")
SEND = StartRun(RUN, KEY, "hello")
REQUEST = {"command": "ls", "cwd": "/w", "host": "gateway", "sessionKey": KEY}


def read(name: str, **payload: Any) -> list[ev.GatewayEvent]:
    return event_to_events(Event(name, payload))


def chat(state: Any, **payload: Any) -> list[ev.GatewayEvent]:
    return read("chat", runId=RUN, state=state, **payload)


def message(*texts: str, **fields: Any) -> Json:
    return {"role": "assistant", "content": [{"type": "text", "text": t} for t in texts], **fields}


def test_a_delta_brings_the_new_part_and_the_whole() -> None:
    assert chat("delta", deltaText="lo", message=message("Hello")) == [
        ev.TextProgress(RUN, "lo", replace=False, snapshot="Hello")
    ]
    assert chat("delta", deltaText="new", replace=True) == [
        ev.TextProgress(RUN, "new", replace=True, snapshot=None)
    ]
    assert chat("delta", message=message("a", "b")) == [
        ev.TextProgress(RUN, None, replace=False, snapshot="a\nb")
    ]
    assert chat("delta", message="no message") == []


def test_half_a_surrogate_pair_stays_in_the_delta_for_its_other_half() -> None:
    assert chat("delta", deltaText="\ud83d") == [ev.TextProgress(RUN, "\ud83d", False, None)]


@pytest.mark.requirement("C097")
def test_reasoning_in_a_message_is_a_thought_not_text() -> None:
    mixed = {
        "content": [
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "so"},
            {"type": "text", "text": 5},
            {"type": "image"},
            "loose",
        ]
    }
    assert chat("delta", message=mixed) == [
        ev.ThoughtProgress(RUN, None, "hm"),
        ev.TextProgress(RUN, None, replace=False, snapshot="so"),
    ]
    assert chat("final", message=mixed) == [
        ev.RunEnded(RUN, ev.EndKind.FINISHED, snapshot="so", thought="hm")
    ]


@pytest.mark.requirement("C043")
@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("stop", "end_turn"),
        ("end_turn", "end_turn"),
        ("length", "max_tokens"),
        ("MAX_TOKENS", "max_tokens"),
        ("max_turns", "max_turn_requests"),
        ("max_turn_requests", "max_turn_requests"),
        ("refusal", "refusal"),
        ("content_filter", "refusal"),
        ("toolUse", None),
        ("new_reason", None),
        (["stop"], None),
        (None, None),
    ],
)
def test_a_final_tells_why_it_stopped(reason: Any, stop: str | None) -> None:
    (ended,) = chat("final", stopReason=reason)
    assert ended == ev.RunEnded(RUN, ev.EndKind.FINISHED, stop_reason=stop)


def test_a_commands_answer_has_its_reason_in_the_message() -> None:
    assert chat("final", message=message("Done.", stopReason="stop")) == [
        ev.RunEnded(RUN, ev.EndKind.FINISHED, snapshot="Done.", stop_reason="end_turn")
    ]


@pytest.mark.requirement("C044")
def test_an_abort_keeps_its_text_and_its_cause() -> None:
    assert chat("aborted", stopReason="stop", message=message("part"), errorMessage="timeout") == [
        ev.RunEnded(RUN, ev.EndKind.ABORTED, snapshot="part", error="timeout")
    ]


def test_a_failure_tells_its_sentence_and_kind_and_keeps_the_gateways_fields() -> None:
    detail = {"provider": "p"}
    assert chat(
        "error",
        errorMessage="too fast",
        errorKind="rate_limit",
        errorDetail=detail,
        stopReason="refusal",
        message=message("Error: too fast"),
    ) == [
        ev.RunEnded(
            RUN,
            ev.EndKind.FAILED,
            stop_reason="refusal",
            error="too fast",
            error_kind="rate_limit",
            detail={
                "errorMessage": "too fast",
                "errorKind": "rate_limit",
                "errorDetail": detail,
                "stopReason": "refusal",
            },
        )
    ]
    assert chat("error", message=message("only here")) == [
        ev.RunEnded(RUN, ev.EndKind.FAILED, error="only here")
    ]


@pytest.mark.parametrize("given", [{}, {"errorKind": "unknown"}])
def test_a_session_that_the_gateway_is_at_odds_over_is_a_kind_of_failure(given: Json) -> None:
    told = "Error: reply session initialization conflicted for agent:main:x"
    (end,) = chat("error", errorMessage=told, **given)
    assert isinstance(end, ev.RunEnded)
    assert (end.error, end.error_kind) == (told, ev.SESSION_CONFLICT)


def test_a_chat_event_that_means_nothing_is_counted() -> None:
    assert chat("status", phase="starting_model") == []
    assert chat(["delta"]) == [ev.Unreadable("chat event of unknown state")]
    assert read("chat", state="delta") == [ev.Unreadable("chat event without a run")]


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"runId": RUN, "status": "started"}, ev.RunAccepted(RUN)),
        ({"runId": RUN, "status": "in_flight"}, ev.RunAccepted(RUN)),
        ({"runId": RUN}, ev.RunAccepted(RUN)),
        ({}, ev.RunAccepted(RUN)),
        ({"runId": "run-0", "status": "in_flight"}, ev.RunDeferred(RUN)),
        ({"runId": "run-0", "status": "ok"}, ev.RunDeferred(RUN)),
        ({"runId": RUN, "status": "ok"}, None),
        (
            {"ok": True, "aborted": False, "runIds": []},
            ev.RunAnsweredAtOnce(RUN, "Nothing was running."),
        ),
        (
            {"ok": True, "aborted": True, "runIds": ["a"]},
            ev.RunAnsweredAtOnce(RUN, "Stopped 1 run."),
        ),
        (
            {"ok": True, "aborted": True, "runIds": ["a", "b"]},
            ev.RunAnsweredAtOnce(RUN, "Stopped 2 runs."),
        ),
    ],
)
def test_the_acknowledgement_of_a_prompt(payload: Json, expected: ev.GatewayEvent | None) -> None:
    assert ack_to_event(SEND, payload) == expected


@pytest.mark.parametrize(
    ("payload", "error", "kind"),
    [
        ({"runId": RUN, "status": "timeout"}, None, "timeout"),
        ({"runId": RUN, "status": "error", "error": "broken"}, "broken", None),
        ({"runId": RUN, "status": "error", "summary": "broken"}, "broken", None),
    ],
)
def test_an_acknowledgement_may_be_the_end(
    payload: Json, error: str | None, kind: str | None
) -> None:
    assert ack_to_event(SEND, payload) == ev.RunEnded(
        RUN, ev.EndKind.FAILED, error=error, error_kind=kind, detail=payload
    )


def test_the_answer_to_an_abort() -> None:
    abort = AbortRun(RUN, KEY)
    assert abort_to_event(abort, {"ok": True, "aborted": True}) == ev.AbortAnswered(RUN, True)
    assert abort_to_event(abort, {"ok": True, "aborted": False}) == ev.AbortAnswered(RUN, False)
    assert abort_to_event(abort, {}) == ev.AbortAnswered(RUN, False)


def test_each_failed_command_fails_in_its_own_way() -> None:
    error = GatewayTimeout()
    answer = AnswerPermission(ApprovalId("a"), "deny")
    assert failure_to_event(SEND, error) == ev.RunRefused(RUN, error)
    assert failure_to_event(AbortRun(RUN, KEY), error) == ev.AbortAnswered(RUN, False, error)
    assert failure_to_event(answer, error) == ev.PermissionSettled(ApprovalId("a"), error)


@pytest.mark.parametrize("reason", ["gateway-restarting", "gateway-suspending", "other", None])
def test_a_prompt_that_comes_while_the_gateway_winds_down_is_put_off(reason: str | None) -> None:
    error = request_refusal("chat.send", {"code": "UNAVAILABLE", "details": {"reason": reason}})
    event = failure_to_event(StartRun(RUN, KEY, "hi"), error)
    is_put_off = reason in ("gateway-restarting", "gateway-suspending")
    assert event == (ev.RunDeferred(RUN) if is_put_off else ev.RunRefused(RUN, error))


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (Event("chat", {"state": "status", "phase": "preparing_context"}), True),
        (Event("agent", {"stream": "lifecycle", "data": {"phase": "start"}}), True),
        (Event("agent", {"stream": "lifecycle", "data": {"phase": "end"}}), False),
        (Event("agent", {"stream": "run_status", "data": {"phase": "start"}}), False),
        (Event("health", {"state": "status"}), False),
    ],
)
def test_a_run_of_another_client_is_noticed_when_it_begins(frame: Event, expected: bool) -> None:
    frame.payload.update(runId="theirs", sessionKey=KEY)
    seen = ev.RunSeen(RunId("theirs"), KEY)
    hearing = Hearing()
    assert hearing.events(frame) == ([seen._replace(is_beginning=True)] if expected else [])
    assert hearing.events(frame) == []
    delta = {"runId": "theirs", "sessionKey": KEY, "state": "delta", "deltaText": "hi"}
    shows = Event("chat", delta)
    assert hearing.events(shows)[0] == seen
    assert seen not in hearing.events(shows)


def test_an_approval_request_tells_all_that_a_person_needs() -> None:
    request = {
        **REQUEST,
        "runId": RUN,
        "toolCallId": "call-1",
        "allowedDecisions": ["allow-once", 5, "deny"],
        "warningText": "careful",
    }
    assert read(
        "exec.approval.requested",
        id="a",
        request=request,
        createdAtMs=1000,
        expiresAtMs=61_000,
    ) == [
        ev.PermissionAsked(
            approval_id=ApprovalId("a"),
            run_id=RUN,
            session_key=KEY,
            tool_call_id=ToolCallId("call-1"),
            command="ls",
            cwd="/w",
            host="gateway",
            allowed=("allow-once", "deny"),
            expires_in=60.0,
            warning="careful",
        )
    ]


def test_an_older_approval_has_only_the_rest_of_its_time() -> None:
    payload = {"id": "a", "createdAtMs": 0, "expiresAtMs": 60_000, "request": {}}
    old = approval_to_event(payload, server_ms=50_000.0)
    over = approval_to_event(payload, server_ms=70_000.0)
    vague = approval_to_event({"id": "a", "request": {"commandPreview": "l…"}}, server_ms=None)
    assert isinstance(old, ev.PermissionAsked)
    assert isinstance(over, ev.PermissionAsked)
    assert isinstance(vague, ev.PermissionAsked)
    assert (old.expires_in, over.expires_in, vague.expires_in) == (10.0, 0.0, None)
    assert (old.waited, over.waited, vague.waited) == (50.0, 70.0, None)
    assert (old.command, vague.command) == ("", "l…")
    assert (old.run_id, old.session_key, old.tool_call_id) == (None, None, None)
    assert old.allowed == ()


@pytest.mark.requirement("C041")
def test_an_approval_resolved_anywhere_is_closed() -> None:
    assert read("exec.approval.resolved", id="a", decision="deny") == [
        ev.PermissionClosed(ApprovalId("a"), "deny")
    ]
    assert read("exec.approval.resolved", id="a") == [ev.PermissionClosed(ApprovalId("a"), None)]
    without = [ev.Unreadable("approval without an id")]
    assert read("exec.approval.resolved") == read("exec.approval.requested") == without


FRESH = {
    "totalTokens": 100,
    "totalTokensFresh": True,
    "contextTokens": 1000,
    "estimatedCostUsd": 0.5,
}


@pytest.mark.parametrize(
    ("row", "counts"),
    [
        (FRESH, (100, 1000, 0.5)),
        ({**FRESH, "contextTokens": 0, "estimatedCostUsd": None}, (100, None, None)),
        ({**FRESH, "contextTokens": None, "estimatedCostUsd": True}, (100, None, None)),
        ({**FRESH, "totalTokensFresh": False}, None),
        ({**FRESH, "totalTokens": -1}, None),
        ({}, None),
    ],
)
def test_only_fresh_token_counts_of_a_session_are_told(
    row: Json, counts: tuple[int | None, int | None, float | None] | None
) -> None:
    expected = counts and ev.SessionChanged(KEY, *counts)
    assert session_to_event(KEY, row) == expected
    assert session_to_event(None, row) is None
    told = [expected] if expected else []
    assert read("sessions.changed", sessionKey=KEY, session=row) == told
    assert read("sessions.changed", sessionKey=KEY, **row) == told


def test_tool_events_carry_the_sessions_row_along() -> None:
    data = {"phase": "start", "name": "exec", "toolCallId": "call-1", "args": {"command": "ls"}}
    events = [
        ev.ToolStarted(RUN, ToolCallId("call-1"), "exec", {"command": "ls"}),
        ev.SessionChanged(KEY, 100, 1000, 0.5),
    ]
    fields = {"runId": RUN, "sessionKey": KEY, "data": data, "session": FRESH}
    assert read("agent", stream="tool", **fields) == events
    assert read("session.tool", **fields) == events
    assert read("session.tool", data=data) == [ev.Unreadable("tool event without a run")]


def test_a_shutdown_is_announced() -> None:
    assert read("shutdown", reason="gateway stopping") == [ev.GatewayStopping("gateway stopping")]
    assert read("shutdown") == [ev.GatewayStopping("no reason given")]


@pytest.mark.parametrize("name", ["tick", "health", "presence", "session.message", "new.event"])
def test_what_does_not_concern_the_bridge_is_nothing(name: str) -> None:
    assert read(name, runId=RUN, state="final") == []
