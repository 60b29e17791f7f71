"""What the dialect passes without interpreting it, and what it offers."""

from __future__ import annotations

from typing import Any

import pytest

from acp_bridge.core import commands as cmd
from acp_bridge.core import events as ev
from acp_bridge.core.marks import Marks
from acp_bridge.core.offers import Offers
from acp_bridge.gateway.dialects.acp_ws.updates import RunUpdates
from acp_bridge.ids import Json
from tests.support.acp_dialect import PLAIN, R1, S1, ZEROCLAW, Played, chunk, start

SERVER: Json = {"name": "files", "command": "/bin/files"}
RESTORE = cmd.RestoreSession(S1, "/work", (SERVER,), {"x": 1, "_meta": {"y": 2}})
OPENED: Json = {"sessionId": S1, "cwd": "/work", "mcpServers": [SERVER], "x": 1, "_meta": {"y": 2}}
MODES: Json = {"currentModeId": "plan", "availableModes": []}
LOADS: Json = {**PLAIN, "agentCapabilities": {"loadSession": True}}


def offers(result: Json) -> Offers:
    hello = Played().hello(result).dialect.hello
    assert hello is not None
    return hello.offers


def test_an_agent_takes_the_servers_and_blocks_that_it_announces() -> None:
    can = {
        "promptCapabilities": {"image": True, "audio": True},
        "mcpCapabilities": {"http": True, "sse": 1},
    }
    found = offers({**PLAIN, "agentCapabilities": can, "_meta": {"vendor": 1}})
    assert found == Offers(
        frozenset({"image", "audio"}), frozenset({"stdio", "http"}), {"vendor": 1}
    )
    assert found.takes(SERVER)
    odds: list[Any] = ["sse", "", None, ["stdio"], {}]
    for odd in odds:
        assert not found.takes({"type": odd, "name": "x"})


def test_zeroclaw_takes_no_servers_and_says_its_limits() -> None:
    assert offers(ZEROCLAW) == Offers(frozenset(), frozenset(), ZEROCLAW["_meta"])


def test_a_session_is_restored_as_the_editor_opened_it_and_so_again_later() -> None:
    play = Played().hello(LOADS)
    play.send(RESTORE, 1)
    assert play.request("session/load")["params"] == OPENED
    play.answer("session/load", {"modes": MODES, "_meta": {"z": 3}})
    assert play.results[1] == {"modes": MODES, "_meta": {"z": 3}}
    later = Played(play.memory, generation=2).hello(LOADS)
    later.send(start())
    assert later.request("session/load")["params"] == OPENED


def test_one_that_was_made_here_is_restored_as_it_was_made() -> None:
    play = Played().hello(LOADS)
    play.send(cmd.OpenSession("/work", "main", (SERVER,), {"x": 1, "_meta": {"y": 2}}), 1)
    play.answer("session/new", {"sessionId": S1})
    later = Played(play.memory, generation=2).hello(LOADS)
    later.send(start())
    assert later.request("session/load")["params"] == OPENED


def test_a_session_that_is_at_hand_tells_its_modes_and_options_as_they_are_now() -> None:
    play = Played().hello(LOADS)
    play.send(cmd.OpenSession("/work"), 1)
    play.answer("session/new", {"sessionId": S1, "modes": MODES})
    play.update({"sessionUpdate": "current_mode_update", "currentModeId": "code"})
    play.update({"sessionUpdate": "config_option_update", "configOptions": [{"id": "a"}]})
    play.send(RESTORE, 2)
    assert play.results[2] == {
        "modes": {**MODES, "currentModeId": "code"},
        "configOptions": [{"id": "a"}],
    }
    assert "session/load" not in play.methods()


@pytest.mark.parametrize(("code", "result"), [(-32002, type(None)), (-1, Exception)])
def test_one_that_is_gone_is_none_and_another_failure_is_told(code: int, result: type) -> None:
    play = Played().hello(LOADS)
    play.send(RESTORE, 1)
    play.refuse("session/load", code)
    assert isinstance(play.results[1], result)


def test_a_prompt_carries_what_the_editor_adds_and_its_end_what_the_gateway_adds() -> None:
    play = Played().hello().opened()
    play.send(start()._replace(extras={"x": 1, "_meta": {"y": 2}, "sessionId": "evil"}))
    params = play.request("session/prompt")["params"]
    assert (params["sessionId"], params["x"], params["_meta"]) == (S1, 1, {"y": 2})
    (ended,) = play.answer("session/prompt", {"sessionId": S1, "stopReason": "end_turn", "u": 1})
    assert isinstance(ended, ev.RunEnded)
    assert ended.extras == {"u": 1}


@pytest.mark.parametrize(
    ("more", "marks"),
    [
        ({}, None),
        ({"messageId": "m"}, Marks("m")),
        ({"messageId": 5}, None),
        ({"_meta": {"a": 1}, "x": 2}, Marks(None, {"_meta": {"a": 1}, "x": 2})),
    ],
)
@pytest.mark.parametrize("kind", ["agent_message_chunk", "agent_thought_chunk"])
def test_the_marks_of_a_chunk_go_with_its_text(kind: str, more: Json, marks: Any) -> None:
    (event,) = RunUpdates(R1).events({**chunk("Hi", kind), **more})
    assert isinstance(event, ev.TextProgress | ev.ThoughtProgress)
    assert (event.delta, event.marks) == ("Hi", marks)


def test_the_content_of_a_chunk_keeps_its_other_members() -> None:
    update = {**chunk("Hi"), "content": {"type": "text", "text": "Hi", "annotations": {"a": 1}}}
    (event,) = RunUpdates(R1).events(update)
    assert isinstance(event, ev.TextProgress)
    assert event.marks == Marks(None, {"content": {"annotations": {"a": 1}}})


def test_a_chunk_that_says_something_beside_an_empty_text_passes_as_it_is() -> None:
    update = {**chunk(""), "_meta": {"a": 1}}
    assert RunUpdates(R1).events(update) == [ev.Updated(R1, update)]
