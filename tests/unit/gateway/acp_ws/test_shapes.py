"""Updates, questions and replays are mended where ACP needs it, and else passed as they are."""

from __future__ import annotations

from typing import Any

import pytest

from acp_bridge.core import events as ev
from acp_bridge.core.commands import AnswerPermission
from acp_bridge.core.transcript import SaidText, SaidThought, UsedTool
from acp_bridge.gateway.dialects.acp_ws.history import named_tools, read_transcript, whole_text
from acp_bridge.gateway.dialects.acp_ws.questions import Questions
from acp_bridge.gateway.dialects.acp_ws.refusals import sentence
from acp_bridge.gateway.dialects.acp_ws.updates import RunUpdates, mended_plan, tool_name
from acp_bridge.ids import ApprovalId, Generation, Json, ToolCallId
from tests.support.acp_dialect import R1, S1, chunk, stored

LONG = "call_0123456789abcdef"


def updated(update: Json) -> Json:
    (event,) = RunUpdates(R1).events(update)
    assert isinstance(event, ev.Updated)
    return event.update


def test_a_tool_call_passes_with_all_that_the_gateway_adds() -> None:
    update = {
        "sessionUpdate": "tool_call",
        "toolCallId": LONG,
        "name": "shell",
        "title": "shell",
        "kind": "execute",
        "status": "pending",
        "rawInput": {"command": "ls"},
        "body": "x",
    }
    assert updated(update) == update


def test_names_that_providers_count_are_made_unique() -> None:
    assert tool_name(LONG, R1) == LONG
    assert tool_name("call_0", R1) == "call_0~run-1-aa"
    assert tool_name(f"turn-cancelled-{S1}", R1) == f"turn-cancelled-{S1}~run-1-aa"


def test_what_is_missing_or_unknown_is_mended() -> None:
    odd = {"sessionUpdate": "tool_call", "toolCallId": LONG, "kind": "dance", "status": "odd"}
    assert updated(odd) == {
        "sessionUpdate": "tool_call",
        "toolCallId": LONG,
        "title": "tool",
        "kind": "other",
    }
    assert updated({**odd, "name": "shell"})["title"] == "shell"


def test_an_update_of_an_unknown_call_begins_it() -> None:
    change = {"sessionUpdate": "tool_call_update", "toolCallId": LONG, "status": "completed"}
    run = RunUpdates(R1)
    first, second = (run.events(change)[0] for _ in range(2))
    assert isinstance(first, ev.Updated)
    assert isinstance(second, ev.Updated)
    assert first.update["sessionUpdate"] == "tool_call"
    assert first.update["title"] == "tool"
    assert second.update == change


def test_a_tool_call_without_a_name_cannot_be_read() -> None:
    (event,) = RunUpdates(R1).events({"sessionUpdate": "tool_call"})
    assert isinstance(event, ev.Unreadable)


def test_a_plan_keeps_what_the_gateway_adds_to_its_entries() -> None:
    entries = [
        {"content": "one", "status": "in_progress", "priority": "high", "activeForm": "doing"},
        {"content": "two", "status": "blocked"},
        {"status": "pending"},
        "odd",
    ]
    plan = updated({"sessionUpdate": "plan", "entries": entries, "x": 1})
    assert plan["x"] == 1
    assert plan["entries"] == [
        entries[0],
        {"content": "two", "status": "pending", "priority": "medium"},
    ]
    assert mended_plan({"sessionUpdate": "plan"})["entries"] == []


@pytest.mark.parametrize(
    "update",
    [
        {"sessionUpdate": "something_new", "x": {"y": 1}},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": "AA"}},
    ],
)
def test_other_updates_pass_unchanged(update: Json) -> None:
    assert updated(update) == update


def test_a_chunk_without_content_cannot_be_read() -> None:
    (event,) = RunUpdates(R1).events({"sessionUpdate": "agent_message_chunk", "content": 5})
    assert isinstance(event, ev.Unreadable)


def test_an_empty_text_is_no_answer() -> None:
    run = RunUpdates(R1)
    run.events(chunk(""))
    assert not run.has_text
    run.events(chunk("x"))
    assert run.has_text


# --- questions -------------------------------------------------------------------------------


def ask(questions: Questions, options: Any, message_id: Any = 0) -> ev.PermissionAsked:
    params = {"sessionId": S1, "options": options, "toolCall": {"toolCallId": "ask-user-1"}}
    return questions.permission(message_id, params, R1, S1, 3600.0)


