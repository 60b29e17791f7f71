"""Opaque cursors of ``session/list`` (ACP: the editor gives back what it got, nothing else).

Own sessions come first, from the ledger, then those that only the gateway knows. A cursor says
where the page before ended: in the ledger behind a time and an id, so that sessions that come or
go meanwhile shift nothing, or at the gateway at an offset.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, NamedTuple

from acp_bridge.errors import InvalidParams


class Cursor(NamedTuple):
    """Where a list goes on."""

    cwd: str | None
    after: tuple[int, str] | None = None
    """``updated_at`` and id of the last session from the ledger."""
    offset: int | None = None
    """Place in the gateway's list; None while the ledger is not at its end."""


def write_cursor(cursor: Cursor) -> str:
    """The cursor as text."""
    fields = {"v": 1, "cwd": cursor.cwd, "after": cursor.after, "offset": cursor.offset}
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")


def read_cursor(text: str, cwd: str | None) -> Cursor:
    """The cursor in ``text``. Raises ``InvalidParams`` if it is none of ours, or of a list with
    another ``cwd`` filter."""
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        cursor = _cursor(json.loads(raw))
    except (binascii.Error, ValueError, RecursionError):
        cursor = None
    if cursor is None or write_cursor(cursor) != text:
        raise InvalidParams("The parameter cursor is not one of ours.", data={"field": "cursor"})
    if cursor.cwd != cwd:
        raise InvalidParams(
            "The parameter cursor belongs to a list with another cwd.", data={"field": "cursor"}
        )
    return cursor


def _cursor(fields: Any) -> Cursor | None:
    if not isinstance(fields, dict) or fields.get("v") != 1:
        return None
    cwd, after, offset = fields.get("cwd"), fields.get("after"), fields.get("offset")
    if cwd is not None and not isinstance(cwd, str):
        return None
    if offset is not None and (type(offset) is not int or offset < 0):
        return None
    if after is None:
        return Cursor(cwd, None, offset)
    if not isinstance(after, list) or len(after) != 2:
        return None
    updated_at, session_id = after
    if type(updated_at) is not int or not isinstance(session_id, str):
        return None
    return Cursor(cwd, (updated_at, session_id), offset)
