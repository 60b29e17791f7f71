"""The pickers: options, modes and slash commands of each session, kept as the gateway has them.

An opening waits a moment for the gateway's word; what comes later is told by updates, and so is
what others change. None of it is recorded. A gateway that does not tell costs the pickers only.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterable
from typing import NamedTuple

from acp_bridge.bridge.outbox_items import update_message
from acp_bridge.bridge.timing import Clock, Deadlines
from acp_bridge.core.commands import ChangeOption, ListCommands, ReadOptions
from acp_bridge.core.options import (
    OPTION_IDS,
    THOUGHT_LEVEL,
    Options,
    SlashCommand,
    check_value,
    config_options,
    find,
    unknown,
)
from acp_bridge.core.ports import Outbox
from acp_bridge.core.sessions import Session, Sessions
from acp_bridge.errors import GatewayError, InvalidParams
from acp_bridge.gateway.port import Gateway
from acp_bridge.ids import Json, SessionKey
from acp_bridge.wire.acp import SetMode, SetOption

log = logging.getLogger(__name__)


class Reading(NamedTuple):
    """A question to the gateway under way; its answer is None if the gateway has none."""

    number: int
    """Later ones have higher numbers."""
    answer: asyncio.Task[Options | None]


class Pickers:
    """Tells the editor what may be chosen, and carries out what was chosen."""

    def __init__(
        self,
        *,
        gateway: Gateway,
        outbox: Outbox,
        sessions: Sessions,
        clock: Clock,
        deadlines: Deadlines,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._gateway = gateway
        self._outbox = outbox
        self._sessions = sessions
        self._clock = clock
        self._deadlines = deadlines
        self._tasks = tasks
        self._numbers = itertools.count(1)

    # --- opening a session ---------------------------------------------------------------

    def begin(self, key: SessionKey) -> Reading | None:
        """Begin to ask for a session's options; None where there is nobody to ask, or nothing
        that could be changed here."""
        hello = self._gateway.hello
        if hello is None or not hello.changeable:
            return None
        return Reading(next(self._numbers), self._tasks.create_task(self._read(key)))

    async def opening(self, session: Session, reading: Reading | None = None) -> Json:
        """The members of the opening's answer: modes and options, if the gateway tells them in
        time. The caller must answer without another wait."""
        reading = reading or self.begin(session.session_key)
        answer: Json = {}
        if reading is not None:
            if not await self._is_in_time(reading):
                self._tasks.create_task(self._late(session, reading))
            elif options := reading.answer.result():
                answer = session.shown.opened(options, reading.number)
        asyncio.get_running_loop().call_soon(self._opened, session)
        return answer

    async def _is_in_time(self, reading: Reading) -> bool:
        late = asyncio.Event()
        timer = self._clock.call_later(self._deadlines.options, late.set)
        waiting = self._tasks.create_task(late.wait())
        try:
            await asyncio.wait({reading.answer, waiting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            waiting.cancel()
        return reading.answer.done()

    def _opened(self, session: Session) -> None:
        session.shown.is_open = True
        if session.shown.is_stale:
            self._refresh_soon(session)
        self._tasks.create_task(self._tell_commands(session))

    async def _late(self, session: Session, reading: Reading) -> None:
        if (options := await reading.answer) is not None:
            self._take(session, options, reading.number)

    # --- what the editor chooses ---------------------------------------------------------

    async def set_mode(self, request: SetMode) -> Json:
        """The ``session/set_mode`` result. Raises as :meth:`set_option` does."""
        session = self._sessions.get(request.session_id)
        options = await self._known(session)
        if level := find(options, THOUGHT_LEVEL):
            check_value(level, request.mode_id, "modeId")
        elif self._may_change(THOUGHT_LEVEL):
            raise unknown("modeId", ())
        number, options = await self._change(session, THOUGHT_LEVEL, request.mode_id)
        self._show(session, session.shown.changed(options, number))
        return {}

    async def set_option(self, request: SetOption) -> Json:
        """The ``session/set_config_option`` result, with what then holds, as read back.

        Raises ``SessionNotFound``, ``InvalidParams`` with what is allowed and nothing changed, and
        the gateway's error: then the old value still holds.
        """
        session, value = self._sessions.get(request.session_id), request.value
        if not isinstance(value, str):
            text = "The parameter value must be a string: no option here is a boolean."
            raise InvalidParams(text, data={"field": "value"})
        options = await self._known(session)
        if option := find(options, request.config_id):
            check_value(option, value, "value")
        elif request.config_id not in OPTION_IDS or self._may_change(request.config_id):
            raise unknown("configId", [each.option_id for each in options])
        number, options = await self._change(session, request.config_id, value)
        self._show(session, session.shown.changed(options, number, is_answered=True))
        return {"configOptions": config_options(session.shown.options or ())}

    async def _known(self, session: Session) -> Options:
        await self._gateway.wait_hello(self._deadlines.connect)
        if session.shown.options is not None:
            return session.shown.options
        return await self._ask(session.session_key)

    def _may_change(self, option_id: str) -> bool:
        """Whether our scopes allow it. If not, the gateway is asked all the same: its refusal
        says which one is missing."""
        hello = self._gateway.hello
        return hello is not None and option_id in hello.changeable

    async def _change(self, session: Session, option_id: str, value: str) -> tuple[int, Options]:
        shown = session.shown
        shown.changing += 1
        try:
            await self._gateway.request(ChangeOption(session.session_key, option_id, value))
            # The gateway's news of this choice, and of all before it, are in this reading.
            number, shown.is_stale = next(self._numbers), False
            return number, await self._ask(session.session_key)
        finally:
            shown.changing -= 1
            if shown.is_stale and shown.may_be_told:
                self._refresh_soon(session)

    # --- what changes by itself ----------------------------------------------------------

    def changed(self, sessions: Iterable[Session]) -> None:
        """The gateway says that something may have been chosen for these sessions."""
        for session in sessions:
            if session.shown.may_be_told:
                self._refresh_soon(session)
            else:
                session.shown.is_stale = True

    def link_up(self) -> None:
        """Ask anew for all sessions: much may have changed, and some were opened offline."""
        if sessions := [session for session in self._sessions.all() if session.shown.is_open]:
            self._tasks.create_task(self._refresh_all(sessions))

    async def _refresh_all(self, sessions: list[Session]) -> None:
        for session in sessions:  # one after the other: they may be many
            await self._refresh(session)
            await self._tell_commands(session)

    def _refresh_soon(self, session: Session) -> None:
        session.shown.is_stale = False
        self._tasks.create_task(self._refresh(session))

    async def _refresh(self, session: Session) -> None:
        if reading := self.begin(session.session_key):
            await self._late(session, reading)

    async def _tell_commands(self, session: Session) -> None:
        try:
            commands: tuple[SlashCommand, ...] | None = await self._gateway.request(
                ListCommands(session.session_key)
            )
        except GatewayError as error:
            log.debug("no slash commands", extra={"fields": {"why": error.code}})
            return
        if commands is not None and self._is_here(session):
            self._show(session, session.shown.commands_changed(commands))

    # --- asking and telling --------------------------------------------------------------

    async def _read(self, key: SessionKey) -> Options | None:
        try:
            return await self._ask(key)
        except GatewayError as error:
            log.debug("no options", extra={"fields": {"why": error.code}})
            return None

    async def _ask(self, key: SessionKey) -> Options:
        options: Options | None = await self._gateway.request(ReadOptions(key))
        return options or ()

    def _take(self, session: Session, options: Options, number: int) -> None:
        if session.shown.changing:
            session.shown.is_stale = True
        elif self._is_here(session):
            self._show(session, session.shown.changed(options, number))

    def _is_here(self, session: Session) -> bool:
        return self._sessions.find(session.session_id) is session

    def _show(self, session: Session, shown: list[Json]) -> None:
        for update in shown:
            message = update_message(session.session_id, update)
            self._outbox.put_message(message, session_id=session.session_id)
