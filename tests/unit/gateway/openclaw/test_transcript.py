"""A history becomes the turns that were had.

The usual cases are in tests/golden, on what real gateways answered; here are those that no
recording has.
"""

from __future__ import annotations

from typing import Any

import pytest

from acp_bridge.core.commands import Attachment
from acp_bridge.core.transcript import PastTurn, SaidText, SaidThought, Transcript, UsedTool
from acp_bridge.gateway.dialects.openclaw.transcript import UNEXPLAINED, read_transcript
from acp_bridge.ids import Json, RunId, ToolCallId
from tests.unit.gateway.openclaw.test_rows import answer, prompt

IDLE = {"hasActiveRun": False, "status": "done"}
NAME = "0b1ac7c0-56f3-4c2f-9d33-111111111111"


def read(*rows: Json, wait: Json | None = None, **history: Any) -> Transcript:
    fields = {"sessionId": "s", "messages": list(rows), "sessionInfo": IDLE, **history}
    transcript = read_transcript(fields, wait or {}, {})
    assert transcript is not None
    return transcript


def turn(*rows: Json, **history: Any) -> PastTurn:
    """The one turn."""
    (found,) = read(*rows, **history).turns
    return found


def used(call: str, output: str | None = None, **fields: Any) -> UsedTool:
    plain = UsedTool(ToolCallId(call), "exec", None, output, failed=False)
    return plain._replace(**fields)


def call(**fields: Any) -> Json:
    return {"type": "toolCall", "id": "call-1", "name": "exec", "arguments": {}, **fields}


def result(name: str | None = "call-1", text: str = "out", **fields: Any) -> Json:
    row = {"role": "toolResult", "toolCallId": name, "toolName": "exec", "content": text}
    return {**row, **fields}


def test_a_session_that_the_gateway_does_not_have_has_no_transcript() -> None:
    assert read_transcript({"messages": [], "sessionInfo": {}}, {}, {}) is None
    assert read() == Transcript((), None, None, is_whole=True)


def test_a_turn_has_its_prompt_its_parts_and_its_end() -> None:
    parts = [
        {"type": "thinking", "thinking": "Hm. "},
        {"type": "text", "text": "One."},
        {"type": "text", "text": "Two. "},
        call(arguments={"command": "ls"}),
        {"type": "image", "omitted": True},
        {"type": "text", "text": " "},
    ]
    asked = {**prompt("run-1", "hi"), "timestamp": 1000}
    said = {"role": "assistant", "content": parts, "stopReason": "toolUse"}
    assert turn(asked, said, result(details={"diff": "d"}), answer("Done. ")) == PastTurn(
        RunId("run-1"),
        1000,
        "hi",
        (),
        (
            SaidThought("Hm."),
            SaidText("One.\nTwo."),
            used("call-1", "out", args={"command": "ls"}, details={"diff": "d"}),
            SaidText("Done."),
        ),
        "end_turn",
        None,
    )


def test_a_result_whose_call_is_missing_is_a_tool_without_arguments() -> None:
    assert turn(prompt("1"), answer("Calling.", "toolUse"), result()).parts == (
        SaidText("Calling."),
        used("call-1", "out"),
    )


def test_a_call_is_told_once_and_odd_ones_not_at_all() -> None:
    calls = [call(), call(), call(id=None), {"type": "thinking", "thinking": " "}, {"type": 5}]
    said = {"role": "assistant", "content": calls}
    assert turn(prompt("1"), said, result(None)).parts == (used("call-1", args={}),)


def test_a_tool_failed_if_its_result_or_the_activity_beside_the_rows_says_so() -> None:
    failed = {"toolCallId": "call-2", "status": "failed"}
    other = {"toolCallId": "call-3", "status": "completed"}
    activity = [{"items": [failed, other, {"status": "failed"}, 5]}, 5]
    rows = (result(isError=True), result("call-2"), result("call-3", ""))
    assert turn(prompt("1"), *rows, activity=activity).parts == (
        used("call-1", "out", failed=True),
        used("call-2", "out", failed=True),
        used("call-3", ""),
    )


@pytest.mark.parametrize(
    ("whole", "parts"),
    [
        ("One.\n\nTwo", ["One.", "Two"]),
        ("One.", ["One."]),
        ("On", ["One."]),
        ("Another", ["One.", "Another"]),
        ("", ["One."]),
    ],
)
def test_the_whole_text_of_an_aborted_run_is_not_told_again(whole: str, parts: list[str]) -> None:
    aborted = {**answer(whole), "openclawAbort": {"aborted": True}}
    found = turn(prompt("1"), answer("One. ", None), aborted)
    assert found.parts == tuple(map(SaidText, parts))
    assert found.stop_reason == "cancelled"


def test_a_run_aborted_before_its_first_text_has_all_in_one_row() -> None:
    aborted = {**answer("One."), "openclawAbort": {"aborted": True}}
    assert turn(prompt("1"), aborted).parts == (SaidText("One."),)


def test_a_failed_turn_says_why_or_that_nobody_does() -> None:
    why = turn(prompt("1"), answer("⚠️ Broken.\n\nSo far", "error"))
    assert (why.error, why.stop_reason, why.parts) == ("⚠️ Broken.", None, (SaidText("So far"),))
    assert turn(prompt("1"), answer("So far", "error")).error == UNEXPLAINED


