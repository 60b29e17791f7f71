"""Everything that can go wrong, as one tree, and the one mapping to JSON-RPC.

    BridgeError                        code, retryable, hint, data
    ├── UsageError                     wrong option or configuration            exit 2
    │   └── ConfigError
    ├── ProtocolError                  abstract: never raised itself
    │   ├── LocalProtocolError         we were about to break the protocol      a bug here
    │   │   └── IllegalTransition
    │   └── RemoteProtocolError        the peer broke it
    │       ├── MalformedMessage       not JSON, line too long                  -32700
    │       ├── InvalidRequest         JSON, but no JSON-RPC message            -32600
    │       ├── UnknownMethod                                                   -32601
    │       ├── InvalidParams                                                   -32602
    │       ├── NotInitialized                                                  -32600
    │       ├── TooManyRequests        retryable; unanswered ones               -32600
    │       └── UnreadableFrame        from the gateway; logged, not fatal
    ├── RequestCancelled               by $/cancel_request                      -32800
    ├── SessionError
    │   ├── SessionNotFound                                                     -32002
    │   ├── SessionBusy                a turn is live                           -32600
    │   ├── SessionKeyUnresolved                                                -32602
    │   ├── SessionRateLimited         retryable                                -32603
    │   └── TooManySessions            retryable; all of them are busy          -32603
    ├── GatewayError
    │   ├── GatewayUnreachable         retryable                                -32603
    │   ├── HandshakeRefused                                                    -32603
    │   │   ├── AuthenticationFailed                                            -32000
    │   │   │   ├── PairingRequired    retryable once the device is approved    -32000
    │   │   │   └── CredentialsUnusable  ours cannot be read                     -32000
    │   │   └── VersionMismatch                                                 -32603
    │   ├── LinkLost                   retryable                                -32603
    │   ├── GatewayTimeout             retryable                                -32603
    │   ├── ScopeMissing               the device lacks a scope                 -32603
    │   └── GatewayRefused             the gateway's own error, kept in data    -32603
    └── TurnError
        ├── PromptTooLarge                                                      -32602
        ├── RunFailed                  kind: timeout, rate_limit, ... unknown   -32603
        └── OutcomeUnknown             lost and not found again                 -32603

The ways in which a network fails are kinds of the gateway's, see ``gateway.network_errors``.
Each class has a stable string ``code``, sent as ``error.data.code`` beside the JSON-RPC number;
programs decide by it, never by the wording. The first line of a class's docstring is its default
message. The gateway's own error, without secrets, goes into ``error.data.gateway``.
Cancelling a turn and refusing are ordinary endings (stop reasons), not errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from acp_bridge.ids import Json


class BridgeError(Exception):
    """The bridge failed."""

    code: ClassVar[str] = "internal_error"
    number: ClassVar[int] = -32603
    retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str | None = None,
        *,
        hint: str | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        self.message = message or (type(self).__doc__ or "").partition("\n")[0]
        self.hint = hint
        self.data: Json = dict(data or {})
        super().__init__(self.message)


class UsageError(BridgeError):
    """The command line or the configuration is wrong."""

    code = "usage"


class ConfigError(UsageError):
    """The configuration is wrong."""

    code = "config"


class ProtocolError(BridgeError):
    """A protocol was broken."""


class LocalProtocolError(ProtocolError):
    """The bridge was about to break a protocol; this is a bug in it."""


class IllegalTransition(LocalProtocolError):
    """A turn was asked for a move that its state does not have."""


class RemoteProtocolError(ProtocolError):
    """The peer broke the protocol."""

    code = "invalid_request"
    number = -32600


class MalformedMessage(RemoteProtocolError):
    """The line is not valid JSON."""

    code = "parse_error"
    number = -32700


class InvalidRequest(RemoteProtocolError):
    """The line is JSON, but not a JSON-RPC 2.0 message."""


class UnknownMethod(RemoteProtocolError):
    """The method is not supported."""

    code = "method_not_found"
    number = -32601


class InvalidParams(RemoteProtocolError):
    """A parameter is missing or wrong."""

    code = "invalid_params"
    number = -32602


class NotInitialized(RemoteProtocolError):
    """The first request must be initialize."""

    code = "not_initialized"


class TooManyRequests(RemoteProtocolError):
    """Too many requests wait for their answers."""

    code = "too_many_requests"
    retryable = True


class UnreadableFrame(RemoteProtocolError):
    """A frame of the gateway could not be read."""

    code = "unreadable_frame"


class RequestCancelled(BridgeError):
    """The request was cancelled."""

    code = "request_cancelled"
    number = -32800


class SessionError(BridgeError):
    """The session cannot be used."""

    code = "session"


class SessionNotFound(SessionError):
    """Session not found."""

    code = "session_not_found"
    number = -32002


class HistoryUnavailable(SessionError):
    """The ledger cannot be read now, so it is not known which session this is."""

    code = "history_unavailable"
    retryable = True


class SessionBusy(SessionError):
    """The session is busy."""

    code = "session_busy"
    number = -32600


class SessionKeyUnresolved(SessionError):
    """The gateway has no such session."""

    code = "session_key_unresolved"
    number = -32602


class SessionRateLimited(SessionError):
    """Too many sessions were created in a short time."""

    code = "rate_limited"
    retryable = True


class TooManySessions(SessionError):
    """The bridge keeps no more sessions."""

    code = "too_many_sessions"
    retryable = True


class GatewayError(BridgeError):
    """The gateway could not do it."""

    code = "gateway"


class GatewayUnreachable(GatewayError):
    """The gateway cannot be reached."""

    code = "gateway_unreachable"
    retryable = True


class HandshakeRefused(GatewayError):
    """The gateway refused the connection."""

    code = "handshake_refused"


class AuthenticationFailed(HandshakeRefused):
    """The gateway refused the credentials."""

    code = "auth_rejected"
    number = -32000


class PairingRequired(AuthenticationFailed):
    """The gateway must approve this device first."""

    code = "pairing_required"
    retryable = True


class CredentialsUnusable(AuthenticationFailed):
    """The credentials for the gateway cannot be read."""

    code = "credentials_unusable"


class VersionMismatch(HandshakeRefused):
    """The gateway speaks another protocol version."""

    code = "protocol_mismatch"


class LinkLost(GatewayError):
    """The connection to the gateway was lost."""

    code = "link_lost"
    retryable = True


class GatewayTimeout(GatewayError):
    """The gateway did not answer in time."""

    code = "gateway_timeout"
    retryable = True


class ScopeMissing(GatewayError):
    """The gateway has not granted a scope that this needs."""

    code = "scope_missing"


class GatewayRefused(GatewayError):
    """The gateway refused the request."""

    code = "gateway_refused"


class TurnError(BridgeError):
    """The prompt failed."""

    code = "turn"


class PromptTooLarge(TurnError):
    """The prompt is too large."""

    code = "too_large"
    number = -32602


class RunFailed(TurnError):
    """The agent's run failed."""

    code = "run_failed"


class Detached(TurnError):
    """The editor closed its input; the turn goes on at the gateway."""

    code = "detached"


class OutcomeUnknown(TurnError):
    """The connection was lost and the gateway no longer knows what became of the prompt."""

    code = "outcome_unknown"


def unsupported(method: str) -> UnknownMethod:
    """The error for a method that nobody here knows."""
    name = method[:200]
    return UnknownMethod(f"The method {name} is not supported.", data={"method": name})


def to_jsonrpc(error: BaseException) -> Json:
    """The JSON-RPC error object for ``error``.

    An exception from outside the tree becomes ``-32603`` without any detail: its text may hold
    a secret or a prompt. The caller logs it.
    """
    if not isinstance(error, BridgeError):
        return {
            "code": -32603,
            "message": "The bridge failed; its log on stderr has the details.",
            "data": {"code": "internal_error", "retryable": False},
        }
    data: Json = {"code": error.code, "retryable": error.retryable, **error.data}
    if error.hint:
        data["hint"] = error.hint
    return {"code": error.number, "message": error.message, "data": data}