def option(name: str, kind: str, **more: Any) -> Json:
    return {"optionId": name, "name": name, "kind": kind, **more}


def test_a_question_for_the_user_has_no_time_of_the_bridge() -> None:
    asked = ask(Questions(Generation(1)), [option("choice-0", "allow_once")])
    assert asked.expires_in is None


def test_odd_options_are_left_out() -> None:
    asked = ask(Questions(Generation(1)), [option("a", "allow_once"), {"optionId": 5}, "odd"])
    assert asked.allowed == ("a",)
    assert ask(Questions(Generation(1)), None).allowed == ()


def test_an_own_kind_becomes_one_that_strict_editors_know_and_stays_beside_it() -> None:
    given = option("reject-with-edit", "reject_with_edit", _meta={"a": 1})
    asked = ask(Questions(Generation(1)), [given])
    assert asked.params is not None
    assert asked.params["options"] == [
        option(
            "reject-with-edit", "reject_once", _meta={"a": 1, "zeroclaw": {"kind": given["kind"]}}
        )
    ]


@pytest.mark.parametrize(
    ("details", "chosen"),
    [({"replacementContent": "x"}, "edit"), ({}, "no"), ({"replacementContent": 5}, "no")],
)
def test_a_rejection_with_an_edit_needs_the_edit(details: Json, chosen: str) -> None:
    questions = Questions(Generation(1))
    ask(questions, [option("edit", "reject_with_edit"), option("no", "reject_once")])
    message = questions.answer(AnswerPermission(ApprovalId("1:0"), "edit", details))
    assert message is not None
    assert message["result"]["outcome"]["optionId"] == chosen


# --- replays and errors ----------------------------------------------------------------------


def test_a_replay_without_times_is_read_too() -> None:
    updates = [
        chunk("early"),
        chunk("one", "user_message_chunk"),
        chunk("more", "user_message_chunk"),
        chunk("Hm", "agent_thought_chunk"),
        chunk("Hi"),
        chunk("two", "user_message_chunk"),
        {"sessionUpdate": "plan", "entries": []},
    ]
    one, two = read_transcript(updates, is_whole=False).turns
    assert (one.prompt, one.at, one.parts) == (
        "one\n\nmore",
        None,
        (SaidThought("Hm"), SaidText("Hi")),
    )
    assert (two.prompt, two.parts) == ("two", ())


def test_two_stored_prompts_in_a_row_are_two_turns() -> None:
    transcript = read_transcript([stored("one"), stored("two")], is_whole=True)
    assert [turn.prompt for turn in transcript.turns] == ["one", "two"]


def test_times_in_other_zones_are_cut_off_and_not_guessed() -> None:
    for text in (
        "[2026-11-30 22:00:00 CET] x",
        "[2026-11-30 22:00:00 +01:00] x",
        "[2026-13-30 22:00:00 UTC] x",
    ):
        (turn,) = read_transcript([chunk(text, "user_message_chunk")], is_whole=True).turns
        assert (turn.prompt, turn.at) == ("x", None)


def test_tools_of_a_replay_have_their_output_and_the_names_that_they_have_live() -> None:
    text = {"type": "content", "content": {"type": "text", "text": "shown"}}
    (turn,) = read_transcript(
        [
            stored("x"),
            {"sessionUpdate": "tool_call", "toolCallId": "a", "title": "read", "rawInput": {}},
            {"sessionUpdate": "tool_call_update", "toolCallId": "a", "content": [text]},
            {"sessionUpdate": "tool_call_update", "toolCallId": "b", "status": "failed"},
            chunk("Hi"),
            chunk("there"),
        ],
        is_whole=True,
    ).turns
    assert turn.parts[0] == UsedTool(ToolCallId("a"), "read", {}, "shown", failed=False)
    assert turn.parts[1] == UsedTool(ToolCallId("b"), None, None, "", failed=True)
    named = named_tools(turn, R1)
    assert [p.tool_call_id for p in named.parts if isinstance(p, UsedTool)] == [
        "a~run-1-aa",
        "b~run-1-aa",
    ]
    assert whole_text(turn) == "Hi\n\nthere"


def test_an_error_without_words_says_so() -> None:
    assert sentence({"code": 1}) == "it did not say why"
