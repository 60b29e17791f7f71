"""What a dialect understood from the gateway's frames; all frozen, without wire names."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final, NamedTuple

from acp_bridge.core.marks import Marks
from acp_bridge.core.offers import Offers
from acp_bridge.core.transcript import Part
from acp_bridge.errors import BridgeError
from acp_bridge.ids import NOTHING, ApprovalId, Generation, Json, RunId, SessionKey, ToolCallId


class Hello(NamedTuple):
    """The gateway's answer that opens a generation."""

    generation: Generation
    server_version: str
    protocol: int
    scopes: frozenset[str]
    methods: frozenset[str]
    connection_id: str | None
    boot_id: str | None
    """Changes with each start of the gateway, where the gateway sends one."""
    max_payload: int
    """Bytes of the largest frame that the gateway takes."""
    tick_interval: float
    """Seconds between the gateway's signs of life."""
    default_agent: str | None
    changeable: frozenset[str] = frozenset()
    """Ids of the options (``core.options``) that this connection may change."""
    makes_sessions: bool = False
    """Whether the gateway speaks ACP itself: it names its sessions, is asked for new ones, is told
    when one is closed, and takes what the bridge does not interpret."""
    offers: Offers = Offers()


class LinkUp(NamedTuple):
    """A generation began."""

    hello: Hello


class LinkLost(NamedTuple):
    """A generation ended. What was in flight is not answered any more."""

    reason: str
    close_code: int | None = None


class RunSeen(NamedTuple):
    """The first sign, on this connection, of a run that was not begun over it."""

    run_id: RunId
    session_key: SessionKey
    is_beginning: bool = False
    """Whether it has only begun: then it is told of again when it shows something. The gateway's
    transcript may not know it yet."""


class RunAccepted(NamedTuple):
    """The gateway has taken the prompt."""

    run_id: RunId


class RunDeferred(NamedTuple):
    """The gateway answered with another run's id, or that it will be there again soon: the prompt
    was *not* taken, and has to be sent again under the same key until it is.

    OpenClaw 2026.6.11 swallows a prompt whose text equals that of a run still registered in the
    session; 2026.9.6 takes none while it winds down for a restart.
    """

    run_id: RunId


class RunRefused(NamedTuple):
    """The gateway refused the prompt; nothing runs."""

    run_id: RunId
    error: BridgeError


class RunAnsweredAtOnce(NamedTuple):
    """The prompt was a command that the gateway carried out in its acknowledgement (``/stop``)."""

    run_id: RunId
    text: str


class TextProgress(NamedTuple):
    """More of the answer. Any of the two texts may be missing."""

    run_id: RunId
    delta: str | None
    """The new part; with ``replace`` the whole new text."""
    replace: bool
    snapshot: str | None
    """The whole text of the run so far, or its last 500,000 characters."""
    marks: Marks | None = None


class ThoughtProgress(NamedTuple):
    """More of the model's reasoning."""

    run_id: RunId
    delta: str | None
    snapshot: str | None
    """The whole current thought; it starts anew after a tool call."""
    marks: Marks | None = None


class PlanChanged(NamedTuple):
    """The whole plan, as ACP plan entries."""

    run_id: RunId
    entries: tuple[Json, ...]


class Updated(NamedTuple):
    """A session update that the gateway has made itself, fit to be shown as it is."""

    run_id: RunId
    update: Json


class ToolStarted(NamedTuple):
    """A tool call began, with its arguments."""

    run_id: RunId
    tool_call_id: ToolCallId
    name: str | None
    args: Any


class ToolProgress(NamedTuple):
    """Output of a tool call, whole so far."""

    run_id: RunId
    tool_call_id: ToolCallId
    name: str | None
    partial: Any


class ToolEnded(NamedTuple):
    """A tool call ended; ``result`` is all of its output."""

    run_id: RunId
    tool_call_id: ToolCallId
    name: str | None
    is_error: bool
    result: Any


class ItemChanged(NamedTuple):
    """A card of the gateway's own: the poorer news of a tool call, sent to every connection."""

    run_id: RunId
    tool_call_id: ToolCallId
    phase: str
    """``start``, ``update`` or ``end``."""
    kind: str
    """``tool``, ``command``, ``patch`` …"""
    name: str | None
    title: str | None
    failed: bool
    text: str | None
    """Progress or summary, if any."""


class CommandOutput(NamedTuple):
    """Output of a command, whole so far; sent to every connection."""

    run_id: RunId
    tool_call_id: ToolCallId
    name: str | None
    title: str | None
    output: str
    is_end: bool
    exit_code: int | None
    cwd: str | None


class EndKind(StrEnum):
    """How a run ended."""

    FINISHED = "finished"
    ABORTED = "aborted"
    FAILED = "failed"


SESSION_CONFLICT: Final = "session_conflict"
"""A kind of error: the gateway is at odds with itself over the session, and did not begin."""


