"""ACP over a WebSocket as one object without I/O; a fresh one for each connection.

The bridge is the gateway's ACP client: it opens each connection with an ``initialize`` of its own
and gives its requests ids of its own. What lasts longer than a connection is in ``memory``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from acp_bridge.core.commands import (
    AbortRun,
    AnswerPeer,
    AnswerPermission,
    CloseSession,
    Command,
    Notify,
    ProbeRun,
    StartRun,
)
from acp_bridge.core.events import (
    AbortAnswered,
    ApprovalsListed,
    EndKind,
    Hello,
    Notified,
    PeerAsked,
    PermissionClosed,
    PermissionSettled,
    RunAccepted,
    RunEnded,
    RunRefused,
    RunReported,
    RunState,
    SessionUpdated,
    Unreadable,
)
from acp_bridge.core.parts import StoredPrompt, prompt_to_parts, stored_as
from acp_bridge.errors import BridgeError, GatewayTimeout, LocalProtocolError
from acp_bridge.gateway.dialects.acp_ws.handshake import (
    Opening,
    Traits,
    as_object,
    initialize_params,
    read_hello,
    refused,
)
from acp_bridge.gateway.dialects.acp_ws.memory import Flight, Memory
from acp_bridge.gateway.dialects.acp_ws.outgoing import Outcome, Outgoing, check_size
from acp_bridge.gateway.dialects.acp_ws.queries import Queries
from acp_bridge.gateway.dialects.acp_ws.questions import CANCELLED, Questions
from acp_bridge.gateway.dialects.acp_ws.refusals import (
    INTERNAL,
    is_unknown_session,
    number,
    request_refusal,
    sentence,
)
from acp_bridge.gateway.dialects.acp_ws.sessions import Seats
from acp_bridge.gateway.dialects.acp_ws.updates import RunUpdates, mended_plan, mended_tool
from acp_bridge.gateway.network_errors import wrong_protocol
from acp_bridge.ids import MAX_ID, Json, SessionKey
from acp_bridge.wire import jsonrpc
from acp_bridge.wire.content import text_block

INITIALIZE_TIMEOUT: Final = 15.0
"""Seconds for the answer to ``initialize``."""
_PERMISSION: Final = "session/request_permission"
_TRIMMED: Final = "_zeroclaw/history_trimmed"
_OURS: Final = ("sessionId", "stopReason")
"""Members of a prompt's answer that the bridge says itself."""


@dataclass(slots=True)
class _Run:
    """A prompt of this connection."""

    command: StartRun
    parts: tuple[Json, ...]
    updates: RunUpdates
    is_sent: bool = False
    is_aborted: bool = False
    is_retried: bool = False


