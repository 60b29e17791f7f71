"""What a move of a turn wants done, as plain values that the service carries out in order."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from acp_bridge.core.commands import RunCommand
from acp_bridge.core.events import PermissionAsked
from acp_bridge.errors import BridgeError
from acp_bridge.ids import NOTHING, ApprovalId, Json, RunId, ToolCallId


class Record(NamedTuple):
    """An entry for the ledger that the editor is not shown: the user's own prompt, an outcome."""

    kind: str
    payload: Json


class Send(NamedTuple):
    """Submit a command to the gateway."""

    command: RunCommand


class Show(NamedTuple):
    """Record a session update and show it to the editor."""

    update: Json
    offset: int | None = None
    """Of a text: how many characters of it were shown before. Several processes may record one
    turn, and a replay takes each part once."""
    key: str | None = None
    """Of what has no place in a text: what it is, so that it is recorded once."""


class Tell(NamedTuple):
    """Show a session update that is of this moment and no part of the history."""

    update: Json


class Answer(NamedTuple):
    """Answer the editor's ``session/prompt`` with a stop reason."""

    stop_reason: str
    extras: Json = NOTHING
    """What else the gateway says for the editor."""


class Reject(NamedTuple):
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
    RESUME = "resume"
    UNSEEN = "unseen"
    DRAIN = "drain"
    LINGER = "linger"


class Arm(NamedTuple):
    """Start the turn's one timer, replacing an earlier one. Its firing carries ``serial`` back."""

    kind: DeadlineKind
    serial: int
    attempt: int = 0
    """How often this deadline was armed before, for those that grow."""


class Disarm(NamedTuple):
    """Stop the turn's timer."""


class AskPermission(NamedTuple):
    """Send ``session/request_permission`` to the editor."""

    asked: PermissionAsked
    tool_call_id: ToolCallId
    params: Json


class WithdrawPermission(NamedTuple):
    """Take back an open ``session/request_permission`` (``$/cancel_request``)."""

    approval_id: ApprovalId


class Follow(NamedTuple):
    """The turn's work goes on as this run of the gateway: its events belong to the turn."""

    run_id: RunId


class Release(NamedTuple):
    """The turn's run is over at the gateway: the session's next prompt may be sent."""

    run_id: RunId


Effect = (
    Record
    | Send
    | Show
    | Tell
    | Answer
    | Reject
    | Arm
    | Disarm
    | AskPermission
    | WithdrawPermission
    | Follow
    | Release
)
