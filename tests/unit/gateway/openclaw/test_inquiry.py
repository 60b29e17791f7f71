"""Reading a transcript: which requests it takes, and what it results in when some fail."""

from __future__ import annotations

import json
from typing import Any

import pytest

from acp_bridge.core.commands import ReadTranscript
from acp_bridge.core.transcript import SaidText, Transcript
from acp_bridge.errors import GatewayRefused, GatewayTimeout, LocalProtocolError, ScopeMissing
from acp_bridge.gateway.dialects.openclaw.inquiry import MOST_PAGES, MOST_ROWS
from acp_bridge.ids import Json
from tests.unit.gateway.openclaw.test_dialect import KEY, Wire
from tests.unit.gateway.openclaw.test_rows import answer, prompt

READ = ReadTranscript(KEY)
OMITTED = "[chat.history omitted: message too large]"


def left_out(row_id: str) -> Json:
    return answer(OMITTED, None, id=row_id, truncated=True)


def history(*rows: Json, **fields: Any) -> Json:
    return {"sessionId": "s", "messages": list(rows), **fields}


def texts(transcript: Transcript) -> list[str]:
    return [
        part.text for turn in transcript.turns for part in turn.parts if isinstance(part, SaidText)
    ]


def test_a_short_transcript_takes_one_request() -> None:
    wire = Wire()
    assert wire.send(READ, 7) == ["chat.history"]
    params = wire.requests["chat.history"]["params"]
    assert params == {"sessionKey": KEY, "limit": 1000, "maxChars": 500_000}
    ((token, found),) = wire.answer("chat.history", history(prompt("1"), answer("a")))
    assert token == 7
    assert texts(found) == ["a"]
    assert not wire.requests


def test_a_long_transcript_is_read_page_by_page() -> None:
    wire = Wire()
    wire.send(READ, 7)
    newest = history(prompt("2"), answer("b", id="b"), hasMore=True, nextOffset=2)
    assert wire.answer("chat.history", newest) == []
    assert wire.requests["chat.history"]["params"]["offset"] == 2
    # A row came in between: the page begins with one that was on the page before.
    older = history(prompt("1"), answer("a", id="a"), answer("b", id="b"), hasMore=False)
    ((token, found),) = wire.answer("chat.history", older)
    assert (token, texts(found), found.is_whole) == (7, ["a", "b"], True)
    assert not wire.requests


def test_of_a_page_that_cannot_be_got_the_newer_ones_remain() -> None:
    wire = Wire()
    wire.send(READ, 7)
    wire.answer("chat.history", history(answer("b"), hasMore=True, nextOffset=1))
    ((_, found),) = wire.refuse("chat.history", "UNAVAILABLE")
    assert (texts(found), found.is_whole) == (["b"], False)


def test_an_endless_transcript_is_read_to_a_bound() -> None:
    wire = Wire()
    wire.send(READ, 7)
    pages = [history(answer("x"), hasMore=True, nextOffset=n) for n in range(1, MOST_PAGES + 1)]
    told = [wire.answer("chat.history", page) for page in pages]
    assert [len(each) for each in told] == [0] * (MOST_PAGES - 1) + [1]
    assert not told[-1][0][1].is_whole


def test_a_missing_session_has_no_transcript() -> None:
    wire = Wire()
    wire.send(READ, 7)
    assert wire.answer("chat.history", {"messages": [], "sessionInfo": {}}) == [(7, None)]


def test_rows_that_were_left_out_are_got_by_themselves() -> None:
    wire = Wire()
    wire.send(READ, 7)
    rows = history(prompt("1"), left_out("row-2"), answer("b"))
    assert wire.answer("chat.history", rows) == []
    params = wire.requests["chat.message.get"]["params"]
    assert (params["sessionKey"], params["messageId"]) == (KEY, "row-2")
    whole = {"ok": True, "message": answer("all of a", "toolUse", id="row-2")}
    ((_, found),) = wire.answer("chat.message.get", whole)
    assert texts(found) == ["all of a", "b"]


def test_a_row_that_cannot_be_got_says_that_it_was_left_out() -> None:
    wire = Wire()
    wire.send(READ, 7)
    wire.answer("chat.history", history(prompt("1"), left_out("row-2")))
    ((_, found),) = wire.answer("chat.message.get", {"ok": False})
    assert texts(found) == [OMITTED]
    wire.send(READ, 8)
    wire.answer("chat.history", history(prompt("1"), left_out("row-2")))
    ((token, found),) = wire.tick(20)
    assert (token, texts(found)) == (8, [OMITTED])


def test_of_many_rows_that_were_left_out_the_newest_are_got() -> None:
    wire = Wire()
    wire.send(READ, 7)
    names = [f"row-{index}" for index in range(MOST_ROWS + 2)]
    wire.dialect.receive(
        json.dumps(
            {
                "type": "res",
                "id": wire.requests["chat.history"]["id"],
                "ok": True,
                "payload": history(*map(left_out, [*names, ""])),
            }
        ),
        wire.now,
    )
    sent = [json.loads(text)["params"]["messageId"] for text in wire.dialect.data_to_send()]
    assert sent == names[:1:-1]


@pytest.mark.parametrize(
    ("status", "running"), [("timeout", "1"), ("ok", None), ("error", None), (None, "1")]
)
def test_a_run_in_flight_is_asked_about(status: str | None, running: str | None) -> None:
    wire = Wire()
    wire.send(READ, 7)
    in_flight = history(prompt("1"), answer("a"), inFlightRun={"runId": "1", "text": ""})
    assert wire.answer("chat.history", in_flight) == []
    assert wire.requests["agent.wait"]["params"] == {"runId": "1", "timeoutMs": 0}
    if status:
        ((_, found),) = wire.answer("agent.wait", {"status": status})
    else:
        ((_, found),) = wire.refuse("agent.wait", "FORBIDDEN")
    assert found.running == running


def test_without_a_history_the_query_fails_with_the_reason() -> None:
    wire = Wire()
    wire.send(READ, 7)
    ((token, error),) = wire.refuse("chat.history", "UNAVAILABLE")
    assert (token, type(error)) == (7, GatewayRefused)
    wire.send(READ, 8)
    lacking = {"missingScope": "operator.read"}
    ((token, error),) = wire.refuse("chat.history", "FORBIDDEN", details=lacking)
    assert (token, type(error)) == (8, ScopeMissing)
    wire.send(READ, 9)
    assert wire.tick(19) == []
    ((token, error),) = wire.tick(1)
    assert (token, type(error)) == (9, GatewayTimeout)


def test_a_transcript_needs_a_token() -> None:
    with pytest.raises(LocalProtocolError):
        Wire().send(READ)
