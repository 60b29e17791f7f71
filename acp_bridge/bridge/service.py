"""The service: what the editor may call, and where the gateway's events go."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from acp_bridge.bridge.capabilities import AUTH_METHOD, outdated
from acp_bridge.bridge.facts import FACTS_TIMEOUT, Facts
from acp_bridge.bridge.listing import Lister
from acp_bridge.bridge.native import Native, passed
from acp_bridge.bridge.opening import Opener
from acp_bridge.bridge.options import Pickers, Reading
from acp_bridge.bridge.passing import Passage, when_known
from acp_bridge.bridge.prompting import Prompting
from acp_bridge.bridge.run_options import run_options
from acp_bridge.bridge.timing import Clock, Deadlines
from acp_bridge.core import events as ev
from acp_bridge.core.commands import AnswerPermission, CloseSession, DeleteSession, StartRun
from acp_bridge.core.effects import Record
from acp_bridge.core.live_turn import Turn
from acp_bridge.core.permissions import DENY
from acp_bridge.core.ports import Editor, Entry, Outbox, Responder
from acp_bridge.core.prompt import prompt_title, prompt_to_message
from acp_bridge.core.sessions import (
    CreationLimit,
    Session,
    SessionOptions,
    Sessions,
    prefix_wanted,
)
from acp_bridge.errors import (
    InvalidParams,
    ScopeMissing,
    SessionNotFound,
)
from acp_bridge.gateway.port import Gateway
from acp_bridge.gateway.scopes import ADMIN, WRITE, missing_scopes
from acp_bridge.ids import Json, RunId, SessionId, SessionKey
from acp_bridge.wire import updates
from acp_bridge.wire.acp import (
    ListedSessions,
    NewSession,
    OpenedSession,
    Prompt,
    SetMode,
    SetOption,
)
from acp_bridge.wire.provenance import provenance_fields
from ledger.port import EventLedger

log = logging.getLogger(__name__)


class Surroundings(NamedTuple):
    """What the process knows of the machine it runs on."""

    home: str | None
    host: str
    cwd: str


class Bridge:
    """Implements ``core.ports.Handlers`` and takes the gateway's events.

    ``leaving`` is set when the editor has closed its input: nothing is worth waiting for then.
    """

    def __init__(
        self,
        *,
        gateway: Gateway,
        outbox: Outbox,
        editor: Editor,
        ledger: EventLedger,
        options: SessionOptions,
        limit: CreationLimit,
        surroundings: Surroundings,
        clock: Clock,
        deadlines: Deadlines,
        tasks: asyncio.TaskGroup,
        leaving: asyncio.Event,
        new_id: Callable[[], str],
        now_ms: Callable[[], int],
    ) -> None:
        self._gateway = gateway
        self._outbox = outbox
        self._options = options
        self._surroundings = surroundings
        self._tasks = tasks
        self._deadlines = deadlines
        self._leaving = leaving
        self._new_id = new_id
        self._sessions = Sessions(clock.time)
        self._notices: list[str] = []
        self._said: set[str] = set()
        self._facts = Facts(gateway=gateway, outbox=outbox, sessions=self._sessions, tasks=tasks)
        self._prompting = Prompting(
            gateway=gateway,
            outbox=outbox,
            editor=editor,
            clock=clock,
            deadlines=deadlines,
            tasks=tasks,
            on_answered=lambda turn: self._facts.refresh(turn.session_id),
            shows_foreign=options.shows_foreign,
        )
        self._pickers = Pickers(
            gateway=gateway,
            outbox=outbox,
            sessions=self._sessions,
            clock=clock,
            deadlines=deadlines,
            tasks=tasks,
        )
        self._native = Native(gateway)
        self._opener = Opener(
            gateway=gateway,
            outbox=outbox,
            ledger=ledger,
            sessions=self._sessions,
            prompting=self._prompting,
            pickers=self._pickers,
            native=self._native,
            options=options,
            limit=limit,
            clock=clock,
            deadlines=deadlines,
            new_id=new_id,
            now_ms=now_ms,
        )
        self._passage = Passage(
            gateway=gateway, outbox=outbox, editor=editor, sessions=self._sessions
        )
        self._lister = Lister(gateway=gateway, ledger=ledger, elsewhere=surroundings.cwd)

    # --- what the editor calls -----------------------------------------------------------

    async def initialize(self, params: Json) -> Json:
        """The ``initialize`` result; it normally follows the gateway's hello."""
        capabilities = params.get("clientCapabilities")
        self._gateway.announce(capabilities if isinstance(capabilities, dict) else {})
        if notice := outdated(params):
            self._say_once("version", notice)
        hello = self._tasks.create_task(self._native.look())
        leaving = self._tasks.create_task(self._leaving.wait())
        await asyncio.wait({hello, leaving}, return_when=asyncio.FIRST_COMPLETED)
        hello.cancel()
        leaving.cancel()
        return self._native.initialize(params)

    async def authenticate(self, method_id: str) -> Json:
        """``authenticate``: read the credentials again and connect. Raises the gateway's error."""
        if method_id != AUTH_METHOD["id"]:
            raise InvalidParams("The parameter methodId is unknown.", data={"field": "methodId"})
        await self._gateway.wait_hello(self._deadlines.connect)
        return {}

    async def new_session(self, request: NewSession) -> Json:
        """The ``session/new`` result."""
        session = await self._opener.new(request)
        self._say_mcp(request)
        options = await self._pickers.opening(session)
        when_known(self._passage, session)
        return {**self._native.answer(session), "sessionId": session.session_id, **options}

    async def load_session(self, request: OpenedSession) -> Json:
        """The ``session/load`` result, after the whole replay."""
        return await self._opened(request, *await self._opener.load(request))

    async def resume_session(self, request: OpenedSession) -> Json:
        """The ``session/resume`` result, without any history."""
        return await self._opened(request, await self._opener.resume(request))

    async def _opened(
        self, request: OpenedSession, session: Session, reading: Reading | None = None
    ) -> Json:
        self._say_mcp(request)
        answer = await self._pickers.opening(session, reading)
        when_known(self._passage, session)
        # After the answer: what is fresh is live, and no part of the history.
        asyncio.get_running_loop().call_soon(self._facts.refresh, session.session_id)
        return {**self._native.answer(session), **answer}

    async def set_mode(self, request: SetMode) -> Json:
        """The ``session/set_mode`` result."""
        if self._makes_sessions:
            wanted = {**request.extras, "sessionId": request.session_id, "modeId": request.mode_id}
            return await self._passage.forward("session/set_mode", wanted)
        return await self._pickers.set_mode(request)

    async def set_option(self, request: SetOption) -> Json:
        """The ``session/set_config_option`` result."""
        if self._makes_sessions:
            named = {"sessionId": request.session_id, "configId": request.config_id}
            wanted = {**request.extras, **named, "value": request.value}
            return await self._passage.forward("session/set_config_option", wanted)
        return await self._pickers.set_option(request)

    async def list_sessions(self, request: ListedSessions) -> Json:
        """The ``session/list`` result."""
        await self._outbox.flush(FACTS_TIMEOUT)
        return await self._lister.page(request)

    async def delete_session(self, session_id: SessionId) -> Json:
        """``session/delete``: from the ledger, and with the option from the gateway too."""
        key = None
        if self._options.delete_at_gateway:
            with contextlib.suppress(SessionNotFound):  # it is deleted already
                key = await self._opener.key_of(session_id)
        await self.close_session(session_id)
        if key is not None:
            await self._gateway.request(DeleteSession(key))
        self._outbox.put_record(Entry(session_id, Record("deleted", {})))
        return {}

    def prompt(self, request: Prompt, respond: Responder) -> None:
        """Start a turn; ``respond`` is answered when it ends."""
        session = self._sessions.get(request.session_id)
        hello = self._gateway.hello
        if hello is not None and WRITE not in hello.scopes:
            raise ScopeMissing(
                f"The gateway has not granted {WRITE}, which prompts need.",
                hint="Approve the scope on the gateway (openclaw devices list), or see --scopes.",
                data={"scope": WRITE},
            )
        prepared = prompt_to_message(
            request.blocks,
            cwd=session.cwd,
            home=self._surroundings.home,
            prefix_cwd=prefix_wanted(request.meta, session.prefix_cwd),
            takes_audio="audio" in self._native.offers.prompt_kinds,
        )
        command = StartRun(
            run_id=RunId(self._new_id()),
            session_key=session.session_key,
            message=prepared.message,
            attachments=prepared.attachments,
            blocks=request.blocks,
            extras=passed(request),
            provenance=provenance_fields(
                self._options.provenance,
                session_id=session.session_id,
                session_key=session.session_key,
                host=self._surroundings.host,
                cwd=session.cwd,
            ),
            **run_options(request.meta),
        )
        self._prompting.start(session, command, {"prompt": list(request.blocks)}, respond)
        if session.title is None and (title := prompt_title(request.blocks)):
            self._facts.name(session, title)
        self._show_notices(session, command.run_id)

    def cancel(self, session_id: SessionId) -> None:
        """``session/cancel``."""
        self._prompting.cancel(session_id)
        self._passage.cancelled(session_id)

    def cancel_prompt(self, respond: Responder) -> None:
        """``$/cancel_request`` for a prompt."""
        self._prompting.cancel_prompt(respond)

    async def close_session(self, session_id: SessionId) -> Json:
        """``session/close``. Closing an unknown session succeeds: it is closed."""
        if (session := self._sessions.find(session_id)) is not None:
            self._prompting.leave(session_id)
            await self._prompting.answered(session_id)
            self._sessions.remove(session_id)
            self._prompting.forget(session_id)
            if self._makes_sessions:
                self._gateway.submit(CloseSession(session.session_key))
            self._outbox.put_record(Entry(session_id, Record("closed", {})))
        return {}

    async def forward(self, method: str, params: Any) -> Json:
        """A request that the bridge does not know."""
        return await self._passage.forward(method, params)

    def notify(self, method: str, params: Any) -> None:
        """A notification that the bridge does not know."""
        self._passage.notify(method, params)

    async def stop(self, grace: float, *, detach: bool) -> None:
        """Answer all turns, within about ``grace`` seconds: as cancelled, or with ``detach`` as
        left to the gateway."""
        await self._prompting.stop(grace, detach=detach)

    # --- what the gateway says -----------------------------------------------------------

    async def on_event(self, stamped: ev.Stamped) -> None:
        """Take one event. Waits only at the outbox's bound, which pauses the reading of the
        socket: what the gateway then drops is repaired from its cumulative text."""
        self._dispatch(stamped.event)
        if self._outbox.is_full:
            await self._outbox.room()

    def _dispatch(self, event: ev.GatewayEvent) -> None:
        match event:
            case ev.LinkUp():
                self._link_up(event.hello)
            case ev.LinkLost():
                log.info("link lost", extra={"fields": {"why": event.reason}})
                self._prompting.link_lost(event)
                self._passage.link_lost()
            case ev.RunSeen():
                for session in self._sessions.with_key(event.session_key, self._agent):
                    self._prompting.run_seen(event, session)
            case ev.PermissionAsked():
                self._permission_asked(event)
            case ev.PermissionClosed() | ev.PermissionSettled() | ev.ApprovalsListed():
                self._prompting.permission_event(event)
            case ev.SessionChanged() | ev.OptionsChanged():
                self._session_changed(event)
            case ev.GatewayStopping(reason) | ev.Unreadable(reason):
                # What cannot be read is counted and logged where it came in.
                level = logging.DEBUG if isinstance(event, ev.Unreadable) else logging.INFO
                fields = {"event": type(event).__name__, "why": reason}
                log.log(level, "the gateway says", extra={"fields": fields})
            case ev.SessionUpdated() | ev.PeerAsked() | ev.Notified():
                self._passage.take(event)
            case _:
                self._prompting.run_event(event)

    def _session_changed(self, event: ev.SessionChanged | ev.OptionsChanged) -> None:
        sessions = self._sessions.with_key(event.session_key, self._agent)
        if isinstance(event, ev.SessionChanged):
            self._facts.changed(event, sessions)
        else:
            self._pickers.changed(sessions)

    def _link_up(self, hello: ev.Hello) -> None:
        needs_admin = self._options.reset or self._options.provenance != "off"
        for missing in missing_scopes(hello):
            if missing.scope != ADMIN or needs_admin:
                text = f"The gateway has not granted {missing.scope}: {missing.effect}."
                self._say_once(missing.scope, text)
        self._prompting.link_up(hello.generation, hello.boot_id)
        self._pickers.link_up()

    def _permission_asked(self, asked: ev.PermissionAsked) -> None:
        turns = self._prompting.turns
        turn = turns.by_run(asked.run_id) if asked.run_id is not None else None
        if asked.run_id is None and asked.session_key is not None:
            turn = self._running_in(asked.session_key)
        if turn is not None:
            self._prompting.permission_asked(asked, turn)
        elif asked.params is not None:  # nobody else is asked
            self._gateway.submit(AnswerPermission(asked.approval_id, DENY))

    def _running_in(self, key: SessionKey) -> Turn | None:
        """2026.6.11 names only the session, in its own spelling; one run is under way in it."""
        for session in self._sessions.with_key(key, self._agent):
            if turn := self._prompting.turns.running_with_key(session.session_key):
                return turn
        return None

    @property
    def _makes_sessions(self) -> bool:
        hello = self._gateway.hello
        return hello is not None and hello.makes_sessions

    @property
    def _agent(self) -> str | None:
        hello = self._gateway.hello
        return hello.default_agent if hello is not None else None

    # --- what is said once ---------------------------------------------------------------

    def _say_mcp(self, request: NewSession | OpenedSession) -> None:
        if notice := self._native.unused_servers(request):
            self._say_once("mcp", notice)

    def _say_once(self, topic: str, text: str) -> None:
        """In the thread with the next prompt, once per process and topic."""
        if topic in self._said:
            return
        self._said.add(topic)
        log.info(text)
        self._notices.append(text)

    def _show_notices(self, session: Session, run_id: RunId) -> None:
        notices, self._notices = self._notices, []
        if notices:
            text = "".join(f"(acp-bridge) {notice}\n\n" for notice in notices)
            self._show(session, updates.message_chunk(text, f"{run_id}:bridge"))

    def _show(self, session: Session, update: Json) -> None:
        self._outbox.put_update(update, Entry(session.session_id, Record("update", update)))
