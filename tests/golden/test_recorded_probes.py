"""Recorded transcripts tell what became of a run, with the very text that was seen live."""

from __future__ import annotations

from typing import Any

import pytest

from acp_bridge.core.events import EndKind, RunEnded, RunReported, RunState
from acp_bridge.core.transcript import UsedTool
from acp_bridge.gateway.dialects.openclaw.reconcile import Answers, reported
from acp_bridge.ids import Json, RunId
from tests.support.replay import VERSIONS, names, replay, rows

OLD, NEW = VERSIONS


def answers_to(version: str, name: str, method: str) -> list[Json]:
    """The recorded answers to one method, in order."""
    asked: set[Any] = set()
    found = []
    for direction, frame in rows(version, name):
        if direction == "out" and isinstance(frame, dict) and frame.get("method") == method:
            asked.add(frame["id"])
        elif direction == "in" and frame.get("type") == "res" and frame["id"] in asked:
            found.append(frame["payload"])
    return found


def tools(report: RunReported) -> list[UsedTool]:
    return [part for part in report.parts if isinstance(part, UsedTool)]


def first_endings(version: str, name: str) -> dict[RunId, RunEnded]:
    endings: dict[RunId, RunEnded] = {}
    for event in replay(version, name).events:
        if isinstance(event, RunEnded):
            endings.setdefault(event.run_id, event)
    return endings


FINISHED_LIVE = [
    (version, name, run)
    for version in VERSIONS
    for name in ("chat-tool", "chat-think", "idempotency", "reconnect", "approval-deny")
    for run, end in first_endings(version, name).items()
    if end.kind is EndKind.FINISHED
]


@pytest.mark.parametrize(("version", "name", "run"), FINISHED_LIVE)
def test_a_finished_run_is_found_with_the_text_and_reason_seen_live(
    version: str, name: str, run: RunId
) -> None:
    history = answers_to(version, name, "chat.history")[-1]
    live = first_endings(version, name)[run]
    report = reported(Answers(run, history, wait=None, whole_rows={}))
    assert report.state is RunState.FINISHED
    assert report.snapshot == live.snapshot
    assert report.stop_reason == live.stop_reason == "end_turn"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["chat-abort", "abort-in-tool"])
def test_an_aborted_run_is_found_with_the_text_seen_live(version: str, name: str) -> None:
    history = answers_to(version, name, "chat.history")[-1]
    (run, live), *_ = first_endings(version, name).items()
    report = reported(Answers(run, history, wait=None, whole_rows={}))
    assert (report.state, report.snapshot) == (RunState.ABORTED, live.snapshot)


@pytest.mark.parametrize("version", VERSIONS)
def test_tools_that_ended_meanwhile_are_reported_with_their_output(version: str) -> None:
    history = answers_to(version, "chat-tool", "chat.history")[-1]
    two = reported(Answers(RunId("run-3"), history, wait=None, whole_rows={}))
    assert [(tool.failed, tool.output) for tool in tools(two)] == [(False, "one"), (False, "two")]
    missing = reported(Answers(RunId("run-5"), history, wait=None, whole_rows={}))
    (tool,) = tools(missing)
    assert tool.failed
    assert tool.output is not None
    assert "/nonexistent" in tool.output


@pytest.mark.parametrize("version", VERSIONS)
def test_a_run_in_flight_is_running_even_if_its_prompt_is_not_written_yet(version: str) -> None:
    history = answers_to(version, "reconnect", "chat.history")[0]
    assert bool(history["messages"]) is (version == NEW)
    report = reported(Answers(RunId("run-1"), history, wait=None, whole_rows={}))
    assert report.state is RunState.RUNNING
    assert report.snapshot is not None
    assert report.snapshot.startswith("slow-0 slow-1")


def test_a_prompt_that_the_killed_gateway_never_wrote_was_not_taken() -> None:
    history = answers_to(OLD, "restart-kill9", "chat.history")[0]
    wait = answers_to(OLD, "restart-kill9", "agent.wait")[0]
    assert wait["status"] == "timeout"
    report = reported(Answers(RunId("run-1"), history, wait, whole_rows={}))
    assert report.state is RunState.NOT_TAKEN


def test_a_prompt_that_the_killed_gateway_wrote_was_cut_and_is_not_untaken() -> None:
    history = answers_to(NEW, "restart-kill9", "chat.history")[0]
    assert history["sessionInfo"]["hasActiveRun"] is True  # the gateway resumed under another name
    report = reported(Answers(RunId("run-1"), history, wait=None, whole_rows={}))
    assert report.state is RunState.CUT


def test_a_run_cut_after_its_tool_keeps_what_is_known() -> None:
    history = answers_to(OLD, "restart-term-after-tool", "chat.history")[0]
    report = reported(Answers(RunId("run-1"), history, wait=None, whole_rows={}))
    assert (report.state, report.snapshot) == (RunState.CUT, "Calling a tool.")
    assert len(tools(report)) == 1


def test_a_run_drained_before_a_restart_is_finished() -> None:
    history = answers_to(NEW, "restart-term-after-tool", "chat.history")[0]
    live = first_endings(NEW, "restart-term-after-tool")[RunId("run-1")]
    report = reported(Answers(RunId("run-1"), history, wait=None, whole_rows={}))
    assert (report.state, report.snapshot) == (RunState.FINISHED, live.snapshot)
    assert not report.is_partial


@pytest.mark.parametrize("version", VERSIONS)
def test_a_model_error_is_told_by_agent_wait(version: str) -> None:
    wait = answers_to(version, "model-error", "agent.wait")[0]
    report = reported(Answers(RunId("run-1"), history=None, wait=wait, whole_rows={}))
    assert report.state is RunState.FAILED
    assert report.error is not None
    assert "provider rejected" in report.error


@pytest.mark.parametrize("version", VERSIONS)
def test_an_end_without_the_transcript_is_told_as_partial(version: str) -> None:
    for name in names(version):
        for wait in answers_to(version, name, "agent.wait"):
            if wait["status"] == "ok":
                report = reported(Answers(RunId("run-1"), history=None, wait=wait, whole_rows={}))
                assert (report.state, report.is_partial) == (RunState.FINISHED, True)
                return
    pytest.fail("no recording has such an answer")


def test_every_recording_of_one_version_has_its_twin() -> None:
    only_old = set(names(OLD)) - set(names(NEW))
    assert only_old == {"hs-remote-device-xff"}  # 2026.9.6 refuses it before the upgrade
    assert not set(names(NEW)) - set(names(OLD))