class AcpDialect:
    """``gateway.port.Dialect`` for one connection that was opened at ``now``.

    ``ask`` is called when it begins to matter which process of the gateway is behind it.
    """

    def __init__(
        self,
        opening: Opening,
        memory: Memory,
        now: float,
        ask: Callable[[], None] = lambda: None,
    ) -> None:
        self.opening = opening
        self.hello: Hello | None = None
        self._memory = memory
        self._ask = ask
        self._has_asked = False
        self._traits = Traits()
        self._runs: dict[SessionKey, _Run] = {}
        self._outgoing = Outgoing(now)
        self._seats = Seats(self._outgoing, memory, lambda key: key in self._runs)
        self._queries = Queries(self._outgoing, memory, self._seats)
        self._questions = Questions(opening.generation)
        memory.begin(now)
        self._told = memory.capabilities
        params = initialize_params(opening, memory.capabilities)
        self._outgoing.request("initialize", params, self._initialized, timeout=INITIALIZE_TIMEOUT)

    def receive(self, text: str | bytes, now: float) -> list[Outcome]:
        self._outgoing.now = now
        raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        if raw.strip():
            self._take(jsonrpc.decode(raw))
        return self._outgoing.take_outcomes()

    def send(self, command: Command, token: int | None, now: float) -> list[Outcome]:
        self._outgoing.now = now
        if self.hello is None:
            raise LocalProtocolError("The first request must be the handshake.")
        match command:
            case StartRun():
                self._start(command)
            case AbortRun():
                self._abort(command)
            case ProbeRun():
                self._probe(command)
            case AnswerPermission() | AnswerPeer():
                self._answer(command)
            case CloseSession(key):
                self._seats.close(key)
            case Notify(method, params, key):
                named = {} if key is None else {"sessionId": key}
                if key is None or self._seats.ready(key) is not None:
                    self._outgoing.notify(method, {**params, **named})
            case _:
                if token is None:
                    raise LocalProtocolError("A query needs a token for its result.")
                self._queries.ask(command, token)
        return self._outgoing.take_outcomes()

    def tick(self, now: float) -> list[Outcome]:
        self._outgoing.now = now
        self._outgoing.expire()
        if self.hello is not None:
            self._seats.tick()
            if self._told != self._memory.capabilities:
                self._announce()
        for key, run in self._runs.items():
            if run.is_aborted:
                self._cancel(key)  # the first may have overtaken the prompt
        return self._outgoing.take_outcomes()

    def leave(self) -> None:
        for message in self._questions.give_up():
            self._outgoing.send(message)

    def data_to_send(self) -> list[str]:
        return self._outgoing.take_texts()

    # --- the handshake -------------------------------------------------------------------

    def _initialized(self, result: Any, error: Json | None) -> None:
        if error is not None:
            raise refused(error, self.opening)
        if result is None:
            raise GatewayTimeout("The gateway did not answer the handshake in time.")
        self.hello, self._traits = read_hello(result, self.opening)
        # Questions of earlier connections mean nothing any more.
        self._outgoing.emit(ApprovalsListed(frozenset()))
        if self._memory.orphans:
            self._ask_once()
        self._seats.begin(self._traits)

    def _ask_once(self) -> None:
        if self._traits.is_zeroclaw and not self._has_asked:
            self._has_asked = True
            self._ask()

    def _announce(self) -> None:
        """Tell what the editor can do: sessions that are made or restored from now on know."""
        self._told = self._memory.capabilities
        params = initialize_params(self.opening, self._told)
        self._outgoing.request(
            "initialize", params, lambda _result, _error: None, timeout=INITIALIZE_TIMEOUT
        )

    # --- messages ------------------------------------------------------------------------

    def _take(self, message: jsonrpc.Message) -> None:
        match message:
            case jsonrpc.Response(message_id, result, error):
                result = {} if result is None and error is None else result
                self._answered(message_id, result, error)
            case jsonrpc.BareId(message_id):
                self._answered(message_id, {}, None)
            case jsonrpc.Broken() if self.hello is None:
                raise wrong_protocol(self.opening.url, "ACP")
            case jsonrpc.Broken(error):
                self._outgoing.emit(Unreadable(error.message))
            case _ if self.hello is None:
                self._outgoing.emit(Unreadable("a call before the answer to initialize"))
            case jsonrpc.Request():
                self._asked(message)
            case jsonrpc.Notification(method, params):
                self._notified(method, as_object(params))

    def _answered(self, message_id: Any, result: Any, error: Json | None) -> None:
        if not self._outgoing.answered(message_id, result, error):
            self._outgoing.emit(Unreadable("an answer to no request that is open"))

    def _asked(self, request: jsonrpc.Request) -> None:
        params = as_object(request.params)
        key = _key(params)
        if len(str(request.id)) > MAX_ID:
            self._outgoing.emit(Unreadable("a question with an endless id"))
        elif self._questions.is_open(request.id):
            self._outgoing.emit(Unreadable("a second question with the id of an open one"))
        elif request.method != _PERMISSION:
            ask_id = self._questions.other(request.id, key)
            self._outgoing.emit(PeerAsked(ask_id, request.method, params, key))
        elif key is None or key not in self._runs or self._runs[key].is_aborted:
            self._outgoing.send({"jsonrpc": "2.0", "id": request.id, "result": CANCELLED})
        else:
            run_id, seconds = self._runs[key].command.run_id, self._traits.question_seconds
            asked = self._questions.permission(request.id, params, run_id, key, seconds)
            self._outgoing.emit(asked)

    def _notified(self, method: str, params: Json) -> None:
        key = _key(params)
        if method == "session/update":
            self._updated(key, as_object(params.get("update")))
        elif method == "$/cancel_request":
            name = self._questions.name(params.get("requestId"))
            self._outgoing.emit(PermissionClosed(name, None))
        elif method == _TRIMMED and key is not None and self._seats.trimmed(key):
            pass  # of a restoration that the editor has not asked for
        else:
            self._outgoing.emit(Notified(method, params, key))

    def _updated(self, key: SessionKey | None, update: Json) -> None:
        if key is None or not isinstance(update.get("sessionUpdate"), str):
            self._outgoing.emit(Unreadable("an update without a session or a kind"))
            return
        if self._seats.takes(key, update):
            return
        self._seats.noted(key, update)
        if key in self._runs and self._runs[key].is_sent:
            self._outgoing.emit(*self._runs[key].updates.events(update))
        else:
            self._outgoing.emit(SessionUpdated(key, _mended(update)))

    # --- runs ----------------------------------------------------------------------------

    def _start(self, command: StartRun) -> None:
        blocks = command.blocks or (text_block(command.message),)
        parts = prompt_to_parts(blocks, self._traits.takes)
        check_size({**command.extras, "prompt": parts})
        run = _Run(command, parts, RunUpdates(command.run_id))
        self._runs[command.session_key] = run
        self._memory.waiting.add(command.run_id)
        self._seats.attach(command.session_key, partial(self._attached, run))

    def _attached(self, run: _Run, error: BridgeError | None, _transcript: object) -> None:
        key, run_id = run.command.session_key, run.command.run_id
        self._memory.waiting.discard(run_id)
        if self._runs.get(key) is not run:
            return  # cancelled meanwhile
        if error is not None:
            del self._runs[key]
            self._outgoing.emit(RunRefused(run_id, error))
            return
        if (seat := self._seats.ready(key)) is not None:
            seat.transcript = None
        flight = Flight(run_id, stored_as(run.parts), self._memory.stored.get(key))
        self._memory.flying[key] = flight
        self._ask_once()
        run.is_sent = True
        params: Json = {**run.command.extras, "sessionId": key, "prompt": [*run.parts]}
        self._outgoing.request(
            "session/prompt", params, partial(self._prompt_answered, run), timeout=None
        )
        self._outgoing.emit(RunAccepted(run_id))

    def _prompt_answered(self, run: _Run, result: Any, error: Json | None) -> None:
        key, run_id = run.command.session_key, run.command.run_id
        if error is not None:
            self._memory.ended(key, is_stored=False)
            self._prompt_refused(run, error)
            return
        result = as_object(result)
        reason, content = result.get("stopReason"), result.get("content")
        del self._runs[key]
        self._memory.ended(key, is_stored=reason == "end_turn")
        extras = {name: value for name, value in result.items() if name not in _OURS}
        if reason == "cancelled":
            end = RunEnded(run_id, EndKind.ABORTED, stop_reason="cancelled", extras=extras)
            self._outgoing.emit(end)
            return
        # An answer from a cache is not streamed; what was streamed may be more than the content.
        unseen = content if isinstance(content, str) and not run.updates.has_text else None
        reason = reason if isinstance(reason, str) else None
        ended = RunEnded(run_id, EndKind.FINISHED, snapshot=unseen or None, stop_reason=reason)
        self._outgoing.emit(ended._replace(extras=extras))

    def _prompt_refused(self, run: _Run, error: Json) -> None:
        key, run_id = run.command.session_key, run.command.run_id
        is_zeroclaw = self._traits.is_zeroclaw
        if is_unknown_session(error, is_zeroclaw=is_zeroclaw) and not run.is_retried:
            # Nothing has run: the session was not at hand. It may be stored.
            run.is_retried, run.is_sent = True, False
            self._seats.left(key)
            self._seats.attach(key, partial(self._attached, run))
            return
        del self._runs[key]
        if number(error) == INTERNAL:
            detail: Json = {
                name: error[name] for name in ("code", "message", "data") if name in error
            }
            ended = RunEnded(run_id, EndKind.FAILED, error=sentence(error), detail=detail)
            self._outgoing.emit(ended)
            return
        refusal = request_refusal("session/prompt", error, is_zeroclaw=is_zeroclaw)
        self._outgoing.emit(RunRefused(run_id, refusal))

    def _abort(self, command: AbortRun) -> None:
        run = self._runs.get(command.session_key)
        if run is None or run.command.run_id != command.run_id:
            self._outgoing.emit(AbortAnswered(command.run_id, aborted=False))
        elif not run.is_sent:
            del self._runs[command.session_key]
            self._memory.waiting.discard(command.run_id)
            self._outgoing.emit(AbortAnswered(command.run_id, aborted=False))
        else:
            run.is_aborted = True
            self._cancel(command.session_key)

    def _cancel(self, key: SessionKey) -> None:
        self._outgoing.notify("session/cancel", {"sessionId": key})

    def _probe(self, command: ProbeRun) -> None:
        run = self._runs.get(command.session_key)
        if run is not None and run.command.run_id == command.run_id:
            self._outgoing.emit(RunReported(command.run_id, RunState.RUNNING))
        else:
            self._seats.probe(command.run_id, command.session_key, self._stored(command.blocks))

    def _stored(self, blocks: tuple[Any, ...]) -> StoredPrompt | None:
        try:
            return stored_as(prompt_to_parts(blocks, self._traits.takes)) if blocks else None
        except BridgeError:
            return None

    def _answer(self, command: AnswerPermission | AnswerPeer) -> None:
        message = self._questions.answer(command)
        if message is not None:
            self._outgoing.send(message)
        if isinstance(command, AnswerPermission):
            self._outgoing.emit(PermissionSettled(command.approval_id, None))


def _key(params: Json) -> SessionKey | None:
    session_id = params.get("sessionId")
    if not isinstance(session_id, str) or len(session_id) > MAX_ID:
        return None
    return SessionKey(session_id)


def _mended(update: Json) -> Json:
    kind = update["sessionUpdate"]
    if kind == "plan":
        return mended_plan(update)
    return mended_tool(update) if kind in ("tool_call", "tool_call_update") else update
