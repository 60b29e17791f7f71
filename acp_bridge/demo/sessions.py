"""Sessions of the demo gateway: their rows, their transcripts, and how their keys are spelled."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

from acp_bridge.ids import Json

MODEL: Json = {"modelProvider": "demo", "model": "canned-1"}
CONTEXT_TOKENS = 128_000
MODELS = {"canned-1": "Canned", "canned-plain": "Canned, without thoughts"}
"""The models of the demo and their titles."""
_LEVELS = ("off", "minimal", "low", "medium", "high")
_TITLE_LENGTH = 60


def thinking(model: str | None = None) -> Json:
    """How much a model can think, as rows and lists carry it."""
    levels, default = (("off",), "off") if model == "canned-plain" else (_LEVELS, "medium")
    return {
        "thinkingLevels": [{"id": level, "label": level} for level in levels],
        "thinkingOptions": list(levels),
        "thinkingDefault": default,
    }


def canonical_key(key: str) -> str:
    """A session key as the gateway spells it: lower case, under its agent."""
    folded = key.strip().lower()
    return folded if folded.startswith("agent:") else f"agent:main:{folded}"


@dataclass(slots=True)
class Usage:
    """Token counts of a session; ``total`` is None until a run has told them."""

    total: int | None = None
    context: int = CONTEXT_TOKENS
    input: int | None = None
    output: int | None = None
    cost_usd: float = 0.0


@dataclass(slots=True)
class Session:
    """One conversation as the gateway keeps it. Times are milliseconds of the wall clock."""

    key: str
    updated_at: int
    session_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    label: str | None = None
    model: str = "canned-1"
    settings: Json = field(default_factory=dict)
    messages: list[Json] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    status: str | None = None
    started_at: int | None = None
    ended_at: int | None = None
    is_active: bool = False
    aborted_last_run: bool = False

    def append(self, row: Json, now: int) -> Json:
        """Add a row to the transcript and return it as stored."""
        number = len(self.messages) + 1
        stored = {
            **row,
            "__openclaw": {
                **row.get("__openclaw", {}),
                "id": uuid.uuid4().hex[:8],
                "recordTimestampMs": now,
                "seq": number,
            },
        }
        self.messages.append(stored)
        self.updated_at = now
        return stored

    def begin(self, now: int) -> None:
        """A run of the session starts."""
        self.status, self.is_active = "running", True
        self.started_at, self.ended_at = now, None
        self.aborted_last_run = False

    def end(self, status: str, now: int) -> None:
        """A run of the session has ended as ``ok``, ``error`` or ``aborted``."""
        self.status = {"ok": "done", "aborted": "killed"}.get(status, "failed")
        self.is_active, self.ended_at = False, now
        self.aborted_last_run = status == "aborted"

    def reset(self, now: int, *, keep_id: bool) -> None:
        """Begin anew under the same key. 2026.9.6 keeps the session's id and notes the reset."""
        self.messages.clear()
        self.usage = Usage()
        self.updated_at = now
        if keep_id:
            mark = {"role": "system", "content": [{"type": "text", "text": "Reset"}]}
            self.append({**mark, "timestamp": now, "__openclaw": {"kind": "reset"}}, now)
        else:
            self.session_id = str(uuid.uuid4())

    def title(self) -> str:
        """The first words of the first prompt, as ``derivedTitle``."""
        for message in self.messages:
            if message.get("role") == "user":
                return str(message.get("content", ""))[:_TITLE_LENGTH]
        return self.key

    @property
    def names(self) -> Json:
        """The session's model and who provides it."""
        return {**MODEL, "model": self.model}

    def row(self) -> Json:
        """The session as ``sessions.list``, ``chat.history`` and tool events carry it."""
        row: Json = {
            "key": self.key,
            "kind": "direct",
            "chatType": "direct",
            "updatedAt": self.updated_at,
            "sessionId": self.session_id,
            "systemSent": True,
            "abortedLastRun": self.aborted_last_run,
            **thinking(self.model),
            "effectiveFastMode": self.settings.get("fastMode", False),
            "effectiveFastModeSource": "default",
            "fastAutoOnSeconds": 60,
            "totalTokensFresh": self.usage.total is not None,
            "estimatedCostUsd": self.usage.cost_usd,
            **self.names,
            "agentRuntime": {"id": "auto", "source": "implicit"},
            "contextTokens": self.usage.context,
            "hasActiveRun": self.is_active,
            **self.settings,
        }
        optional: dict[str, Any] = {
            "label": self.label,
            "displayName": self.label,
            "totalTokens": self.usage.total,
            "inputTokens": self.usage.input,
            "outputTokens": self.usage.output,
            "status": self.status,
            "startedAt": self.started_at,
            "endedAt": self.ended_at,
        }
        row.update((name, value) for name, value in optional.items() if value is not None)
        if self.started_at is not None and self.ended_at is not None:
            row["runtimeMs"] = self.ended_at - self.started_at
        return row

    def entry(self) -> Json:
        """The stored form that ``sessions.create``, ``patch`` and ``reset`` answer with."""
        entry: Json = {"sessionId": self.session_id, "updatedAt": self.updated_at, **self.settings}
        if self.label is not None:
            entry["label"] = self.label
        return entry


def flattened(session: Session) -> Json:
    """A row beside a copy of itself, as session and tool events drag it along."""
    row = session.row()
    beside = {name: value for name, value in row.items() if name not in {"key", *thinking()}}
    for only_inside in ("agentRuntime", "effectiveFastMode", "hasActiveRun"):
        beside.pop(only_inside, None)
    beside.pop("effectiveFastModeSource", None)
    beside.pop("fastAutoOnSeconds", None)
    return {"session": row, **beside, "goal": None}
