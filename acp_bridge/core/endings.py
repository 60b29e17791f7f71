"""How a run's end is told to the editor.

An end is a stop reason of ACP or an error, never both, and an error is never a silent end: its
text is also shown in the thread, as the *notice*, because not every editor shows error texts.
"""

from __future__ import annotations

from typing import Final, NamedTuple, assert_never

from acp_bridge.core.effects import Answer, DeadlineKind, Reject
from acp_bridge.core.events import (
    SESSION_CONFLICT,
    EndKind,
    RunEnded,
    RunReported,
    RunState,
)
from acp_bridge.errors import (
    BridgeError,
    GatewayTimeout,
    LinkLost,
    LocalProtocolError,
    OutcomeUnknown,
    PromptTooLarge,
    RunFailed,
    to_jsonrpc,
)
from acp_bridge.ids import NOTHING, Json
from acp_bridge.wire.content import cut_middle

NO_REPLY: Final = "(The agent ended its turn without a reply.)"
PARTIAL: Final = (
    "(A part of the agent's answer may be missing: the gateway did not give its record of it.)"
)
TOO_LARGE: Final = 1009
"""WebSocket close code: a message was too big."""
MAX_PROBES: Final = 3
"""How often a gateway that does not tell is asked about a run after a reconnect."""
MAX_SENDS: Final = 3
"""How often one prompt may be on the wire, unanswered, when a connection ends."""

STOP_REASONS: Final = frozenset(
    {"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"}
)

_KINDS: Final = {
    RunState.FINISHED: EndKind.FINISHED,
    RunState.ABORTED: EndKind.ABORTED,
    RunState.FAILED: EndKind.FAILED,
}

_TEXT_LIMIT: Final = 8 * 1024
"""Bytes of the gateway's sentence that are passed on."""

_STOP_REASON_OF_ERROR: Final = {"refusal": "refusal", "context_length": "max_tokens"}
"""Kinds of failure for which ACP has a stop reason."""
_SENTENCES: Final = {
    "refusal": "The model refused to answer.",
    "context_length": "The conversation no longer fits into the model's context window.",
}
_HINTS: Final = {
    "timeout": "The model took too long; send the prompt again, or raise the gateway's limit.",
    "rate_limit": "The model provider limits requests; wait a little and send the prompt again.",
    "auth": "The gateway's key for the model provider was refused; check it on the gateway.",
    "billing": "The gateway's account with the model provider cannot pay; check it there.",
    "overloaded": "The model provider is overloaded; wait a little and send the prompt again.",
    "model_not_found": "The gateway is set to a model that its provider does not have.",
    SESSION_CONFLICT: "A fault of OpenClaw 2026.6.11: after its restart each session that it knew"
    " before takes one prompt, and no more. Send any prompt in a new session (/status will do),"
    " and this one answers again; what it refused comes to the agent with its next prompt."
    " Newer versions do not have the fault.",
}
_UNSAID: Final = "The agent's run failed, and the gateway did not say why."
_LOOK: Final = (
    "The work may have been done, in full or in part: look at the workspace before you send it "
    "again."
)
_LOST: Final = (
    "The connection to the gateway was lost while it worked on this prompt, and the gateway no "
    f"longer knows what became of it. {_LOOK}"
)
_AWAY: Final = (
    "The connection to the gateway was lost while it worked on this prompt, and has not come back "
    "in time (--reconnect-window). The gateway may go on with it: load the session when it can be "
    f"reached again. {_LOOK}"
)
_UNTOLD: Final = f"The gateway does not tell what became of this prompt. {_LOOK}"
_DENIED: Final = (
    "Nothing was heard of this prompt for long, and the gateway no longer knows what became of "
    f"it. {_LOOK}"
)
_VIEW: Final = "Check the files and the gateway's own view of the session first."


class Ending(NamedTuple):
    """One of ``stop_reason`` and ``error`` is set; ``notice`` is to be shown in the thread."""

    stop_reason: str | None
    error: BridgeError | None
    notice: str | None
    extras: Json = NOTHING
    """What else the gateway says for the editor."""


def outcome(answer: Answer | Reject) -> Json:
    """What the ledger keeps of a turn's answer."""
    if isinstance(answer, Answer):
        return {"stop_reason": answer.stop_reason}
    return {"error": to_jsonrpc(answer.error)}


def ending(event: RunEnded, *, is_partial: bool = False) -> Ending:
    """The ending for the terminal event of a run. ``is_partial``: the gateway has not given its
    record after a reconnect, and an end without a text leaves open what was said meanwhile."""
    how = _ending(event)
    return _partial(how) if is_partial and event.snapshot is None else how


