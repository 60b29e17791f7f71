"""Which turns of a gateway's transcript are which runs of the ledger, where the gateway names none.

A turn is known by its prompt, in order: the gateway keeps the turns that ended well, and leaves the
others out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from acp_bridge.core import endings
from acp_bridge.core.parts import ZEROCLAW, StoredPrompt, prompt_to_parts, stored_as
from acp_bridge.core.replay import Recorded
from acp_bridge.core.transcript import Transcript
from acp_bridge.errors import BridgeError
from acp_bridge.ids import RunId

_ANY: Final = ZEROCLAW._replace(image=True, audio=True)
"""What was refused has an outcome that says so; pictures and sounds leave no text."""


class _Known(NamedTuple):
    run_id: RunId
    stored_as: StoredPrompt


def named(transcript: Transcript, entries: Iterable[Recorded]) -> Transcript:
    """The transcript with the names of the runs that the ledger knows."""
    if not transcript.is_nameless:
        return transcript
    known = _known(list(entries))
    turns = []
    next_one = 0
    for turn in transcript.turns:
        for place in range(next_one, len(known)):
            if known[place].stored_as.matches(turn.prompt):
                turn = turn._replace(run_id=known[place].run_id)
                next_one = place + 1
                break
        turns.append(turn)
    return transcript._replace(turns=tuple(turns))


def _known(entries: list[Recorded]) -> list[_Known]:
    """The runs whose turns the gateway may have stored, in order."""
    failed = {
        entry.run_id
        for entry in entries
        if entry.kind == "outcome"
        and entry.payload.get("stop_reason") != "end_turn"
        and not endings.is_guess(entry.payload)
    }
    known = []
    for entry in entries:
        if entry.kind != "prompt" or entry.run_id is None or entry.run_id in failed:
            continue
        try:
            parts = prompt_to_parts(entry.payload.get("prompt") or (), _ANY)
        except BridgeError:
            continue  # it was refused
        known.append(_Known(entry.run_id, stored_as(parts)))
    return known
