"""Commands and queries become the requests that the gateway was seen to take."""

from __future__ import annotations

import pytest

from acp_bridge.core.commands import (
    AbortRun,
    AnswerPermission,
    Attachment,
    DeleteSession,
    DescribeSession,
    ListSessions,
    ResetSession,
    ResolveSession,
    SessionFacts,
    StartRun,
)
from acp_bridge.errors import GatewayRefused, ScopeMissing
from acp_bridge.gateway.dialects.openclaw import encode
from acp_bridge.gateway.dialects.openclaw.queries import (
    PlainQuery,
    query_failure,
    query_result,
    query_to_call,
)
from acp_bridge.ids import ApprovalId, Json, RunId, SessionKey

RUN, KEY = RunId("run-1"), SessionKey("agent:main:work")
REFUSED = {"code": "INVALID_REQUEST", "message": "unknown method"}


def test_a_bare_prompt_sends_only_what_is_needed() -> None:
    assert encode.command_to_call(StartRun(RUN, KEY, "hello")) == (
        "chat.send",
        {"sessionKey": KEY, "message": "hello", "idempotencyKey": RUN},
    )


def test_a_full_prompt_sends_everything() -> None:
    command = StartRun(
        RUN,
        KEY,
        "look",
        attachments=(
            Attachment("image", "image/png", "aGk="),
            Attachment("file", "text/plain", "aG8=", "notes.txt"),
        ),
        thinking="high",
        deliver=False,
        timeout_ms=0,
        provenance={"systemInputProvenance": {"kind": "external_user"}},
    )
    _, params = encode.command_to_call(command)
    assert params["attachments"] == [
        {"type": "image", "mimeType": "image/png", "content": "aGk="},
        {"type": "file", "mimeType": "text/plain", "content": "aG8=", "fileName": "notes.txt"},
    ]
    assert (params["thinking"], params["deliver"], params["timeoutMs"]) == ("high", False, 0)
    assert params["systemInputProvenance"] == {"kind": "external_user"}


def test_aborts_and_decisions() -> None:
    assert encode.command_to_call(AbortRun(RUN, KEY)) == (
        "chat.abort",
        {"sessionKey": KEY, "runId": RUN},
    )
    assert encode.command_to_call(AnswerPermission(ApprovalId("a"), "deny")) == (
        "exec.approval.resolve",
        {"id": "a", "decision": "deny"},
    )


def test_the_questions_of_a_probe_ask_for_uncut_texts_and_do_not_wait() -> None:
    assert encode.history_call(KEY) == (
        "chat.history",
        {"sessionKey": KEY, "limit": 1000, "maxChars": 500_000},
    )
    assert encode.wait_call(RUN) == ("agent.wait", {"runId": RUN, "timeoutMs": 0})
    assert encode.message_call(KEY, "row")[1]["messageId"] == "row"


@pytest.mark.parametrize(
    ("query", "call"),
    [
        (
            ResolveSession(session_key=KEY),
            ("sessions.resolve", {"allowMissing": True, "key": KEY}),
        ),
        (
            ResolveSession(label="work"),
            ("sessions.resolve", {"allowMissing": True, "label": "work"}),
        ),
        (ResetSession(KEY), ("sessions.reset", {"key": KEY})),
        (DescribeSession(KEY), ("sessions.describe", {"key": KEY})),
        (
            ListSessions(offset=50, limit=25),
            ("sessions.list", {"offset": 50, "limit": 25, "includeDerivedTitles": True}),
        ),
        (DeleteSession(KEY), ("sessions.delete", {"key": KEY})),
    ],
)
def test_queries(query: PlainQuery, call: tuple[str, Json]) -> None:
    assert query_to_call(query) == call


@pytest.mark.parametrize(
    ("payload", "key"),
    [
        ({"ok": True, "key": "agent:main:work"}, "agent:main:work"),
        ({"key": "agent:main:work"}, "agent:main:work"),
        ({"ok": False}, None),
        ({"ok": False, "key": "x"}, None),
        ({}, None),
    ],
)
def test_a_session_is_found_or_not(payload: Json, key: str | None) -> None:
    assert query_result(ResolveSession(label="work"), payload) == key


def test_a_reset_has_no_result() -> None:
    assert query_result(ResetSession(KEY), {"ok": True}) is None


