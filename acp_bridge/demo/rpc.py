"""The methods of the demo gateway."""

from __future__ import annotations

import asyncio
import os.path
import re
from collections.abc import Awaitable

from acp_bridge.demo.hub import ADMIN, APPROVALS, WRITE, Connection, Hub, Refusal
from acp_bridge.demo.options import OptionMethods
from acp_bridge.demo.runs import RunContext, Script
from acp_bridge.demo.session_rpc import Method, Result, SessionMethods, missing_scope, text_of
from acp_bridge.demo.sessions import canonical_key
from acp_bridge.ids import Json

_CHAT_SEND_KEYS = frozenset(
    {
        "agentId",
        "attachments",
        "deliver",
        "fastMode",
        "idempotencyKey",
        "message",
        "originatingAccountId",
        "originatingChannel",
        "originatingThreadId",
        "originatingTo",
        "sessionId",
        "sessionKey",
        "systemInputProvenance",
        "systemProvenanceReceipt",
        "thinking",
        "timeoutMs",
    }
)
_PROVENANCE = ("systemInputProvenance", "systemProvenanceReceipt")
_CWD_PREFIX = re.compile(r"\A\[Working directory: ([^\n]*)\]\n\n")
_WAIT_MS = 30_000
_DECISIONS = frozenset({"allow-once", "allow-always", "deny"})


def bare_prompt(message: str) -> str:
    """A prompt without the working directory that a bridge may put in front."""
    return _CWD_PREFIX.sub("", message, count=1)


def working_directory(message: str) -> str | None:
    """The working directory that a bridge put in front of a prompt; ``~`` is written out."""
    found = _CWD_PREFIX.match(message)
    return os.path.expanduser(found[1]) if found else None


