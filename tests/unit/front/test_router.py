"""One line in, the right call or answer out; on real pipes, with a scripted agent."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from acp_bridge.core.ports import EditorAnswer
from acp_bridge.errors import GatewayUnreachable
from acp_bridge.ids import SessionId
from tests.support.front import INITIALIZE, Front, running_front
from tests.support.handlers import ScriptedHandlers
from tests.support.waits import WAIT

S1 = SessionId("s1")
NEW = {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/w"}}


def code(message: dict[str, Any]) -> int:
    number: int = message["error"]["code"]
    return number


async def ask(front: Front) -> tuple[str, list[EditorAnswer]]:
    """Let the agent ask the editor; the question's id and the list that takes the answer."""
    answers: list[EditorAnswer] = []
    front.connection.ask("session/request_permission", {}, answers.append, session_id=S1)
    question_id: str = (await front.next())["id"]
    return question_id, answers


@pytest.mark.requirement("ACP-5")
@pytest.mark.parametrize(
    "message_id", ["a", 0, -1, 2**63 - 1, -(2**63), 2**70, None, 1.5, False], ids=repr
)
async def test_an_answer_carries_the_id_of_its_request(message_id: Any) -> None:
    async with running_front() as front:
        await front.initialized()
        front.call(message_id, "session/new", cwd="/w")
        front.call(message_id, "no/such")
        for _ in range(2):
            echoed = (await front.next())["id"]
            assert (type(echoed), echoed) == (type(message_id), message_id)


@pytest.mark.requirement("ACP-9", "ACP-92", "C019")
@pytest.mark.parametrize(
    "method",
    ["session/set_model", "foo/bar", "_vendor/x", "session/cancel", "$/cancel_request", ""],
)
async def test_an_unknown_request_is_refused_by_name_and_disturbs_no_turn(method: str) -> None:
    async with running_front() as front:
        await front.initialized()
        front.prompt(1)
        front.call(2, method, sessionId="s1")
        refused = await front.answer(2)
        assert code(refused) == -32601
        assert method in refused["error"]["message"]
        is_notification = method in ("session/cancel", "$/cancel_request")
        assert ("without an id" in str(refused["error"])) is is_notification
        front.handlers.end_turns()
        assert (await front.answer(1))["result"] == {"stopReason": "end_turn"}


@pytest.mark.requirement("ACP-7", "ACP-93", "C019")
async def test_notifications_are_never_answered() -> None:
    async with running_front() as front:
        await front.initialized()
        for method in ("foo/bar", "_vendor/x", "$/x", "session/prompt", "initialize"):
            front.notify(method)
        front.send({"jsonrpc": "2.0", "method": "session/cancel", "params": 5})
        front.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": []})
        front.handlers.faults["cancel"] = ValueError("boom")
        front.notify("session/cancel", sessionId="s1")
        await front.settled()
        assert [message["id"] for message in front.read] == [0, "settled"]


@pytest.mark.requirement("ACP-10", "C016")
@pytest.mark.parametrize("params", [{}, {"cwd": "rel"}, {"cwd": None}, {"cwd": 5}], ids=repr)
async def test_bad_params_are_refused_by_the_field_s_name(params: dict[str, Any]) -> None:
    async with running_front() as front:
        await front.initialized()
        front.call(1, "session/new", **params)
        refused = await front.answer(1)
        assert code(refused) == -32602
        assert refused["error"]["data"]["field"] == "cwd"
        front.call(2, "session/new", cwd="/w")
        assert (await front.answer(2))["result"]["sessionId"]


@pytest.mark.parametrize("method", ["initialize", "session/prompt", "session/close"])
async def test_params_of_the_wrong_shape_are_refused(method: str) -> None:
    async with running_front() as front:
        await front.initialized()
        front.send({"jsonrpc": "2.0", "id": 1, "method": method, "params": [1]})
        assert code(await front.answer(1)) == -32602


