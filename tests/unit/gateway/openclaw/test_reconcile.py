"""What became of a run is told as far as it is certain, and no further.

The usual cases are in tests/golden, on recorded transcripts; here are those that no recording has.
"""

from __future__ import annotations

from typing import Any

import pytest

from acp_bridge.core.events import RunState
from acp_bridge.core.transcript import UsedTool
from acp_bridge.gateway.dialects.openclaw.encode import HISTORY_ROWS
from acp_bridge.gateway.dialects.openclaw.reconcile import Answers, left_out_rows, reported
from acp_bridge.ids import Json, RunId, ToolCallId

RUN = RunId("run-1")
IDLE = {"hasActiveRun": False, "status": "done"}
WAIT_TIMEOUT = {"status": "timeout"}
RESET = {"role": "system", "__openclaw": {"kind": "reset"}}
"""Rows before it are gone."""


def prompt(run: str = RUN, text: str = "hi") -> Json:
    return {"role": "user", "content": text, "idempotencyKey": f"{run}:user"}


def answer(text: str, stop: str | None = "stop", **meta: Any) -> Json:
    content = [{"type": "text", "text": text}]
    return {"role": "assistant", "content": content, "stopReason": stop, "__openclaw": meta}


def left_out(role: str, row_id: str, **meta: Any) -> Json:
    content = [{"type": "text", "text": "[chat.history omitted: message too large]"}]
    return {
        "role": role,
        "content": content,
        "__openclaw": {"id": row_id, "truncated": True, **meta},
    }


def answers(
    *rows: Json,
    wait: Json | None = None,
    session: Json | None = None,
    whole: dict[str, Json] | None = None,
    **history: Any,
) -> Answers:
    fields = {"messages": list(rows), "sessionInfo": session or IDLE, **history}
    return Answers(RUN, fields, wait, whole or {})


def state(*rows: Json, **fields: Any) -> RunState:
    return reported(answers(*rows, **fields)).state


def test_the_run_in_flight_is_running_whatever_else_is_said() -> None:
    in_flight = {"runId": RUN, "text": ""}
    report = reported(answers(prompt(), answer("old"), inFlightRun=in_flight))
    assert (report.state, report.snapshot) == (RunState.RUNNING, None)


def test_a_run_whose_end_agent_wait_knows_is_not_in_flight_any_more() -> None:
    in_flight = {"runId": RUN, "text": ""}
    rows = (prompt(), left_out("assistant", "row-2"))
    ended = answers(*rows, wait={"status": "error", "error": "broken"}, inFlightRun=in_flight)
    assert left_out_rows(ended) == ["row-2"]
    assert reported(ended).state is RunState.FAILED
    running = answers(*rows, wait=WAIT_TIMEOUT, inFlightRun=in_flight)
    assert left_out_rows(running) == []
    assert reported(running).state is RunState.RUNNING


@pytest.mark.requirement("C047")
def test_a_run_that_ended_between_the_two_answers_keeps_its_last_segment() -> None:
    in_flight = {"runId": RUN, "text": "One.\n\nTwo."}
    rows = (prompt(), answer("One.", "toolUse", runId=RUN))
    report = reported(answers(*rows, wait={"status": "ok"}, inFlightRun=in_flight))
    assert (report.state, report.snapshot) == (RunState.FINISHED, "One.\n\nTwo.")


@pytest.mark.requirement("C047")
def test_a_finished_run_keeps_the_whole_text_of_all_its_segments() -> None:
    rows = (prompt("run-0"), answer("before"), prompt(), answer("One. ", "toolUse"), answer("Two."))
    old = reported(answers(*rows, wait={"status": "ok"}))
    assert (old.state, old.snapshot, old.stop_reason) == (
        RunState.FINISHED,
        "One.Two.",
        "end_turn",
    )
    named = [prompt(), answer("One. ", "toolUse", runId=RUN), answer("Two.", runId=RUN)]
    assert reported(answers(*named, wait={"status": "ok"})).snapshot == "One.\n\nTwo."


def test_only_the_runs_own_rows_count() -> None:
    rows = (
        prompt(),
        answer("mine", runId=RUN),
        answer("of another run", runId="run-2"),
        prompt("run-3"),
        answer("the next prompt's"),
        answer("mine too", runId=RUN),
    )
    assert reported(answers(*rows)).snapshot == "mine\n\nmine too"


