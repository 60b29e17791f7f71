"""Titles and token counts of the open sessions, as the gateway tells them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from acp_bridge.core import events as ev
from acp_bridge.core.commands import DescribeSession, ListSessions, SessionFacts
from acp_bridge.core.effects import Record
from acp_bridge.core.ports import Entry, Outbox
from acp_bridge.core.prompt import PREFIX
from acp_bridge.core.sessions import Session, Sessions, canonical_key
from acp_bridge.errors import BridgeError
from acp_bridge.gateway.port import Gateway
from acp_bridge.ids import Json, SessionId
from acp_bridge.wire import updates

log = logging.getLogger(__name__)

FACTS_TIMEOUT = 5.0
PAGE = 50
"""Sessions that are listed for the title of one; those used last come first."""


class Facts:
    """Asks, listens, and shows what has changed."""

    def __init__(
        self, *, gateway: Gateway, outbox: Outbox, sessions: Sessions, tasks: asyncio.TaskGroup
    ) -> None:
        self._gateway = gateway
        self._outbox = outbox
        self._sessions = sessions
        self._tasks = tasks

    def refresh(self, session_id: SessionId) -> None:
        """Ask for title and usage, without keeping anybody waiting."""
        session = self._sessions.find(session_id)
        if session is not None and self._gateway.hello is not None:
            self._tasks.create_task(self._refresh(session))

    def changed(self, event: ev.SessionChanged, sessions: Iterable[Session]) -> None:
        """The gateway's row of these sessions has changed."""
        for session in list(sessions):
            self._show_usage(session, event.used_tokens, event.context_tokens, event.cost_usd)

    def name(self, session: Session, title: str) -> None:
        """The session has a title now."""
        session.title = title
        self._outbox.put_record(Entry(session.session_id, Record("title", {"title": title})))

    async def _refresh(self, session: Session) -> None:
        try:
            facts: SessionFacts | None = await self._gateway.request(
                DescribeSession(session.session_key), timeout=FACTS_TIMEOUT
            )
        except BridgeError as error:
            log.debug("no session facts", extra={"fields": {"why": error.code}})
            return
        if facts is None or self._sessions.find(session.session_id) is not session:
            return
        self._show_title(session, facts.title)
        self._show_usage(session, facts.used_tokens, facts.context_tokens, facts.cost_usd)
        if session.title is None:
            await self._ask_for_title(session)

    async def _ask_for_title(self, session: Session) -> None:
        """What a list calls the session, which may be what its first prompt said; the session's
        own facts do not tell that."""
        try:
            rows: list[SessionFacts] = (
                await self._gateway.request(ListSessions(0, PAGE), timeout=FACTS_TIMEOUT) or []
            )
        except BridgeError as error:
            log.debug("no title", extra={"fields": {"why": error.code}})
            return
        wanted = canonical_key(session.session_key, None)
        found = (row.title for row in rows if canonical_key(row.session_key, None) == wanted)
        if session.title is None and self._sessions.find(session.session_id) is session:
            self._show_title(session, next(found, None))

    def _show_title(self, session: Session, title: str | None) -> None:
        if title and not title.startswith(PREFIX) and title != session.title:
            self.name(session, title)
            self._show(session, updates.session_info(title, None))

    def _show_usage(
        self, session: Session, used: int | None, size: int | None, cost: float | None
    ) -> None:
        if used is None or not size or session.usage == (used, size, cost):
            return
        session.usage = (used, size, cost)
        self._show(session, updates.usage(used, size, cost))

    def _show(self, session: Session, update: Json) -> None:
        self._outbox.put_update(update, Entry(session.session_id, Record("update", update)))
