"""A page of the list: each line usable, each cursor ours."""

from __future__ import annotations

import base64
import json
import logging
from typing import Any

import pytest

from acp_bridge.bridge.listing import Lister
from acp_bridge.core.commands import ListSessions, SessionFacts
from acp_bridge.core.events import Stamped
from acp_bridge.errors import InvalidParams
from acp_bridge.gateway.memory import MemoryGateway
from acp_bridge.ids import Json, SessionKey
from acp_bridge.wire.acp import ListedSessions
from ledger import (
    EventLedger,
    LedgerBusy,
    NewSession,
    Page,
    SessionRecord,
    SessionTitle,
    open_ledger,
)
from ledger.memory import MemoryLedger

ODD_TITLES = [
    "a\nb\r\n\tc",
    "x" * 5000,
    "\x1b[2Jgone",
    "half \ud800",
    "a\u2028b",
    "nul \0 del \x7f",
]


def lister(ledger: EventLedger | None = None, gateway: MemoryGateway | None = None) -> Lister:
    return Lister(
        gateway=gateway or MemoryGateway(), ledger=ledger or MemoryLedger(), elsewhere="/"
    )


async def listed(ledger: EventLedger, *rows: SessionFacts) -> list[Json]:
    gateway = MemoryGateway(answers={ListSessions: list(rows)})
    await gateway.start(ignore)
    await gateway.up()
    page = await lister(ledger, gateway).page(ListedSessions())
    await gateway.close()
    return list(page["sessions"])


async def ignore(event: Stamped) -> None:
    pass


@pytest.mark.requirement("C059")
@pytest.mark.parametrize("title", ODD_TITLES)
async def test_a_title_is_one_clean_line_of_bounded_length(title: str) -> None:
    ledger = MemoryLedger()
    ledger.write([NewSession("s", "k", "/w", 1), SessionTitle("s", title, 2)])
    own, foreign = await listed(ledger, SessionFacts(SessionKey("other"), title))
    for item in (own, foreign):
        shown = item["title"]
        assert shown
        assert len(shown) <= 80
        assert len(shown.splitlines()) == 1
        assert all(ord(char) >= 32 for char in shown)
        assert shown.encode()


@pytest.mark.requirement("C059")
async def test_a_title_of_nothing_is_as_none_and_words_stay_words() -> None:
    ledger = MemoryLedger()
    ledger.write([NewSession("s", "k", "/w", 1), SessionTitle("s", " \n ", 2)])
    own, foreign = await listed(ledger, SessionFacts(SessionKey("other"), "two\n  words"))
    assert (own["title"], foreign["title"]) == ("Untitled", "two words")
    _, nameless = await listed(ledger, SessionFacts(SessionKey("agent:x\ny"), "\n"))
    assert nameless["title"] == "agent:x y"


@pytest.mark.parametrize("at", [2**70, 10**17, -(2**70)])
async def test_a_time_that_no_calendar_has_is_left_out(at: int) -> None:
    (item,) = await listed(MemoryLedger(), SessionFacts(SessionKey("k"), "t", updated_at_ms=at))
    assert "updatedAt" not in item


def encoded(**fields: Any) -> str:
    text = json.dumps({"v": 1, "cwd": None, "after": None, "offset": None, **fields})
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "fields",
    [
        {"after": [2**70, "s"]},
        {"after": [10**4000, "s"]},
        {"after": [-1, "s"]},
        {"after": [-(2**70), "s"]},
        {"after": [1.5, "s"]},
        {"after": [1e300, "s"]},
        {"after": [True, "s"]},
        {"after": ["1", "s"]},
        {"after": [None, "s"]},
        {"after": [1, 2]},
        {"after": [1, ["s"]]},
        {"after": [1, "s", 3]},
        {"after": {"at": 1}},
        {"after": 7},
        {"offset": 2**70},
        {"offset": -1},
        {"offset": 0.5},
        {"offset": "50"},
        {"offset": True},
        {"offset": [50]},
        {"cwd": 5},
        {"cwd": ["/w"]},
        {"v": 2},
        {"v": True},
        {"v": 1.0},
    ],
    ids=lambda fields: repr(fields)[:30],
)
async def test_a_cursor_that_is_well_encoded_and_not_ours_is_refused(
    fields: dict[str, Any], tmp_path: Any
) -> None:
    stored = open_ledger(f"sqlite:///{tmp_path}/ledger.db")
    for ledger in (MemoryLedger(), stored):
        with pytest.raises(InvalidParams, match="not one of ours"):
            await lister(ledger).page(ListedSessions(cursor=encoded(**fields)))
    stored.close()


async def test_a_ledger_that_cannot_be_read_is_told_once_until_it_can(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Failing(MemoryLedger):
        fails = True

        def list_sessions(self, page: Page) -> list[SessionRecord]:
            if self.fails:
                raise LedgerBusy("Locked.")
            return super().list_sessions(page)

    caplog.set_level(logging.WARNING)
    ledger = Failing()
    asked = lister(ledger)
    for fails in (True, True, True, False, True):
        ledger.fails = fails
        assert (await asked.page(ListedSessions()))["sessions"] == []
    assert len(caplog.records) == 2
