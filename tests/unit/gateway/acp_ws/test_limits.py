"""What a gateway that speaks ACP may send: at each limit, and one past it."""

from __future__ import annotations

from typing import Any

import pytest

from acp_bridge.core import commands as cmd
from acp_bridge.core import events as ev
from acp_bridge.core.recent import LIMIT
from acp_bridge.gateway.dialects.acp_ws import sessions
from acp_bridge.ids import MAX_ID, SessionKey
from acp_bridge.wire.weight import weigh
from tests.support.acp_dialect import S1, Played, start, stored


def kinds(events: list[Any]) -> list[type]:
    return [type(event) for event in events]


def busy() -> Played:
    play = Played().hello().opened()
    play.send(start())
    return play


def test_an_id_of_a_session_may_be_as_long_as_the_limit_and_no_longer() -> None:
    play = busy()
    update = {"sessionUpdate": "odd"}
    assert kinds(play.update(update, SessionKey("s" * MAX_ID))) == [ev.SessionUpdated]
    assert kinds(play.update(update, SessionKey("s" * (MAX_ID + 1)))) == [ev.Unreadable]


def test_an_id_of_a_tool_call_may_be_as_long_as_the_limit_and_no_longer() -> None:
    play = busy()
    card = {"sessionUpdate": "tool_call", "title": "t"}
    assert kinds(play.update({**card, "toolCallId": "c" * MAX_ID})) == [ev.Updated]
    assert kinds(play.update({**card, "toolCallId": "c" * (MAX_ID + 1)})) == [ev.Unreadable]


@pytest.mark.parametrize("method", ["session/request_permission", "elicitation/create"])
def test_an_id_of_a_question_may_be_as_long_as_the_limit_and_no_longer(method: str) -> None:
    play = busy()
    asked = {"jsonrpc": "2.0", "method": method, "params": {"sessionId": S1, "options": []}}
    taken = play.receive({**asked, "id": "q" * MAX_ID})
    assert kinds(taken) in ([ev.PermissionAsked], [ev.PeerAsked])
    assert kinds(play.receive({**asked, "id": "q" * (MAX_ID + 1)})) == [ev.Unreadable]
    assert kinds(play.receive({**asked, "id": 10**2_000})) == [ev.Unreadable]


def test_cards_of_one_run_are_remembered_up_to_the_limit() -> None:
    play = busy()
    for number in range(LIMIT + 5):
        play.update({"sessionUpdate": "tool_call", "title": "t", "toolCallId": f"c{number}"})
    run = play.dialect._runs[S1]
    assert len(run.updates._cards) == LIMIT


def test_a_replay_is_kept_up_to_the_limit_and_counts_as_trimmed_past_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = []
    for more in (0, 1):
        told = (stored("hello"), stored("x" * (1_000 + more)))
        monkeypatch.setattr(sessions, "MAX_REPLAY", sum(map(weigh, told)) - more)
        play = Played().hello()
        play.send(cmd.ReadTranscript(S1), 7)
        for each in told:
            play.update(each)
        play.answer("session/load", {})
        whole.append((play.results[7].is_whole, len(play.results[7].turns)))
    assert whole == [(True, 2), (False, 1)]