def test_the_last_segment_alone_is_better_than_no_text() -> None:
    wait = {"status": "ok", "terminalReply": {"disposition": "visible", "text": "the end"}}
    report = reported(Answers(RUN, None, wait, {}))
    assert (report.state, report.snapshot, report.stop_reason) == (
        RunState.FINISHED,
        "the end",
        None,
    )


@pytest.mark.parametrize(
    ("wait", "expected", "error"),
    [
        ({"status": "error", "error": "broken"}, RunState.FAILED, "broken"),
        ({"status": "error"}, RunState.FAILED, None),
        ({"status": "error", "error": "aborted"}, RunState.ABORTED, None),
        ({"status": "error", "error": "x", "stopReason": "rpc"}, RunState.ABORTED, None),
    ],
)
def test_agent_wait_tells_failures_and_aborts(
    wait: Json, expected: RunState, error: str | None
) -> None:
    report = reported(answers(prompt(), answer("so far", None), wait=wait))
    assert (report.state, report.error, report.snapshot) == (expected, error, "so far")


def test_the_transcript_tells_an_end_that_agent_wait_has_forgotten() -> None:
    assert state(prompt(), answer("done"), wait=WAIT_TIMEOUT) is RunState.FINISHED
    assert state(prompt(), answer("part", "aborted"), wait=WAIT_TIMEOUT) is RunState.ABORTED
    failed = {**answer("", "error"), "errorMessage": "broken"}
    report = reported(answers(prompt(), failed, wait=WAIT_TIMEOUT))
    assert (report.state, report.error) == (RunState.FAILED, "broken")
    explained = answer("⚠️ Timed out.\n\nSo far", "error")
    report = reported(answers(prompt(), explained, wait=WAIT_TIMEOUT))
    assert (report.error, report.snapshot) == ("⚠️ Timed out.", "So far")


def test_the_reason_of_a_cut_answer_is_kept() -> None:
    report = reported(answers(prompt(), answer("long", "length")))
    assert (report.state, report.stop_reason) == (RunState.FINISHED, "max_tokens")


def test_an_abort_row_holds_the_whole_text() -> None:
    aborted = {**answer("One.\n\nTw", runId=RUN), "openclawAbort": {"aborted": True}}
    report = reported(answers(prompt(), answer("One. ", "toolUse", runId=RUN), aborted))
    assert (report.state, report.snapshot) == (RunState.ABORTED, "One.\n\nTw")


def test_a_killed_session_without_an_answer_was_aborted_if_nothing_came_later() -> None:
    killed = {"hasActiveRun": False, "status": "killed"}
    assert state(prompt(), session=killed) is RunState.ABORTED
    assert state(prompt(), prompt("run-2"), session=killed) is RunState.UNKNOWN
    assert state(prompt(), session={**killed, "hasActiveRun": True}) is RunState.CUT


def test_the_run_with_which_a_restarted_gateway_goes_on_is_named() -> None:
    again = "[System] Your previous turn was interrupted by a gateway restart while it ran."
    rows = [prompt(), {**prompt("run-2"), "content": again}]
    report = reported(answers(*rows))
    assert (report.state, report.resumed_as, report.is_foreign) == (RunState.CUT, "run-2", True)
    resumed = reported(answers(*rows)._replace(run_id=RunId("run-2")))
    assert not resumed.is_foreign


def test_a_session_that_was_killed_before_the_prompt_says_nothing_of_its_run() -> None:
    killed = {"hasActiveRun": False, "status": "killed", "endedAt": 5}
    assert state({**prompt(), "timestamp": 6}, session=killed) is RunState.CUT
    assert state({**prompt(), "timestamp": 4}, session=killed) is RunState.ABORTED


def test_a_prompt_that_is_nowhere_was_not_taken() -> None:
    assert state(wait=WAIT_TIMEOUT) is RunState.NOT_TAKEN
    assert state(prompt("run-0"), answer("other")) is RunState.NOT_TAKEN


