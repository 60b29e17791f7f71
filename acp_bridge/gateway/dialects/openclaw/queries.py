"""Queries: the request for each, and its result out of the answer.

``ReadTranscript`` and ``ReadOptions`` take several requests: see ``inquiry``.
"""

from __future__ import annotations

import re
from typing import assert_never

from acp_bridge.core.commands import (
    ChangeOption,
    DeleteSession,
    DescribeSession,
    ListCommands,
    ListSessions,
    ResetSession,
    ResolveSession,
    SessionFacts,
)
from acp_bridge.core.options import SlashCommand
from acp_bridge.core.prompt import PREFIX
from acp_bridge.errors import GatewayError, GatewayRefused
from acp_bridge.gateway.dialects.openclaw.decode import session_usage
from acp_bridge.gateway.dialects.openclaw.encode import Call
from acp_bridge.gateway.dialects.openclaw.frames import as_count, as_list, as_object, as_text
from acp_bridge.gateway.dialects.openclaw.handshake import CLIENT
from acp_bridge.gateway.dialects.openclaw.options import (
    change_call,
    commands_call,
    read_commands,
)
from acp_bridge.gateway.dialects.openclaw.refusals import request_refusal
from acp_bridge.ids import Json, SessionKey

PlainQuery = (
    ResolveSession
    | ResetSession
    | DescribeSession
    | ListSessions
    | DeleteSession
    | ChangeOption
    | ListCommands
)
"""A query that is one request."""

_CWD = re.compile(rf"\A{re.escape(PREFIX)}[^\]]*(\]\s*|$)")
"""The working directory in a title that the gateway made of the first prompt; it may be cut."""
_SESSION_ID = re.compile(r"[0-9a-f]{8}( \(\d{4}-\d{2}-\d{2}\))?")
"""What 2026.6.11 derives as the title of a session without any prompt."""
_OWN_CHANNEL = "webchat"
"""Where the gateway puts sessions of clients like us. It labels them with the client's name."""


def query_to_call(query: PlainQuery) -> Call:
    """The request for a query."""
    match query:
        case ResolveSession():
            # With allowMissing a missing session is an answer; without, an error without a code.
            params: Json = {"allowMissing": True}
            if query.session_key is not None:
                params["key"] = query.session_key
            if query.label is not None:
                params["label"] = query.label
            return "sessions.resolve", params
        case ResetSession():
            return "sessions.reset", {"key": query.session_key}
        case DescribeSession():
            return "sessions.describe", {"key": query.session_key}
        case ListSessions():
            return "sessions.list", {
                "limit": query.limit,
                "offset": query.offset,
                "includeDerivedTitles": True,
            }
        case DeleteSession():
            return "sessions.delete", {"key": query.session_key}
        case ChangeOption():
            return change_call(query.session_key, query.option_id, query.value)
        case ListCommands():
            return commands_call(query.session_key)
        case _:
            assert_never(query)


def query_result(
    query: PlainQuery, payload: Json
) -> SessionKey | SessionFacts | list[SessionFacts] | tuple[SlashCommand, ...] | bool | None:
    """The result that the query's docstring promises."""
    match query:
        case ResolveSession():
            key = as_text(payload.get("key"))
            return SessionKey(key) if key and payload.get("ok") is not False else None
        case ResetSession() | ChangeOption():
            return None
        case DescribeSession():
            row = as_object(payload.get("session"))
            return _facts(query.session_key, row) if row else None
        case ListSessions():
            rows = map(as_object, as_list(payload.get("sessions")))
            keyed = ((as_text(row.get("key")), row) for row in rows)
            return [_facts(SessionKey(key), row) for key, row in keyed if key]
        case DeleteSession():
            return payload.get("deleted") is True
        case ListCommands():
            return read_commands(payload)
        case _:
            assert_never(query)


def query_failure(query: PlainQuery, error: Json) -> GatewayError | None:
    """The error that the query raises; None where the answer is as good as "nothing known".

    A gateway without ``sessions.describe`` has nothing to say of a session.
    """
    refusal = request_refusal(query_to_call(query)[0], error)
    if isinstance(query, DescribeSession) and isinstance(refusal, GatewayRefused):
        return None
    return refusal


def _facts(session_key: SessionKey, row: Json) -> SessionFacts:
    names = (as_text(row.get(name)) for name in ("derivedTitle", "displayName", "label"))
    telling = (name for name in names if name and not _is_generic(name, row))
    titles = (_CWD.sub("", name, count=1).strip() for name in telling)
    cwds = (as_text(row.get(name)) for name in ("spawnedCwd", "spawnedWorkspaceDir"))
    used, size, cost = session_usage(row)
    return SessionFacts(
        session_key=SessionKey(as_text(row.get("key")) or session_key),
        title=next((title for title in titles if title), None),
        updated_at_ms=as_count(row.get("updatedAt")),
        used_tokens=used,
        context_tokens=size,
        cost_usd=cost,
        cwd=next((cwd for cwd in cwds if cwd), None),
        # Each alone may outlive the run: the state a killed gateway, the other a failed run.
        is_running=row.get("hasActiveRun") is True and row.get("status") == "running",
    )


def _is_generic(name: str, row: Json) -> bool:
    """Whether every session of its client has this name, or it names nothing but an id."""
    origin = as_object(row.get("origin"))
    is_clients = origin.get("provider") == _OWN_CHANNEL and name == origin.get("label")
    return is_clients or name == CLIENT["displayName"] or bool(_SESSION_ID.fullmatch(name))
