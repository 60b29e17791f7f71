"""What the gateway's transcript adds to the ledger."""

from __future__ import annotations

from typing import Any

import pytest

from acp_bridge.core.heal import ADDED, GAP, LATER, Addition, additions
from acp_bridge.core.replay import Recorded, distinct, replay_updates, runs_given_up
from acp_bridge.core.transcript import (
    PastTurn,
    SaidText,
    SaidThought,
    Transcript,
    UsedTool,
)
from acp_bridge.core.turn_view import text_of
from acp_bridge.errors import BridgeError, GatewayTimeout, OutcomeUnknown, RunFailed, to_jsonrpc
from acp_bridge.ids import Json, RunId, ToolCallId
from acp_bridge.wire import updates

NOW = 5_000


def past(run: str | None, prompt: str = "hi", *parts: Any, **more: Any) -> PastTurn:
    fields: dict[str, Any] = {
        "run_id": RunId(run) if run else None,
        "at": 1_000,
        "prompt": prompt,
        "attachments": (),
        "parts": parts,
        "stop_reason": "end_turn",
        "error": None,
        **more,
    }
    return PastTurn(**fields)


def transcript(*turns: PastTurn, running: str | None = None) -> Transcript:
    return Transcript(turns, RunId(running) if running else None, None, is_whole=True)


def entry(kind: str, payload: Json, run: str) -> Recorded:
    return Recorded(kind, payload, RunId(run), 1_000)


def recorded(run: str, prompt: str, *said: str, ended: bool = True) -> list[Recorded]:
    blocks = [{"type": "text", "text": prompt}]
    entries = [entry("prompt", {"prompt": blocks}, run)]
    for number, text in enumerate(said):
        entries.append(entry("update", updates.message_chunk(text, f"{run}:text:{number}"), run))
    if ended:
        entries.append(entry("outcome", {"stop_reason": "end_turn"}, run))
    return entries


def heal(entries: list[Recorded], told: Transcript) -> list[Addition]:
    return additions(entries, told, cwd="/w", now=NOW)


def shown_texts(entries: list[Recorded]) -> list[str]:
    shown = replay_updates(entries)
    return [u["content"]["text"] for u in shown if isinstance(u.get("content"), dict)]


def healed(entries: list[Recorded], told: Transcript) -> list[str]:
    return shown_texts(entries + [each.record for each in heal(entries, told)])


def test_what_both_have_adds_nothing() -> None:
    entries = recorded("r1", "hi", "Hello") + recorded("r2", "again", "Sure")
    told = transcript(past("r1", "hi", SaidText("Hello")), past("r2", "again", SaidText("Sure")))
    assert heal(entries, told) == []


UUID, MASKED_UUID = "5f56e886-f1b4-482c-8efc-75ab5ca61b47", "5f56e886-f1b4-482c-8e***"


@pytest.mark.parametrize("is_trimmed", [False, True])
def test_a_run_whose_id_the_gateway_masks_is_known(is_trimmed: bool) -> None:
    entries = recorded("r1", "hi", "Hello") + recorded(UUID, "again", "Sure")
    told = transcript(past("r1"), past(MASKED_UUID, "again", SaidText("Sure")))
    assert additions(entries, told, cwd="/w", now=NOW, is_trimmed=is_trimmed) == []


def test_a_run_whose_id_the_gateway_masks_may_run_still() -> None:
    told = transcript(past(MASKED_UUID, "hi", SaidText("Hel")), running=UUID)
    assert heal([], told) == []


def test_two_runs_that_mask_alike_in_part_are_two() -> None:
    told = transcript(past(MASKED_UUID, "hi", SaidText("Hello")))
    assert "Hello" in healed(recorded(f"0{UUID}", "other", "Yes"), told)


@pytest.mark.requirement("C063")
def test_the_rest_of_a_turn_that_ended_unheard_is_added_once() -> None:
    entries = recorded("r1", "hi", "Hello wor", ended=False)
    told = transcript(past("r1", "hi", SaidText("Hello world. ")))
    assert healed(entries, told) == ["hi", "Hello world."]

    again = entries + [each.record for each in heal(entries, told)]
    assert heal(again, told) == []


@pytest.mark.requirement("C047", "C063")
@pytest.mark.parametrize("error", [OutcomeUnknown(), GatewayTimeout()])
def test_a_turn_that_was_given_up_gets_its_rest_once_and_says_where_from(
    error: BridgeError,
) -> None:
    given_up = [
        *recorded("r1", "hi", "Hello wor", ended=False),
        entry("update", updates.message_chunk("lost", "r1:notice:end"), "r1"),
        entry("outcome", {"error": to_jsonrpc(error)}, "r1"),
    ]
    told = transcript(past("r1", "hi", SaidText("Hello world. ")))
    assert healed(given_up, told) == ["hi", "Hello wor", "lost", f"\n\n{LATER}\n\n", "ld."]

    again = given_up + [each.record for each in heal(given_up, told)]
    assert heal(again, told) == []
    assert runs_given_up(given_up) == ["r1"]
    assert runs_given_up(again) == []


