"""Recorded frames of real gateways (tests/data/recorded), read into the events of core.

The reader is a plain restatement of the wire, on purpose not the dialect of the bridge.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acp_bridge.core import events as ev
from acp_bridge.ids import RunId, ToolCallId

VERSIONS = ("2026.6.11", "2026.9.6")
_DATA = Path(__file__).parent.parent / "data" / "recorded"


@dataclass(frozen=True)
class Reconnected:
    """The connection was cut here and made anew."""


Recorded = ev.TextProgress | ev.ThoughtProgress | ev.ToolEvent | ev.RunEnded | Reconnected


def recorded(version: str, name: str) -> list[Recorded]:
    """All events of one recording, in order."""
    path = _DATA / version / f"{name}.jsonl"
    with path.open(encoding="utf-8") as lines:
        return [event for line in lines for event in _read(json.loads(line))]


def runs(version: str, name: str) -> dict[RunId, list[Recorded]]:
    """The events of one recording by run, up to the first end of each run."""
    found: dict[RunId, list[Recorded]] = {}
    over: set[RunId] = set()
    for event in recorded(version, name):
        if isinstance(event, Reconnected):
            for run in found.values():
                run.append(event)
        elif event.run_id not in over:
            found.setdefault(event.run_id, []).append(event)
            if isinstance(event, ev.RunEnded):
                over.add(event.run_id)
    return found


def _read(frame: dict[str, Any]) -> Iterator[Recorded]:
    if "note" in frame:
        yield Reconnected()
        return
    payload = frame["payload"]
    run_id = RunId(payload["runId"])
    if frame["event"] == "chat":
        yield _chat(run_id, payload)
    elif payload["stream"] == "thinking":
        yield ev.ThoughtProgress(run_id, payload["data"]["delta"], payload["data"]["text"])
    else:
        yield _tool(run_id, payload["stream"], payload["data"])


def _chat(run_id: RunId, payload: dict[str, Any]) -> Recorded:
    message = payload.get("message")
    text = None if message is None else "".join(part["text"] for part in message["content"])
    match payload["state"]:
        case "delta":
            replace = payload.get("replace", False)
            return ev.TextProgress(run_id, payload["deltaText"], replace, text)
        case "final":
            return ev.RunEnded(run_id, ev.EndKind.FINISHED, text)
        case "aborted":
            return ev.RunEnded(run_id, ev.EndKind.ABORTED, text)
        case _:
            return ev.RunEnded(run_id, ev.EndKind.FAILED, None, error=payload["errorMessage"])


def _tool(run_id: RunId, stream: str, data: dict[str, Any]) -> Recorded:
    call = ToolCallId(data["toolCallId"])
    name = data.get("name")
    match stream, data["phase"]:
        case "tool", "start":
            return ev.ToolStarted(run_id, call, name, data.get("args"))
        case "tool", "update":
            return ev.ToolProgress(run_id, call, name, data.get("partialResult"))
        case "tool", _:
            return ev.ToolEnded(run_id, call, name, data["isError"], data.get("result"))
        case "item", phase:
            text = data.get("progressText") or data.get("summary") or data.get("error")
            return ev.ItemChanged(
                run_id,
                call,
                phase,
                data["kind"],
                name,
                data["title"],
                data.get("status") == "failed",
                text,
            )
        case _:
            return ev.CommandOutput(
                run_id,
                call,
                name,
                data["title"],
                data.get("output", ""),
                data["phase"] == "end",
                data.get("exitCode"),
                data.get("cwd"),
            )
