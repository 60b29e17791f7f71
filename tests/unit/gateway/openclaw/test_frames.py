"""Frames are read from whatever text comes, and written so that any prompt survives."""

from __future__ import annotations

import json
from typing import Any

import pytest

from acp_bridge.errors import UnreadableFrame
from acp_bridge.gateway.dialects.openclaw.frames import (
    Event,
    Response,
    as_count,
    as_id,
    as_list,
    as_object,
    as_text,
    read_frame,
    write_request,
)
from acp_bridge.ids import MAX_ID
from acp_bridge.wire.bounds import MAX_DEPTH, MAX_VALUES


def payload_of(text: str) -> Any:
    frame = read_frame(f'{{"type":"event","event":"x","payload":{{"value":{text}}}}}')
    assert isinstance(frame, Event)
    return frame.payload["value"]


def test_events_and_answers_are_told_apart() -> None:
    assert read_frame('{"type":"event","event":"tick","seq":5}') == Event("tick", {})
    assert read_frame('{"type":"res","id":"1","ok":true,"payload":[1]}') == Response(
        "1", True, [1], {}
    )
    assert read_frame('{"type":"res","id":7,"ok":false,"error":{"code":"X"}}') == Response(
        7, False, None, {"code": "X"}
    )
    assert read_frame('{"type":"res","ok":"yes","error":5}') == Response(None, False, None, {})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{}", "binary frame"),
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not an object"),
        ("null", "not an object"),
        ("5", "not an object"),
        ("{}", "unknown type"),
        ('{"type":"event"}', "unknown type"),
        ('{"type":"event","event":5}', "unknown type"),
        ('{"type":[]}', "unknown type"),
    ],
)
def test_what_is_no_frame_is_refused_without_quoting_it(text: str | bytes, reason: str) -> None:
    with pytest.raises(UnreadableFrame, match=reason):
        read_frame(text)


@pytest.mark.requirement("C024")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"\\ud83d"', "\ud83d"),
        ('"\ud83d"', "\ud83d"),
        ('"\\ud83d\\ude00"', "😀"),
        ("NaN", None),
        ("-Infinity", None),
        ("1e400", None),
        (str(2**63 - 1), 2**63 - 1),
        (str(2**70), float(2**70)),
        ("9" * 5000, None),
        ('{"a":1,"a":2}', {"a": 2}),
    ],
)
def test_odd_json_is_read_as_far_as_it_can_be_passed_on(text: str, value: Any) -> None:
    assert payload_of(text) == value
    assert payload_of(f'["\\ud83d",{text}]') == ["\ud83d", value]


@pytest.mark.requirement("C024")
def test_a_frame_that_could_not_be_written_again_is_not_read() -> None:
    allowed = MAX_DEPTH - 3
    assert payload_of("[" * allowed + "]" * allowed)
    with pytest.raises(UnreadableFrame, match="too deeply"):
        payload_of("[" * 500 + "]" * 500)
    wide = "[" + ",".join(["{}"] * 1000) + "]"
    assert len(payload_of(wide)) == 1000


def test_a_frame_of_more_values_than_are_read_is_not_parsed() -> None:
    wide = "[" + ",".join(["{}"] * (MAX_VALUES // 2)) + "]"
    with pytest.raises(UnreadableFrame, match="too many values"):
        payload_of(wide)


def test_a_request_is_compact_utf8() -> None:
    assert write_request("1", "m", {"text": "é"}) == (
        '{"type":"req","id":"1","method":"m","params":{"text":"é"}}'.encode()
    )


@pytest.mark.parametrize("value", ["half \ud83d", 2**70])
def test_a_prompt_that_strict_json_cannot_hold_is_sent_all_the_same(value: Any) -> None:
    assert json.loads(write_request("1", "m", {"value": value}))["params"]["value"] == value


@pytest.mark.parametrize("value", [None, 5, "x", True, 1.5, [1], {"a": 1}, "", -1, float("nan")])
def test_looking_into_a_value_never_fails(value: Any) -> None:
    assert as_object(value) == (value if value == {"a": 1} else {})
    assert as_list(value) == (value if value == [1] else [])
    assert as_text(value) == ("x" if value == "x" else None)
    expected = {5: 5, 1.5: 1}.get(value) if type(value) in {int, float} else None
    assert as_count(value) == expected


def test_an_id_may_be_as_long_as_the_limit_and_no_longer() -> None:
    assert as_id("i" * MAX_ID) == "i" * MAX_ID
    odd: list[Any] = ["i" * (MAX_ID + 1), "", 5, None, [], {}, 1e300, True]
    assert [as_id(value) for value in odd] == [None] * len(odd)
