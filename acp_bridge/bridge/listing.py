"""Lists sessions: those of the ledger with their real directory and title, then the gateway's."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime

from acp_bridge.core.commands import ListSessions, SessionFacts
from acp_bridge.core.cursors import Cursor, read_cursor, write_cursor
from acp_bridge.core.prompt import TITLE_LENGTH
from acp_bridge.errors import GatewayError, InvalidParams
from acp_bridge.gateway.port import Gateway
from acp_bridge.ids import Json
from acp_bridge.wire.acp import ListedSessions
from acp_bridge.wire.content import escape_controls
from ledger import EventLedger, LedgerError, Page, SessionRecord, normal_path

log = logging.getLogger(__name__)

PAGE = 50
GATEWAY_TIMEOUT = 5.0
_LARGEST = 2**53 - 1
"""Of the whole numbers in a cursor; a ledger and a gateway may know no larger ones."""


class Lister:
    """``session/list``. ``elsewhere`` is shown as the directory of sessions that have none."""

    def __init__(self, *, gateway: Gateway, ledger: EventLedger, elsewhere: str) -> None:
        self._gateway = gateway
        self._ledger = ledger
        self._elsewhere = elsewhere
        self._is_failing = False

    async def page(self, request: ListedSessions) -> Json:
        """One page. Raises ``InvalidParams`` for a bad cursor; a ledger or a gateway that does
        not answer leaves out what it knows."""
        cursor = Cursor(request.cwd)
        if request.cursor is not None:
            cursor = _cursor(request.cursor, request.cwd)
        if cursor.offset is None:
            own = await self._own(cursor)
            if len(own) == PAGE:
                last = own[-1]
                following = cursor._replace(after=(last.updated_at, last.session_id))
                return _result([_own_item(record) for record in own], following)
            items, at_gateway = await self._foreign(cursor._replace(offset=0))
            return _result([_own_item(record) for record in own] + items, at_gateway)
        return _result(*await self._foreign(cursor))

    async def _own(self, cursor: Cursor) -> list[SessionRecord]:
        page = Page(limit=PAGE, after=cursor.after, cwd=cursor.cwd)
        try:
            found = await asyncio.to_thread(self._ledger.list_sessions, page)
        except LedgerError as error:
            # Editors ask again and again: it is news the first time.
            level = logging.DEBUG if self._is_failing else logging.WARNING
            self._is_failing = True
            fields = {"reason": error.message, "hint": error.hint}
            log.log(level, "the ledger cannot be read", extra={"fields": fields})
            return []
        self._is_failing = False
        return found

    async def _foreign(self, cursor: Cursor) -> tuple[list[Json], Cursor | None]:
        offset = cursor.offset or 0
        if self._gateway.hello is None:
            return [], None
        try:
            query = ListSessions(offset, PAGE)
            rows: list[SessionFacts] = (
                await self._gateway.request(query, timeout=GATEWAY_TIMEOUT) or []
            )
        except GatewayError as error:
            log.info("the gateway lists no sessions", extra={"fields": {"why": error.code}})
            return [], None
        unknown = await asyncio.to_thread(self._unknown, rows)
        wanted = normal_path(cursor.cwd) if cursor.cwd is not None else None
        items = [
            self._foreign_item(row)
            for row in unknown
            if wanted is None or (row.cwd and normal_path(row.cwd) == wanted)
        ]
        more = len(rows) == PAGE
        return items, cursor._replace(offset=offset + PAGE) if more else None

    def _unknown(self, rows: list[SessionFacts]) -> list[SessionFacts]:
        try:
            return [row for row in rows if self._ledger.find_by_key(row.session_key) is None]
        except LedgerError:
            return rows

    def _foreign_item(self, row: SessionFacts) -> Json:
        item: Json = {
            "sessionId": row.session_key,
            "cwd": row.cwd or self._elsewhere,
            "title": _line(row.title) or _line(row.session_key) or "Untitled",
            "_meta": {"source": "gateway", "sessionKey": row.session_key},
        }
        return item | _updated(row.updated_at_ms)


def _own_item(record: SessionRecord) -> Json:
    meta: Json = {"source": "ledger", "sessionKey": record.session_key}
    if record.archived:
        meta["archived"] = True
    return {
        "sessionId": record.session_id,
        "cwd": record.cwd,
        "title": _line(record.title) or "Untitled",
        **_updated(record.updated_at),
        "_meta": meta,
    }


def _line(text: str | None) -> str:
    """``text`` as editors can show it in a list: one line, short, without control characters."""
    shown = escape_controls(" ".join((text or "")[: 8 * TITLE_LENGTH].split()))
    return shown if len(shown) <= TITLE_LENGTH else shown[: TITLE_LENGTH - 1] + "…"


def _cursor(text: str, cwd: str | None) -> Cursor:
    """The cursor in ``text``. Raises ``InvalidParams`` also for numbers that were never ours."""
    cursor = read_cursor(text, cwd)
    numbers = (cursor.after[0] if cursor.after else 0, cursor.offset or 0)
    if not all(0 <= number <= _LARGEST for number in numbers):
        raise InvalidParams("The parameter cursor is not one of ours.", data={"field": "cursor"})
    return cursor


def _result(items: list[Json], following: Cursor | None) -> Json:
    result: Json = {"sessions": items}
    if following is not None:
        result["nextCursor"] = write_cursor(following)
    return result


def _updated(at: int | None) -> Json:
    if at is None:
        return {}
    try:
        moment = datetime.fromtimestamp(at / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # no calendar has that day
        return {}
    return {"updatedAt": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")}
