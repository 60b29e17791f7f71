"""Recorded answers to ``chat.history`` become exactly the turns written down beside them.

After a wanted change, ``ACP_BRIDGE_WRITE_GOLDEN=1 pytest tests/golden`` writes the files anew; the
difference is then reviewed like code.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import assert_never

import pytest

from acp_bridge.core.transcript import (
    Part,
    PastTurn,
    SaidText,
    SaidThought,
    Transcript,
    UsedTool,
)
from acp_bridge.gateway.dialects.openclaw.transcript import read_transcript
from acp_bridge.ids import Json
from tests.support.replay import VERSIONS

HISTORIES = Path(__file__).parent / "histories"
TRANSCRIPTS = Path(__file__).parent / "transcripts"
RECORDINGS = [
    (version, path.stem)
    for version in VERSIONS
    for path in sorted((HISTORIES / version).glob("*.json"))
]
ENDED = {("2026.6.11", "session"): {"status": "error"}}
"""What ``agent.wait`` said of a run that the history named as in flight although it had ended."""


def transcript(version: str, name: str) -> Transcript:
    history: Json = json.loads((HISTORIES / version / f"{name}.json").read_text("utf-8"))
    found = read_transcript(history, ENDED.get((version, name), {}), {})
    assert found is not None
    return found


def told(found: Transcript) -> Iterator[str]:
    for turn in found.turns:
        yield from told_turn(turn)
    yield f"whole: {found.is_whole}, running: {found.running} {found.running_text!r}"


def told_turn(turn: PastTurn) -> Iterator[str]:
    yield f"{'SYSTEM' if turn.is_system else 'turn'} {turn.run_id} at {turn.at}"
    yield f"  prompt {turn.prompt!r}"
    for each in turn.attachments:
        yield f"  {each.kind} {each.mime_type} {each.file_name} {each.content!r}"
    for part in turn.parts:
        yield f"  {told_part(part)}"
    yield f"  end {turn.stop_reason} {turn.error!r}"


def told_part(part: Part) -> str:
    match part:
        case SaidText(text):
            return f"text {_short(text)}"
        case SaidThought(text):
            return f"thought {_short(text)}"
        case UsedTool():
            state = "failed" if part.failed else "done" if part.output is not None else "open"
            details = f" {part.details}" if part.details else ""
            head = f"tool {part.tool_call_id} {part.name}({part.args}) {state}"
            return f"{head} {_short(part.output)}{details}"
        case _:
            assert_never(part)


def _short(text: str | None) -> str:
    shown = repr(text)
    return shown if len(shown) <= 160 else f"{shown[:120]}…{shown[-30:]} ({len(shown)})"


@pytest.mark.parametrize(("version", "name"), RECORDINGS)
def test_a_history_becomes_the_turns_written_down_for_it(version: str, name: str) -> None:
    text = "".join(f"{line}\n" for line in told(transcript(version, name)))
    file = TRANSCRIPTS / version / f"{name}.txt"
    if os.environ.get("ACP_BRIDGE_WRITE_GOLDEN"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted({name for _, name in RECORDINGS}))
def test_each_history_was_recorded_on_both_versions(name: str) -> None:
    assert [version for version, known in RECORDINGS if known == name] == list(VERSIONS)