class RunEnded(NamedTuple):
    """The first terminal news of a run counts; later ones are late messages."""

    run_id: RunId
    kind: EndKind
    snapshot: str | None = None
    """The whole text of the answer, where the gateway sends it."""
    thought: str | None = None
    stop_reason: str | None = None
    """An ACP stop reason, where the gateway's own says one."""
    error: str | None = None
    """The gateway's sentence on a failed or aborted run."""
    error_kind: str | None = None
    """``refusal``, ``timeout``, ``rate_limit``, ``context_length``, ``unknown`` …"""
    detail: Json = NOTHING
    """The gateway's own error fields, for ``error.data.gateway``."""
    extras: Json = NOTHING
    """What else the gateway's answer to the prompt says, for the editor."""


class AbortAnswered(NamedTuple):
    """The gateway answered an abort; ``aborted`` is false when there was nothing to stop."""

    run_id: RunId
    aborted: bool
    error: BridgeError | None = None


class RunState(StrEnum):
    """What the gateway knows of a run after a new connection."""

    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    ABORTED = "aborted"
    NOT_TAKEN = "not_taken"
    """The gateway is alive, remembers no such prompt and works on none: it was never taken."""
    CUT = "cut"
    """It has the prompt, but was restarted since: it may go on by itself, as another run."""
    UNSEEN = "unseen"
    """The gateway may be working on it where nobody can look; an end that comes is reported."""
    UNKNOWN = "unknown"
    UNTOLD = "untold"
    """The gateway has not answered, or not enough to tell."""


class RunReported(NamedTuple):
    """The answer to ProbeRun."""

    run_id: RunId
    state: RunState
    snapshot: str | None = None
    """The whole text of the run so far or in the end, where known."""
    error: str | None = None
    stop_reason: str | None = None
    parts: tuple[Part, ...] = ()
    """What the transcript has of the run, in order."""
    resumed_as: RunId | None = None
    """The run as which the gateway has gone on with a run that was cut."""
    is_foreign: bool = False
    """Whether somebody's prompt began the run, and not the gateway itself."""
    is_busy: bool = False
    """Whether the gateway says that some run is at work in the session."""
    is_partial: bool = False
    """Whether the gateway did not give all that it has of the run's answer."""


class PermissionAsked(NamedTuple):
    """The gateway wants a human's decision."""

    approval_id: ApprovalId
    run_id: RunId | None
    session_key: SessionKey | None
    tool_call_id: ToolCallId | None
    command: str
    cwd: str | None
    host: str | None
    allowed: tuple[str, ...]
    """Of ``allow-once``, ``allow-always``, ``deny``; empty when the gateway did not say."""
    expires_in: float | None
    """Seconds from now until the gateway gives up."""
    warning: str | None = None
    waited: float | None = None
    """Seconds since the gateway began to wait for it, if it is told of only afterwards."""
    params: Json | None = None
    """The question in ACP's own shape, where the gateway words it so; it is asked of us alone
    then, and ``allowed`` are the ids of its options."""


class PermissionClosed(NamedTuple):
    """The gateway says that an approval was resolved, by whomever."""

    approval_id: ApprovalId
    decision: str | None


class PermissionSettled(NamedTuple):
    """The answer to AnswerPermission."""

    approval_id: ApprovalId
    error: BridgeError | None


class ApprovalsListed(NamedTuple):
    """All approvals that wait for a decision, as the gateway lists them after a reconnect."""

    waiting: frozenset[ApprovalId]


class SessionChanged(NamedTuple):
    """The gateway's row of a session changed: title or token counts."""

    session_key: SessionKey
    used_tokens: int | None
    context_tokens: int | None
    cost_usd: float | None


class OptionsChanged(NamedTuple):
    """What was chosen for a session has changed, or may have."""

    session_key: SessionKey
    mark: tuple[Any, ...]
    """Equal marks mean that nothing changed between them."""


class SessionUpdated(NamedTuple):
    """A session update that belongs to no run."""

    session_key: SessionKey
    update: Json


class PeerAsked(NamedTuple):
    """The gateway asks the editor something that the bridge does not interpret."""

    ask_id: ApprovalId
    method: str
    params: Json
    session_key: SessionKey | None


class Notified(NamedTuple):
    """The gateway tells the editor something that the bridge does not interpret."""

    method: str
    params: Json
    session_key: SessionKey | None


class GatewayStopping(NamedTuple):
    """The gateway announced that it is going down."""

    reason: str


class Unreadable(NamedTuple):
    """A frame could not be understood; it is counted and logged, nothing else."""

    reason: str


ToolEvent = ToolStarted | ToolProgress | ToolEnded | ItemChanged | CommandOutput
RunEvent = (
    RunAccepted
    | RunDeferred
    | RunRefused
    | RunAnsweredAtOnce
    | TextProgress
    | ThoughtProgress
    | PlanChanged
    | Updated
    | ToolEvent
    | RunEnded
    | AbortAnswered
    | RunReported
)
"""Events that belong to one run and carry its ``run_id``."""
GatewayEvent = (
    LinkUp
    | LinkLost
    | RunSeen
    | RunEvent
    | PermissionAsked
    | PermissionClosed
    | PermissionSettled
    | ApprovalsListed
    | SessionChanged
    | OptionsChanged
    | SessionUpdated
    | PeerAsked
    | Notified
    | GatewayStopping
    | Unreadable
)


class Stamped(NamedTuple):
    """An event with the number of the connection it came over."""

    generation: Generation
    event: GatewayEvent
