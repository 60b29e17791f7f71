"""How the end of a run is told: a stop reason or an error, and never in silence."""

from __future__ import annotations

from typing import Any

import pytest

from acp_bridge.core.endings import PARTIAL, STOP_REASONS, Ending, ending, report_ending
from acp_bridge.core.events import SESSION_CONFLICT, EndKind, RunEnded, RunReported, RunState
from acp_bridge.errors import LocalProtocolError, OutcomeUnknown, RunFailed, to_jsonrpc
from acp_bridge.ids import RunId

RUN = RunId("r")


def failed(**fields: Any) -> Ending:
    return ending(RunEnded(RUN, EndKind.FAILED, **fields))


@pytest.mark.parametrize("reason", sorted(STOP_REASONS))
def test_a_finished_run_ends_with_the_reason_it_gives(reason: str) -> None:
    assert ending(RunEnded(RUN, EndKind.FINISHED, stop_reason=reason)) == Ending(reason, None, None)


@pytest.mark.parametrize("reason", [None, "stop", ""])
def test_a_finished_run_without_a_reason_of_acp_ends_its_turn(reason: str | None) -> None:
    assert ending(RunEnded(RUN, EndKind.FINISHED, stop_reason=reason)).stop_reason == "end_turn"


@pytest.mark.requirement("C043")
@pytest.mark.requirement("C044")
def test_an_aborted_run_is_cancelled_and_says_why_if_it_does() -> None:
    assert ending(RunEnded(RUN, EndKind.ABORTED)) == Ending("cancelled", None, None)
    interrupted = ending(RunEnded(RUN, EndKind.ABORTED, error="Restarting"))
    assert interrupted == Ending("cancelled", None, "Restarting")


@pytest.mark.parametrize(
    ("kind", "reason"), [("refusal", "refusal"), ("context_length", "max_tokens")]
)
def test_a_failure_that_acp_has_a_stop_reason_for_ends_with_it_and_a_notice(
    kind: str, reason: str
) -> None:
    assert failed(error_kind=kind, error="No.") == Ending(reason, None, "No.")
    silent = failed(error_kind=kind)
    assert silent.stop_reason == reason
    assert silent.notice


@pytest.mark.parametrize("kind", ["timeout", "rate_limit", "auth", "unknown", "new_kind", None])
def test_any_other_failure_is_an_error_with_a_code_and_the_gateways_words(
    kind: str | None,
) -> None:
    detail = {"provider": "fake"}
    end = failed(error_kind=kind, error="HTTP 401: bad key", detail=detail)
    assert end.stop_reason is None
    assert isinstance(end.error, RunFailed)
    assert end.notice == "HTTP 401: bad key"
    answer = to_jsonrpc(end.error)
    assert answer["message"] == "HTTP 401: bad key"
    assert answer["data"]["code"] == "run_failed"
    assert answer["data"]["kind"] == (kind or "unknown")
    assert answer["data"]["gateway"] == detail
    assert answer["data"]["hint"]


def test_a_session_conflict_tells_what_helps() -> None:
    end = failed(error_kind=SESSION_CONFLICT, error="conflicted")
    assert end.error is not None
    answer = to_jsonrpc(end.error)
    assert answer["data"]["kind"] == "session_conflict"
    assert "in a new session" in answer["data"]["hint"]


def test_a_failure_without_words_is_shown_too() -> None:
    for error in (None, "", "  "):
        end = failed(error=error)
        assert end.notice
        assert end.error is not None
        assert end.error.message == end.notice


def test_a_failure_of_many_words_is_cut() -> None:
    end = failed(error="x" * 1_000_000 + "\ud83d")
    assert end.notice is not None
    assert len(end.notice) < 10_000
    assert "left out" in end.notice
    end.notice.encode()


def test_what_the_gateway_reports_after_a_reconnect_ends_the_turn_alike() -> None:
    def report(state: RunState, **fields: Any) -> Ending:
        return report_ending(RunReported(RUN, state, **fields))

    assert report(RunState.FINISHED) == Ending("end_turn", None, None)
    assert report(RunState.FINISHED, stop_reason="max_tokens").stop_reason == "max_tokens"
    assert report(RunState.FINISHED, is_partial=True) == Ending("end_turn", None, PARTIAL)
    assert report(RunState.ABORTED, error="x") == Ending("cancelled", None, "x")
    end = report(RunState.FAILED, error="Model died")
    assert isinstance(end.error, RunFailed)
    assert end.notice == "Model died"


@pytest.mark.parametrize("state", [RunState.UNKNOWN, RunState.NOT_TAKEN, RunState.UNTOLD])
def test_an_unknown_outcome_tells_to_look_before_sending_again(state: RunState) -> None:
    end = report_ending(RunReported(RUN, state))
    assert isinstance(end.error, OutcomeUnknown)
    assert end.notice == end.error.message
    assert "look at the workspace before you send it again" in end.notice
    assert to_jsonrpc(end.error)["data"]["code"] == "outcome_unknown"


def test_a_run_that_goes_on_has_no_ending() -> None:
    with pytest.raises(LocalProtocolError):
        report_ending(RunReported(RUN, RunState.RUNNING))
