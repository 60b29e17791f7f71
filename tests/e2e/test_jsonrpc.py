"""The wire on stdio: rules 1 to 20 of the conformance list, field cases C016 and C019 to C023."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from acp_bridge.demo.server import DemoGateway
from tests.e2e.conftest import Start
from tests.e2e.scripts import echo, say
from tests.support.editor import EditorProcess, agent_command, editor_environment
from tests.support.waits import scaled

pytestmark = pytest.mark.e2e

INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
ODD_CHARACTERS = (
    "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\x1dh\x1ei\x00j\rk\ufeffl\u200d"
    "\N{FAMILY}\U0001f469\u200d\U0001f680 e\u0301 漢字 العربية"
)


def answers(editor: EditorProcess, request_id: Any) -> list[dict[str, Any]]:
    """The answers with exactly this id."""
    key = json.dumps(request_id)
    return [m for m in editor.messages if "method" not in m and json.dumps(m["id"]) == key]


def errors_without_id(editor: EditorProcess) -> list[int]:
    return [m["error"]["code"] for m in answers(editor, None)]


async def still_serves(editor: EditorProcess) -> None:
    """The next request is answered, so all lines before it were dealt with."""
    await editor.call("initialize", INITIALIZE["params"]).result()  # type: ignore[arg-type]


@pytest.mark.requirement("ACP-1")
@pytest.mark.requirement("ACP-2")
@pytest.mark.requirement("ACP-3")
@pytest.mark.requirement("C015")
async def test_every_line_of_a_whole_conversation_is_one_valid_message(
    demo: Start, home: Path
) -> None:
    # The oracle judges each line as it arrives.
    async with demo() as editor:
        turn = editor.prompt(await editor.open(home), "Hello")
        assert await turn.stop_reason(scaled(20)) == "end_turn"
        kinds = {update["sessionUpdate"] for update in turn.updates}
        assert {"agent_message_chunk", "agent_thought_chunk", "plan", "tool_call"} <= kinds
        assert editor.permissions


@pytest.mark.requirement("ACP-5")
@pytest.mark.requirement("ACP-6")
@pytest.mark.requirement("ACP-8")
async def test_an_answer_bears_the_id_in_the_type_it_came_in(demo: Start) -> None:
    ids = [0, "0", 1, "", "id", -1, 2**63 - 1, -(2**63), None, "\u2028 \\u0000 \N{FAMILY}"]
    async with demo() as editor:
        await editor.initialize()
        calls = [editor.expect(request_id, "initialize") for request_id in ids]
        editor.send(*({**INITIALIZE, "id": request_id} for request_id in ids))
        for call in calls:
            assert (await call.result())["protocolVersion"] == 1


@pytest.mark.requirement("ACP-7")
@pytest.mark.requirement("ACP-93")
async def test_a_notification_is_never_answered(demo: Start) -> None:
    async with demo() as editor:
        await editor.initialize()
        for method in ("nothing/known", "_x/y", "$/x", "session/cancel", "$/cancel_request"):
            editor.notify(method)
            editor.notify(method, {"sessionId": 5, "requestId": {}})
        editor.send({"jsonrpc": "2.0", "method": "session/new", "params": {"cwd": "/"}})
        await still_serves(editor)
        assert len(editor.messages) == 2


@pytest.mark.requirement("ACP-9")
@pytest.mark.requirement("ACP-92")
@pytest.mark.requirement("C019")
async def test_an_unknown_method_is_refused_and_harms_nothing(bridge: Start, home: Path) -> None:
    unknown = ["session/set_model", "foo/bar", "_vendor/x", "", "initialize "]
    async with DemoGateway(echo, pace=0) as gateway, bridge(gateway) as editor:
        session = await editor.open(home)
        turn = editor.prompt(session, "said")
        for method in unknown:
            editor.notify(method, {})
            assert (await editor.call(method, {}).error()).code == -32601
        assert await turn == "end_turn"
        assert turn.text == "said"


@pytest.mark.requirement("ACP-10")
@pytest.mark.requirement("ACP-43")
@pytest.mark.requirement("C016")
async def test_wrong_parameters_are_refused_by_the_name_of_the_field(
    demo: Start, home: Path
) -> None:
    wrong: list[tuple[Any, str]] = [
        ({"mcpServers": []}, "cwd"),
        ({"cwd": None, "mcpServers": []}, "cwd"),
        ({"cwd": 5, "mcpServers": []}, "cwd"),
        ({"cwd": "relative/path", "mcpServers": []}, "cwd"),
        ([], "params"),
    ]
    async with demo() as editor:
        await editor.initialize()
        for params, field in wrong:
            error = await editor.call("session/new", params).error()
            assert error.code == -32602
            assert field in error.message
        assert await editor.new_session(home)


@pytest.mark.requirement("ACP-45")
@pytest.mark.requirement("ACP-96")
@pytest.mark.requirement("C016")
async def test_what_is_missing_or_unknown_in_practice_is_tolerated(demo: Start, home: Path) -> None:
    lenient: list[dict[str, Any]] = [
        {"cwd": str(home)},
        {"cwd": str(home), "mcpServers": None},
        {"cwd": str(home), "mcpServers": "none"},
        {"cwd": str(home), "mcpServers": [{"name": 5}, None, "x"], "extra": {"a": [1]}},
        {"cwd": "/no/such/directory", "mcpServers": [], "_meta": "text"},
    ]
    async with demo() as editor:
        await editor.initialize()
        ids = [(await editor.call("session/new", p).result())["sessionId"] for p in lenient]
        assert len(set(ids)) == len(lenient)


@pytest.mark.requirement("ACP-94")
async def test_meta_never_changes_a_standard_parameter(bridge: Start, home: Path) -> None:
    evil = {"cwd": "relative", "self": 1, "sessionId": "other", "mcpServers": 5}
    async with DemoGateway(echo, pace=0) as gateway, bridge(gateway) as editor:
        await editor.initialize(_meta=evil)
        session = await editor.new_session(home, _meta=evil)
        assert session != "other"
        assert await editor.prompt(session, "Hello", _meta=evil) == "end_turn"


@pytest.mark.requirement("ACP-11")
@pytest.mark.requirement("ACP-12")
@pytest.mark.requirement("ACP-13")
async def test_a_line_that_is_no_message_is_refused_and_survived(demo: Start) -> None:
    broken = [
        (b"{not json", -32700),
        (b"\xff\xfe{}", -32700),
        (b'{"jsonrpc":"2.0"} {"jsonrpc":"2.0"}', -32700),
        (b"[" * 100_000, -32700),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":7,"method":"initialize"}]', -32600),
        (b'"text"', -32600),
        (b"5", -32600),
        (b"null", -32600),
        (b"{}", -32600),
        (b'{"jsonrpc":"2.0"}', -32600),
        (b'{"jsonrpc":"2.0","params":{}}', -32600),
    ]
    async with demo() as editor:
        await editor.initialize()
        for line, _ in broken:
            editor.send_raw(line + b"\n")
        await still_serves(editor)
        assert errors_without_id(editor) == [code for _, code in broken]
        assert not answers(editor, 7)


@pytest.mark.requirement("ACP-13")
async def test_answers_to_nothing_are_ignored(demo: Start) -> None:
    async with demo() as editor:
        await editor.initialize()
        bodies: list[dict[str, Any]] = [{"result": {}}, {"error": {"code": 1}}, {"error": "text"}]
        for answer in bodies:
            for request_id in (0, "bridge-1", None, [0], 1.5):
                editor.send({"jsonrpc": "2.0", "id": request_id, **answer})
        await still_serves(editor)
        assert len(editor.messages) == 2


@pytest.mark.requirement("ACP-14")
async def test_empty_lines_carriage_returns_and_a_byte_order_mark_are_tolerated(
    demo: Start,
) -> None:
    async with demo() as editor:
        call = editor.expect(1, "initialize")
        editor.send_raw(b"\n\r\n  \n\xef\xbb\xbf" + json.dumps(INITIALIZE).encode() + b"\r\n\n")
        await call.result()
        assert len(editor.messages) == 1


@pytest.mark.requirement("ACP-4")
@pytest.mark.requirement("ACP-15")
@pytest.mark.requirement("C022")
async def test_no_character_but_the_line_feed_ends_a_line(bridge: Start, home: Path) -> None:
    async with DemoGateway(echo, pace=0) as gateway, bridge(gateway) as editor:
        session = await editor.open(home)
        for escapes in (True, False):
            turn, message = editor.prompt_message(session, ODD_CHARACTERS)
            editor.send_raw(json.dumps(message, ensure_ascii=escapes).encode() + b"\n")
            assert await turn == "end_turn"
            assert turn.text == ODD_CHARACTERS
        assert [run.message for run in gateway.runs.values()] == [ODD_CHARACTERS] * 2


@pytest.mark.requirement("C023")
async def test_a_prompt_may_arrive_byte_by_byte(bridge: Start, home: Path) -> None:
    async with DemoGateway(echo, pace=0) as gateway, bridge(gateway) as editor:
        turn, message = editor.prompt_message(await editor.open(home), ODD_CHARACTERS)
        for byte in json.dumps(message, ensure_ascii=False).encode() + b"\n":
            editor.send_raw(bytes([byte]))
            await editor.drain()
        assert await turn == "end_turn"
        assert turn.text == ODD_CHARACTERS


@pytest.mark.requirement("ACP-16")
@pytest.mark.requirement("ACP-22")
def test_a_last_line_without_its_end_is_answered_before_the_exit(home: Path) -> None:
    new = {"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": str(home)}}
    done = subprocess.run(
        agent_command("--demo"),
        input=f"{json.dumps(INITIALIZE)}\n{json.dumps(new)}".encode(),
        env=editor_environment(home),
        capture_output=True,
        timeout=scaled(10),
        check=True,
    )
    first, second = [json.loads(line) for line in done.stdout.splitlines()][:2]
    assert (first["id"], first["result"]["protocolVersion"]) == (1, 1)
    assert second["id"] == 2
    assert second["result"]["sessionId"]


@pytest.mark.requirement("ACP-17")
@pytest.mark.requirement("C020")
async def test_a_long_prompt_arrives_exactly(bridge: Start, home: Path) -> None:
    async with DemoGateway(echo, pace=0) as gateway, bridge(gateway) as editor:
        session = await editor.open(home)
        for size in (65_535, 65_536, 65_537, 1 << 20):  # of the whole line
            turn, message = editor.prompt_message(session, "")
            room = size - len(json.dumps(message)) - 1
            body = "é" * (room // 2) + "e" * (room % 2)
            message["params"]["prompt"][0]["text"] = body
            editor.send_raw(json.dumps(message, ensure_ascii=False).encode() + b"\n")
            assert await turn.stop_reason(scaled(15)) == "end_turn"
            assert turn.text == body
        assert await editor.prompt(session, "small") == "end_turn"


@pytest.mark.requirement("ACP-17")
@pytest.mark.requirement("C020")
async def test_a_line_of_many_mebibytes_is_read(demo: Start, home: Path) -> None:
    async with demo() as editor:
        await editor.initialize()
        ballast = {"ballast": "x" * (30 << 20)}
        session = await editor.new_session(home, timeout=scaled(10), _meta=ballast)
        error = await editor.prompt(session, "x" * (20 << 20)).error(scaled(10))
        assert (error.code, error.data["code"]) == (-32602, "too_large")
        editor.send_raw(b'{"a":"' + b"x" * (40 << 20) + b'"}\n')
        await editor.drain(scaled(10))
        await still_serves(editor)
        assert errors_without_id(editor) == [-32700]


@pytest.mark.requirement("ACP-17")
@pytest.mark.requirement("ACP-64")
async def test_an_answer_of_many_mebibytes_comes_in_readable_lines(
    bridge: Start, home: Path
) -> None:
    said = "".join(f"{index:07d}\n" for index in range(18 << 17))[:-1]

    async with (
        DemoGateway(lambda run: say(run, said), pace=0) as gateway,
        bridge(gateway) as editor,
    ):
        turn = editor.prompt(await editor.open(home), "much, please")
        await turn.shows("0000001")
        editor.pause_reading()  # the chunks that wait are merged, but not without end
        (run,) = gateway.runs.values()
        async with asyncio.timeout(scaled(30)):
            await run.ended.wait()
        editor.resume_reading()
        assert await turn.stop_reason(scaled(30)) == "end_turn"
        assert turn.text == said


@pytest.mark.requirement("ACP-18")
@pytest.mark.requirement("C024")
async def test_what_json_cannot_say_never_gets_out(bridge: Start, home: Path) -> None:
    async with DemoGateway(echo, pace=0) as gateway, bridge(gateway) as editor:
        turn, message = editor.prompt_message(await editor.open(home), "TEXT")
        line = json.dumps({**message, "extra": float("nan"), "more": [1e400]})
        editor.send_raw(line.replace("TEXT", r"half \ud83d of it").encode() + b"\n")
        assert await turn == "end_turn"
        assert turn.text == "half \ufffd of it"


@pytest.mark.requirement("ACP-19")
async def test_deep_nesting_in_parameters_is_survived(demo: Start, home: Path) -> None:
    deep = "[" * 900 + "]" * 900
    async with demo() as editor:
        await editor.initialize()
        editor.send_raw(
            b'{"jsonrpc":"2.0","id":"deep","method":"session/new","params":{"cwd":"/","_meta":'
            b'{"a":' + deep.encode() + b"}}}\n"
        )
        await still_serves(editor)
        await editor.until(lambda: len(answers(editor, "deep")) == 1, "the answer")


@pytest.mark.requirement("ACP-20")
async def test_two_requests_with_one_id_are_both_answered(demo: Start, home: Path) -> None:
    new = {"jsonrpc": "2.0", "id": 9, "method": "session/new", "params": {"cwd": str(home)}}
    async with demo() as editor:
        await editor.initialize()
        editor.send(new, new)
        await editor.until(lambda: len(answers(editor, 9)) == 2, "two answers")
        sessions = {answer["result"]["sessionId"] for answer in answers(editor, 9)}
        assert len(sessions) == 2
