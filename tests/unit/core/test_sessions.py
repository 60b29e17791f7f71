"""How many sessions are kept, and which ones are forgotten."""

from __future__ import annotations

import pytest

from acp_bridge.core.sessions import MAX_IDLE, Session, SessionOptions, Sessions, route
from acp_bridge.errors import InvalidParams, SessionNotFound, TooManySessions
from acp_bridge.ids import MAX_ID, SessionId, SessionKey
from tests.support.clock import HandClock

LIMIT = 3


def session(name: str) -> Session:
    return Session(SessionId(name), SessionKey(name), "/")


def filled(clock: HandClock, names: str = "abc") -> Sessions:
    sessions = Sessions(clock.time, LIMIT)
    for name in names:
        sessions.add(session(name))
        clock.advance(1)
    return sessions


def names(sessions: Sessions) -> list[str]:
    return [each.session_id for each in sessions.all()]


def test_at_the_limit_all_are_kept_and_past_it_the_one_unused_for_longest_goes() -> None:
    clock = HandClock()
    sessions = filled(clock)
    assert names(sessions) == ["a", "b", "c"]
    sessions.get(SessionId("a"))
    sessions.add(session("d"))
    assert names(sessions) == ["c", "a", "d"]
    with pytest.raises(SessionNotFound, match="Session not found: b"):
        sessions.get(SessionId("b"))


def test_a_session_with_a_live_turn_is_never_forgotten() -> None:
    clock = HandClock()
    sessions = filled(clock)
    clock.advance(MAX_IDLE)
    sessions.add(session("d"), is_busy=lambda name: name in ("a", "b"))
    assert names(sessions) == ["a", "b", "d"]


def test_one_more_is_refused_while_all_have_a_live_turn() -> None:
    sessions = filled(HandClock())
    with pytest.raises(TooManySessions) as caught:
        sessions.add(session("d"), is_busy=lambda _: True)
    assert (caught.value.code, caught.value.retryable) == ("too_many_sessions", True)
    assert "close a session" in (caught.value.hint or "")
    assert names(sessions) == ["a", "b", "c"]


def test_a_session_that_is_opened_again_needs_no_room() -> None:
    sessions = filled(HandClock())
    again = session("b")
    sessions.add(again, is_busy=lambda _: True)
    assert sessions.find(SessionId("b")) is again
    assert len(sessions.all()) == LIMIT


def test_idle_for_a_day_is_forgotten_and_a_second_less_is_not() -> None:
    clock = HandClock()
    sessions = filled(clock, "ab")
    clock.advance(MAX_IDLE - 3)
    sessions.add(session("c"))
    assert names(sessions) == ["a", "b", "c"]
    sessions.get(SessionId("b"))
    clock.advance(1)
    sessions.add(session("d"))
    assert names(sessions) == ["c", "b", "d"]


@pytest.mark.parametrize("name", ["sessionKey", "label"])
def test_a_key_or_label_may_be_as_long_as_any_id_and_no_longer(name: str) -> None:
    wanted = route({name: "k" * MAX_ID}, SessionOptions())
    assert "k" * MAX_ID in (wanted.key, wanted.label)
    with pytest.raises(InvalidParams, match="1,024 characters") as caught:
        route({name: "k" * (MAX_ID + 1)}, SessionOptions())
    assert caught.value.data == {"field": f"_meta.{name}"}
