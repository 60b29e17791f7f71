"""Recorded conversations with real gateways (tests/golden/frames), played through the dialect.

What the recorded client sent is turned into commands, so that the dialect's own requests can be
compared with the recorded ones, and the recorded answers find their way to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acp_bridge.core.commands import (
    AbortRun,
    AnswerPermission,
    Attachment,
    Command,
    StartRun,
)
from acp_bridge.core.events import GatewayEvent
from acp_bridge.errors import GatewayError
from acp_bridge.gateway.dialects.openclaw.dialect import OpenClawDialect
from acp_bridge.gateway.dialects.openclaw.opening import Opening
from acp_bridge.gateway.secret import Secret
from acp_bridge.ids import ApprovalId, Generation, Json, RunId, SessionKey

VERSIONS = ("2026.6.11", "2026.9.6")
FRAMES = Path(__file__).parent.parent / "golden" / "frames"


@dataclass(frozen=True)
class FakeSigner:
    """A device whose signature shows what was signed."""

    device_id: str = "d" * 64
    public_key: str = "cHVibGljLWtleQ"

    def sign(self, text: str) -> str:
        return f"signed[{text}]"


def opening(**changes: Any) -> Opening:
    """A plausible introduction; ``changes`` replace its fields."""
    fields: Json = {
        "url": "ws://127.0.0.1:18789",
        "source": "--token-file /secret/token",
        "token": Secret("test-token"),
        "password": None,
        "device_token": None,
        "device": FakeSigner(),
        "platform": "linux",
        "scopes": ("operator.read", "operator.write", "operator.approvals", "operator.admin"),
        "generation": Generation(1),
    }
    return Opening(**{**fields, **changes})


@dataclass
class Replayed:
    """What came of one recording."""

    events: list[GatewayEvent] = field(default_factory=list)
    sent: list[tuple[str, Json]] = field(default_factory=list)
    """Each method and its parameters as the dialect sent them, where the recording has them too."""
    recorded: list[tuple[str, Json]] = field(default_factory=list)
    """The recorded counterparts of ``sent``."""
    dialects: list[OpenClawDialect] = field(default_factory=list)
    refusal: GatewayError | None = None


def names(version: str) -> list[str]:
    """The recordings of one gateway version."""
    return sorted(path.stem for path in (FRAMES / version).glob("*.jsonl"))


def rows(version: str, name: str) -> Iterator[tuple[str, Any]]:
    """Direction and frame of each line of a recording."""
    with (FRAMES / version / f"{name}.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield row["dir"], row["frame"]


def replay(version: str, name: str) -> Replayed:
    """Play one recording."""
    played = Replayed()
    ids: dict[str, str] = {}
    now = 100.0
    dialect = OpenClawDialect(opening(), now)
    played.dialects.append(dialect)
    for direction, frame in rows(version, name):
        now += 0.01
        if direction == "note":
            number = Generation(len(played.dialects) + 1)
            dialect = OpenClawDialect(opening(generation=number), now)
            played.dialects.append(dialect)
        elif direction == "out":
            _send(dialect, frame, ids, played, now)
        else:
            _receive(dialect, frame, ids, played, now)
    return played


def _send(
    dialect: OpenClawDialect, frame: Any, ids: dict[str, str], played: Replayed, now: float
) -> None:
    if not isinstance(frame, dict) or not isinstance(frame.get("id"), str):
        return
    if frame["method"] != "connect":
        command = _command(frame["method"], frame.get("params") or {})
        if command is None:
            return
        dialect.send(command, None, now)
        played.recorded.append((frame["method"], frame["params"]))
    for text in dialect.data_to_send():
        request = json.loads(text)
        ids[frame["id"]] = request["id"]
        if request["method"] != "connect":
            played.sent.append((request["method"], request["params"]))


def _receive(
    dialect: OpenClawDialect, frame: Any, ids: dict[str, str], played: Replayed, now: float
) -> None:
    if frame.get("type") == "res":
        if frame["id"] not in ids:
            return
        frame = {**frame, "id": ids[frame["id"]]}
    try:
        outcomes = dialect.receive(json.dumps(frame), now)
    except GatewayError as error:
        played.refusal = error
        return
    played.events += [event for token, event in outcomes if token is None]
    if dialect.hello is not None:
        dialect.data_to_send()  # questions of its own, which no recording answers


def _command(method: str, params: Json) -> Command | None:
    match method, params:
        case "chat.send", {"sessionKey": str(key), "message": str(text), "idempotencyKey": run}:
            if "zzz" in params:
                return None
            return StartRun(
                RunId(run),
                SessionKey(key),
                text,
                attachments=tuple(
                    Attachment(each["type"], each["mimeType"], each["content"])
                    for each in params.get("attachments", ())
                ),
                thinking=params.get("thinking"),
            )
        case "chat.abort", {"sessionKey": key, "runId": run}:
            return AbortRun(RunId(run), SessionKey(key))
        case "exec.approval.resolve", {"id": approval, "decision": decision}:
            return AnswerPermission(ApprovalId(approval), decision)
        case _:
            return None
