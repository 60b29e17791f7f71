"""Both directions of requests, over an outbox that only keeps a list."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from acp_bridge.core.ports import EditorAnswer, Entry, Unrecorded
from acp_bridge.errors import LocalProtocolError, SessionNotFound
from acp_bridge.front.connection import Connection
from acp_bridge.ids import Json, SessionId
from acp_bridge.wire.jsonrpc import BareId, Request, Response
from tests.support.waits import WAIT

S = SessionId("s")


class ListOutbox:
    """Keeps messages with their session."""

    is_full = False

    def __init__(self) -> None:
        self.put: list[tuple[Json, SessionId | None]] = []

    def put_message(self, message: Json, *, session_id: SessionId | None = None) -> None:
        self.put.append((message, session_id))

    def put_update(self, update: Json, entry: Entry) -> None:
        raise AssertionError("a connection shows no updates")

    def put_record(self, entry: Entry, done: Callable[[], None] | None = None) -> None:
        raise AssertionError("a connection records nothing")

    async def flush(self, timeout: float) -> bool:
        return True

    async def unrecorded(self, session_id: SessionId, timeout: float) -> Unrecorded:
        raise AssertionError("a connection records nothing")

    async def room(self) -> None:
        return


class Asking:
    """A connection with one question open."""

    def __init__(self) -> None:
        self.outbox = ListOutbox()
        self.connection = Connection(self.outbox)
        self.answers: list[EditorAnswer] = []
        self.ask = self.connection.ask("m", {"a": 1}, self.answers.append, session_id=S)
        self.id = self.outbox.put[0][0]["id"]


def test_a_question_goes_out_with_an_id_of_ours_in_its_session_s_order() -> None:
    asking = Asking()
    asking.connection.ask("m", {}, asking.answers.append, session_id=S)
    [(first, session_id), (second, _)] = asking.outbox.put
    assert first == {"jsonrpc": "2.0", "id": asking.id, "method": "m", "params": {"a": 1}}
    assert session_id == S
    assert isinstance(asking.id, str)
    assert second["id"] != asking.id


def test_the_answer_reaches_who_asked_once() -> None:
    asking = Asking()
    assert asking.connection.settle(Response(asking.id, {"x": 1}))
    assert not asking.connection.settle(Response(asking.id, {"x": 2}))
    assert asking.answers == [EditorAnswer({"x": 1})]


def test_an_error_reaches_who_asked() -> None:
    asking = Asking()
    asking.connection.settle(Response(asking.id, error={"code": 1, "message": "no"}))
    assert asking.answers == [EditorAnswer(error={"code": 1, "message": "no"})]


def test_an_answer_without_result_counts_as_an_error() -> None:
    asking = Asking()
    assert asking.connection.settle(BareId(asking.id))
    [answer] = asking.answers
    assert answer.error is not None


@pytest.mark.requirement("ACP-13")
@pytest.mark.parametrize("other", ["nobody", 1, 1.0, True, None, [1], {"a": 1}], ids=repr)
def test_an_answer_under_any_other_id_is_not_taken(other: Any) -> None:
    asking = Asking()
    assert not asking.connection.settle(Response(other, {}))
    assert asking.answers == []


@pytest.mark.requirement("ACP-70")
def test_a_withdrawn_question_is_cancelled_and_its_late_answer_ignored() -> None:
    asking = Asking()
    asking.ask.withdraw()
    asking.ask.withdraw()
    [_, cancelled] = asking.outbox.put
    assert cancelled == (
        {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": asking.id}},
        S,
    )
    assert not asking.connection.settle(Response(asking.id, {}))
    assert asking.answers == []


def test_withdrawing_after_the_answer_does_nothing() -> None:
    asking = Asking()
    asking.connection.settle(Response(asking.id, {}))
    asking.ask.withdraw()
    assert len(asking.outbox.put) == 1


@pytest.mark.requirement("C046")
def test_a_second_answer_is_a_bug_and_is_not_written() -> None:
    outbox = ListOutbox()
    reply = Connection(outbox).open(Request(1, "m"), S)
    reply.result({})
    with pytest.raises(LocalProtocolError):
        reply.error(SessionNotFound())
    assert outbox.put == [({"jsonrpc": "2.0", "id": 1, "result": {}}, S)]


@pytest.mark.requirement("ACP-20")
def test_requests_with_one_id_are_all_answered() -> None:
    outbox = ListOutbox()
    connection = Connection(outbox)
    replies = [connection.open(Request(7, name)) for name in ("a", "b")]
    assert connection.in_flight(7) == replies
    replies[1].result({"b": 1})
    assert connection.in_flight(7) == replies[:1]
    replies[0].result({"a": 1})
    assert [message["result"] for message, _ in outbox.put] == [{"b": 1}, {"a": 1}]


@pytest.mark.parametrize("other", [1.0, True, "1", None, [1], {}], ids=repr)
def test_ids_that_python_would_mix_up_are_told_apart(other: Any) -> None:
    connection = Connection(ListOutbox())
    connection.open(Request(1, "m"))
    assert connection.in_flight(other) == []


async def test_a_connection_is_idle_when_all_requests_are_answered() -> None:
    connection = Connection(ListOutbox())
    async with asyncio.timeout(WAIT):
        await connection.idle()
        replies = [connection.open(Request(number, "m")) for number in range(2)]
        async with asyncio.TaskGroup() as tasks:
            idle = tasks.create_task(connection.idle())
            for reply in replies:
                await asyncio.sleep(0)
                assert not idle.done()
                reply.result({})


def test_an_error_is_answered_without_what_is_hidden_and_under_its_own_id() -> None:
    outbox = ListOutbox()
    connection = Connection(outbox, lambda error: {**error, "message": "hidden"})
    connection.open(Request("secret", "m"), S).error(SessionNotFound("a secret"))
    assert outbox.put[-1][0]["id"] == "secret"
    assert outbox.put[-1][0]["error"]["message"] == "hidden"
