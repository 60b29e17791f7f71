"""The methods of the ACP demo gateway."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import os
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from acp_bridge.demo.acp.run import AcpRun, AcpScript
from acp_bridge.demo.acp.store import StoredSession, replay
from acp_bridge.demo.acp.wire import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    SESSION_BUSY,
    SESSION_LIMIT,
    SESSION_NOT_FOUND,
    AcpConnection,
    Refused,
)
from acp_bridge.ids import Json

MAX_BLOB: Final = 10 * 1024 * 1024
VERSION: Final = "0.8.4"


class LiveSession:
    """A session in the memory of one connection."""

    def __init__(
        self, connection: AcpConnection, stored: StoredSession, failures: list[Exception]
    ) -> None:
        self.connection = connection
        self.stored = stored
        self.failures = failures
        self.has_elicitation = connection.has_elicitation
        self.run: AcpRun | None = None

    def send_update(self, update: Json) -> None:
        """Send an update to the connection, which may be gone."""
        params = {"sessionId": self.stored.session_id, "update": update}
        self.connection.notify("session/update", params)


class AcpMethods:
    """What clients may call; knows the store and all runs."""

    def __init__(
        self,
        script: AcpScript,
        *,
        agents: tuple[str, ...],
        pace: float,
        max_sessions: int,
        session_timeout: float,
        protocol_version: Any,
    ) -> None:
        self.store: dict[str, StoredSession] = {}
        self.has_store = True
        self.runs: list[AcpRun] = []
        self.failures: list[Exception] = []
        self.news = asyncio.Condition()
        """Tells of calls and of turns."""
        self.protocol_version = protocol_version
        self._script = script
        self._agents = agents
        self._pace = pace
        self._max_sessions = max_sessions
        self._session_timeout = session_timeout
        self._table: dict[str, Callable[[AcpConnection, Json], Awaitable[Json]]] = {
            "initialize": self._initialize,
            "session/new": self._new,
            "session/prompt": self._prompt,
            "session/cancel": self._cancel,
            "session/stop": self._stop,
            "session/close": self._close,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/update": self._event,
            "session/event": self._event,
        }

    async def call(self, connection: AcpConnection, method: str, params: Json) -> Json:
        """Carry out one call. Raises ``Refused``."""
        handler = self._table.get(method)
        if handler is None:
            raise Refused(METHOD_NOT_FOUND, f"Method not found: {method}")
        return await handler(connection, params)

    async def _initialize(self, connection: AcpConnection, params: Json) -> Json:
        capabilities = params.get("clientCapabilities")
        form = capabilities.get("elicitation") if isinstance(capabilities, dict) else None
        connection.has_elicitation = isinstance(form, dict) and (not form or "form" in form)
        sessions: Json = {"resume": {}, "close": {}} if self.has_store else {}
        limits = {
            "maxSessions": self._max_sessions,
            "sessionTimeoutSecs": int(self._session_timeout),
            "defaultModel": "demo/canned-1",
        }
        return {
            "protocolVersion": self.protocol_version,
            "agentCapabilities": {
                "loadSession": self.has_store,
                "promptCapabilities": {"image": False, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": False, "sse": False},
                "sessionCapabilities": sessions,
            },
            "agentInfo": {"name": "zeroclaw-acp", "title": "ZeroClaw ACP", "version": VERSION},
            "authMethods": [],
            "_meta": {"zeroclaw": limits},
        }

    # Sessions

    async def _new(self, connection: AcpConnection, params: Json) -> Json:
        agent = self._agent(connection, params)
        workspace = _workspace(params)
        self._check_limit(connection)
        stored = StoredSession(str(uuid.uuid4()), agent, workspace)
        self.store[stored.session_id] = stored
        connection.sessions[stored.session_id] = LiveSession(connection, stored, self.failures)
        return {"sessionId": stored.session_id, "workspaceDir": workspace}

    async def _load(self, connection: AcpConnection, params: Json) -> Json:
        stored = self._restore(connection, params)
        for update in replay(stored.rows):
            connection.sessions[stored.session_id].send_update(update)
        return {}

    async def _resume(self, connection: AcpConnection, params: Json) -> Json:
        stored = self._restore(connection, params)
        if stored.plan is not None:
            update = {"sessionUpdate": "plan", "entries": stored.plan}
            connection.sessions[stored.session_id].send_update(update)
        return {}

    async def _stop(self, connection: AcpConnection, params: Json) -> Json:
        session = self._leave(connection, params)
        if session.run is not None:
            await session.run.ended.wait()
        return {"sessionId": session.stored.session_id, "stopped": True}

    async def _close(self, connection: AcpConnection, params: Json) -> Json:
        session = self._leave(connection, params)
        if session.run is not None:
            session.run.cancel()
            await session.run.ended.wait()
        return {}

    async def _event(self, connection: AcpConnection, params: Json) -> Json:
        session = _live(connection, params)
        update = params.get("update")
        kind = update.get("sessionUpdate") if isinstance(update, dict) else None
        kind = params.get("type") or kind or "unknown"
        return {"sessionId": session.stored.session_id, "type": kind, "status": "processed"}

    # Turns

    async def _prompt(self, connection: AcpConnection, params: Json) -> Json:
        session = _live(connection, params)
        if session.run is not None:
            raise Refused(SESSION_BUSY, "Session is busy")
        message = _materialised(params.get("prompt"), session.stored.workspace)
        run = AcpRun(
            session,
            message,
            pace=self._pace,
            now=time.time_ns() / 1e9,
            patience=self._session_timeout,
        )
        session.run = run
        self.runs.append(run)
        run.start(self._script)
        async with self.news:
            self.news.notify_all()
        return await run.result()

    async def _cancel(self, connection: AcpConnection, params: Json) -> Json:
        session = connection.sessions.get(_session_id(params))
        if session is not None and session.run is not None:
            session.run.cancel()
        return {}

    # Inside

    def _agent(self, connection: AcpConnection, params: Json) -> str:
        name = next((k for k in ("agentAlias", "agent_alias", "agent") if k in params), None)
        wanted = params[name] if name else None
        if not isinstance(wanted, str) or not wanted.strip():
            wanted = connection.agent or (self._agents[0] if len(self._agents) == 1 else None)
        if wanted is None:
            raise Refused(INVALID_PARAMS, "No agent was named and there is no default")
        if wanted not in self._agents:
            raise Refused(INVALID_PARAMS, f"Unknown agent: {wanted}")
        return wanted

    def _check_limit(self, connection: AcpConnection) -> None:
        if len(connection.sessions) >= self._max_sessions:
            raise Refused(SESSION_LIMIT, "Session limit reached")

    def _restore(self, connection: AcpConnection, params: Json) -> StoredSession:
        if not self.has_store:
            raise Refused(SESSION_NOT_FOUND, "Session not found")
        self._check_limit(connection)
        session_id = _session_id(params)
        if session_id in connection.sessions:
            raise Refused(INVALID_PARAMS, "Session is already active")
        stored = self.store.get(session_id)
        if stored is None:
            raise Refused(SESSION_NOT_FOUND, f"Session not found: {session_id}")
        connection.sessions[session_id] = LiveSession(connection, stored, self.failures)
        return stored

    def _leave(self, connection: AcpConnection, params: Json) -> LiveSession:
        session = _live(connection, params)
        del connection.sessions[session.stored.session_id]
        return session


def _session_id(params: Json) -> str:
    session_id = params.get("sessionId", params.get("session_id"))
    if isinstance(session_id, str):
        return session_id
    raise Refused(INVALID_PARAMS, "sessionId is missing")


def _live(connection: AcpConnection, params: Json) -> LiveSession:
    session = connection.sessions.get(_session_id(params))
    if session is None:
        raise Refused(SESSION_NOT_FOUND, "Session not found")
    return session


def _workspace(params: Json) -> str:
    names = ("cwd", "workspaceDir", "workspace_dir")
    given: str | None = next(
        (params[name] for name in names if isinstance(params.get(name), str)), None
    )
    if given is None:
        return os.path.realpath(".")
    if not Path(given).exists():
        raise Refused(INVALID_PARAMS, "cwd cannot be used")
    return os.path.realpath(given)


def _materialised(prompt: Any, workspace: str) -> str:
    """The text that the agent gets: what is neither text nor a resource is dropped unsaid."""
    if isinstance(prompt, str):
        return prompt
    pieces = [_piece(part, workspace) for part in prompt] if isinstance(prompt, list) else []
    kept = [piece for piece in pieces if piece is not None]
    if not kept:
        raise Refused(INVALID_PARAMS, "prompt is missing")
    return "\n\n".join(kept)


def _piece(part: Any, workspace: str) -> str | None:
    if not isinstance(part, dict):
        return None
    if isinstance(part.get("text"), str):
        return str(part["text"])
    resource = part.get("resource")
    if not isinstance(resource, dict):
        return None
    if isinstance(resource.get("text"), str):
        return str(resource["text"])
    if not isinstance(resource.get("blob"), str):
        return None
    try:
        data = base64.b64decode(resource["blob"].strip(), validate=True)
    except binascii.Error:
        raise Refused(INVALID_PARAMS, "blob is not base64") from None
    if len(data) > MAX_BLOB:
        raise Refused(INVALID_PARAMS, "blob is too large")
    # The real gateway writes the file; the demo only names it.
    name = str(resource.get("uri") or "upload.bin").rpartition("/")[2]
    path = f"{workspace}/uploads/{hashlib.sha256(data).hexdigest()}"
    is_image = str(resource.get("mimeType", "")).startswith("image/")
    return f"[IMAGE:{path}]" if is_image else f"[Document: {name}] {path}"