@pytest.mark.requirement("C063")
def test_a_turn_that_was_given_up_and_had_failed_says_both_in_messages_of_their_own() -> None:
    given_up = [
        *recorded("r1", "hi", "Hello wor", ended=False),
        entry("update", updates.message_chunk("lost", "r1:notice:end"), "r1"),
        entry("outcome", {"error": to_jsonrpc(OutcomeUnknown())}, "r1"),
    ]
    told = transcript(past("r1", "hi", SaidText("Hello wor"), error="broken", stop_reason=None))
    added = heal(given_up, told)
    shown = replay_updates(given_up + [each.record for each in added])
    names = [update["messageId"] for update in shown if update.get("messageId")]
    assert len(set(names)) == len(names)
    assert shown_texts(given_up + [each.record for each in added])[-1] == "broken"
    keys = [each.key for each in added]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("more", ["", " and more"])
def test_a_rewritten_turn_that_was_given_up_gets_only_what_it_lacks(more: str) -> None:
    given_up = [
        *recorded("r1", "hi", "First try", "Second, better try ", ended=False),
        entry("outcome", {"error": to_jsonrpc(OutcomeUnknown())}, "r1"),
    ]
    shown = healed(given_up, transcript(past("r1", "hi", SaidText(f"Second, better try{more}"))))
    later = [f"\n\n{LATER}\n\n", "and more"] if more else []
    assert shown == ["hi", "First try", "Second, better try ", *later]


def test_segments_that_were_shown_as_one_message_are_not_added_in_other_white_space() -> None:
    card = updates.tool_call(ToolCallId("t1"), "read", kind="read", status="completed")
    entries = recorded("r1", "hi", ended=False)
    entries += [
        entry("update", card, "r1"),
        entry("update", updates.message_chunk("one\n\ntwo three", "r1:text:0"), "r1"),
    ]
    used = UsedTool(ToolCallId("t1"), "read", {}, "done", failed=False)
    told = transcript(past("r1", "hi", SaidText("one"), used, SaidText("two three four")))
    assert healed(entries, told)[1:] == ["one\n\ntwo three four"]


def test_a_turn_that_failed_as_the_gateway_said_gets_nothing() -> None:
    failed = recorded("r1", "hi", "Hel", ended=False)
    failed.append(entry("outcome", {"error": to_jsonrpc(RunFailed("broken"))}, "r1"))
    assert heal(failed, transcript(past("r1", "hi", SaidText("Hello")))) == []


@pytest.mark.requirement("C063")
def test_a_turn_whose_beginning_was_lost_with_its_ledger_is_taken_from_the_gateway() -> None:
    rest = {**updates.message_chunk("ld.", "r2:text:0"), "offset": 9, "until": 12}
    tail = [entry("update", rest, "r2"), entry("outcome", {"stop_reason": "end_turn"}, "r2")]
    told = transcript(
        past("r1", "before", SaidText("yes")), past("r2", "hi", SaidText("Hello world."))
    )
    added = [each.record for each in heal(tail, told)]
    shown = shown_texts(distinct(tail + added))
    assert [text for text in shown if text != ADDED] == ["before", "yes", "hi", "Hello world."]
    assert heal(tail + added, told) == []


def test_a_turn_that_still_runs_is_left_to_come_live() -> None:
    entries = recorded("r1", "hi", "Hello wor", ended=False)
    assert heal(entries, transcript(past("r1", "hi", SaidText("Hello world")), running="r1")) == []


@pytest.mark.requirement("C090")
def test_a_foreign_turn_is_added_in_its_place_and_marked() -> None:
    entries = recorded("r1", "one", "1") + recorded("r3", "three", "3")
    told = transcript(
        past("r1", "one", SaidText("1")),
        past("r2", "two", SaidThought("hm"), SaidText("2")),
        past("r3", "three", SaidText("3")),
    )
    texts = healed(entries, told)
    assert [text for text in texts if "transcript" not in text] == [
        "one", "1", "two", "hm", "2", "three", "3",
    ]  # fmt: skip
    assert "transcript" in texts[3]


@pytest.mark.requirement("C064")
def test_turns_after_a_reset_of_the_session_follow_those_before_it() -> None:
    entries = recorded("r1", "one", "1") + recorded("r2", "two", "2")
    told = transcript(past("f1", "three", SaidText("3")), past("f2", "four", SaidText("4")))
    texts = [text for text in healed(entries, told) if "transcript" not in text]
    assert texts == ["one", "1", "two", "2", "three", "3", "four", "4"]


