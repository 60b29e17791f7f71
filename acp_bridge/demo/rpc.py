"""The methods of the demo gateway."""

from __future__ import annotations

import asyncio
import os.path
import re
from collections.abc import Awaitable, Callable
from typing import Any

from acp_bridge.demo.hub import ADMIN, APPROVALS, READ, WRITE, Connection, Hub, Refusal
from acp_bridge.demo.runs import RunContext, Script
from acp_bridge.demo.sessions import CONTEXT_TOKENS, MODEL, THINKING, canonical_key
from acp_bridge.ids import Json

Result = Json | list[Json]
Method = Callable[[Connection, Json], Result | Awaitable[Result]]

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
_DEFAULT_LIMIT = 100
_HISTORY_LIMIT = 1000
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
            "chat.history": (READ, self._chat_history),
            "agent.wait": (WRITE, self._agent_wait),
            "sessions.list": (READ, self._sessions_list),
            "sessions.describe": (READ, self._sessions_describe),
            "sessions.resolve": (READ, self._sessions_resolve),
            "sessions.get": (READ, self._sessions_get),
            "sessions.create": (WRITE, self._sessions_create),
            "sessions.patch": (ADMIN if hub.quirks.is_old else WRITE, self._sessions_patch),
            "sessions.reset": (ADMIN, self._sessions_reset),
            "sessions.subscribe": (READ, self._sessions_subscribe),
            "sessions.messages.subscribe": (READ, self._messages_subscribe),
            "exec.approval.list": (APPROVALS, self._approval_list),
            "exec.approval.get": (APPROVALS, self._approval_get),
            "exec.approval.resolve": (APPROVALS, self._approval_resolve),
        }

    def call(self, connection: Connection, method: str, params: Json) -> Result | Awaitable[Result]:
        """Carry out a call. Raises :class:`Refusal`; so may the awaitable."""
        if method == "connect":
            raise Refusal("connect is only valid as the first request")
        if method not in self.table:
            raise Refusal(f"unknown method: {method}")
        scope, handler = self.table[method]
        if scope is not None and not connection.has_scope(scope):
            raise self._missing_scope(scope)
        return handler(connection, params)

    def start_run(self, params: Json, sender: Connection | None = None) -> RunContext:
        """Register and start a run for checked ``chat.send`` parameters."""
        session = self._hub.session(params["sessionKey"])
        busy = self._busy_run(session.key)
        run = RunContext(self._hub, session, params, sender)
        self._hub.runs[run.run_id] = run
        if busy is not None and self._hub.quirks.steer:
            busy.steered.append(run.message)
            asyncio.get_running_loop().call_soon(run.swallow)
        else:
            run.start(self._script, after=busy)
        return run

    # Prompts and runs

    def _chat_send(self, connection: Connection, params: Json) -> Result:
        self._check_chat_send(connection, params)
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
            canonical_key(_text(params, "sessionKey", "chat.abort")), params.get("runId")
        )

    def _stop(self, key: str, run_id: str | None) -> Result:
        stopped = [
            run.run_id
            for run in list(self._hub.runs.values())
            if run.session_key == key and run_id in (None, run.run_id) and run.abort()
        ]
        return {"ok": True, "aborted": bool(stopped), "runIds": stopped}

    async def _agent_wait(self, _connection: Connection, params: Json) -> Result:
        run_id = _text(params, "runId", "agent.wait")
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

    def _busy_run(self, key: str) -> RunContext | None:
        runs = [run for run in self._hub.runs.values() if run.session_key == key]
        running = [run for run in runs if run.status == "running"]
        if not running:
            return None
        return running[0] if self._hub.quirks.steer else running[-1]

    def _chat_history(self, _connection: Connection, params: Json) -> Result:
        key = _text(params, "sessionKey", "chat.history")
        limit = params.get("limit", _DEFAULT_LIMIT)
        if limit > _HISTORY_LIMIT:
            raise Refusal("invalid chat.history params: at /limit: must be <= 1000")
        session = self._hub.session(key)
        answer: Json = {
            "sessionKey": key,
            "sessionId": session.session_id,
            "messages": session.messages[-limit:],
            "defaults": self._defaults(),
            "sessionInfo": session.row(),
            "thinkingLevel": session.settings.get("thinkingLevel", "medium"),
        }
        busy = self._busy_run(session.key)
        if busy is not None:
            answer["inFlightRun"] = {"runId": busy.run_id, "text": busy.answer}
            if not self._hub.quirks.is_old:
                answer["inFlightRun"] |= {"startedAt": busy.started_at, "events": []}
        return answer

    # Sessions

    def _sessions_list(self, _connection: Connection, params: Json) -> Result:
        search = str(params.get("search") or "").lower()
        found = [
            session
            for session in self._hub.sessions.values()
            if search in session.key or search in (session.label or "").lower()
        ]
        found.sort(key=lambda session: session.updated_at, reverse=True)
        limit = params.get("limit", _DEFAULT_LIMIT)
        rows = [session.row() for session in found[:limit]]
        if params.get("includeDerivedTitles"):
            for row, session in zip(rows, found, strict=False):
                row["derivedTitle"] = session.title()
        has_more = len(found) > limit
        return {
            "ts": self._hub.clock(),
            "path": "(memory)",
            "count": len(rows),
            "totalCount": len(found),
            "limitApplied": limit,
            "nextOffset": limit if has_more else None,
            "hasMore": has_more,
            "defaults": self._defaults(),
            "sessions": rows,
        }

    def _sessions_describe(self, _connection: Connection, params: Json) -> Result:
        session = self._hub.sessions.get(canonical_key(_text(params, "key", "sessions.describe")))
        return {"session": session.row() if session is not None else None}

    def _sessions_resolve(self, _connection: Connection, params: Json) -> Result:
        key, label = params.get("key"), params.get("label")
        for session in self._hub.sessions.values():
            if (key and session.key == canonical_key(key)) or (label and session.label == label):
                agent: Json = {} if self._hub.quirks.is_old else {"agentId": "main"}
                return {"ok": True, "key": session.key} | agent
        if params.get("allowMissing"):
            return {"ok": False}
        raise Refusal(
            f"No session found: {key}" if key else f"No session found with label: {label}"
        )

    def _sessions_get(self, _connection: Connection, params: Json) -> Result:
        session = self._hub.sessions.get(canonical_key(_text(params, "key", "sessions.get")))
        return {"messages": session.messages if session is not None else []}

    def _sessions_create(self, _connection: Connection, params: Json) -> Result:
        session = self._hub.session(_text(params, "key", "sessions.create"))
        session.label = params.get("label", session.label)
        return {
            "ok": True,
            "key": session.key,
            "sessionId": session.session_id,
            "entry": session.entry(),
            "runStarted": False,
        }

    def _sessions_patch(self, connection: Connection, params: Json) -> Result:
        session = self._hub.session(_text(params, "key", "sessions.patch"))
        changes = {name: value for name, value in params.items() if name != "key"}
        if "elevatedLevel" in changes and not connection.has_scope(ADMIN):
            raise self._missing_scope(ADMIN)
        level = changes.get("thinkingLevel", "off")
        if level not in THINKING["thinkingOptions"]:
            allowed = "|".join(THINKING["thinkingOptions"])
            raise Refusal(f"invalid thinkingLevel (use {allowed})")
        session.label = changes.pop("label", session.label)
        session.settings |= changes
        session.updated_at = self._hub.clock()
        return {
            "ok": True,
            "path": "(memory)",
            "key": session.key,
            "entry": session.entry(),
            "resolved": {**MODEL, "agentRuntime": {"id": "auto", "source": "implicit"}},
        }

    def _sessions_reset(self, _connection: Connection, params: Json) -> Result:
        session = self._hub.session(_text(params, "key", "sessions.reset"))
        session.reset(self._hub.clock(), keep_id=not self._hub.quirks.is_old)
        return {"ok": True, "key": session.key, "entry": session.entry()}

    def _sessions_subscribe(self, connection: Connection, _params: Json) -> Result:
        connection.follows_sessions = True
        return {"subscribed": True}

    def _messages_subscribe(self, connection: Connection, params: Json) -> Result:
        key = canonical_key(_text(params, "key", "sessions.messages.subscribe"))
        connection.followed_keys.add(key)
        return {"subscribed": True, "key": key}

    # Approvals

    def _approval_list(self, _connection: Connection, _params: Json) -> Result:
        return [approval.payload() for approval in self._hub.approvals.values()]

    def _approval_get(self, _connection: Connection, params: Json) -> Result:
        approval = self._hub.approvals.get(_text(params, "id", "exec.approval.get"))
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
        approval_id = _text(params, "id", "exec.approval.resolve")
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

    def _defaults(self) -> Json:
        return {**MODEL, "contextTokens": CONTEXT_TOKENS, **THINKING}

    def _missing_scope(self, scope: str) -> Refusal:
        message = f"missing scope: {scope}"
        if self._hub.quirks.is_old:
            return Refusal(message)
        details = {"code": "MISSING_SCOPE", "missingScope": scope, "requiredScopes": [scope]}
        return Refusal(message, code="FORBIDDEN", details=details)


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


def _text(params: Json, name: str, method: str) -> str:
    value: Any = params.get(name)
    if not isinstance(value, str):
        raise Refusal(f"invalid {method} params: at /{name}: must be string")
    return value


def _unknown_approval() -> Refusal:
    return Refusal(
        "unknown or expired approval id",
        details={
            "reason": "APPROVAL_NOT_FOUND",
            "remediation": "Re-request the action; pending approvals are cleared after expiry.",
        },
    )
