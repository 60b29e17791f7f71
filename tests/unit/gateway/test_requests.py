"""Requests in flight are found by their answers or by their deadlines, once."""

from __future__ import annotations

from acp_bridge.gateway.requests import Requests


def test_an_answer_finds_its_request_once() -> None:
    requests: Requests[str] = Requests()
    first = requests.open("first", now=0, timeout=None)
    second = requests.open("second", now=0, timeout=None)
    assert first != second
    assert len(requests) == 2
    assert requests.close(second) == "second"
    assert requests.close(second) is None
    assert requests.close(first) == "first"
    assert len(requests) == 0


def test_an_answer_to_nothing_finds_nothing() -> None:
    requests: Requests[str] = Requests()
    requests.open("first", now=0, timeout=None)
    strangers: list[object] = ["invalid", 1, None, [], {}]
    assert [requests.close(stranger) for stranger in strangers] == [None] * 5


def test_only_requests_whose_time_is_up_expire_oldest_first() -> None:
    requests: Requests[str] = Requests()
    requests.open("never", now=0, timeout=None)
    late = requests.open("late", now=0, timeout=5)
    requests.open("later", now=1, timeout=5)
    requests.open("long", now=0, timeout=100)
    assert requests.expire(4.9) == []
    assert requests.expire(6) == ["late", "later"]
    assert requests.close(late) is None
    assert len(requests) == 2
