"""The methods of the demo gateway that are about sessions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from acp_bridge.demo.history import shown_activity, shown_rows
from acp_bridge.demo.hub import ADMIN, READ, WRITE, Connection, Hub, Refusal
from acp_bridge.demo.sessions import CONTEXT_TOKENS, MODEL, Session, canonical_key, thinking
from acp_bridge.ids import Json

Result = Json | list[Json]
Method = Callable[[Connection, Json], Result | Awaitable[Result]]
"""Carries out a call. It, or its awaitable, may raise :class:`~acp_bridge.demo.hub.Refusal`."""

_DEFAULT_LIMIT = 100
_HISTORY_LIMIT = 1000
_MAIN = "agent:main:main"
_DEFAULTS: Json = {**MODEL, "contextTokens": CONTEXT_TOKENS, **thinking()}


def text_of(params: Json, name: str, method: str) -> str:
    """A parameter that must be a text."""
    value: Any = params.get(name)
    if not isinstance(value, str):
        raise Refusal(f"invalid {method} params: at /{name}: must be string")
    return value


def missing_scope(hub: Hub, scope: str) -> Refusal:
    """The refusal of a call whose scope was not granted."""
    message = f"missing scope: {scope}"
    if hub.quirks.is_old:
        return Refusal(message)
    details = {"code": "MISSING_SCOPE", "missingScope": scope, "requiredScopes": [scope]}
    return Refusal(message, code="FORBIDDEN", details=details)


class SessionMethods:
    """Finding, making, changing and following sessions, and reading their transcripts."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._is_old = hub.quirks.is_old
        self.table: dict[str, tuple[str | None, Method]] = {
            "chat.history": (READ, self._chat_history),
            "sessions.list": (READ, self._sessions_list),
            "sessions.describe": (READ, self._sessions_describe),
            "sessions.resolve": (READ, self._sessions_resolve),
            "sessions.get": (READ, self._sessions_get),
            "sessions.create": (WRITE, self._sessions_create),
            "sessions.reset": (ADMIN, self._sessions_reset),
            "sessions.delete": (ADMIN, self._sessions_delete),
            "sessions.subscribe": (READ, self._sessions_subscribe),
            "sessions.messages.subscribe": (READ, self._messages_subscribe),
        }

    def _chat_history(self, _connection: Connection, params: Json) -> Result:
        key = text_of(params, "sessionKey", "chat.history")
        limit = params.get("limit", _DEFAULT_LIMIT)
        if limit > _HISTORY_LIMIT:
            raise Refusal("invalid chat.history params: at /limit: must be <= 1000")
        session = self._hub.sessions.get(canonical_key(key))
        is_known = session is not None
        session = session or Session(canonical_key(key), 0)
        row = session.row()
        rows = shown_rows(session.messages, is_old=self._is_old)
        answer: Json = {
            "sessionKey": key,
            **({"sessionId": session.session_id} if is_known else {}),
            "messages": rows[-limit:],
            "defaults": _DEFAULTS,
            "sessionInfo": row,
            "thinkingLevel": row.get("thinkingLevel", row["thinkingDefault"]),
        }
        if not self._is_old:
            total = len(session.messages)
            answer |= {"totalMessages": total, "hasMore": len(rows) > limit}
            answer |= {"pendingInputs": {"items": [], "total": 0}}
            answer |= {"activity": shown_activity(session.messages)}
        busy = self._hub.busy_run(session.key)
        if busy is not None:
            answer["inFlightRun"] = {"runId": busy.run_id, "text": busy.answer}
            if not self._is_old:
                answer["inFlightRun"] |= {"startedAt": busy.started_at, "events": []}
        return answer

    def _sessions_list(self, _connection: Connection, params: Json) -> Result:
        search = str(params.get("search") or "").lower()
        found = [
            session
            for session in self._hub.sessions.values()
            if search in session.key or search in (session.label or "").lower()
        ]
        found.sort(key=lambda session: session.updated_at, reverse=True)
        limit, offset = params.get("limit", _DEFAULT_LIMIT), params.get("offset", 0)
        page = found[offset : offset + limit]
        rows = [session.row() for session in page]
        if params.get("includeDerivedTitles"):
            for row, session in zip(rows, page, strict=True):
                row["derivedTitle"] = session.title()
        has_more = len(found) > offset + limit
        owners: Json = {} if self._is_old else {"owners": []}
        return owners | {
            "ts": self._hub.clock(),
            "path": "(memory)",
            "count": len(rows),
            "totalCount": len(found),
            "limitApplied": limit,
            "nextOffset": offset + limit if has_more else None,
            "hasMore": has_more,
            "defaults": _DEFAULTS,
            "sessions": rows,
        }

    def _sessions_describe(self, _connection: Connection, params: Json) -> Result:
        session = self._hub.sessions.get(canonical_key(text_of(params, "key", "sessions.describe")))
        return {"session": session.row() if session is not None else None}

    def _sessions_resolve(self, _connection: Connection, params: Json) -> Result:
        key, label = params.get("key"), params.get("label")
        for session in self._hub.sessions.values():
            if (key and session.key == canonical_key(key)) or (label and session.label == label):
                agent: Json = {} if self._is_old else {"agentId": "main"}
                return {"ok": True, "key": session.key} | agent
        if params.get("allowMissing"):
            return {"ok": False}
        raise Refusal(
            f"No session found: {key}" if key else f"No session found with label: {label}"
        )

    def _sessions_get(self, _connection: Connection, params: Json) -> Result:
        session = self._hub.sessions.get(canonical_key(text_of(params, "key", "sessions.get")))
        return {"messages": session.messages if session is not None else []}

    def _sessions_create(self, _connection: Connection, params: Json) -> Result:
        session = self._hub.session(text_of(params, "key", "sessions.create"))
        session.label = params.get("label", session.label)
        return {
            "ok": True,
            "key": session.key,
            "sessionId": session.session_id,
            "entry": session.entry(),
            "runStarted": False,
            **self._resolved(),
        }

    def _sessions_reset(self, _connection: Connection, params: Json) -> Result:
        session = self._hub.session(text_of(params, "key", "sessions.reset"))
        session.reset(self._hub.clock(), keep_id=not self._is_old)
        return {"ok": True, "key": session.key, "entry": session.entry(), **self._resolved()}

    def _sessions_delete(self, _connection: Connection, params: Json) -> Result:
        key = canonical_key(text_of(params, "key", "sessions.delete"))
        if key == _MAIN:
            raise Refusal(f"Cannot delete the main session ({key}).")
        for run in list(self._hub.runs.values()):
            if run.session_key == key:
                run.abort()
        was_there = self._hub.sessions.pop(key, None) is not None
        return {"ok": True, "key": key, "deleted": was_there, "archived": []}

    def _sessions_subscribe(self, connection: Connection, _params: Json) -> Result:
        connection.follows_sessions = True
        return {"subscribed": True}

    def _messages_subscribe(self, connection: Connection, params: Json) -> Result:
        key = canonical_key(text_of(params, "key", "sessions.messages.subscribe"))
        connection.followed_keys.add(key)
        return {"subscribed": True, "key": key}

    def _resolved(self) -> Json:
        return {} if self._is_old else {"resolved": dict(MODEL)}