class Methods:
    """What clients may call, and the scope that each call needs."""

    def __init__(self, hub: Hub, script: Script) -> None:
        self._hub = hub
        self._script = script
        self.table: dict[str, tuple[str | None, Method]] = {
            "health": (None, self._health),
            "chat.send": (WRITE, self._chat_send),
            "chat.abort": (WRITE, self._chat_abort),
            "agent.wait": (WRITE, self._agent_wait),
            "exec.approval.list": (APPROVALS, self._approval_list),
            "exec.approval.get": (APPROVALS, self._approval_get),
            "exec.approval.resolve": (APPROVALS, self._approval_resolve),
            **SessionMethods(hub).table,
            **OptionMethods(hub).table,
        }

    def call(self, connection: Connection, method: str, params: Json) -> Result | Awaitable[Result]:
        """Carry out a call. Raises :class:`Refusal`; so may the awaitable."""
        if method == "connect":
            raise Refusal("connect is only valid as the first request")
        if method not in self.table:
            raise Refusal(f"unknown method: {method}")
        scope, handler = self.table[method]
        if scope is not None and not connection.has_scope(scope):
            raise missing_scope(self._hub, scope)
        return handler(connection, params)

    def start_run(self, params: Json, sender: Connection | None = None) -> RunContext:
        """Register and start a run for checked ``chat.send`` parameters."""
        session = self._hub.session(params["sessionKey"])
        busy = self._hub.busy_run(session.key)
        run = RunContext(self._hub, session, params, sender)
        self._hub.runs[run.run_id] = run
        if busy is not None and self._hub.quirks.steer:
            busy.steered.append(run.message)
            asyncio.get_running_loop().call_soon(run.swallow, busy.run_id)
        else:
            run.start(self._script, after=busy)
        return run

    # Prompts and runs

    def _chat_send(self, connection: Connection, params: Json) -> Result:
        self._check_chat_send(connection, params)
        if self._hub.is_stopping:
            raise Refusal(
                "gateway is restarting",
                code="UNAVAILABLE",
                details={"reason": "gateway-restarting"},
            )
        key = canonical_key(params["sessionKey"])
        if bare_prompt(params["message"]).strip() == "/stop":
            return self._stop(key, None)
        known = self._hub.runs.get(params["idempotencyKey"])
        if known is not None:
            return self._known_run(known, params)
        if self._hub.quirks.swallow_same_text:
            for run in self._hub.runs.values():
                same = run.session_key == key and run.message == params["message"]
                if same and (run.status == "running" or run.is_registered):
                    return {"runId": run.run_id, "status": "in_flight"}
        return {"runId": self.start_run(params, connection).run_id, "status": "started"}

    def _check_chat_send(self, connection: Connection, params: Json) -> None:
        for name in params:
            if name not in _CHAT_SEND_KEYS:
                raise Refusal(f"invalid chat.send params: at root: unexpected property '{name}'")
        for name in ("sessionKey", "idempotencyKey", "message"):
            if name not in params:
                raise Refusal(f"invalid chat.send params: must have required property '{name}'")
            if not isinstance(params[name], str):
                raise Refusal(f"invalid chat.send params: at /{name}: must be string")
        if not params["message"] and not params.get("attachments"):
            raise Refusal("message or attachment required")
        if any(name in params for name in _PROVENANCE) and ADMIN not in connection.scopes:
            raise Refusal("system provenance fields require admin scope")

    def _known_run(self, run: RunContext, params: Json) -> Result:
        if not self._hub.quirks.is_old and run.message != params["message"]:
            raise Refusal(
                "This message ID was already used for different input.",
                details={"reason": "chat-request-conflict"},
            )
        if run.status == "error" and not self._hub.quirks.is_old:
            raise Refusal(run.error or "run failed", code="UNAVAILABLE")
        is_live = run.status == "running" or run.is_registered
        return {"runId": run.run_id, "status": "in_flight" if is_live else "ok"}

    def _chat_abort(self, _connection: Connection, params: Json) -> Result:
        return self._stop(
            canonical_key(text_of(params, "sessionKey", "chat.abort")), params.get("runId")
        )

    def _stop(self, key: str, run_id: str | None) -> Result:
        stopped = [
            run.run_id
            for run in list(self._hub.runs.values())
            if run.session_key == key and run_id in (None, run.run_id) and run.abort()
        ]
        return {"ok": True, "aborted": bool(stopped), "runIds": stopped}

    async def _agent_wait(self, _connection: Connection, params: Json) -> Result:
        run_id = text_of(params, "runId", "agent.wait")
        run = self._hub.runs.get(run_id)
        timeout = params.get("timeoutMs", _WAIT_MS) / 1000
        try:
            async with asyncio.timeout(timeout):
                if run is None:
                    await asyncio.Event().wait()
                else:
                    await run.ended.wait()
        except TimeoutError:
            pass
        return {"runId": run_id, **self._outcome(run)}

    def _outcome(self, run: RunContext | None) -> Json:
        """What ``agent.wait`` says; "timeout" for much that is none (gateway facts, section 7)."""
        is_old = self._hub.quirks.is_old
        if run is not None and run.status == "running":
            return {"status": "timeout"} | ({"timeoutPhase": "gateway_draining"} if is_old else {})
        if run is None or run.status == "cut" or (run.aborted and is_old):
            phase = {"timeoutPhase": "queue", "providerStarted": False} if is_old else {}
            return {"status": "timeout"} | phase
        ended = {"endedAt": run.ended_at}
        if run.aborted:
            return ended | {"status": "error", "error": "aborted", "stopReason": "rpc"}
        if run.status == "error":
            return ended | {"status": "error", "error": run.error}
        reply = {"disposition": "visible", "text": run.answer}
        return ended | {"status": "ok"} | ({} if is_old else {"terminalReply": reply})

    # Approvals

    def _approval_list(self, _connection: Connection, _params: Json) -> Result:
        return [approval.payload() for approval in self._hub.approvals.values()]

    def _approval_get(self, _connection: Connection, params: Json) -> Result:
        approval = self._hub.approvals.get(text_of(params, "id", "exec.approval.get"))
        if approval is None:
            raise _unknown_approval()
        return {
            "id": approval.id,
            "commandText": approval.request["command"],
            "commandPreview": None,
            "allowedDecisions": approval.allowed,
            "host": approval.request["host"],
            "nodeId": None,
            "agentId": "main",
            "expiresAtMs": approval.expires_at,
        }

    def _approval_resolve(self, connection: Connection, params: Json) -> Result:
        approval_id = text_of(params, "id", "exec.approval.resolve")
        decision = params.get("decision")
        if decision not in _DECISIONS:
            raise Refusal("invalid decision")
        if self._hub.settled_approvals.get(approval_id) == decision:
            return {"ok": True}
        approval = self._hub.approvals.get(approval_id)
        if approval is None:
            raise _unknown_approval()
        if decision not in approval.allowed:
            raise Refusal(
                "allow-always is unavailable because the effective policy requires approval",
                details={"reason": "APPROVAL_ALLOW_ALWAYS_UNAVAILABLE"},
            )
        self._hub.settle_approval(approval_id, decision, str(connection.client.get("id")))
        return {"ok": True}

    # Common

    def _health(self, _connection: Connection, _params: Json) -> Result:
        return health(self._hub)


def health(hub: Hub) -> Json:
    """What ``health`` answers and the event of that name carries."""
    return {
        "ok": True,
        "ts": hub.clock(),
        "durationMs": 0,
        "channels": {},
        "channelOrder": [],
        "channelLabels": {},
        "heartbeatSeconds": 0,
        "defaultAgentId": "main",
        "agents": [],
        "sessions": {"path": "(memory)", "count": len(hub.sessions), "recent": []},
    }


def _unknown_approval() -> Refusal:
    return Refusal(
        "unknown or expired approval id",
        details={
            "reason": "APPROVAL_NOT_FOUND",
            "remediation": "Re-request the action; pending approvals are cleared after expiry.",
        },
    )