@pytest.mark.requirement("ACP-11", "ACP-12", "ACP-13", "ACP-14", "ACP-19")
@pytest.mark.parametrize(
    ("line", "number"),
    [
        (b"noise", -32700),
        (b'{"id":1,"method":"\xff"}', -32700),
        (b"[" * 100_000, -32700),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"session/new"}]', -32600),
        (b"null", -32600),
        (b"123", -32600),
        (b"{}", -32600),
        (b'{"jsonrpc":"2.0","id":5}', -32600),
    ],
    ids=lambda value: ascii(value)[:30],
)
async def test_a_broken_line_is_answered_once_and_survived(line: bytes, number: int) -> None:
    async with running_front() as front:
        await front.initialized()
        await front.send_much(line + b"\n\r\n\n")
        broken = await front.next()
        assert (broken["id"], code(broken)) == (None, number)
        await front.settled()
        assert [message["id"] for message in front.read] == [0, None, "settled"]


@pytest.mark.requirement("ACP-27")
async def test_a_slow_request_delays_nobody() -> None:
    handlers = ScriptedHandlers()
    async with running_front(handlers) as front:
        await front.initialized()
        release = handlers.waits["new_session"] = asyncio.Event()
        front.send(NEW)
        front.call(2, "session/close", sessionId="s1")
        assert (await front.answer(2))["result"] == {}
        release.set()
        assert (await front.answer(1))["result"] == {"sessionId": "s1"}


async def test_calls_start_in_the_order_of_arrival() -> None:
    handlers = ScriptedHandlers()
    async with running_front(handlers) as front:
        front.send(
            INITIALIZE,
            NEW,
            {"id": 2, "method": "session/close", "params": {"sessionId": "s0"}},
            {"id": 3, "method": "session/prompt", "params": {"sessionId": "s1", "prompt": []}},
            {"method": "session/cancel", "params": {"sessionId": "s2"}},
            {"id": 4, "method": "session/close", "params": {"sessionId": "s3"}},
        )
        await front.answer(4)
        assert handlers.names() == [
            *("initialize", "new_session", "close_session"),
            *("prompt", "cancel", "close_session"),
        ]
        handlers.end_turns()


@pytest.mark.requirement("ACP-20", "C046")
async def test_requests_with_one_id_in_flight_are_both_answered() -> None:
    async with running_front() as front:
        await front.initialized()
        front.prompt(7, "s1")
        front.prompt(7, "s2")
        await front.settled()
        front.handlers.end_turns()
        assert [await front.answer(7) for _ in range(2)]
        await front.settled()
        assert [message["id"] for message in front.read].count(7) == 2


async def test_a_failure_of_the_bridge_s_own_is_told_with_its_code() -> None:
    async with running_front() as front:
        await front.initialized()
        front.handlers.faults["new_session"] = GatewayUnreachable("no way", hint="look")
        front.send(NEW)
        error = (await front.answer(1))["error"]
        assert (error["code"], error["message"]) == (-32603, "no way")
        assert error["data"] == {
            "code": "gateway_unreachable",
            "retryable": True,
            "hint": "look",
        }