def test_a_session_is_described_in_the_gateways_spelling_with_fresh_counts() -> None:
    row = {
        "key": "agent:main:work",
        "displayName": "Shown",
        "label": "work",
        "updatedAt": 1_796_000_000_000,
        "totalTokens": 100,
        "totalTokensFresh": True,
        "contextTokens": 128000,
        "estimatedCostUsd": 0.5,
    }
    facts = query_result(DescribeSession(SessionKey("work")), {"session": row})
    assert facts == SessionFacts(
        SessionKey("agent:main:work"), "Shown", 1_796_000_000_000, 100, 128000, 0.5
    )
    sparse = query_result(DescribeSession(KEY), {"session": {"totalTokens": 5, "x": 1}})
    assert isinstance(sparse, SessionFacts)
    assert (sparse.session_key, sparse.title, sparse.used_tokens) == (KEY, None, None)
    assert query_result(DescribeSession(KEY), {"session": None}) is None


@pytest.mark.parametrize(
    ("row", "title"),
    [
        ({"derivedTitle": "[Working directory: ~/p] Fix the test"}, "Fix the test"),
        ({"derivedTitle": "[Working directory: ~/a/very/long…", "label": "mine"}, "mine"),
        ({"derivedTitle": "[Working directory: ~/a/very/long…"}, None),
        ({"displayName": "On [Working directory: x]"}, "On [Working directory: x]"),
    ],
)
def test_the_working_directory_is_no_part_of_a_title(row: Json, title: str | None) -> None:
    facts = query_result(DescribeSession(KEY), {"session": row})
    assert isinstance(facts, SessionFacts)
    assert facts.title == title


@pytest.mark.requirement("C059")
@pytest.mark.parametrize(
    ("row", "title"),
    [
        ({"displayName": "ACP"}, None),
        ({"displayName": "ACP", "label": "mine"}, "mine"),
        ({"displayName": "UI", "origin": {"label": "UI", "provider": "webchat"}}, None),
        ({"displayName": "Family", "origin": {"label": "Family", "provider": "irc"}}, "Family"),
        ({"derivedTitle": "0739dfa3 (2026-11-30)", "displayName": "ACP"}, None),
        ({"derivedTitle": "0739dfa3"}, None),
        ({"derivedTitle": "0739dfa3 is a commit"}, "0739dfa3 is a commit"),
    ],
)
def test_a_name_that_every_session_of_a_client_has_is_no_title(
    row: Json, title: str | None
) -> None:
    facts = query_result(DescribeSession(KEY), {"session": row})
    assert isinstance(facts, SessionFacts)
    assert facts.title == title


def test_sessions_are_listed_as_the_gateway_orders_them() -> None:
    rows = [
        {"key": "agent:main:b", "hasActiveRun": True, "status": "running", "spawnedCwd": "/b"},
        {"key": "agent:main:a", "hasActiveRun": True, "status": "done"},
        {"key": "agent:main:c", "status": "running", "spawnedWorkspaceDir": "/c"},
        {"no": "key"},
        "no row",
    ]
    found = query_result(ListSessions(), {"sessions": rows})
    assert isinstance(found, list)
    assert [(each.session_key, each.cwd, each.is_running) for each in found] == [
        ("agent:main:b", "/b", True),
        ("agent:main:a", None, False),  # a run of 2026.6.11 that failed may stay "active"
        ("agent:main:c", "/c", False),  # a gateway was killed while it ran
    ]
    assert query_result(ListSessions(), {}) == []


def test_a_deletion_tells_whether_there_was_a_session() -> None:
    assert query_result(DeleteSession(KEY), {"ok": True, "deleted": True}) is True
    assert query_result(DeleteSession(KEY), {"ok": True, "deleted": False}) is False
    error = query_failure(DeleteSession(KEY), {"code": "INVALID_REQUEST", "message": "main"})
    assert isinstance(error, GatewayRefused)


def test_a_gateway_that_cannot_describe_sessions_knows_nothing_of_them() -> None:
    assert query_failure(DescribeSession(KEY), REFUSED) is None
    assert isinstance(query_failure(ResetSession(KEY), REFUSED), GatewayRefused)
    lacking = {"code": "INVALID_REQUEST", "message": "missing scope: operator.read"}
    assert isinstance(query_failure(DescribeSession(KEY), lacking), ScopeMissing)
