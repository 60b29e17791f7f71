"""What became of a run, told from its session's transcript and from ``agent.wait``.

``chat.history`` names the run in flight, and the row of a prompt carries ``<run id>:user`` as its
idempotency key, which is the exact test for "the gateway has this prompt". Three traps, measured:

- 2026.6.11 writes that row late: a transcript may be empty while the run is in flight.
- ``agent.wait`` says "timeout" for a running run, an unknown one and, on 2026.6.11, an aborted
  one, so that this answer alone tells nothing.
- Rows above 128 KiB are left out, in 2026.6.11 together with their idempotency key. So a
  prompt is called *not taken* only if no row could be hiding it.
"""

from __future__ import annotations

from typing import NamedTuple

from acp_bridge.core.events import RunReported, RunState
from acp_bridge.gateway.dialects.openclaw.content import message_text, stop_reason, text_parts
from acp_bridge.gateway.dialects.openclaw.encode import HISTORY_ROWS
from acp_bridge.gateway.dialects.openclaw.frames import as_list, as_object, as_text
from acp_bridge.ids import Json, RunId, ToolCallId


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
    could_hide_prompt: bool


def reported(answers: Answers) -> RunReported:
    """The state of the run."""
    history = as_object(answers.history)
    in_flight = as_object(history.get("inFlightRun"))
    transcript = _transcript(answers)
    if in_flight.get("runId") == answers.run_id:
        text = as_text(in_flight.get("text"))
        return _report(answers, transcript, RunState.RUNNING, snapshot=text)
    report = _by_wait(answers, transcript)
    if report is None and transcript.guessed_prompt is None:
        report = _by_ending(answers, transcript) or _by_absence(answers, transcript)
    return report or RunReported(answers.run_id, RunState.UNKNOWN)


def left_out_rows(answers: Answers) -> list[str]:
    """Ids of rows that the history left out and that are needed: the run's own answers, and the
    newest prompt if it may be the run's."""
    history = as_object(answers.history)
    if as_object(history.get("inFlightRun")).get("runId") == answers.run_id:
        return []
    transcript = _transcript(answers)
    needed = [row for row in transcript.rows if row.get("role") == "assistant"]
    if transcript.guessed_prompt:
        needed.append(transcript.guessed_prompt)
    return [row_id for row in needed if _is_left_out(row) and (row_id := _row_id(row))]


def _by_wait(answers: Answers, transcript: _Transcript) -> RunReported | None:
    wait = as_object(answers.wait)
    error = as_text(wait.get("error"))
    match wait.get("status"):
        case "ok":
            # Only the last segment's text, but better than none.
            reply = as_text(as_object(wait.get("terminalReply")).get("text"))
            text = _text(transcript) or reply
            return _report(answers, transcript, RunState.FINISHED, snapshot=text)
        case "error" if error == "aborted" or wait.get("stopReason") == "rpc":
            return _report(answers, transcript, RunState.ABORTED, snapshot=_text(transcript))
        case "error":
            text = _text(transcript)
            return _report(answers, transcript, RunState.FAILED, snapshot=text, error=error)
        case _:
            return None


def _by_ending(answers: Answers, transcript: _Transcript) -> RunReported | None:
    """Judge by the last answer in the transcript."""
    answered = [row for row in transcript.rows if row.get("role") == "assistant"]
    if not answered:
        return None
    last = answered[-1]
    text = _text(transcript)
    if _abort_of(last) or last.get("stopReason") == "aborted":
        return _report(answers, transcript, RunState.ABORTED, snapshot=text)
    if last.get("stopReason") == "error":
        error = as_text(last.get("errorMessage"))
        return _report(answers, transcript, RunState.FAILED, snapshot=text, error=error)
    if stop_reason(last.get("stopReason")):
        return _report(answers, transcript, RunState.FINISHED, snapshot=text)
    return None


