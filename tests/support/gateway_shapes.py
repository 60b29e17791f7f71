"""Which fields the frames of a real gateway have: ``tests/data/gateway_shapes.json``.

For each kind of frame of OpenClaw 2026.6.11 and 2026.9.6 the data names the fields that every
recorded frame had (``always``) and those that some had (``sometimes``). Of the session row that
tool and session events drag along, only the fields that a client may rely on are under ``always``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Json = dict[str, Any]
_DATA = Path(__file__).parent.parent / "data" / "gateway_shapes.json"
_SHAPES: dict[str, dict[str, dict[str, str]]] = json.loads(_DATA.read_text(encoding="utf-8"))


def differences(version: str, kind: str, value: Json) -> list[str]:
    """What is missing in ``value`` or foreign to it, compared with the recorded frames."""
    shape = _SHAPES[version].get(kind)
    if shape is None:
        return [f"{version} never sent {kind}"]
    always = set(shape["always"].split())
    known = always | set(shape.get("sometimes", "").split())
    missing = [f"{kind} lacks {name}" for name in sorted(always - set(value))]
    return missing + [f"{kind} has a foreign {name}" for name in sorted(set(value) - known)]


def kinds(frame: Json) -> Iterator[tuple[str, Json]]:
    """The kinds of an event frame and of the objects in it."""
    event, payload = frame["event"], frame["payload"]
    if event == "agent":
        yield from _agent_kinds(payload)
    elif event == "chat":
        yield from _chat_kinds(payload)
    elif event != "health":
        yield event, payload
        if event == "exec.approval.requested":
            yield f"{event}:request", payload["request"]


def _agent_kinds(payload: Json) -> Iterator[tuple[str, Json]]:
    stream, data = payload["stream"], payload["data"]
    phase = "replace" if data.get("replace") else data.get("phase")
    if data.get("status") == "cancelled":
        phase = "cancelled"
    elif phase == "finishing" and "error" in data:
        phase = "finishing.failed"
    parts = ["agent", stream, phase, data.get("kind") if stream == "item" else None]
    kind = ".".join(part for part in parts if part)
    yield kind, payload
    yield f"{kind}:data", data
    if stream == "tool" and phase == "result":
        yield f"{kind}:result", data["result"]
        if data["name"] == "exec" and not data["isError"]:
            yield f"{kind}:result.details", data["result"]["details"]


def _chat_kinds(payload: Json) -> Iterator[tuple[str, Json]]:
    kind = f"chat.{payload['state']}"
    if kind == "chat.final" and "stopReason" not in payload:
        kind += ".command" if "message" in payload else ".empty"
    if kind == "chat.error" and payload["seq"] == 1:
        kind += ".second"
    if payload.get("replace"):
        kind += ".replace"
    yield kind, payload
    if "message" in payload:
        yield f"{kind}:message", payload["message"]
