"""What a move of a turn wants done, as plain values that the service carries out in order."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from acp_bridge.core.commands import RunCommand
from acp_bridge.core.events import PermissionAsked
from acp_bridge.errors import BridgeError
from acp_bridge.ids import ApprovalId, Json, RunId, ToolCallId


@dataclass(frozen=True, slots=True)
class Record:
    """An entry for the ledger that the editor is not shown: the user's own prompt, an outcome."""

    kind: str
    payload: Json


@dataclass(frozen=True, slots=True)
class Send:
    """Submit a command to the gateway."""

    command: RunCommand


@dataclass(frozen=True, slots=True)
class Show:
    """Record a session update and show it to the editor."""

    update: Json


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer the editor's ``session/prompt`` with a stop reason."""

    stop_reason: str


@dataclass(frozen=True, slots=True)
class Reject:
    """Answer the editor's ``session/prompt`` with an error."""

    error: BridgeError


class DeadlineKind(StrEnum):
    """Why a timer runs; its length is the service's to choose."""

    CONNECT = "connect"
    ACKNOWLEDGE = "acknowledge"
    RESEND = "resend"
    CANCEL = "cancel"
    RECONNECT = "reconnect"
    PROBE = "probe"
    DRAIN = "drain"


@dataclass(frozen=True, slots=True)
class Arm:
    """Start the turn's one timer, replacing an earlier one. Its firing carries ``serial`` back."""

    kind: DeadlineKind
    serial: int
    attempt: int = 0
    """How often this deadline was armed before, for those that grow."""


@dataclass(frozen=True, slots=True)
class Disarm:
    """Stop the turn's timer."""


@dataclass(frozen=True, slots=True)
class AskPermission:
    """Send ``session/request_permission`` to the editor."""

    asked: PermissionAsked
    tool_call_id: ToolCallId
    params: Json


@dataclass(frozen=True, slots=True)
class WithdrawPermission:
    """Take back an open ``session/request_permission`` (``$/cancel_request``)."""

    approval_id: ApprovalId


@dataclass(frozen=True, slots=True)
class Release:
    """The turn's run is over at the gateway: the session's next prompt may be sent."""

    run_id: RunId


Effect = (
    Record
    | Send
    | Show
    | Answer
    | Reject
    | Arm
    | Disarm
    | AskPermission
    | WithdrawPermission
    | Release
)
