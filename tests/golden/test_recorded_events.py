"""Recorded conversations become exactly the events that were written down beside them.

After a wanted change, ``ACP_BRIDGE_WRITE_GOLDEN=1 pytest tests/golden`` writes the files anew; the
difference is then reviewed like code.
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from acp_bridge.core.events import GatewayEvent, Unreadable
from tests.support.replay import VERSIONS, names, replay

EVENTS = Path(__file__).parent / "events"
RECORDINGS = [(version, name) for version in VERSIONS for name in names(version)]


def told(event: GatewayEvent) -> str:
    """One event as one line, without the fields that say nothing."""
    fields = ((name, getattr(event, name)) for name in event._fields if name != "detail")
    shown = (f"{name}={_short(value)}" for name, value in fields if value not in (None, (), {}))
    return f"{type(event).__name__} {' '.join(shown)}".rstrip()


def _short(value: Any) -> str:
    text = str(value) if isinstance(value, StrEnum) else repr(value)
    return text if len(text) <= 160 else f"{text[:120]}…{text[-30:]} ({len(text)})"


@pytest.mark.parametrize(("version", "name"), RECORDINGS)
def test_a_recording_becomes_the_events_written_down_for_it(version: str, name: str) -> None:
    played = replay(version, name)
    lines = [told(event) for event in played.events]
    if played.refusal is not None:
        lines.append(f"{type(played.refusal).__name__}: {played.refusal}")
    told_text = "".join(f"{line}\n" for line in lines)
    file = EVENTS / version / f"{name}.txt"
    if os.environ.get("ACP_BRIDGE_WRITE_GOLDEN"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(told_text, encoding="utf-8")
    assert told_text == file.read_text(encoding="utf-8")


@pytest.mark.parametrize(("version", "name"), RECORDINGS)
def test_commands_become_the_requests_that_the_gateway_took(version: str, name: str) -> None:
    played = replay(version, name)
    assert played.sent == played.recorded


@pytest.mark.parametrize(("version", "name"), RECORDINGS)
def test_no_frame_of_a_real_gateway_is_unreadable(version: str, name: str) -> None:
    assert not [event for event in replay(version, name).events if isinstance(event, Unreadable)]
