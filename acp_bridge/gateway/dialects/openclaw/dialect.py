"""The OpenClaw protocol as one object without I/O; a fresh one for each connection."""

from __future__ import annotations

from typing import Any, NamedTuple, assert_never

from acp_bridge.core.commands import (
    AbortRun,
    AnswerPermission,
    ChangeOption,
    Command,
    DeleteSession,
    DescribeSession,
    Forward,
    ListCommands,
    ListSessions,
    NativeCommand,
    OpenSession,
    ProbeRun,
    ReadOptions,
    ReadTranscript,
    ResetSession,
    ResolveSession,
    RestoreSession,
    StartRun,
)
from acp_bridge.core.events import (
    ApprovalsListed,
    GatewayEvent,
    Hello,
    PermissionAsked,
    PermissionClosed,
    PermissionSettled,
    RunAccepted,
    RunEnded,
    RunReported,
    RunState,
    Unreadable,
)
from acp_bridge.errors import (
    GatewayTimeout,
    LocalProtocolError,
    PromptTooLarge,
    UnreadableFrame,
)
from acp_bridge.gateway.dialects.openclaw import encode
from acp_bridge.gateway.dialects.openclaw.decode import (
    abort_to_event,
    ack_to_event,
    approval_to_event,
    failure_to_event,
)
from acp_bridge.gateway.dialects.openclaw.frames import (
    Event,
    Response,
    as_list,
    as_object,
    read_frame,
    write_request,
)
from acp_bridge.gateway.dialects.openclaw.handshake import (
    IssuedToken,
    connect_params,
    read_challenge,
    read_hello,
    read_issued_token,
)
from acp_bridge.gateway.dialects.openclaw.hearing import Hearing
from acp_bridge.gateway.dialects.openclaw.inquiry import Inquiry, Part, inquiry_for
from acp_bridge.gateway.dialects.openclaw.opening import Opening
from acp_bridge.gateway.dialects.openclaw.queries import (
    PlainQuery,
    query_failure,
    query_result,
    query_to_call,
)
from acp_bridge.gateway.dialects.openclaw.refusals import handshake_refusal, request_refusal
from acp_bridge.gateway.network_errors import wrong_protocol
from acp_bridge.gateway.requests import Requests
from acp_bridge.gateway.scopes import APPROVALS
from acp_bridge.ids import Json, RunId

CHALLENGE_TIMEOUT = 15.0
CONNECT_TIMEOUT = 15.0
"""Seconds; the gateway itself allows 15 s for the whole handshake."""
ANSWER_TIMEOUT = 30.0
"""Seconds for the answer to an abort or a decision. ``chat.send`` waits as long as the connection
lasts, since the gateway stores attachments first; the turn has a deadline of its own."""
INQUIRY_TIMEOUT = 20.0
"""Seconds for each request of an inquiry; one without an answer counts as "not known"."""

Outcome = tuple[int | None, GatewayEvent | Any]


class _Connect(NamedTuple):
    pass


class _RunRequest(NamedTuple):
    command: StartRun | AbortRun | AnswerPermission


class _QueryRequest(NamedTuple):
    query: PlainQuery
    token: int


class _InquiryRequest(NamedTuple):
    """``token`` names the query whose result it is; None for a probe, which ends in an event."""

    inquiry: Inquiry
    part: str
    token: int | None


class _ApprovalsRequest(NamedTuple):
    """The questions of its answer wait for that of the probe: they come after what was said before
    them."""

    probe: Inquiry


_Context = _Connect | _RunRequest | _QueryRequest | _InquiryRequest | _ApprovalsRequest | None


