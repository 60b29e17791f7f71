"""A small agent behind the router, written by hand: it notes what is called and does as told."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

from acp_bridge.core.ports import Responder
from acp_bridge.errors import SessionNotFound, unsupported
from acp_bridge.ids import Json, SessionId
from acp_bridge.wire.acp import (
    ListedSessions,
    NewSession,
    OpenedSession,
    Prompt,
    SetMode,
    SetOption,
)
from tests.support.waits import WAIT


class ScriptedHandlers:
    """Implements ``core.ports.Handlers``.

    ``calls`` lists what was called in order. A method waits for the event under its name in
    ``waits`` and raises what stands under its name in ``faults``. Prompts stay open until
    ``end_turn`` or a cancel.
    """

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.waits: dict[str, asyncio.Event] = {}
        self.faults: dict[str, BaseException] = {}
        self.open: list[tuple[Prompt, Responder]] = []
        self._sessions = 0
        self._seen: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def initialize(self, params: Json) -> Json:
        await self._enter("initialize", params)
        return {"protocolVersion": 1}

    async def authenticate(self, method_id: str) -> Json:
        await self._enter("authenticate", method_id)
        return {}

    async def new_session(self, request: NewSession) -> Json:
        await self._enter("new_session", request.cwd)
        self._sessions += 1
        return {"sessionId": f"s{self._sessions}"}

    async def load_session(self, request: OpenedSession) -> Json:
        await self._enter("load_session", request.session_id)
        return {}

    async def resume_session(self, request: OpenedSession) -> Json:
        await self._enter("resume_session", request.session_id)
        return {}

    async def list_sessions(self, request: ListedSessions) -> Json:
        await self._enter("list_sessions", request.cursor)
        return {"sessions": []}

    async def delete_session(self, session_id: SessionId) -> Json:
        await self._enter("delete_session", session_id)
        return {}

    def prompt(self, request: Prompt, respond: Responder) -> None:
        self._note("prompt", request.session_id)
        self._raise("prompt")
        self.open.append((request, respond))

    def cancel(self, session_id: SessionId) -> None:
        self._note("cancel", session_id)
        self._raise("cancel")
        for prompt, respond in list(self.open):
            if prompt.session_id == session_id:
                self._end(respond, "cancelled")

    def cancel_prompt(self, respond: Responder) -> None:
        self._note("cancel_prompt", None)
        self._end(respond, "cancelled")

    async def close_session(self, session_id: SessionId) -> Json:
        await self._enter("close_session", session_id)
        if session_id == "unknown":
            raise SessionNotFound("Session not found: unknown", data={"sessionId": session_id})
        return {}

    async def set_mode(self, request: SetMode) -> Json:
        await self._enter("set_mode", request)
        return {}

    async def set_option(self, request: SetOption) -> Json:
        await self._enter("set_option", request)
        return {"configOptions": []}

    async def forward(self, method: str, params: Any) -> Json:
        raise unsupported(method)

    def notify(self, method: str, params: Any) -> None:
        return

    def end_turns(self) -> None:
        """End all open turns as finished, the latest first."""
        for _, respond in reversed(self.open[:]):
            self._end(respond, "end_turn")

    def names(self) -> list[str]:
        """The names of what was called, in order."""
        return [name for name, _ in self.calls]

    async def called(self, name: str) -> None:
        """Return once a method has been called."""
        async with asyncio.timeout(WAIT):
            await self._seen[name].wait()

    def _note(self, name: str, about: Any) -> None:
        self.calls.append((name, about))
        self._seen[name].set()

    async def _enter(self, name: str, about: Any) -> None:
        self._note(name, about)
        if name in self.waits:
            await self.waits[name].wait()
        self._raise(name)

    def _raise(self, name: str) -> None:
        if name in self.faults:
            raise self.faults[name]

    def _end(self, respond: Responder, stop_reason: str) -> None:
        self.open = [(prompt, other) for prompt, other in self.open if other is not respond]
        respond.result({"stopReason": stop_reason})