def _ending(event: RunEnded) -> Ending:
    match event.kind:
        case EndKind.FINISHED:
            reason = _stop_reason(event.stop_reason)
            return Ending(reason, None, _text(event.error), event.extras)
        case EndKind.ABORTED:
            return Ending("cancelled", None, _text(event.error), event.extras)
        case EndKind.FAILED:
            return _failed(event)
        case _:
            assert_never(event.kind)


def _partial(how: Ending) -> Ending:
    notice = f"{how.notice}\n\n{PARTIAL}" if how.notice else PARTIAL
    return how._replace(notice=notice)


def report_ending(report: RunReported) -> Ending:
    """The ending for what the gateway said of a run after a reconnect.

    *Not taken* ends a turn only if the gateway had taken the prompt before, so that its work may
    have been done all the same. Raises ``LocalProtocolError`` for a run that goes on.
    """
    if (end := reported_end(report)) is not None:
        return ending(end, is_partial=report.is_partial)
    match report.state:
        case RunState.UNKNOWN | RunState.NOT_TAKEN | RunState.CUT:
            return _unknown(_LOST)
        case RunState.UNTOLD:
            return untold()
        case _:
            raise LocalProtocolError("a run that goes on has no ending")


def reported_end(report: RunReported) -> RunEnded | None:
    """The end of a run that is known to have ended, without its text."""
    kind = _KINDS.get(report.state)
    if kind is None:
        return None
    return RunEnded(report.run_id, kind, stop_reason=report.stop_reason, error=report.error)


def given_up(waiting_for: DeadlineKind) -> Ending:
    """What was waited for after the loss of a link has not come in time."""
    match waiting_for:
        case DeadlineKind.RECONNECT:
            return _unknown(_AWAY)
        case DeadlineKind.PROBE:
            return untold()
        case _:
            return _unknown(_LOST)


def untold() -> Ending:
    """The gateway is there, and does not say what it knows."""
    return _unknown(_UNTOLD)


def denied() -> Ending:
    """The gateway says again and again that it knows nothing of a run that was silent for long."""
    return _unknown(_DENIED)


def is_guess(recorded: Json) -> bool:
    """Whether a recorded outcome is that nobody knew: the gateway may tell more later."""
    code = recorded.get("error", {}).get("data", {}).get("code")
    return code in (OutcomeUnknown.code, GatewayTimeout.code, LinkLost.code)


def _unknown(text: str) -> Ending:
    return Ending(None, OutcomeUnknown(text, hint=_VIEW), text)


def refused(error: BridgeError) -> Ending:
    """The prompt was not taken, or could not be sent."""
    return Ending(None, error, error.message)


def unacknowledged() -> Ending:
    """The gateway has not said whether it took the prompt."""
    return refused(
        GatewayTimeout(
            "The gateway did not acknowledge the prompt in time.",
            hint="See the gateway's log; send the prompt again when it answers.",
        )
    )


def poisoned(close_code: int | None, sends: int) -> Ending | None:
    """The ending of a prompt that was on the wire, unanswered, when the connection ended, if it
    is to blame: it was too large for the gateway, or it was the ``MAX_SENDS``-th time. Such a
    prompt sent again and again would cut off all other sessions."""
    error: BridgeError
    if close_code == TOO_LARGE:
        error = PromptTooLarge(
            "The gateway closed the connection because the prompt is too large for it.",
            hint="Send less, or link files instead of embedding them.",
        )
    elif sends >= MAX_SENDS:
        error = LinkLost(
            f"The connection to the gateway ended {sends} times while this prompt was on its way,"
            " so it is not sent again.",
            hint="See the gateway's log for why it closes the connection.",
        )
    else:
        return None
    return refused(error)


def _failed(event: RunEnded) -> Ending:
    kind = event.error_kind or "unknown"
    if kind in _STOP_REASON_OF_ERROR:
        return Ending(_STOP_REASON_OF_ERROR[kind], None, _text(event.error) or _SENTENCES[kind])
    error = RunFailed(
        _text(event.error) or _UNSAID,
        hint=_HINTS.get(kind, "See the gateway's log for the cause."),
        data={"kind": kind, "gateway": event.detail},
    )
    return Ending(None, error, error.message)


def _text(error: str | None) -> str | None:
    return None if error is None or not error.strip() else cut_middle(error, _TEXT_LIMIT)


def _stop_reason(given: str | None) -> str:
    return given if given is not None and given in STOP_REASONS else "end_turn"
