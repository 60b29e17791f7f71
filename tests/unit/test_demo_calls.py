"""What the demo gateway takes for JSON."""

from __future__ import annotations

import orjson
import pytest

from acp_bridge.demo.calls import parsed


def test_half_a_surrogate_pair_is_read_as_the_character_that_stands_for_it() -> None:
    assert parsed('{"id": "1", "key": "a\\ud800b"}') == {"id": "1", "key": "a\ufffdb"}
    assert parsed(b'{"key": "\\ud83d\\ude00"}') == {"key": "\U0001f600"}


@pytest.mark.parametrize("text", ["", "{", '"\\ud800', "[NaN]", "[" * 100_000, b'"\xff"'])
def test_what_is_no_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        parsed(text)
