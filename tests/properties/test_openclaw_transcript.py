"""Whatever a gateway calls a history, reading it gives turns that hold together."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.core.transcript import Transcript, UsedTool
from acp_bridge.gateway.dialects.openclaw.frames import as_object
from acp_bridge.gateway.dialects.openclaw.transcript import read_transcript
from acp_bridge.ids import Json

WORDS = st.sampled_from(
    [
        "role", "user", "assistant", "toolResult", "system", "content", "type", "text", "thinking",
        "toolCall", "id", "name", "arguments", "call-1", "call-2", "stopReason", "stop", "toolUse",
        "aborted", "error", "openclawAbort", "idempotencyKey", "run-1:user", "run-2:user", "run-1",
        "run-2", "__openclaw", "runId", "truncated", "kind", "reset", "media", "contentType",
        "steerTargetRunId", "toolCallId", "isError", "details", "timestamp", "MediaPaths",
        "MediaTypes", "image/png", "senderLabel", "items", "status", "failed", "killed", "state",
        "queued", "cancelled", "message", "hasActiveRun",
        "[System] Your previous turn was interrupted by a gateway restart", "⚠️ Broken.",
    ]
)  # fmt: skip
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=6),
    max_leaves=30,
)
PART = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "thinking", "toolCall", "image"])},
    optional={"text": WORDS, "thinking": WORDS, "id": st.sampled_from(["call-1", "call-2", 5])},
)
NOTE = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(["row-1", "row-2"]),
        "runId": st.sampled_from(["run-1", "run-2", "run-3"]),
        "truncated": st.booleans(),
        "kind": st.sampled_from(["reset", "compaction"]),
        "steerTargetRunId": st.just("run-1"),
    },
)
ROW = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "toolResult", "system"]), "__openclaw": NOTE},
    optional={
        "content": st.lists(PART, max_size=4) | WORDS | JSON,
        "stopReason": st.sampled_from(["stop", "toolUse", "error", "aborted", None]),
        "idempotencyKey": st.sampled_from(["run-1:user", "run-2:user", "run-1"]),
        "toolCallId": st.sampled_from(["call-1", "call-2"]),
        "openclawAbort": st.just({"aborted": True}),
        "senderLabel": WORDS,
    },
)
PENDING = st.fixed_dictionaries(
    {"runId": st.sampled_from(["run-1", "run-3", "run-4"]), "message": ROW},
    optional={"state": st.sampled_from(["queued", "cancelled", "interrupted"])},
)
HISTORY = st.fixed_dictionaries(
    {"sessionId": st.just("s"), "messages": st.lists(ROW | JSON, max_size=12)},
    optional={
        "sessionInfo": st.fixed_dictionaries(
            {"hasActiveRun": st.booleans(), "status": st.sampled_from(["killed", "failed"])}
        ),
        "inFlightRun": st.fixed_dictionaries({"runId": WORDS, "text": JSON}),
        "pendingInputs": st.fixed_dictionaries({"items": st.lists(PENDING, max_size=3)}),
        "activity": JSON,
        "hasMore": JSON,
    },
)


def check(found: Transcript) -> None:
    runs = Counter(turn.run_id for turn in found.turns if turn.run_id)
    assert all(count == 1 for count in runs.values())
    for turn in found.turns:
        assert turn.stop_reason is None or turn.error is None
        if turn.run_id is not None and turn.run_id == found.running:
            assert (turn.stop_reason, turn.error) == (None, None)
        calls = [part.tool_call_id for part in turn.parts if isinstance(part, UsedTool)]
        assert len(calls) == len(set(calls))


@given(history=st.dictionaries(WORDS | st.just("messages"), JSON), wait=JSON, whole=JSON)
def test_no_json_breaks_the_reading(history: Json, wait: Any, whole: Any) -> None:
    read_transcript({**history, "sessionId": "s"}, as_object(wait), {"row-1": as_object(whole)})


@given(history=HISTORY, wait=st.sampled_from([{}, {"status": "ok"}, {"status": "timeout"}]))
def test_turns_are_told_once_and_in_one_state(history: Json, wait: Json) -> None:
    found = read_transcript(history, wait, {})
    assert found is not None
    check(found)


RECORDED = [
    json.loads(path.read_text("utf-8"))
    for path in sorted((Path(__file__).parent.parent / "golden" / "histories").glob("*/*.json"))
]


@given(history=st.sampled_from(RECORDED), keep=st.randoms(use_true_random=False))
def test_a_history_with_rows_lost_or_out_of_order_still_makes_turns(
    history: Json, keep: Any
) -> None:
    rows = [row for row in history["messages"] if keep.random() < 0.7]
    keep.shuffle(rows)
    found = read_transcript({**history, "messages": rows}, {}, {})
    assert found is not None
    check(found)
