"""What a load shows of the recorded entries."""

from __future__ import annotations

from typing import Any

import pytest
from acp import schema

from acp_bridge.core.replay import INTERRUPTED, MAX_CHUNK, Recorded, open_runs, replay_updates
from acp_bridge.ids import Json, RunId
from acp_bridge.wire import updates
from tests.support.acp_oracle import conforms


def entry(kind: str, payload: Json, run: str | None = "r1") -> Recorded:
    return Recorded(kind, payload, RunId(run) if run else None, 1_000)


def prompt(text: str, run: str = "r1", **more: Any) -> Recorded:
    return entry("prompt", {"prompt": [{"type": "text", "text": text}], **more}, run)


def said(text: str, message: str = "r1:text:0", run: str = "r1") -> Recorded:
    return entry("update", updates.message_chunk(text, message), run)


def done(run: str = "r1") -> Recorded:
    return entry("outcome", {"stop_reason": "end_turn"}, run)


def texts(shown: list[Json]) -> list[str]:
    for update in shown:
        conforms(schema.SessionNotification, {"sessionId": "s", "update": update})
    return [u["content"]["text"] for u in shown if isinstance(u.get("content"), dict)]


@pytest.mark.requirement("C054")
def test_chunks_of_a_message_become_one_and_others_stay_apart() -> None:
    shown = replay_updates(
        [prompt("hi"), said("Hel"), said("lo"), said("Next", "r1:text:1"), done()]
    )
    assert texts(shown) == ["hi", "Hello", "Next"]


def test_a_tool_call_is_one_card_in_its_final_state_where_it_began() -> None:
    call = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "exec", "kind": "execute"}
    change = {"sessionUpdate": "tool_call_update", "toolCallId": "t"}
    shown = replay_updates(
        [
            prompt("go"),
            entry("update", {**call, "status": "in_progress"}),
            said("meanwhile"),
            entry("update", {**change, "status": "completed", "rawOutput": 7}),
            done(),
        ]
    )
    assert [u["sessionUpdate"] for u in shown][1:] == ["tool_call", "agent_message_chunk"]
    assert (shown[1]["status"], shown[1]["rawOutput"]) == ("completed", 7)


@pytest.mark.parametrize(("running", "status"), [((), "failed"), ((RunId("r1"),), "in_progress")])
def test_an_open_tool_call_has_failed_unless_its_run_goes_on(
    running: tuple[RunId, ...], status: str
) -> None:
    call = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x", "status": "in_progress"}
    shown = replay_updates([prompt("go"), entry("update", call)], running=running)
    assert shown[1]["status"] == status
    assert (INTERRUPTED in texts(shown)) is (not running)


@pytest.mark.requirement("C098")
def test_a_card_keeps_its_own_title_where_another_process_was_told_a_paraphrase() -> None:
    call: Json = {"sessionUpdate": "tool_call", "toolCallId": "t", "status": "in_progress"}
    own = {**call, "title": "exec: ls", "kind": "execute", "rawInput": {"command": "ls"}}
    watched = {**call, "title": "Exec list files", "kind": "other", "status": "completed"}
    for entries in ([own, watched], [watched, own]):
        shown = replay_updates([prompt("go"), *(entry("update", each) for each in entries), done()])
        assert (shown[1]["title"], shown[1]["kind"]) == ("exec: ls", "execute")


def test_only_the_last_plan_of_a_turn_is_shown() -> None:
    first = updates.plan([{"content": "a", "status": "pending"}])
    last = updates.plan([{"content": "a", "status": "completed"}])
    shown = replay_updates([prompt("x"), entry("update", first), entry("update", last), done()])
    assert [u for u in shown if u["sessionUpdate"] == "plan"] == [last]


@pytest.mark.requirement("C034")
def test_terminals_and_stale_state_are_left_out() -> None:
    card = {
        "sessionUpdate": "tool_call",
        "toolCallId": "t",
        "title": "x",
        "status": "completed",
        "content": [
            {"type": "terminal", "terminalId": "gone"},
            {"type": "content", "content": {"type": "text", "text": "kept"}},
        ],
    }
    stale = [
        entry("update", update)
        for update in (
            updates.usage(1, 2),
            updates.config_options([]),
            updates.current_mode("high"),
            updates.available_commands([]),
        )
    ]
    shown = replay_updates([prompt("x"), entry("update", card), *stale, done()])
    assert [u["sessionUpdate"] for u in shown] == ["user_message_chunk", "tool_call"]
    assert [each["type"] for each in shown[1]["content"]] == ["content"]


@pytest.mark.parametrize(
    ("decision", "told"), [("allow-once", "allowed once"), ("deny", "denied"), ("new", "answered")]
)
def test_a_permission_is_told_as_text(decision: str, told: str) -> None:
    asked = {"approvalId": "a", "toolCall": {"rawInput": {"command": "rm x"}}, "options": []}
    shown = replay_updates(
        [
            prompt("x"),
            entry("permission", asked),
            entry("decision", {"approvalId": "a", "decision": decision}),
            done(),
        ]
    )
    assert texts(shown)[1] == f"Permission asked: rm x ({told})"


def test_of_two_decisions_the_later_is_told() -> None:
    decisions = [{"approvalId": "a", "decision": each} for each in ("allow-once", "deny")]
    entries = [entry("decision", each) for each in decisions]
    shown = replay_updates([prompt("x"), entry("permission", {"approvalId": "a"}), *entries])
    assert texts(shown)[1] == "Permission asked (denied)"


@pytest.mark.requirement("C090")
def test_a_turn_recorded_late_stands_where_it_belongs() -> None:
    shown = replay_updates(
        [
            prompt("one", "r1"),
            done("r1"),
            prompt("three", "r3"),
            done("r3"),
            prompt("two", "r2", after="r1", note="added"),
            done("r2"),
            prompt("zero", "r0", after=""),
            done("r0"),
        ]
    )
    assert texts(shown) == ["zero", "one", "two", "added", "three"]


def test_what_was_trimmed_is_said_first() -> None:
    assert "12 entries" in texts(replay_updates([prompt("x"), done()], trimmed=12))[0]


def test_a_long_text_goes_out_in_pieces() -> None:
    text = "é" * (2 * MAX_CHUNK + 5)
    pieces = texts(replay_updates([said(text)]))
    assert "".join(pieces) == text
    assert max(map(len, pieces)) == MAX_CHUNK


def test_runs_without_an_outcome_are_open() -> None:
    entries = [prompt("a", "r1"), done("r1"), prompt("b", "r2"), said("x", run="r9")]
    assert open_runs(entries) == ["r2"]


def test_entries_of_a_later_version_are_passed_over() -> None:
    assert replay_updates([entry("hologram", {}), entry("update", {"sessionUpdate": "x"})]) == [
        {"sessionUpdate": "x"}
    ]
