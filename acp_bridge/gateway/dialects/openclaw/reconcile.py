"""What became of a run, told from its session's transcript and from ``agent.wait``.

``chat.history`` names the run in flight, and the row of a prompt carries ``<run id>:user`` as its
idempotency key, which is the exact test for "the gateway has this prompt". Five traps, measured:

- 2026.6.11 writes that row late: a transcript may be empty while the run is in flight.
- ``agent.wait`` says "timeout" for a running run, an unknown one and, on 2026.6.11, an aborted
  one, so that this answer alone tells nothing.
- 2026.6.11 may go on naming a run that has ended ("couldn't generate a response") as in flight,
  for ever; ``agent.wait`` then knows its end.
- 2026.6.11 says "error" of a finished run in which a tool has failed.
- Rows above 128 KiB are left out, in 2026.6.11 together with their idempotency key. So a
  prompt is called *not taken* only if no row could be hiding it.
"""

from __future__ import annotations

from typing import NamedTuple

from acp_bridge.core.events import EndKind, RunReported, RunState
from acp_bridge.gateway.dialects.openclaw.content import message_text
from acp_bridge.gateway.dialects.openclaw.frames import as_count, as_object, as_text
from acp_bridge.gateway.dialects.openclaw.rows import (
    Turn,
    ending,
    is_abort,
    is_cut,
    is_left_out,
    is_reset,
    is_restart,
    prompt_key,
    row_id,
    run_of,
    said,
    transcript_rows,
    turns,
)
from acp_bridge.gateway.dialects.openclaw.transcript import failed_calls, read_parts
from acp_bridge.ids import Json, RunId

_STATES = {
    EndKind.FINISHED: RunState.FINISHED,
    EndKind.ABORTED: RunState.ABORTED,
    EndKind.FAILED: RunState.FAILED,
}


class Answers(NamedTuple):
    """What the gateway answered to the questions about one run; None where it did not."""

    run_id: RunId
    history: Json | None
    wait: Json | None
    whole_rows: dict[str, Json]
    """Rows that the history had left out, by their id, as far as they were got."""


class _Transcript(NamedTuple):
    """The rows of one run, and how far the transcript can be trusted."""

    rows: list[Json]
    is_whole: bool
    """Whether none of the run's rows can lie before the part of the transcript that we have."""
    guessed_prompt: Json | None
    """The newest prompt, if it was left out and therefore may or may not be the run's."""
    has_prompt: bool
    is_newest: bool
    """Whether no later prompt follows."""
    resumed_as: RunId | None
    """The run as which the gateway has gone on with this one after a restart."""
    is_foreign: bool
    """Whether somebody's prompt began the run, and not the gateway itself."""
    could_hide_prompt: bool
    asked_at: int | None = None
    """When the prompt came, in the gateway's milliseconds."""


def reported(answers: Answers) -> RunReported:
    """The state of the run."""
    transcript = _transcript(answers)
    report = _by_wait(answers, transcript) or _by_flight(answers, transcript)
    if report is None and answers.history is None:
        return RunReported(answers.run_id, RunState.UNTOLD)
    if report is None and transcript.guessed_prompt is None:
        report = _by_ending(answers, transcript) or _by_absence(answers, transcript)
    return report or RunReported(answers.run_id, RunState.UNKNOWN)


def left_out_rows(answers: Answers) -> list[str]:
    """Ids of rows that the history left out and that are needed: the run's own answers, and the
    newest prompt if it may be the run's."""
    transcript = _transcript(answers)
    if _by_wait(answers, transcript) is None and _by_flight(answers, transcript):
        return []
    needed = _answers(transcript)
    if transcript.guessed_prompt:
        needed.append(transcript.guessed_prompt)
    return [name for row in needed if is_left_out(row) and (name := row_id(row))]


def _by_wait(answers: Answers, transcript: _Transcript) -> RunReported | None:
    wait = as_object(answers.wait)
    error = as_text(wait.get("error"))
    match wait.get("status"):
        case "ok":
            # Only the last segment's text, but better than none.
            reply = as_text(as_object(wait.get("terminalReply")).get("text"))
            text = _last_text(answers, transcript) or reply
            return _report(answers, transcript, RunState.FINISHED, snapshot=text)
        case "error" if error == "aborted" or wait.get("stopReason") == "rpc":
            text = _last_text(answers, transcript)
            return _report(answers, transcript, RunState.ABORTED, snapshot=text)
        case "error" if _has_finished(transcript):
            text = _last_text(answers, transcript)
            return _report(answers, transcript, RunState.FINISHED, snapshot=text)
        case "error":
            text = _last_text(answers, transcript)
            return _report(answers, transcript, RunState.FAILED, snapshot=text, error=error)
        case _:
            return None


def _has_finished(transcript: _Transcript) -> bool:
    """2026.6.11 calls a run failed that has answered, if one of its tools has failed."""
    end = ending(transcript.rows)
    return end is not None and end.kind is EndKind.FINISHED


def _by_flight(answers: Answers, transcript: _Transcript) -> RunReported | None:
    in_flight = as_object(as_object(answers.history).get("inFlightRun"))
    if in_flight.get("runId") != answers.run_id:
        return None
    text = as_text(in_flight.get("text"))
    return _report(answers, transcript, RunState.RUNNING, snapshot=text)


def _last_text(answers: Answers, transcript: _Transcript) -> str | None:
    """A history from just before the run's end has its last segment as text in flight alone."""
    in_flight = as_object(as_object(answers.history).get("inFlightRun"))
    is_its_own = in_flight.get("runId") == answers.run_id
    live = as_text(in_flight.get("text")) if is_its_own else None
    return max(live or "", _text(transcript) or "", key=len) or None