def test_the_end_of_a_long_transcript_follows_what_is_older_and_the_gap_is_told() -> None:
    entries = recorded("r1", "one", "1") + recorded("r9", "nine", "9")
    turns = (past("f7", "seven", SaidText("7")), past("r9", "nine", SaidText("9")))
    texts = healed(entries, Transcript(turns, None, None, is_whole=False))
    assert [text for text in texts if len(text) < 9] == ["one", "1", "seven", "7", "nine", "9"]
    assert GAP in texts[3]


def test_what_the_limits_trimmed_is_not_brought_back() -> None:
    entries = recorded("r2", "two", "2")
    told = transcript(
        past("r1", "one", SaidText("1")),
        past("r2", "two", SaidText("2")),
        past("r3", "three", SaidText("3")),
    )
    added = additions(entries, told, cwd="/w", now=NOW, is_trimmed=True)
    assert {each.record.run_id for each in added} == {"r3"}


def test_a_turn_whose_beginning_was_trimmed_stays_as_it_is() -> None:
    entries = recorded("r1", "one", "1", "one more")[2:] + recorded("r2", "two", "2")
    told = transcript(past("r1", "one", SaidText("1")), past("r2", "two", SaidText("2")))
    assert additions(entries, told, cwd="/w", now=NOW, is_trimmed=True) == []


def placed(run: str, offset: int, text: str) -> Recorded:
    place = {"offset": offset, "until": offset + len(text)}
    return entry("update", {**updates.message_chunk(text, f"{run}:text:0"), **place}, run)


@pytest.mark.parametrize(
    ("kept", "added"),
    [
        (placed("r1", 4, "two "), ["three", "b"]),
        (placed("r1", 8, "three"), ["b"]),
        (placed("r1", 4, "another word"), []),
        (entry("update", updates.thought_chunk("Hm.", "r1:thought:0"), "r1"), []),
    ],
    ids=["the rest", "nothing more", "another text", "no text"],
)
def test_the_rest_of_a_turn_whose_beginning_was_trimmed_comes_without_that_beginning(
    kept: Recorded, added: list[str]
) -> None:
    calls = [UsedTool(ToolCallId(call), "read", {"path": call}, None, False) for call in "ab"]
    turn = past("r1", "hi", SaidText("one "), calls[0], SaidText("two three"), calls[1])
    found = additions([kept], transcript(turn), cwd="/w", now=NOW, is_trimmed=True)
    *shown, outcome = [each.record.payload for each in found]
    assert [each.get("toolCallId") or text_of(each) for each in shown] == added
    assert outcome == {"stop_reason": "end_turn"}


def test_turns_newer_than_all_that_was_kept_are_added_to_a_trimmed_session() -> None:
    told = transcript(past("r2", "two", SaidText("2")))
    added = additions(recorded("r1", "one", "1"), told, cwd="/w", now=NOW, is_trimmed=True)
    assert {each.record.run_id for each in added} == {"r2"}


def test_a_turn_without_a_key_keeps_one_name() -> None:
    told = transcript(past(None, "who am I", SaidText("nobody")))
    first, second = heal([], told), heal([], told)
    assert [each.key for each in first] == [each.key for each in second]
    assert len({each.key for each in first}) == len(first)


def test_a_tool_whose_end_fell_into_the_gap_is_ended() -> None:
    card = updates.tool_call(ToolCallId("t"), "exec", kind="execute", status="in_progress")
    entries = [
        *recorded("r1", "hi", "Calling.", ended=False),
        entry("update", card, "r1"),
    ]
    tool = UsedTool(ToolCallId("t"), "exec", {"command": "ls"}, "a b", failed=False)
    told = transcript(past("r1", "hi", SaidText("Calling. "), tool, SaidText("Done.")))
    shown = replay_updates(entries + [each.record for each in heal(entries, told)])
    (shown_card,) = [u for u in shown if u["sessionUpdate"] == "tool_call"]
    assert shown_card["status"] == "completed"
    assert [u["content"]["text"] for u in shown if u["sessionUpdate"] == "agent_message_chunk"] == [
        "Calling.",
        "Done.",
    ]


def test_resumed_work_is_the_rest_of_the_turn_before() -> None:
    entries = recorded("r1", "hi", "Half", ended=False)
    told = transcript(
        past("r1", "hi", SaidText("Half"), stop_reason=None),
        past("r2", "[System] go on", SaidText("whole"), is_system=True),
    )
    texts = healed(entries, told)
    assert texts[0] == "hi"
    assert texts[-1] == "whole"
    assert "[System]" not in "".join(texts)


def test_a_failed_turn_says_why() -> None:
    entries = recorded("r1", "hi", ended=False)
    told = transcript(past("r1", "hi", stop_reason=None, error="the model is gone"))
    assert healed(entries, told) == ["hi", "the model is gone"]