@pytest.mark.parametrize(
    "fields",
    [
        {"session": {"hasActiveRun": True}},
        {"session": {"status": "done"}},
        {"messages": [prompt("run-0")] * HISTORY_ROWS},
        {"messages": [RESET]},
        {"messages": [left_out("user", "row-1"), answer("other")]},
        {"messages": [left_out("user", "row-1"), prompt("run-0"), answer("other")]},
    ],
)
def test_a_prompt_that_something_could_hide_is_unknown(fields: Json) -> None:
    assert state(**fields) is RunState.UNKNOWN


def test_without_a_transcript_nothing_is_certain() -> None:
    assert reported(Answers(RUN, None, WAIT_TIMEOUT, {})).state is RunState.UNTOLD
    assert reported(Answers(RUN, None, None, {})).state is RunState.UNTOLD
    assert reported(Answers(RUN, {"messages": 5, "sessionInfo": []}, None, {})).state is (
        RunState.UNKNOWN
    )


def test_a_transcript_that_begins_within_the_run_gives_no_text_but_its_end() -> None:
    rows = [answer("middle", "toolUse", runId=RUN)] * (HISTORY_ROWS - 1)
    report = reported(answers(*rows, answer("end", runId=RUN)))
    assert (report.state, report.snapshot) == (RunState.FINISHED, None)


def test_answers_that_were_left_out_are_asked_for_and_never_shown_as_text() -> None:
    rows = (prompt(), left_out("assistant", "row-2"), answer("end"))
    first = answers(*rows, wait={"status": "ok"})
    assert left_out_rows(first) == ["row-2"]
    assert reported(first).snapshot is None
    whole = {"row-2": answer("long ", "toolUse")}
    assert reported(answers(*rows, wait={"status": "ok"}, whole=whole)).snapshot == "longend"
    in_flight = answers(*rows, inFlightRun={"runId": RUN})
    assert left_out_rows(in_flight) == []


def test_a_prompt_that_was_left_out_is_asked_for_and_guessed_only_if_the_run_is_known() -> None:
    rows = (prompt("run-0"), answer("before"), left_out("user", "row-3"), answer("after"))
    assert left_out_rows(answers(*rows)) == ["row-3"]
    assert state(*rows, wait=WAIT_TIMEOUT) is RunState.UNKNOWN
    known = reported(answers(*rows, wait={"status": "ok"}))
    assert (known.state, known.snapshot) == (RunState.FINISHED, "after")
    certain = answers(*rows, whole={"row-3": prompt()})
    assert (reported(certain).state, reported(certain).snapshot) == (RunState.FINISHED, "after")
    other = answers(*rows, whole={"row-3": prompt("run-9")})
    assert reported(other).state is RunState.NOT_TAKEN


def test_a_left_out_prompt_with_its_key_is_found(  # 2026.9.6 keeps the key
) -> None:
    mine = left_out("user", "row-1", idempotencyKey=f"{RUN}:user")
    assert left_out_rows(answers(mine, answer("done"))) == []
    assert reported(answers(mine, answer("done"))).snapshot == "done"


def test_a_tool_result_without_an_id_is_no_ended_tool() -> None:
    result = {"role": "toolResult", "content": "out"}
    report = reported(answers(prompt(), result, {**result, "toolCallId": "call-1"}))
    assert report.parts == (UsedTool(ToolCallId("call-1"), None, None, "out", failed=False),)


def test_a_run_that_answered_has_finished_though_one_of_its_tools_failed() -> None:
    failed = {"status": "error", "error": "`ls` failed"}  # 2026.6.11
    report = reported(answers(prompt(), answer("done"), wait=failed))
    assert (report.state, report.snapshot, report.error) == (RunState.FINISHED, "done", None)
    assert state(prompt(), wait=failed) is RunState.FAILED


def test_the_end_of_a_run_with_which_a_gateway_went_on_is_found_though_no_row_names_it() -> None:
    again = "[System] Your previous turn was interrupted by a gateway restart while it ran."
    system = {"role": "user", "content": again}  # 2026.6.11
    rows = (prompt("run-0"), answer("one", "toolUse"), system, answer("two, three"))
    report = reported(answers(*rows, wait={"status": "ok"}))
    assert (report.state, report.snapshot) == (RunState.FINISHED, "two, three")
    assert not report.is_foreign
    assert reported(answers(*rows, wait=WAIT_TIMEOUT)).snapshot is None
    later = answers(*rows, prompt("run-2"), answer("four"), wait={"status": "ok"})
    assert reported(later).snapshot is None