class OpenClawDialect:
    """``gateway.port.Dialect`` for one connection that was opened at ``now``."""

    def __init__(self, opening: Opening, now: float) -> None:
        self.opening = opening
        self.hello: Hello | None = None
        self.issued_token: IssuedToken | None = None
        """The device token that came with the hello, to be kept."""
        self._opened_at = now
        self._has_challenge = False
        self._server_offset = 0.0
        self._requests: Requests[_Context] = Requests()
        self._out: list[str] = []
        self._followed: set[RunId] = set()
        self._is_watching = False
        self._held: dict[Inquiry, list[PermissionAsked]] = {}
        """Questions that wait for the answer of a probe."""
        self._hearing = Hearing()

    def receive(self, text: str | bytes, now: float) -> list[Outcome]:
        try:
            frame = read_frame(text)
        except UnreadableFrame as error:
            if not self._has_challenge:
                raise wrong_protocol(self.opening.url, "OpenClaw's protocol") from None
            return [(None, Unreadable(error.message))]
        if isinstance(frame, Response):
            return self._response(frame, now)
        if self.hello is None:
            self._before_hello(frame, now)
            return []
        events = self._hearing.events(frame)
        for event in events:
            if isinstance(event, RunEnded):
                self._unfollow(event.run_id, now)
            elif isinstance(event, PermissionClosed):
                self._forget_held(event)
        return [(None, event) for event in events]

    def send(self, command: Command, token: int | None, now: float) -> list[Outcome]:
        if isinstance(command, StartRun | ProbeRun):
            self._hearing.expect(command.run_id)
        match command:
            case StartRun():
                self._call(encode.command_to_call(command), _RunRequest(command), now, None)
            case AbortRun() | AnswerPermission():
                call = encode.command_to_call(command)
                self._call(call, _RunRequest(command), now, ANSWER_TIMEOUT)
            case ProbeRun():
                self._follow(command.run_id, now)
                probe = inquiry_for(command, self.hello)
                if self.hello and APPROVALS in self.hello.scopes:
                    call = encode.approvals_call()
                    self._call(call, _ApprovalsRequest(probe), now, INQUIRY_TIMEOUT)
                self._ask(probe, probe.begin(), None, now)
            case ReadTranscript():
                self._begin(command, _needed(token), now)
            case ReadOptions():
                self._watch(now)
                self._begin(command, _needed(token), now)
            case (
                ResolveSession()
                | ResetSession()
                | DescribeSession()
                | ListSessions()
                | DeleteSession()
                | ChangeOption()
                | ListCommands()
            ):
                context = _QueryRequest(command, _needed(token))
                self._call(query_to_call(command), context, now, None)
            case _:
                _check_needless(command)
        return []

    def leave(self) -> None:
        pass

    def tick(self, now: float) -> list[Outcome]:
        if not self._has_challenge and now - self._opened_at >= CHALLENGE_TIMEOUT:
            raise GatewayTimeout("The gateway sent no challenge.")
        outcomes: list[Outcome] = []
        for context in self._requests.expire(now):
            outcomes += self._expired(context, now)
        return outcomes

    def data_to_send(self) -> list[str]:
        out, self._out = self._out, []
        return out

    def _before_hello(self, event: Event, now: float) -> None:
        if event.name != "connect.challenge" or self._has_challenge:
            return
        challenge = read_challenge(event.payload)
        self._has_challenge = True
        self._server_offset = challenge.ts - now * 1000
        call = ("connect", connect_params(self.opening, challenge))
        self._queue(call, _Connect(), now, CONNECT_TIMEOUT)

    def _response(self, response: Response, now: float) -> list[Outcome]:
        context = self._requests.close(response.request_id)
        payload = as_object(response.payload)
        match context:
            case None:
                return []
            case _Connect():
                self._open_or_refuse(response, payload)
                return []
            case _RunRequest():
                return self._run_answered(context.command, response, payload, now)
            case _QueryRequest(query, token):
                if response.ok:
                    return [(token, query_result(query, payload))]
                return [(token, query_failure(query, response.error))]
            case _InquiryRequest():
                said = payload if response.ok else None
                return self._inquiry_answered(context, said, response.error, now)
            case _ApprovalsRequest(probe):
                if not response.ok:
                    return []
                asked = self._waiting_approvals(as_list(response.payload), now)
                listed = ApprovalsListed(frozenset(each.approval_id for each in asked))
                if not probe.is_over:
                    self._held[probe], asked = asked, []
                return [(None, event) for event in (*asked, listed)]
            case _:
                assert_never(context)

    def _waiting_approvals(self, listed: list[Any], now: float) -> list[PermissionAsked]:
        server_ms = now * 1000 + self._server_offset
        events = [approval_to_event(as_object(each), server_ms) for each in listed]
        return [event for event in events if isinstance(event, PermissionAsked)]

    def _forget_held(self, closed: PermissionClosed) -> None:
        """An approval that was resolved is not asked for any more."""
        for probe, held in self._held.items():
            kept = [asked for asked in held if asked.approval_id != closed.approval_id]
            self._held[probe] = kept

    def _open_or_refuse(self, response: Response, payload: Json) -> None:
        if not response.ok:
            raise handshake_refusal(response.error, self.opening)
        self.hello = read_hello(payload, self.opening)
        self.issued_token = read_issued_token(payload)

    def _run_answered(
        self,
        command: StartRun | AbortRun | AnswerPermission,
        response: Response,
        payload: Json,
        now: float,
    ) -> list[Outcome]:
        if not response.ok:
            return self._run_refused(command, response.error, now)
        match command:
            case StartRun():
                event = ack_to_event(command, payload)
                if event is None:
                    self._begin(ProbeRun(command.run_id, command.session_key), None, now)
                    return [(None, RunAccepted(command.run_id))]
                return [(None, event)]
            case AbortRun():
                return [(None, abort_to_event(command, payload))]
            case AnswerPermission():
                return [(None, PermissionSettled(command.approval_id, None))]
            case _:
                assert_never(command)

    def _run_refused(
        self, command: StartRun | AbortRun | AnswerPermission, error: Json, now: float
    ) -> list[Outcome]:
        if (
            isinstance(command, StartRun)
            and command.provenance
            and error.get("code") == "INVALID_REQUEST"
        ):
            # Provenance needs operator.admin, and the gateway has no code for its lack.
            self.send(command._replace(provenance=None), None, now)
            return []
        method = encode.command_to_call(command)[0]
        return [(None, failure_to_event(command, request_refusal(method, error)))]

    def _begin(
        self, question: ProbeRun | ReadTranscript | ReadOptions, token: int | None, now: float
    ) -> None:
        inquiry = inquiry_for(question, self.hello)
        self._ask(inquiry, inquiry.begin(), token, now)

    def _ask(self, inquiry: Inquiry, parts: list[Part], token: int | None, now: float) -> None:
        for name, call in parts:
            self._call(call, _InquiryRequest(inquiry, name, token), now, INQUIRY_TIMEOUT)

    def _inquiry_answered(
        self, context: _InquiryRequest, payload: Json | None, error: Json, now: float
    ) -> list[Outcome]:
        inquiry, part, token = context
        self._ask(inquiry, inquiry.take(part, payload, error), token, now)
        if not inquiry.is_over:
            return []
        result = inquiry.result()
        if isinstance(result, RunReported) and result.state is not RunState.RUNNING:
            self._unfollow(result.run_id, now)
        return [(token, result), *((None, asked) for asked in self._held.pop(inquiry, []))]

    def _follow(self, run_id: RunId, now: float) -> None:
        """Get the run's tool events here, although another connection sent its prompt."""
        if not self._followed and not self._is_watching:
            self._call(encode.follow_call(), None, now, INQUIRY_TIMEOUT)
        self._followed.add(run_id)

    def _watch(self, now: float) -> None:
        """Be told of changes that others make: 2026.6.11 and 2026.9.6 tell only who follows."""
        if not self._is_watching and not self._followed:
            self._call(encode.follow_call(), None, now, INQUIRY_TIMEOUT)
        self._is_watching = True

    def _unfollow(self, run_id: RunId, now: float) -> None:
        if self.hello is None or run_id not in self._followed:
            return
        self._followed.remove(run_id)
        call = encode.unfollow_call()
        is_idle = not self._followed and not self._is_watching
        if is_idle and call[0] in self.hello.methods:  # 2026.9.6 has none
            self._call(call, None, now, INQUIRY_TIMEOUT)

    def _expired(self, context: _Context, now: float) -> list[Outcome]:
        match context:
            case _Connect():
                raise GatewayTimeout("The gateway did not answer the handshake in time.")
            case _RunRequest(command):
                return [(None, failure_to_event(command, GatewayTimeout()))]
            case _InquiryRequest():
                return self._inquiry_answered(context, None, {}, now)
            case _:
                return []

    def _call(
        self, call: encode.Call, context: _Context, now: float, timeout: float | None
    ) -> None:
        if self.hello is None:
            raise LocalProtocolError("The first request must be the handshake.")
        self._queue(call, context, now, timeout)

    def _queue(
        self, call: encode.Call, context: _Context, now: float, timeout: float | None
    ) -> None:
        request_id = self._requests.open(context, now=now, timeout=timeout)
        frame = write_request(request_id, *call)
        if self.hello is not None and len(frame) > self.hello.max_payload:
            self._requests.close(request_id)
            raise PromptTooLarge(
                f"The prompt makes a frame of {len(frame)} bytes; the gateway takes"
                f" {self.hello.max_payload}.",
                data={"size": len(frame), "limit": self.hello.max_payload},
            )
        self._out.append(frame.decode())


def _check_needless(command: NativeCommand) -> None:
    """The gateway keeps its sessions by itself and asks nothing but approvals."""
    if isinstance(command, OpenSession | RestoreSession | Forward):
        raise LocalProtocolError("This gateway has no such call.")


def _needed(token: int | None) -> int:
    if token is None:
        raise LocalProtocolError("A query needs a token for its result.")
    return token
