"""From the end of a run to the answer of its prompt.

An ending is a stop reason or an error, never both. A failed run is never a silent ``end_turn``:
its sentence is the notice that is shown in the thread, and the error carries it too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, assert_never

from acp_bridge.core.events import EndKind, RunEnded, RunReported, RunState
from acp_bridge.errors import BridgeError, OutcomeUnknown, RunFailed
from acp_bridge.wire.content import well_formed

_STOP_REASONS: Final = {"refusal": "refusal", "context_length": "max_tokens"}
"""Failures that ACP knows as a stop reason."""

_HINTS: Final = {
    "timeout": "The model did not answer in time; send the prompt again.",
    "rate_limit": "The model's provider limits the rate; wait a little and send it again.",
    "auth": "The gateway's credentials for the model's provider do not work; check them there.",
}
_DEFAULT_HINT: Final = "The gateway's own log says more; send the prompt again when it is mended."

_UNSAID: Final = "The agent's run failed, and the gateway did not say why."

LOST: Final = (
    "The connection was lost, and the gateway no longer knows what became of this prompt. It may"
    " have run in part or in full: look at the workspace before you send it again."
)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a turn ends for the editor."""

    stop_reason: str | None
    """An ACP stop reason, or None with an error."""
    error: BridgeError | None
    notice: str | None
    """What is shown in the thread before the answer."""


def ending(event: RunEnded) -> Ending:
    """The ending that a terminal event of the run means."""
    match event.kind:
        case EndKind.FINISHED:
            return Ending(event.stop_reason or "end_turn", None, None)
        case EndKind.ABORTED:
            return Ending("cancelled", None, _sentence(event.error))
        case EndKind.FAILED:
            return _failed(event)
        case _:
            assert_never(event.kind)


def report_ending(report: RunReported) -> Ending:
    """The ending that the gateway told after a reconnect, or that it could not tell."""
    match report.state:
        case RunState.FINISHED:
            return Ending(report.stop_reason or "end_turn", None, None)
        case RunState.ABORTED:
            return Ending("cancelled", None, _sentence(report.error))
        case RunState.FAILED:
            return _failed(RunEnded(report.run_id, EndKind.FAILED, error=report.error))
        case RunState.UNKNOWN | RunState.NOT_TAKEN | RunState.RUNNING:
            lost = OutcomeUnknown(LOST, hint="Check what was done before you send it again.")
            return Ending(None, lost, LOST)
        case _:
            assert_never(report.state)


def _failed(event: RunEnded) -> Ending:
    sentence = _sentence(event.error)
    kind = event.error_kind or "unknown"
    if kind in _STOP_REASONS:
        return Ending(_STOP_REASONS[kind], None, sentence)
    data = {"kind": kind}
    error = RunFailed(
        sentence or _UNSAID,
        hint=_HINTS.get(kind, _DEFAULT_HINT),
        data={**data, "gateway": event.detail} if event.detail else data,
    )
    return Ending(None, error, sentence or _UNSAID)


def _sentence(text: str | None) -> str | None:
    """What the gateway says, or None when it says nothing."""
    return well_formed(text.strip()) or None if text else None
