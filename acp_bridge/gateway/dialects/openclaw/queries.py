"""Queries: the request for each, and its result out of the answer."""

from __future__ import annotations

from typing import assert_never

from acp_bridge.core.commands import (
    DescribeSession,
    Query,
    ResetSession,
    ResolveSession,
    SessionFacts,
)
from acp_bridge.errors import GatewayError, GatewayRefused
from acp_bridge.gateway.dialects.openclaw.decode import session_usage
from acp_bridge.gateway.dialects.openclaw.encode import Call
from acp_bridge.gateway.dialects.openclaw.frames import as_count, as_object, as_text
from acp_bridge.gateway.dialects.openclaw.refusals import request_refusal
from acp_bridge.ids import Json, SessionKey


def query_to_call(query: Query) -> Call:
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
        case _:
            assert_never(query)


def query_result(query: Query, payload: Json) -> SessionKey | SessionFacts | None:
    """The result that the query's docstring promises."""
    match query:
        case ResolveSession():
            key = as_text(payload.get("key"))
            return SessionKey(key) if key and payload.get("ok") is not False else None
        case ResetSession():
            return None
        case DescribeSession():
            row = as_object(payload.get("session"))
            return _facts(query.session_key, row) if row else None
        case _:
            assert_never(query)


def query_failure(query: Query, error: Json) -> GatewayError | None:
    """The error that the query raises; None where the answer is as good as "nothing known".

    A gateway without ``sessions.describe`` has nothing to say of a session.
    """
    refusal = request_refusal(query_to_call(query)[0], error)
    if isinstance(query, DescribeSession) and isinstance(refusal, GatewayRefused):
        return None
    return refusal


def _facts(session_key: SessionKey, row: Json) -> SessionFacts:
    titles = (as_text(row.get(name)) for name in ("derivedTitle", "displayName", "label"))
    used, size, cost = session_usage(row)
    return SessionFacts(
        session_key=SessionKey(as_text(row.get("key")) or session_key),
        title=next((title for title in titles if title), None),
        updated_at_ms=as_count(row.get("updatedAt")),
        used_tokens=used,
        context_tokens=size,
        cost_usd=cost,
    )