@pytest.mark.parametrize("name", ["new_session", "prompt"])
async def test_a_bug_in_a_handler_is_told_to_the_log_and_not_to_the_editor(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_front() as front:
        await front.initialized()
        front.handlers.faults[name] = ValueError("boom secret")
        front.send(NEW) if name == "new_session" else front.prompt(1)
        failed = await front.answer(1)
        assert code(failed) == -32603
        assert "secret" not in str(failed)
        [record] = [r for r in caplog.records if r.levelno >= logging.ERROR]
        assert record.exc_info is not None
        del front.handlers.faults[name]
        front.call(2, "session/new", cwd="/w")
        assert (await front.answer(2))["result"]


@pytest.mark.requirement("ACP-68", "C046")
async def test_a_cancel_in_the_same_write_as_the_prompt_finds_it() -> None:
    async with running_front() as front:
        await front.initialized()
        front.send(
            {"id": 1, "method": "session/prompt", "params": {"sessionId": "s1", "prompt": []}},
            {"method": "session/cancel", "params": {"sessionId": "s1"}},
        )
        assert (await front.answer(1))["result"] == {"stopReason": "cancelled"}


@pytest.mark.requirement("ACP-70")
async def test_cancelling_a_prompt_s_request_ends_its_turn_as_cancelled() -> None:
    async with running_front() as front:
        await front.initialized()
        front.prompt(1, "s1")
        front.prompt(2, "s2")
        front.notify("$/cancel_request", requestId=2)
        assert (await front.answer(2))["result"] == {"stopReason": "cancelled"}
        front.notify("$/cancel_request", requestId=2)
        await front.settled()
        assert len(front.handlers.open) == 1
        front.handlers.end_turns()


@pytest.mark.requirement("ACP-70")
async def test_cancelling_any_other_request_stops_it_and_answers_so() -> None:
    handlers = ScriptedHandlers()
    handlers.waits["new_session"] = asyncio.Event()
    async with running_front(handlers) as front:
        await front.initialized()
        front.send(NEW, {"method": "$/cancel_request", "params": {"requestId": 1}})
        assert code(await front.answer(1)) == -32800
        assert front.connection.in_flight(1) == []


@pytest.mark.requirement("ACP-70")
@pytest.mark.parametrize("request_id", [99, "1", True, 1.0, None, [1], {}], ids=repr)
async def test_cancelling_an_unknown_id_does_nothing(request_id: Any) -> None:
    async with running_front() as front:
        await front.initialized()
        front.prompt(1)
        front.notify("$/cancel_request", requestId=request_id)
        await front.settled()
        assert len(front.handlers.open) == 1
        front.handlers.end_turns()


@pytest.mark.requirement("ACP-13", "ACP-79")
async def test_odd_answers_disturb_nothing() -> None:
    async with running_front() as front:
        await front.initialized()
        question_id, answers = await ask(front)
        for odd in ("nobody", 0, 0.0, False, None, [0], {"a": 1}):
            front.send({"jsonrpc": "2.0", "id": odd, "result": {}})
            front.send({"jsonrpc": "2.0", "id": odd, "error": "str"})
        await front.settled()
        assert answers == []
        front.send({"jsonrpc": "2.0", "id": question_id, "error": "str"})
        await front.settled()
        assert [answer.error is not None for answer in answers] == [True]
        assert [message["id"] for message in front.read if "result" not in message] == [
            *(question_id, "settled", "settled")
        ]


async def test_an_empty_answer_to_a_question_of_ours_is_an_error_answer() -> None:
    async with running_front() as front:
        await front.initialized()
        question_id, answers = await ask(front)
        front.send({"jsonrpc": "2.0", "id": question_id})
        await front.settled()
        assert [answer.error is not None for answer in answers] == [True]


async def test_a_bug_in_what_takes_an_answer_is_survived() -> None:
    async with running_front() as front:
        await front.initialized()

        def fail(answer: EditorAnswer) -> None:
            raise ValueError(answer)

        front.connection.ask("m", {}, fail, session_id=S1)
        front.send({"jsonrpc": "2.0", "id": (await front.next())["id"], "result": {}})
        await front.settled()


@pytest.mark.requirement("C017")
async def test_the_session_s_answer_precedes_what_is_shown_at_once() -> None:
    class Eager(ScriptedHandlers):
        async def new_session(self, request: Any) -> Any:
            result = await super().new_session(request)
            asyncio.get_running_loop().call_soon(front.show, "hello", result["sessionId"])
            return result

    async with running_front(Eager()) as front:
        await front.initialized()
        front.send(NEW)
        assert (await front.next())["id"] == 1
        assert (await front.next())["params"]["sessionId"] == "s1"


@pytest.mark.requirement("ACP-20")
async def test_a_request_that_ignores_its_cancelling_is_still_answered_once() -> None:
    class Stubborn(ScriptedHandlers):
        async def new_session(self, request: Any) -> Any:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return {"sessionId": "late"}

    async with running_front(Stubborn()) as front:
        await front.initialized()
        front.send(NEW, {"method": "$/cancel_request", "params": {"requestId": 1}})
        assert (await front.answer(1))["result"] == {"sessionId": "late"}
        async with asyncio.timeout(WAIT):
            await front.connection.idle()


async def test_the_choices_of_a_session_reach_their_handlers() -> None:
    async with running_front() as front:
        await front.initialized()
        front.call(1, "session/set_mode", sessionId="s1", modeId="high")
        assert (await front.answer(1))["result"] == {}
        front.call(2, "session/set_config_option", sessionId="s1", configId="model", value="m")
        assert (await front.answer(2))["result"] == {"configOptions": []}
        assert front.handlers.calls[-2:] == [
            ("set_mode", (S1, "high", {})),
            ("set_option", (S1, "model", "m", {})),
        ]
        front.call(3, "session/set_config_option", sessionId="s1", configId="model", value=True)
        assert code(await front.answer(3)) == -32602
