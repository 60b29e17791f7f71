"""From the gateway's errors to ours.

Its numbers are its own: ACP gives ``-32000`` to "authentication required" and ``-32002`` to
"resource not found", ZeroClaw 0.8.4 gives them to a session that it does not know and to one that
is busy. Its wording decides nothing; it is passed on in ``data.gateway``.
"""

from __future__ import annotations

from typing import Final

from acp_bridge.errors import (
    BridgeError,
    GatewayRefused,
    InvalidParams,
    SessionBusy,
    SessionNotFound,
    UnknownMethod,
)
from acp_bridge.ids import Json
from acp_bridge.wire.content import cut_middle

INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL: Final = -32603
SESSION_NOT_FOUND: Final = -32000
SESSION_LIMIT: Final = -32001
SESSION_BUSY: Final = -32002
_ACP_NOT_FOUND: Final = -32002

_TEXT_LIMIT: Final = 8 * 1024
_NEEDED: Final = frozenset({"session/new", "session/prompt"})
"""What every agent has (ACP, initialization)."""
_OPENS: Final = frozenset({"session/new", "session/load", "session/resume"})


def number(error: Json) -> int:
    """The number of a JSON-RPC error; 0 for one without."""
    code = error.get("code")
    return code if isinstance(code, int) and not isinstance(code, bool) else 0


def is_unknown_session(error: Json, *, is_zeroclaw: bool) -> bool:
    """Whether the gateway does not know, or does not have at hand, the session of a call."""
    return number(error) == (SESSION_NOT_FOUND if is_zeroclaw else _ACP_NOT_FOUND)


def request_refusal(method: str, error: Json, *, is_zeroclaw: bool) -> BridgeError:
    """The error for a refused request."""
    code = number(error)
    said = sentence(error)
    data: Json = {"method": method, "gateway": _detail(error)}
    if is_unknown_session(error, is_zeroclaw=is_zeroclaw):
        return SessionNotFound(
            f"The gateway has no such session: {said}",
            hint="It keeps no trace of it, or runs without a store: begin a new session.",
            data=data,
        )
    if is_zeroclaw and code == SESSION_BUSY:
        return SessionBusy(
            "The gateway is still at work in this session.",
            hint="Wait for its answer, or cancel it.",
            data=data,
        )
    if is_zeroclaw and code == SESSION_LIMIT:
        return GatewayRefused(
            "The gateway keeps no more sessions open over one connection.",
            hint="Close a session, or raise acp.max_sessions in the gateway's config.",
            data=data,
        )
    if code == INVALID_PARAMS:
        return InvalidParams(f"The gateway refused the call: {said}", hint=_hint(method), data=data)
    if code == METHOD_NOT_FOUND and method in _NEEDED:
        return GatewayRefused(
            f"The gateway does not know {method}, without which it is no agent of ACP version 1.",
            hint="Upgrade the gateway, and check that --gateway-url leads to its ACP.",
            data=data,
        )
    if code == METHOD_NOT_FOUND:
        return UnknownMethod(
            f"The gateway does not know the method {method}.",
            hint="It speaks ACP without this part; nothing was changed.",
            data=data,
        )
    return GatewayRefused(f"The gateway refused the call: {said}", data=data)


def sentence(error: Json) -> str:
    """The gateway's own sentence."""
    message = error.get("message")
    if not isinstance(message, str) or not message.strip():
        return "it did not say why"
    return cut_middle(message.strip(), _TEXT_LIMIT)


def _detail(error: Json) -> Json:
    return {name: error[name] for name in ("code", "message", "data") if name in error}


def _hint(method: str) -> str | None:
    if method in _OPENS:
        return (
            "Directories are looked up on the gateway's machine: is this one there? And is the"
            " agent (--agent, ?agent= of the URL) one that the gateway has?"
        )
    return None
