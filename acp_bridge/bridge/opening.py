"""Opens sessions: new ones, and earlier ones from the ledger and the gateway's transcript.

A load looks in three places, in this order: the ledger under the editor's id; the ledger under the
session key (a list of another bridge may have given that as id); the gateway's transcript. What
the first two lack and the transcript has is added and recorded (``core.heal``). Without a gateway
the ledger alone serves. A turn that still runs is joined after the load is answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from acp_bridge.bridge.found import Found
from acp_bridge.bridge.native import Native
from acp_bridge.bridge.options import Pickers, Reading
from acp_bridge.bridge.outbox_items import update_message
from acp_bridge.bridge.prompting import Prompting
from acp_bridge.bridge.timing import Clock, Deadlines
from acp_bridge.core.commands import ReadTranscript, ResetSession, ResolveSession
from acp_bridge.core.effects import Record
from acp_bridge.core.heal import additions
from acp_bridge.core.live_turn import Turn
from acp_bridge.core.naming import named
from acp_bridge.core.ports import Entry, Outbox
from acp_bridge.core.prompt import history_title
from acp_bridge.core.replay import (
    INTERRUPTED,
    Recorded,
    distinct,
    last_usage,
    open_runs,
    replay_updates,
    runs_at_gateway,
    runs_given_up,
)
from acp_bridge.core.sessions import (
    CreationLimit,
    Route,
    Session,
    SessionOptions,
    Sessions,
    own_key,
    route,
)
from acp_bridge.core.transcript import UNSEEN_FOR, Transcript
from acp_bridge.errors import (
    GatewayError,
    HistoryUnavailable,
    OutcomeUnknown,
    SessionKeyUnresolved,
    to_jsonrpc,
)
from acp_bridge.gateway.port import Gateway
from acp_bridge.ids import Json, RunId, SessionId, SessionKey
from acp_bridge.wire import updates
from acp_bridge.wire.acp import NewSession, OpenedSession
from ledger import EventLedger, LedgerError, Replay

log = logging.getLogger(__name__)

LOAD_WAIT = 2.0
"""Seconds that a load waits for a gateway if the ledger has the session."""
TRANSCRIPT_TIMEOUT = 10.0

OFFLINE = (
    "(This history comes from the ledger: the gateway cannot be reached. You can read; a prompt"
    " waits until it is back.)"
)


class Opener:
    """``session/new``, ``session/load`` and ``session/resume``."""

    def __init__(
        self,
        *,
        gateway: Gateway,
        outbox: Outbox,
        ledger: EventLedger,
        sessions: Sessions,
        prompting: Prompting,
        pickers: Pickers,
        native: Native,
        options: SessionOptions,
        limit: CreationLimit,
        clock: Clock,
        deadlines: Deadlines,
        new_id: Callable[[], str],
        now_ms: Callable[[], int],
    ) -> None:
        self._gateway = gateway
        self._outbox = outbox
        self._ledger = ledger
        self._sessions = sessions
        self._prompting = prompting
        self._pickers = pickers
        self._native = native
        self._options = options
        self._limit = limit
        self._clock = clock
        self._deadlines = deadlines
        self._new_id = new_id
        self._now_ms = now_ms
        self._reset_keys: set[SessionKey] = set()

    async def new(self, request: NewSession) -> Session:
        """A new session. The gateway makes its own at the first prompt."""
        self._limit.take(self._clock.time())
        hello = await self._gateway.wait_hello(self._deadlines.connect)
        wanted = route(request.meta, self._routing)
        session_id = SessionId(self._new_id())
        key, extras = await self._resolve(wanted), {}
        if key is None and hello.makes_sessions:
            query = self._native.opening(request, self._options.agent)
            key, extras = await self._gateway.request(query)
        elif key is None:
            key = own_key(session_id, self._options.agent or hello.default_agent)
        if wanted.reset and key not in self._reset_keys:
            await self._gateway.request(ResetSession(key))
            self._reset_keys.add(key)
        session = Session(session_id, key, request.cwd, wanted.prefix_cwd, extras=extras)
        self._enter(session, None)
        return session

    async def load(self, request: OpenedSession) -> tuple[Session, Reading | None]:
        """An earlier session with its history; what may be chosen in it is being asked for."""
        found = await self._find(request.session_id)
        session, transcript, reading = await self._look_up(request, found)
        self._enter(session, found.replay)
        entries = self._healed(session, found, transcript)
        is_offline = self._gateway.hello is None or transcript is None
        begun, running = self._unended(entries, transcript)
        shown = replay_updates(
            entries, running=running, trimmed=found.trimmed, complete=found.is_complete
        )
        for update in shown:
            self._tell(session, update)
            if self._outbox.is_full:
                await self._outbox.room()
        if usage := last_usage(entries):
            session.usage = updates.usage_of(usage)
            self._tell(session, usage)
        if is_offline and found.replay is not None:
            self._tell(session, updates.message_chunk(OFFLINE, f"{self._new_id()}:bridge"))
        if session.title is None and (title := history_title(shown)):
            session.title = title
            self._put(session, Recorded("title", {"title": title}, None, 0), None)
        self._close_lost(session, [run_id for run_id in begun if run_id not in running])
        self._join(session, entries, running)
        return session, reading

    async def resume(self, request: OpenedSession) -> Session:
        """An earlier session without its history. Where a gateway does not tell of its runs, what
        it has stored is looked into all the same if the end of one is not known."""
        found = await self._find(request.session_id)
        hello = self._gateway.hello
        tells = hello is not None and not hello.makes_sessions
        reads = not tells and bool(open_runs(found.entries))
        session, transcript, _ = await self._look_up(request, found, reads=reads)
        self._enter(session, found.replay)
        entries = self._healed(session, found, transcript)
        begun, running = self._unended(entries, transcript)
        self._close_lost(session, [run_id for run_id in begun if run_id not in running])
        self._join(session, entries, running)
        return session

    def _healed(
        self, session: Session, found: Found, transcript: Transcript | None
    ) -> list[Recorded]:
        """The entries with what the gateway's transcript adds to them, which is recorded."""
        if transcript is None:
            return found.entries
        added = additions(
            found.entries,
            named(transcript, found.entries),
            cwd=session.cwd,
            now=self._now_ms(),
            live=[run_id for run_id in open_runs(found.entries) if self._is_here(run_id)],
            is_trimmed=found.trimmed > 0,
        )
        for addition in added:
            self._put(session, addition.record, addition.key)
        return distinct([*found.entries, *(addition.record for addition in added)])

    def _unended(
        self, entries: list[Recorded], transcript: Transcript | None
    ) -> tuple[list[RunId], list[RunId]]:
        """The runs whose end is not known, and those of them that may go on."""
        begun, other = open_runs(entries), runs_at_gateway(entries)
        if transcript is not None:
            given_up = runs_given_up(entries)
            begun += [r for r in given_up if other.get(r, r) == transcript.running]
        last = {entry.run_id: entry.at for entry in entries}
        return begun, [r for r in begun if self._may_go_on(r, other.get(r, r), transcript, last[r])]

    @property
    def _routing(self) -> SessionOptions:
        """Without the agent where it is no part of a session's key."""
        hello = self._gateway.hello
        is_apart = hello is not None and hello.makes_sessions
        return self._options._replace(agent=None) if is_apart else self._options

    # --- finding -------------------------------------------------------------------------

    async def _find(self, session_id: SessionId) -> Found:
        # What is queued for this session must be in the ledger before it is read. What the ledger
        # does not take just now, since another process keeps it locked, is taken from the queue.
        unrecorded = await self._outbox.unrecorded(session_id, TRANSCRIPT_TIMEOUT)
        try:
            replay = await asyncio.to_thread(self._read, session_id)
        except LedgerError as error:
            log.warning("the ledger cannot be read", extra={"fields": {"reason": error.message}})
            return Found(None, distinct(unrecorded.entries), error)
        entries = [
            Recorded(
                entry.kind, entry.payload, RunId(entry.run_id) if entry.run_id else None, entry.at
            )
            for entry in (replay.entries if replay else ())
        ]
        entries += [entry for entry in unrecorded.entries if entry not in entries]
        return Found(replay, distinct(entries), is_whole=unrecorded.is_whole)

    def _read(self, session_id: SessionId) -> Replay | None:
        replay = self._ledger.read(session_id)
        if replay is None and (record := self._ledger.find_by_key(session_id)):
            replay = self._ledger.read(record.session_id)
        return replay

    async def _look_up(
        self, request: OpenedSession, found: Found, *, reads: bool = True
    ) -> tuple[Session, Transcript | None, Reading | None]:
        """The session and, if it is to be read, the gateway's transcript; beside that the
        session's options are asked for.

        Raises ``SessionNotFound`` if neither the ledger nor the gateway has the session, and the
        gateway's error if the ledger has not and the gateway cannot be asked.
        """
        known = found.replay.session if found.replay else None
        try:
            if known is None:
                await self._gateway.wait_hello(self._deadlines.connect)
            else:
                await self._gateway.wait_hello(LOAD_WAIT, patient=False)
        except GatewayError:
            if known is None:
                raise
        if self._gateway.hello is None and known is not None:
            return self._session(request, SessionKey(known.session_key), found), None, None
        # A session that is known keeps its key, whatever --session says of new ones.
        options = self._routing if known is None else SessionOptions(agent=self._routing.agent)
        key = await self._resolve(route(request.meta, options))
        if key is None and known is not None:
            key = SessionKey(known.session_key)
        here = self._sessions.find(request.session_id)
        tried = key or (here.session_key if here else SessionKey(request.session_id))
        extras = await self._native.restore(tried, request)
        if key is None:
            key = await self._key_at_gateway(request.session_id, found.failure)
        session = self._session(request, key, found)
        session.extras = extras
        reading = self._pickers.begin(key) if reads else None
        return session, await self._transcript(key) if reads else None, reading

    async def key_of(self, session_id: SessionId) -> SessionKey:
        """The gateway's key of a session that need not be open here. Raises ``SessionNotFound``,
        and ``HistoryUnavailable`` if the ledger that may know it cannot be read."""
        found = await self._find(session_id)
        if found.replay is not None:
            return SessionKey(found.replay.session.session_key)
        return await self._key_at_gateway(session_id, found.failure)

    async def _key_at_gateway(
        self, session_id: SessionId, failure: LedgerError | None
    ) -> SessionKey:
        """The key of a session that the ledger does not know: of one that is open here, of one
        that a bridge has made, or the id itself, as ``session/list`` gives it."""
        if session := self._sessions.find(session_id):
            return session.session_key
        hello = self._gateway.hello
        agent = self._options.agent or (hello.default_agent if hello else None)
        for key in (own_key(session_id, agent), SessionKey(session_id)):
            found = await self._gateway.request(ResolveSession(session_key=key))
            if found is not None:
                return SessionKey(found)
        if failure is not None:
            raise HistoryUnavailable(hint=failure.hint, data={"reason": failure.message})
        self._sessions.get(session_id)  # raises, with the words for it
        return SessionKey(session_id)

    async def _transcript(self, key: SessionKey) -> Transcript | None:
        try:
            transcript: Transcript | None = await self._gateway.request(
                ReadTranscript(key), timeout=TRANSCRIPT_TIMEOUT
            )
        except GatewayError as error:
            log.info("no transcript", extra={"fields": {"why": error.code}})
            return None
        return transcript or Transcript((), None, None, is_whole=True)

    async def _resolve(self, wanted: Route) -> SessionKey | None:
        if wanted.label is not None:
            return await self._existing(
                ResolveSession(label=wanted.label),
                f"with the label {wanted.label!r}",
                hint="Check --session-label or _meta.sessionLabel.",
            )
        if wanted.key is not None and wanted.require_existing:
            return await self._existing(
                ResolveSession(session_key=wanted.key),
                repr(wanted.key),
                hint="Check --session or _meta.sessionKey, or drop --require-existing.",
            )
        return wanted.key

    async def _existing(self, wanted: ResolveSession, named: str, *, hint: str) -> SessionKey:
        key = await self._gateway.request(wanted)
        if key is None:
            raise SessionKeyUnresolved(f"The gateway has no session {named}.", hint=hint)
        return SessionKey(key)

    # --- entering ------------------------------------------------------------------------

    def _session(self, request: OpenedSession, key: SessionKey, found: Found) -> Session:
        wanted = route(request.meta, self._options)
        title = found.replay.session.title if found.replay else None
        return Session(request.session_id, key, request.cwd, wanted.prefix_cwd, title)

    def _enter(self, session: Session, stored: Replay | None) -> None:
        news: Json = {"session_key": session.session_key, "cwd": session.cwd}
        if stored is not None:
            # One that is known stays as whole as it is; one that is lost meanwhile is not whole.
            news["complete"] = False
            if stored.session.session_id != session.session_id:
                news["ledger_id"] = stored.session.session_id
        turns = self._prompting.turns
        self._sessions.add(session, is_busy=lambda sid: turns.live(sid) is not None)
        self._put(session, Recorded("session", news, None, 0), None)

    def _put(self, session: Session, record: Recorded, key: str | None) -> None:
        entry = Entry(
            session.session_id, Record(record.kind, record.payload), record.run_id, key=key
        )
        self._outbox.put_record(entry)

    # --- showing -------------------------------------------------------------------------

    def _may_go_on(
        self, run_id: RunId, there: RunId, transcript: Transcript | None, last: int
    ) -> bool:
        """Of a run whose end is not recorded: the gateway has it in flight, perhaps under another
        name, or cannot be asked; or does not tell, and its last word (ms) is not long ago."""
        if transcript is None or there == transcript.running or self._is_here(run_id):
            return True
        return transcript.is_nameless and self._now_ms() - last < UNSEEN_FOR * 1000

    def _is_here(self, run_id: RunId) -> bool:
        return self._prompting.turns.has(run_id)

    def _tell(self, session: Session, update: Json) -> None:
        message = update_message(session.session_id, update)
        self._outbox.put_message(message, session_id=session.session_id)

    def _close_lost(self, session: Session, lost: list[RunId]) -> None:
        """Record what the replay said of runs that nobody can tell the end of."""
        error = to_jsonrpc(OutcomeUnknown())
        for run_id in lost:
            chunk = updates.message_chunk(INTERRUPTED, f"{run_id}:interrupted")
            key = f"interrupted:{run_id}"
            self._put(session, Recorded("update", chunk, run_id, 0), key)
            self._put(session, Recorded("outcome", {"error": error}, run_id, 0), f"{key}:end")

    def _join(self, session: Session, entries: list[Recorded], running: list[RunId]) -> None:
        """Take up turns that an earlier process began; the gateway is asked about each."""
        for run_id in running:
            if self._is_here(run_id):
                continue
            shown = [(e.kind, e.payload) for e in entries if e.run_id == run_id]
            turn = Turn.reattached(
                session.session_id, run_id, session.session_key, cwd=session.cwd, shown=shown
            )
            self._prompting.join(turn)
