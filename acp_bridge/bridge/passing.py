"""What passes between the editor and a gateway that speaks ACP itself, without being interpreted.

Only the name of the session is another one on each side. Updates that belong to no turn are
recorded and shown like any others; those of a session that the editor does not know yet wait until
it does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from acp_bridge.core import events as ev
from acp_bridge.core.commands import AnswerPeer, Forward, Notify
from acp_bridge.core.effects import Record
from acp_bridge.core.ports import Ask, Editor, EditorAnswer, Entry, Outbox
from acp_bridge.core.sessions import Session, Sessions
from acp_bridge.errors import SessionNotFound, TooManyRequests, to_jsonrpc, unsupported
from acp_bridge.gateway.port import Gateway
from acp_bridge.ids import ApprovalId, Json, SessionId, SessionKey
from acp_bridge.wire import jsonrpc
from acp_bridge.wire.weight import weigh

log = logging.getLogger(__name__)

MAX_EARLY: Final = 100
"""Updates that are kept of sessions that are not open yet."""
MAX_EARLY_BYTES: Final = 8 * 1024 * 1024
"""Bytes of them, counted approximately."""
MAX_ASKS: Final = 100
"""Questions of the gateway that may wait for the editor at once."""


class Passage:
    """Both directions of what is not interpreted."""

    def __init__(
        self, *, gateway: Gateway, outbox: Outbox, editor: Editor, sessions: Sessions
    ) -> None:
        self._gateway = gateway
        self._outbox = outbox
        self._editor = editor
        self._sessions = sessions
        self._asks: dict[ApprovalId, tuple[SessionId, Ask]] = {}
        self._early: list[ev.SessionUpdated] = []
        self._early_bytes = 0

    # --- from the editor -----------------------------------------------------------------

    async def forward(self, method: str, params: Any) -> Json:
        """Pass a request on. Raises ``UnknownMethod`` where the gateway takes none, and the
        gateway's error."""
        if not self._passes:
            raise unsupported(method)
        params = params if isinstance(params, dict) else {}
        result = await self._gateway.request(Forward(method, params, self._key(params)))
        return result if isinstance(result, dict) else {}

    def notify(self, method: str, params: Any) -> None:
        """Pass a notification on, if there is anybody to take it."""
        if self._passes:
            params = params if isinstance(params, dict) else {}
            self._gateway.submit(Notify(method, params, self._key(params)))

    @property
    def _passes(self) -> bool:
        hello = self._gateway.hello
        return hello is not None and hello.makes_sessions

    def _key(self, params: Json) -> SessionKey | None:
        session_id = params.get("sessionId")
        if not isinstance(session_id, str):
            return None
        return self._sessions.get(SessionId(session_id)).session_key

    # --- from the gateway ----------------------------------------------------------------

    def take(self, event: ev.SessionUpdated | ev.PeerAsked | ev.Notified) -> None:
        """Pass it to the editor."""
        match event:
            case ev.SessionUpdated():
                self._updated(event)
            case ev.PeerAsked():
                self._asked(event)
            case ev.Notified(method, params, key):
                for named in self._named(params, key):
                    self._outbox.put_message(jsonrpc.notification(method, named))

    def opened(self, session: Session) -> None:
        """The editor knows the session now."""
        waiting, self._early, self._early_bytes = self._early, [], 0
        for event in waiting:
            self._updated(event)

    def link_lost(self) -> None:
        """Nobody waits for the answers any more."""
        for ask_id in list(self._asks):
            self._withdraw(ask_id)

    def cancelled(self, session_id: SessionId) -> None:
        """A turn is to end: what it has asked is void."""
        for ask_id, (asked_in, _) in list(self._asks.items()):
            if asked_in == session_id:
                error = {"code": -32800, "message": "The turn was cancelled."}
                self._withdraw(ask_id)
                self._gateway.submit(AnswerPeer(ask_id, error=error))

    def _updated(self, event: ev.SessionUpdated) -> None:
        known = list(self._with_key(event.session_key))
        if not known and len(self._early) < MAX_EARLY:
            self._early_bytes += weigh(event.update)
            if self._early_bytes <= MAX_EARLY_BYTES:
                self._early.append(event)
        for session in known:
            entry = Entry(session.session_id, Record("update", event.update))
            self._outbox.put_update(event.update, entry)

    def _asked(self, event: ev.PeerAsked) -> None:
        session = next(self._with_key(event.session_key), None) if event.session_key else None
        if len(self._asks) >= MAX_ASKS:
            error = to_jsonrpc(TooManyRequests(f"{MAX_ASKS} questions wait for the editor."))
            self._gateway.submit(AnswerPeer(event.ask_id, error=error))
            return
        if session is None:
            error = to_jsonrpc(SessionNotFound("The editor has no such session open."))
            self._gateway.submit(AnswerPeer(event.ask_id, error=error))
            return
        ask = self._editor.ask(
            event.method,
            {**event.params, "sessionId": session.session_id},
            partial(self._answered, event.ask_id),
            session_id=session.session_id,
        )
        self._asks[event.ask_id] = (session.session_id, ask)

    def _answered(self, ask_id: ApprovalId, answer: EditorAnswer) -> None:
        self._asks.pop(ask_id, None)
        self._gateway.submit(AnswerPeer(ask_id, answer.result, answer.error))

    def _withdraw(self, ask_id: ApprovalId) -> None:
        _, ask = self._asks.pop(ask_id)
        ask.withdraw()

    def _named(self, params: Json, key: SessionKey | None) -> Iterator[Json]:
        if key is None:
            yield params
            return
        for session in self._with_key(key):
            yield {**params, "sessionId": session.session_id}

    def _with_key(self, key: SessionKey) -> Iterator[Session]:
        sessions = list(self._sessions.with_key(key, None))
        return (session for session in sessions if session.shown.is_open)


def when_known(passage: Passage, session: Session) -> None:
    """Show what waited for the session, once the answer that opens it is on its way."""
    asyncio.get_running_loop().call_soon(passage.opened, session)