def _by_absence(answers: Answers, transcript: _Transcript) -> RunReported:
    """No answer speaks of an end: stopped before it, or never arrived, or nobody knows."""
    session = as_object(as_object(answers.history).get("sessionInfo"))
    is_idle = session.get("hasActiveRun") is False
    if is_idle and not transcript.has_prompt and not transcript.could_hide_prompt:
        return RunReported(answers.run_id, RunState.NOT_TAKEN)
    was_stopped = is_idle and transcript.is_newest and session.get("status") == "killed"
    state = RunState.ABORTED if was_stopped else RunState.UNKNOWN
    return _report(answers, transcript, state, snapshot=_text(transcript))


def _report(
    answers: Answers,
    transcript: _Transcript,
    state: RunState,
    *,
    snapshot: str | None,
    error: str | None = None,
) -> RunReported:
    reason = None
    if state is RunState.FINISHED and transcript.rows:
        reason = stop_reason(transcript.rows[-1].get("stopReason"))
    return RunReported(
        answers.run_id,
        state,
        snapshot=snapshot,
        error=error,
        stop_reason=reason,
        ended_tools=tuple(
            (ToolCallId(call), row.get("isError") is True, message_text(row))
            for row in transcript.rows
            if row.get("role") == "toolResult" and (call := as_text(row.get("toolCallId")))
        ),
    )


def _transcript(answers: Answers) -> _Transcript:
    """The run's rows: those after its prompt up to the next one, and those that name the run."""
    if answers.history is None:
        return _Transcript(
            [],
            is_whole=False,
            guessed_prompt=None,
            has_prompt=False,
            is_newest=False,
            could_hide_prompt=True,
        )
    messages = [
        answers.whole_rows.get(_row_id(row) or "", row)
        for row in map(as_object, as_list(answers.history.get("messages")))
    ]
    key = f"{answers.run_id}:user"
    prompts = [index for index, row in enumerate(messages) if row.get("role") == "user"]
    start = next((index for index in prompts if _prompt_key(messages[index]) == key), None)
    hidden = [i for i in prompts if _is_left_out(messages[i]) and not _prompt_key(messages[i])]
    is_guess = start is None and bool(hidden) and hidden[-1] == prompts[-1]
    if is_guess:
        start = hidden[-1]
    own: list[Json] = []
    is_open = False
    for index, row in enumerate(messages):
        if row.get("role") == "user":
            is_open = index == start
        elif _run_of(row) == answers.run_id or (is_open and _run_of(row) is None):
            own.append(row)
    is_cut = len(messages) >= HISTORY_ROWS
    return _Transcript(
        own,
        is_whole=start is not None or not is_cut,
        guessed_prompt=messages[hidden[-1]] if is_guess else None,
        has_prompt=start is not None or bool(own),
        is_newest=start is not None and start == prompts[-1],
        could_hide_prompt=bool(hidden) or is_cut,
    )


def _text(transcript: _Transcript) -> str | None:
    """The run's whole text, joined as the gateway's live text is.

    The live text has each segment without blanks at its end; 2026.6.11 puts nothing between two
    segments, 2026.9.6 an empty line. Only the latter names the run in its rows. An abort row
    holds the whole live text.
    """
    answers = [row for row in transcript.rows if row.get("role") == "assistant"]
    if not transcript.is_whole or any(_is_left_out(row) for row in answers):
        return None
    if answers and _abort_of(answers[-1]):
        return message_text(answers[-1])
    between = "\n\n" if any(_run_of(row) for row in answers) else ""
    segments = ("\n".join(text_parts(row)).rstrip() for row in answers)
    return between.join(segment for segment in segments if segment) or None


def _abort_of(row: Json) -> bool:
    return as_object(row.get("openclawAbort")).get("aborted") is True


def _is_left_out(row: Json) -> bool:
    return as_object(row.get("__openclaw")).get("truncated") is True


def _row_id(row: Json) -> str | None:
    return as_text(as_object(row.get("__openclaw")).get("id"))


def _run_of(row: Json) -> str | None:
    return as_text(as_object(row.get("__openclaw")).get("runId"))


def _prompt_key(row: Json) -> str | None:
    meta = as_object(row.get("__openclaw"))
    return as_text(row.get("idempotencyKey")) or as_text(meta.get("idempotencyKey"))