def _by_ending(answers: Answers, transcript: _Transcript) -> RunReported | None:
    """Judge by the last answer in the transcript."""
    end = ending(transcript.rows)
    if end is None:
        return None
    text = _text(transcript)
    return _report(answers, transcript, _STATES[end.kind], snapshot=text, error=end.error)


def _by_absence(answers: Answers, transcript: _Transcript) -> RunReported:
    """No answer speaks of an end: stopped before it, or never arrived, or nobody knows."""
    session = as_object(as_object(answers.history).get("sessionInfo"))
    is_idle = session.get("hasActiveRun") is False
    if is_idle and not transcript.has_prompt and not transcript.could_hide_prompt:
        return RunReported(answers.run_id, RunState.NOT_TAKEN)
    # Of a run that was cut before it began, the session still tells how the one before ended.
    ended_at = as_count(session.get("endedAt"))
    asked_at = transcript.asked_at
    is_its_own = ended_at is None or asked_at is None or ended_at >= asked_at
    is_killed = session.get("status") == "killed" and is_its_own
    is_last = transcript.has_prompt and transcript.is_newest
    if is_idle and transcript.is_newest and is_killed:
        state = RunState.ABORTED
    elif is_last or transcript.resumed_as is not None:
        state = RunState.CUT
    else:
        state = RunState.UNKNOWN
    return _report(answers, transcript, state, snapshot=_text(transcript))


def _report(
    answers: Answers,
    transcript: _Transcript,
    state: RunState,
    *,
    snapshot: str | None,
    error: str | None = None,
) -> RunReported:
    end = ending(transcript.rows)
    return RunReported(
        answers.run_id,
        state,
        snapshot=snapshot,
        error=error,
        stop_reason=end.stop_reason if end and state is RunState.FINISHED else None,
        resumed_as=transcript.resumed_as,
        is_foreign=transcript.is_foreign,
        is_busy=as_object(as_object(answers.history).get("sessionInfo")).get("hasActiveRun")
        is True,
        is_partial=answers.history is None or _is_partial(transcript),
        parts=read_parts(transcript.rows, failed_calls(as_object(answers.history))),
    )


def _transcript(answers: Answers) -> _Transcript:
    if answers.history is None:
        return _Transcript(
            [],
            is_whole=False,
            guessed_prompt=None,
            has_prompt=False,
            is_newest=False,
            resumed_as=None,
            is_foreign=False,
            could_hide_prompt=True,
        )
    rows = transcript_rows(answers.history, answers.whole_rows)
    found = turns(rows)
    own = next((turn for turn in found if turn.run_id == answers.run_id), None)
    hidden = [turn for turn in found if _hides_its_run(turn)]
    with_prompt = [turn for turn in found if turn.prompt]
    is_guess = own is None and bool(hidden) and hidden[-1] is with_prompt[-1]
    if is_guess:
        own = hidden[-1]
    if own is None and _has_ended(answers) and with_prompt and _is_nameless(with_prompt[-1]):
        own = with_prompt[-1]
    cut = is_cut(answers.history)
    has_prompt = own is not None and own.prompt is not None
    return _Transcript(
        own.rows if own else [],
        is_whole=has_prompt or not cut,
        guessed_prompt=own.prompt if is_guess and own else None,
        has_prompt=own is not None,
        is_newest=has_prompt and own is with_prompt[-1],
        resumed_as=_resumed_as(found, own),
        is_foreign=own is not None and own.prompt is not None and not is_restart(own.prompt),
        could_hide_prompt=bool(hidden) or cut or any(map(is_reset, rows)),
        asked_at=as_count(own.prompt.get("timestamp")) if own and own.prompt else None,
    )


def _resumed_as(found: list[Turn], own: Turn | None) -> RunId | None:
    following = found[found.index(own) + 1 :] if own is not None else []
    if following and (prompt := following[0].prompt) and is_restart(prompt):
        return following[0].run_id
    return None


def _has_ended(answers: Answers) -> bool:
    return as_object(answers.wait).get("status") in {"ok", "error"}


def _is_nameless(turn: Turn) -> bool:
    """2026.6.11 does not say as which run it has gone on after a restart."""
    return turn.run_id is None and turn.prompt is not None and is_restart(turn.prompt)


def _hides_its_run(turn: Turn) -> bool:
    prompt = turn.prompt
    if prompt is None or turn.run_id is not None:
        return False
    return is_left_out(prompt) and not prompt_key(prompt)


def _text(transcript: _Transcript) -> str | None:
    """The run's whole text, joined as the gateway's live text is.

    The live text has each segment without blanks at its end; 2026.6.11 puts nothing between two
    segments, 2026.9.6 an empty line. Only the latter names the run in its rows. An abort row
    holds the whole live text.
    """
    if _is_partial(transcript):
        return None
    answers = _answers(transcript)
    if answers and is_abort(answers[-1]):
        return message_text(answers[-1])
    between = "\n\n" if any(map(run_of, answers)) else ""
    segments = (said(row).rstrip() for row in answers)
    return between.join(segment for segment in segments if segment) or None


def _is_partial(transcript: _Transcript) -> bool:
    return not transcript.is_whole or any(map(is_left_out, _answers(transcript)))


def _answers(transcript: _Transcript) -> list[Json]:
    return [row for row in transcript.rows if row.get("role") == "assistant"]
