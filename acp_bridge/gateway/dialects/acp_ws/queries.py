"""The service's queries: what this kind of gateway can tell, and what it cannot."""

from __future__ import annotations

from typing import Any, Final, assert_never

from acp_bridge.core.commands import (
    ChangeOption,
    DeleteSession,
    DescribeSession,
    Forward,
    ListCommands,
    ListSessions,
    OpenedAt,
    OpenSession,
    Query,
    ReadOptions,
    ReadTranscript,
    ResetSession,
    ResolveSession,
    RestoreSession,
)
from acp_bridge.core.transcript import Transcript
from acp_bridge.errors import BridgeError, GatewayRefused, SessionBusy, SessionNotFound
from acp_bridge.gateway.dialects.acp_ws.handshake import as_object
from acp_bridge.gateway.dialects.acp_ws.memory import Memory
from acp_bridge.gateway.dialects.acp_ws.outgoing import Outgoing
from acp_bridge.gateway.dialects.acp_ws.refusals import SESSION_LIMIT, number, request_refusal
from acp_bridge.gateway.dialects.acp_ws.sessions import Seats
from acp_bridge.ids import Json, SessionKey

_OTHER_KEYS: Final = ("agent:", "acp-bridge:")
"""Begin the keys that the bridge makes for gateways that let it."""
_STOP: Final = "session/stop"
_NOTHING: Final[dict[type, Any]] = {ListSessions: [], ReadOptions: ()}
"""What is answered where the gateway has no such thing; else None."""


class Queries:
    """Answers the queries of one connection."""

    def __init__(self, outgoing: Outgoing, memory: Memory, seats: Seats) -> None:
        self._outgoing = outgoing
        self._memory = memory
        self._seats = seats

    def ask(self, query: Query, token: int) -> None:
        """Carry out a query; its result goes to ``token``."""
        settle = self._outgoing.settle
        match query:
            case OpenSession():
                self._open(query, token)
            case RestoreSession():
                self._restore(query, token)
            case ResolveSession(key):
                self._resolve(key, token)
            case ReadTranscript(key):
                self._read(key, token)
            case Forward():
                self._forward(query, token)
            case DescribeSession() | ListCommands() | ListSessions() | ReadOptions():
                settle(token, _NOTHING.get(type(query)))
            case DeleteSession(key):
                self._seats.close(key)
                settle(token, False)  # it has no way to delete one
            case ResetSession():
                settle(token, _unable("begin a session anew", "Drop --reset-session."))
            case ChangeOption():
                settle(token, _unable("change this option", None))
            case _:
                assert_never(query)

    def _open(self, query: OpenSession, token: int, *, is_last_try: bool = False) -> None:
        opening: Json = {**query.extras, "cwd": query.cwd, "mcpServers": [*query.servers]}
        named = {} if query.agent is None else {"agentAlias": query.agent}

        def answered(result: Any, error: Json | None) -> None:
            result = as_object(result)
            session_id = result.get("sessionId")
            if error is not None:
                is_full = number(error) == SESSION_LIMIT and not is_last_try
                again = lambda: self._open(query, token, is_last_try=True)  # noqa: E731
                if is_full and self._seats.make_room(again):
                    return
                self._outgoing.settle(token, self._refusal("session/new", error))
            elif not isinstance(session_id, str):
                told = GatewayRefused("The gateway made a session without a name.")
                self._outgoing.settle(token, told)
            else:
                key = SessionKey(session_id)
                self._memory.openings[key] = opening
                extras = {name: value for name, value in result.items() if name != "sessionId"}
                self._seats.opened(key, extras)
                self._outgoing.settle(token, OpenedAt(key, extras))

        self._outgoing.request("session/new", {**opening, **named}, answered, timeout=None)

    def _restore(self, query: RestoreSession, token: int) -> None:
        key = query.session_key
        self._memory.openings[key] = {
            **query.extras,
            "cwd": query.cwd,
            "mcpServers": [*query.servers],
        }

        def attached(error: BridgeError | None, _transcript: Transcript | None) -> None:
            if error is None:
                seat = self._seats.ready(key)
                self._outgoing.settle(token, {} if seat is None else {**seat.extras})
            else:
                is_gone = isinstance(error, SessionNotFound)
                self._outgoing.settle(token, None if is_gone else error)

        self._seats.attach(key, attached)

    def _resolve(self, key: SessionKey | None, token: int) -> None:
        if key is None or key.startswith(_OTHER_KEYS):
            self._outgoing.settle(token, None)
            return

        def attached(error: BridgeError | None, _transcript: Transcript | None) -> None:
            if error is None or isinstance(error, SessionBusy):
                self._outgoing.settle(token, key)
            elif isinstance(error, SessionNotFound):
                self._outgoing.settle(token, None)
            else:
                self._outgoing.settle(token, error)

        self._seats.attach(key, attached)

    def _read(self, key: SessionKey, token: int) -> None:
        flight = self._memory.flying.get(key)

        def attached(error: BridgeError | None, transcript: Transcript | None) -> None:
            if transcript is not None:
                self._outgoing.settle(token, transcript)
            elif error is None:
                # It has run over this connection: nothing is stored that was not seen.
                running = flight.run_id if flight is not None else None
                seen = Transcript((), running, None, is_whole=True, is_nameless=True)
                self._outgoing.settle(token, seen)
            else:
                is_gone = isinstance(error, SessionNotFound)
                self._outgoing.settle(token, None if is_gone else error)

        self._seats.attach(key, attached)

    def _forward(self, query: Forward, token: int) -> None:
        def answered(result: Any, error: Json | None) -> None:
            if error is not None:
                self._outgoing.settle(token, self._refusal(query.method, error))
                return
            if query.method == _STOP and query.session_key is not None:
                self._seats.left(query.session_key)
            self._outgoing.settle(token, result if result is not None else {})

        def attached(error: BridgeError | None, _transcript: Transcript | None = None) -> None:
            if error is not None:
                self._outgoing.settle(token, error)
                return
            key = query.session_key
            named = {} if key is None else {"sessionId": key}
            self._outgoing.request(query.method, {**query.params, **named}, answered, timeout=None)

        if query.session_key is None:
            attached(None)
        else:
            self._seats.attach(query.session_key, attached)

    def _refusal(self, method: str, error: Json) -> BridgeError:
        return request_refusal(method, error, is_zeroclaw=self._seats.traits.is_zeroclaw)


def _unable(what: str, hint: str | None) -> GatewayRefused:
    return GatewayRefused(f"A gateway that speaks ACP cannot {what}.", hint=hint)
