"""What may be chosen for a session of the demo gateway: models, levels, and slash commands."""

from __future__ import annotations

from typing import Any

from acp_bridge.demo.hub import ADMIN, READ, WRITE, Connection, Hub, Refusal
from acp_bridge.demo.session_rpc import Method, Result, missing_scope, text_of
from acp_bridge.demo.sessions import MODELS, Session, canonical_key, thinking
from acp_bridge.ids import Json

_VALUES = {
    "verboseLevel": ("on", "off", "full"),
    "reasoningLevel": ("on", "off", "stream"),
    "traceLevel": ("on", "off", "raw"),
    "responseUsage": ("off", "tokens", "full"),
    "elevatedLevel": ("on", "off", "ask", "full"),
    "fastMode": (True, False, "auto"),
}
_WITH_WRITE = {"label", "model", "thinkingLevel", "fastMode"}
"""What 2026.9.6 lets be changed without ``operator.admin``."""
_COMMANDS: tuple[Json, ...] = (
    {"name": "help", "description": "Show what the demo agent understands."},
    {"name": "status", "description": "Show the session's state."},
    {"name": "stop", "description": "Stop the current run."},
    {
        "name": "think",
        "description": "Set the thought level.",
        "args": [{"name": "level", "description": "Thought level", "type": "string"}],
    },
)


class OptionMethods:
    """Telling and changing what may be chosen."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._is_old = hub.quirks.is_old
        self.table: dict[str, tuple[str | None, Method]] = {
            "models.list": (READ, self._models_list),
            "commands.list": (READ, self._commands_list),
            "sessions.patch": (ADMIN if self._is_old else WRITE, self._sessions_patch),
        }

    def _models_list(self, _connection: Connection, params: Json) -> Result:
        for name in params.keys() - {"view"}:
            raise Refusal(f"invalid models.list params: at root: unexpected property '{name}'")
        return {"models": [self._model(name, title) for name, title in MODELS.items()]}

    def _model(self, name: str, title: str) -> Json:
        levels = thinking(name)
        row: Json = {
            "id": name,
            "name": title,
            "provider": "demo",
            "contextWindow": 128_000,
            "reasoning": len(levels["thinkingLevels"]) > 1,
            "available": True,
        }
        if self._is_old:
            return row | {"api": "openai-completions", "input": ["text", "image"]}
        shown = ("thinkingLevels", "thinkingDefault")
        return row | {field: levels[field] for field in shown}

    def _commands_list(self, _connection: Connection, _params: Json) -> Result:
        return {
            "commands": [
                {
                    "nativeName": command["name"],
                    "textAliases": [f"/{command['name']}"],
                    "category": "status",
                    "source": "native",
                    "scope": "both",
                    "acceptsArgs": "args" in command,
                    **command,
                }
                for command in _COMMANDS
            ]
        }

    def _sessions_patch(self, connection: Connection, params: Json) -> Result:
        key = text_of(params, "key", "sessions.patch")
        changes = {name: value for name, value in params.items() if name != "key"}
        if changes.keys() - _WITH_WRITE and not connection.has_scope(ADMIN):
            raise missing_scope(self._hub, ADMIN)
        known = self._hub.sessions.get(canonical_key(key))
        check(changes, known.model if known else None)
        session = self._hub.session(key)
        session.label = changes.pop("label", session.label)
        change(session, changes)
        session.updated_at = self._hub.clock()
        self._hub.tell_session(
            session, "sessions.changed", {"reason": "patch", "ts": self._hub.clock()}
        )
        return {
            "ok": True,
            "path": "(memory)",
            "key": session.key,
            "entry": session.entry(),
            "resolved": {**session.names, "agentRuntime": {"id": "auto", "source": "implicit"}},
        }


def check(changes: Json, model: str | None = None) -> None:
    """Raises :class:`Refusal` for a value that a session with ``model`` cannot have."""
    for field, value in changes.items():
        allowed: Any = _VALUES.get(field)
        if field == "thinkingLevel":
            allowed = thinking(model)["thinkingOptions"]
        if allowed is not None and value is not None and value not in allowed:
            listed = "|".join(map(str, allowed))
            raise Refusal(f"invalid {field} (use {listed})")


def change(session: Session, changes: Json) -> None:
    """Store checked values; None takes a setting back. A level that a new model does not have
    becomes one that it has."""
    if "model" in changes:
        session.model = str(changes.pop("model") or "demo/canned-1").removeprefix("demo/")
    session.settings |= changes
    session.settings = {
        name: value for name, value in session.settings.items() if value is not None
    }
    level = session.settings.get("thinkingLevel")
    levels = thinking(session.model)
    if level is not None and level not in levels["thinkingOptions"]:
        session.settings["thinkingLevel"] = levels["thinkingDefault"]
