"""The state of the demo gateway and its ways to its clients: connections, events, approvals."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import orjson
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from acp_bridge.demo.quirks import Quirks
from acp_bridge.demo.sessions import Session, canonical_key, flattened
from acp_bridge.ids import Json

if TYPE_CHECKING:
    from acp_bridge.demo.runs import RunContext

ADMIN = "operator.admin"
READ = "operator.read"
WRITE = "operator.write"
APPROVALS = "operator.approvals"
TOOL_EVENTS = "tool-events"
APPROVAL_CAPS = frozenset({"exec-approvals", "approvals"})
_REASON_BYTES = 123


def now_ms() -> int:
    """Milliseconds of the wall clock."""
    return time.time_ns() // 1_000_000


class Refusal(Exception):
    """An ``ok: false`` answer, in the gateway's own words."""

    def __init__(
        self,
        message: str,
        *,
        code: str = "INVALID_REQUEST",
        details: Json | None = None,
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(message)
        self.error: Json = {"code": code, "message": message}
        if details is not None:
            self.error["details"] = details
        if retry_after_ms is not None:
            self.error |= {"retryable": True, "retryAfterMs": retry_after_ms}


@dataclass(frozen=True, slots=True)
class _Close:
    code: int
    reason: str


class Connection:
    """One client's socket and what the gateway granted it.

    Frames wait in a queue, so that a client that does not read holds nobody else up. Above
    ``max_buffered`` waiting bytes deltas are dropped; anything else then closes the socket with
    1008 ``slow consumer``, as the real gateway does.
    """

    def __init__(self, socket: ServerConnection, number: int, max_buffered: int) -> None:
        self.socket = socket
        self.number = number
        self.id = str(uuid.uuid4())
        self.scopes: tuple[str, ...] = ()
        self.caps: frozenset[str] = frozenset()
        self.client: Json = {}
        self.is_open = False
        self.is_muted = False
        self.follows_sessions = False
        self.followed_keys: set[str] = set()
        self._max_buffered = max_buffered
        self._buffered = 0
        self._seq = 0
        self._queue: asyncio.Queue[bytes | _Close] = asyncio.Queue()

    def has_scope(self, scope: str) -> bool:
        """Whether the scope was granted, by itself or by one that includes it."""
        if ADMIN in self.scopes or scope in self.scopes:
            return True
        return scope == READ and WRITE in self.scopes

    def send(self, frame: Json) -> None:
        """Queue a frame."""
        self._put(orjson.dumps(frame))

    def send_text(self, text: str) -> None:
        """Queue a text that need not be a frame at all."""
        self._put(text.encode())

    def send_event(
        self, event: str, payload: Json, *, numbered: bool = True, droppable: bool = False
    ) -> None:
        """Queue an event. A dropped delta uses up its number, so the holes show the loss."""
        frame: Json = {"type": "event", "event": event, "payload": payload}
        if numbered:
            self._seq += 1
            frame["seq"] = self._seq
        if self._buffered > self._max_buffered:
            if not droppable:
                self._queue = asyncio.Queue()
                self.close(1008, "slow consumer")
            return
        self.send(frame)

    def close(self, code: int, reason: str) -> None:
        """Close after what is queued; 1006 cuts the TCP connection at once."""
        self.is_open = False
        if code == 1006:
            self.socket.transport.abort()
        else:
            self._queue.put_nowait(_Close(code, _clipped(reason)))

    async def write(self) -> None:
        """Carry the queue to the socket until it closes."""
        with contextlib.suppress(ConnectionClosed):
            while True:
                item = await self._queue.get()
                if isinstance(item, _Close):
                    await self.socket.close(item.code, item.reason)
                    return
                await self.socket.send(item, text=True)
                self._buffered -= len(item)

    def _put(self, data: bytes) -> None:
        if not self.is_muted:
            self._buffered += len(data)
            self._queue.put_nowait(data)


def _clipped(reason: str) -> str:
    """A close reason of at most 123 bytes, which is what a close frame has room for."""
    return reason.encode()[:_REASON_BYTES].decode(errors="ignore")


@dataclass(slots=True)
class Approval:
    """A command that waits for a human's decision."""

    id: str
    request: Json
    created_at: int
    expires_at: int
    decided: asyncio.Future[str] = field(repr=False)
    kind: Json
    """What 2026.9.6 adds to tell the kinds of approvals apart."""

    @property
    def allowed(self) -> list[str]:
        """The decisions that may be given."""
        return list(self.request["allowedDecisions"])

    def payload(self) -> Json:
        """The approval as events and ``exec.approval.list`` carry it."""
        return {
            **self.kind,
            "id": self.id,
            "request": self.request,
            "createdAtMs": self.created_at,
            "expiresAtMs": self.expires_at,
        }


class Hub:
    """What all parts of the demo gateway share."""

    def __init__(self, quirks: Quirks, pace: float, clock: Callable[[], int]) -> None:
        self.quirks = quirks
        self.pace = pace
        self.clock = clock
        self.connections: list[Connection] = []
        self.sessions: dict[str, Session] = {}
        self.runs: dict[str, RunContext] = {}
        self.approvals: dict[str, Approval] = {}
        self.settled_approvals: dict[str, str] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.failures: list[Exception] = []
        self.is_stopping = False
        """Whether it goes down: no run is begun any more."""

    def session(self, key: str) -> Session:
        """The session of a key in any spelling; any key is accepted and created."""
        canonical = canonical_key(key)
        if canonical not in self.sessions:
            self.sessions[canonical] = Session(canonical, self.clock())
        return self.sessions[canonical]

    def busy_run(self, key: str) -> RunContext | None:
        """The run that a new prompt of a session meets: the one it is fed into, or the last one
        it has to wait for."""
        running = [
            run for run in self.runs.values() if run.session_key == key and run.status == "running"
        ]
        if not running:
            return None
        return running[0 if self.quirks.steer else -1]

    def readers(self) -> Iterable[Connection]:
        """Open connections that may read events."""
        return [each for each in self.connections if each.is_open and each.has_scope(READ)]

    def broadcast(self, event: str, payload: Json, *, droppable: bool = False) -> None:
        """Send an event to every reader."""
        for connection in self.readers():
            connection.send_event(event, payload, droppable=droppable)

    def tell_session(self, session: Session, event: str, payload: Json) -> None:
        """Send a session event to those who follow this session or all of them."""
        body = {"sessionKey": session.key, "agentId": "main", **payload, **flattened(session)}
        for connection in self.readers():
            follows_all = event == "sessions.changed" and connection.follows_sessions
            follows_key = event == "session.message" and session.key in connection.followed_keys
            if follows_all or follows_key:
                connection.send_event(event, body, numbered=False)

    def session_changed(self, session: Session, phase: str, run_id: str) -> None:
        """Announce a new state of a session's row."""
        self.tell_session(
            session, "sessions.changed", {"phase": phase, "runId": run_id, "ts": self.clock()}
        )

    def record(self, session: Session, row: Json) -> None:
        """Add a row to a transcript and tell its followers."""
        stored = session.append(row, self.clock())
        note = stored["__openclaw"]
        self.tell_session(
            session,
            "session.message",
            {"message": stored, "messageId": note["id"], "messageSeq": note["seq"]},
        )

    def approvers(self) -> list[Connection]:
        """Open connections that are told of approvals."""
        return [each for each in self.connections if each.is_open and each.has_scope(APPROVALS)]

    def open_approval(self, request: Json, expires_in: float) -> Approval:
        """Ask all approvers. The caller waits for ``decided``."""
        now = self.clock()
        approval = Approval(
            str(uuid.uuid4()),
            request,
            now,
            now + round(expires_in * 1000),
            asyncio.get_running_loop().create_future(),
            {} if self.quirks.is_old else {"approvalKind": "exec"},
        )
        self.approvals[approval.id] = approval
        for connection in self.approvers():
            connection.send_event(
                "exec.approval.requested",
                approval.payload(),
                numbered=not self.quirks.is_old,
            )
        return approval

    def settle_approval(self, approval_id: str, decision: str, resolved_by: str) -> None:
        """Close an open approval and tell all approvers."""
        approval = self.approvals.pop(approval_id)
        self.settled_approvals[approval_id] = decision
        for connection in self.approvers():
            connection.send_event(
                "exec.approval.resolved",
                {
                    "id": approval.id,
                    "decision": decision,
                    "resolvedBy": resolved_by,
                    "ts": self.clock(),
                    "request": approval.request,
                },
                numbered=not self.quirks.is_old,
            )
        if not approval.decided.done():
            approval.decided.set_result(decision)

    def cut_runs(self) -> None:
        """What going down does to the runs."""
        for run in list(self.runs.values()):
            run.cut()

    def forget(self) -> None:
        """What a new start does: runs, their keys and approvals are unknown; transcripts stay."""
        self.runs.clear()
        self.approvals.clear()
        self.settled_approvals.clear()
        self.is_stopping = False
