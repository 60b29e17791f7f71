"""What the service wants of the gateway, in words that fit every dialect.

Two kinds. A *run command* is submitted and its answer comes back as a gateway event, in the order
of the wire, since the life of a run must be seen in order. A *query* is awaited.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from acp_bridge.ids import NOTHING, ApprovalId, Json, RunId, SessionKey


class Attachment(NamedTuple):
    """A file that goes beside the text of a prompt; ``content`` is base64."""

    kind: str
    """``image`` or ``file``."""
    mime_type: str
    content: str
    file_name: str | None = None


class StartRun(NamedTuple):
    """Send the prompt of a turn. Answered by RunAccepted, RunDeferred, RunRefused or an ending."""

    run_id: RunId
    session_key: SessionKey
    message: str
    attachments: tuple[Attachment, ...] = ()
    thinking: str | None = None
    deliver: bool | None = None
    timeout_ms: int | None = None
    provenance: Json | None = None
    """Where the prompt comes from, to be sent as the gateway's provenance fields; None = off."""
    blocks: tuple[Any, ...] = ()
    """The prompt as the editor sent it, for gateways that speak ACP themselves."""
    extras: Json = NOTHING
    """What else the editor's request says, likewise."""


class AbortRun(NamedTuple):
    """Stop a run. Answered by AbortAnswered."""

    run_id: RunId
    session_key: SessionKey


class ProbeRun(NamedTuple):
    """Ask what became of a run after a new connection, and follow its session there.

    Answered by RunReported.
    """

    run_id: RunId
    session_key: SessionKey
    blocks: tuple[Any, ...] = ()
    """The run's prompt, for gateways that keep no names of runs."""


class AnswerPermission(NamedTuple):
    """The editor's decision on an approval. Answered by PermissionSettled."""

    approval_id: ApprovalId
    decision: str
    """``deny``, or the id of the option that was chosen: ``allow-once``, ``allow-always`` …"""
    details: Json = NOTHING
    """What the editor's outcome says beside the option."""


class CloseSession(NamedTuple):
    """The editor has closed a session. Not answered; a gateway that keeps none does nothing."""

    session_key: SessionKey


class AnswerPeer(NamedTuple):
    """The editor's answer to PeerAsked: a result, or a JSON-RPC error object."""

    ask_id: ApprovalId
    result: Any = None
    error: Json | None = None


class Notify(NamedTuple):
    """Pass on a notification of the editor that the bridge does not interpret."""

    method: str
    params: Json
    session_key: SessionKey | None = None
    """Goes into ``params`` as the gateway's name of the session."""


class OpenSession(NamedTuple):
    """Make a session, at a gateway that names its sessions itself (``Hello.makes_sessions``).
    Result: OpenedAt."""

    cwd: str
    agent: str | None = None
    servers: tuple[Json, ...] = ()
    """The MCP servers of the editor that the gateway takes; they may hold secrets."""
    extras: Json = NOTHING
    """What else the editor's request says."""


class RestoreSession(NamedTuple):
    """Have an earlier session at hand, at such a gateway. Result: what the gateway's answer says
    for the editor; None if the gateway has no such session."""

    session_key: SessionKey
    cwd: str
    servers: tuple[Json, ...] = ()
    extras: Json = NOTHING


class OpenedAt(NamedTuple):
    """A session that the gateway has made."""

    session_key: SessionKey
    extras: Json = NOTHING
    """What else the gateway's answer says, for the editor."""


class Forward(NamedTuple):
    """Pass on a request that the bridge does not interpret. Result: the gateway's."""

    method: str
    params: Json
    session_key: SessionKey | None = None
    """Goes into ``params`` as the gateway's name of the session."""


class ResolveSession(NamedTuple):
    """Find a session of the gateway by key or by label. Result: its key, or None."""

    session_key: SessionKey | None = None
    label: str | None = None


class ResetSession(NamedTuple):
    """Begin a session of the gateway anew. Result: None."""

    session_key: SessionKey


class DescribeSession(NamedTuple):
    """Ask for a session's title, times and token counts. Result: SessionFacts or None."""

    session_key: SessionKey


class ReadTranscript(NamedTuple):
    """Ask for the gateway's own record of a session. Result: ``core.transcript.Transcript``, or
    None if the gateway has no such session."""

    session_key: SessionKey


class ListSessions(NamedTuple):
    """Ask for the gateway's sessions, newest first. Result: a list of SessionFacts, at most
    ``limit`` from ``offset`` on."""

    offset: int = 0
    limit: int = 100


class DeleteSession(NamedTuple):
    """Delete a session of the gateway with its transcript. Result: whether there was one."""

    session_key: SessionKey


class ReadOptions(NamedTuple):
    """Ask which options a session has, and what holds; it need not exist yet and is not made by
    this. Result: ``core.options.Options``, with those only that this connection may change."""

    session_key: SessionKey


class ChangeOption(NamedTuple):
    """Choose another value for an option; makes the session if there is none. Result: None."""

    session_key: SessionKey
    option_id: str
    value: str


class ListCommands(NamedTuple):
    """Ask for the slash commands of a session's agent. Result: a tuple of
    ``core.options.SlashCommand``."""

    session_key: SessionKey


class SessionFacts(NamedTuple):
    """What the gateway says of one session."""

    session_key: SessionKey
    title: str | None = None
    updated_at_ms: int | None = None
    used_tokens: int | None = None
    context_tokens: int | None = None
    cost_usd: float | None = None
    cwd: str | None = None
    """The directory that the gateway spawned the session in, where it did."""
    is_running: bool = False


RunCommand = StartRun | AbortRun | ProbeRun | AnswerPermission | CloseSession | AnswerPeer | Notify
Query = (
    ResolveSession
    | ResetSession
    | DescribeSession
    | ReadTranscript
    | ListSessions
    | DeleteSession
    | ReadOptions
    | ChangeOption
    | ListCommands
    | OpenSession
    | RestoreSession
    | Forward
)
Command = RunCommand | Query
NativeCommand = CloseSession | AnswerPeer | Notify | OpenSession | RestoreSession | Forward
"""For gateways that speak ACP themselves."""