@pytest.mark.parametrize(
    ("session", "stop_reason", "error"),
    [
        (IDLE, None, None),
        ({"status": "killed"}, None, None),
        ({"status": "killed", "hasActiveRun": True}, None, None),
        ({"status": "killed", "hasActiveRun": False}, "cancelled", None),
        ({"status": "failed", "hasActiveRun": False}, None, UNEXPLAINED),
    ],
)
def test_the_newest_turn_without_an_end_ended_as_the_session_says(
    session: Json, stop_reason: str | None, error: str | None
) -> None:
    rows = (prompt("1"), answer("a", "toolUse"), prompt("2"), answer("b", "toolUse"))
    earlier, newest = read(*rows, sessionInfo=session).turns
    assert (earlier.stop_reason, earlier.error) == (None, None)
    assert (newest.stop_reason, newest.error) == (stop_reason, error)


def test_an_ended_turn_stays_ended_whatever_the_session_says() -> None:
    session = {"status": "failed", "hasActiveRun": False}
    assert turn(prompt("1"), answer("a"), sessionInfo=session).error is None
    assert turn(prompt("1"), answer("a", "aborted"), sessionInfo=session).error is None


def test_a_prompt_fed_into_another_run_is_done() -> None:
    fed = {**prompt("2"), "__openclaw": {"steerTargetRunId": "1"}}
    first, second = read(prompt("1"), fed, answer("a", runId="1")).turns
    assert (first.parts, second.parts) == ((SaidText("a"),), ())
    assert (first.stop_reason, second.stop_reason) == ("end_turn", "end_turn")


def test_the_run_in_flight_is_open_even_if_an_attempt_of_it_has_ended() -> None:
    in_flight = {"runId": "1", "text": "so far"}
    found = read(prompt("1"), answer("", "error"), inFlightRun=in_flight)
    assert (found.running, found.running_text) == ("1", "so far")
    assert (found.turns[0].stop_reason, found.turns[0].error) == (None, None)
    killed = {"hasActiveRun": False, "status": "killed"}
    assert turn(prompt("1"), inFlightRun=in_flight, sessionInfo=killed).stop_reason is None


@pytest.mark.parametrize("status", ["ok", "error"])
def test_a_run_that_has_ended_is_not_in_flight(status: str) -> None:
    in_flight = {"runId": "1", "text": ""}
    found = read(prompt("1"), answer("a"), inFlightRun=in_flight, wait={"status": status})
    assert (found.running, found.running_text) == (None, None)
    assert found.turns[0].stop_reason == "end_turn"


def waiting(state: str, run: str | None, text: str) -> Json:
    return {"state": state, "runId": run, "message": prompt(None, text), "acceptedAt": 5}


def test_prompts_that_the_gateway_has_not_begun_follow_the_rows() -> None:
    items = [
        waiting("cancelled", "2", "cancelled"),
        waiting("queued", "3", "[System] Your previous turn was interrupted by a gateway restart"),
        waiting("queued", "1", "in the rows already"),
        waiting("queued", None, "nameless"),
        5,
    ]
    active: Json = {"hasActiveRun": True}
    fields: dict[str, Any] = {"pendingInputs": {"items": items}, "sessionInfo": active}
    found = read(prompt("1"), answer("a"), **fields)
    assert [(t.run_id, t.at, t.stop_reason, t.is_system) for t in found.turns[1:]] == [
        ("2", 5, "cancelled", False),
        ("3", 5, None, True),
    ]
    assert (found.running, found.running_text) == ("3", None)
    assert read(pendingInputs={"items": items}).running is None
    assert read(sessionInfo=active).running is None


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("[Working directory: ~/p]\n\nhi\n\nthere", "hi\n\nthere"),
        ("[Working directory: ~/a]b]\n\nhi", "hi"),
        ("[Working directory: ~/p]", ""),  # nothing but files; the gateway trims
        ("hi\n[Working directory: ~/p]\n\nthere", "hi\n[Working directory: ~/p]\n\nthere"),
        ("[Working directory: a\nb]\n\nhi", "[Working directory: a\nb]\n\nhi"),
        ("[User sent media without caption]", "[User sent media without caption]"),
    ],
)
def test_the_prompt_is_what_the_user_wrote(message: str, text: str) -> None:
    assert turn(prompt("1", message)).prompt == text


def test_files_of_a_prompt_are_named_without_their_contents() -> None:
    new = {
        "media": [
            {"contentType": "image/png", "url": "media://inbound/x.png"},
            {"contentType": "text/plain", "fileName": "a.txt"},
            {},
        ]
    }
    assert turn({**prompt("1", ""), "__openclaw": new}).attachments == (
        Attachment("image", "image/png", "", None),
        Attachment("file", "text/plain", "", "a.txt"),
        Attachment("file", "application/octet-stream", "", None),
    )
    paths = [f"/m/{NAME}.png", f"/m/a---{NAME}.txt", rf"C:\m\b---{NAME}", 5]
    old = {"MediaPaths": paths, "MediaTypes": ["image/png", "text/plain", "x/y", None]}
    found = turn({**prompt("1", "[User sent media without caption]"), **old})
    assert found.prompt == ""
    assert [(each.kind, each.file_name) for each in found.attachments] == [
        ("image", None),
        ("file", "a.txt"),
        ("file", "b"),
        ("file", None),
    ]


def test_a_turn_without_a_prompt_has_the_time_of_its_first_row() -> None:
    found = turn(answer("note"), {**answer("b"), "timestamp": 7})
    assert (found.run_id, found.at, found.prompt) == (None, 7, "")


def test_a_session_begins_at_its_last_reset() -> None:
    reset = {"role": "system", "__openclaw": {"kind": "reset"}}
    rows = (prompt("1"), reset, prompt("2"), reset, prompt("3"), answer("a"))
    found = read(*rows, hasMore=True)
    assert [t.run_id for t in found.turns] == ["3"]
    assert found.is_whole
    assert not read(prompt("1"), hasMore=True).is_whole
