"""Readers for the ACP messages that the bridge interprets; the rest stays raw.

They are as lenient as the ACP schema wants a receiver to be: a bad optional member counts as
absent, bad items of a list are skipped, unknown members are ignored. ``_meta`` is read apart and
never alters a standard parameter. What is missing or wrong beyond that raises ``InvalidParams``,
which names the field in its message and in ``data.field``, and never repeats a value.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from acp_bridge.errors import InvalidParams
from acp_bridge.ids import NOTHING, Json, SessionId
from acp_bridge.wire.content import well_formed

PROTOCOL_VERSION = 1
"""The one version of ACP that the bridge speaks."""

_DIRECTORIES = ("cwd", "workspaceDir", "workspace_dir")
_AGENTS = ("agentAlias", "agent_alias", "agent")
_WINDOWS_PATH = re.compile(r"[A-Za-z]:[\\/]|\\\\[^\\/]")


class NewSession(NamedTuple):
    """``session/new``."""

    cwd: str
    mcp_servers: tuple[str, ...] = ()
    """Names of the MCP servers that the editor offers."""
    meta: Json = NOTHING
    agent: str | None = None
    """The agent that is wanted, as ZeroClaw's clients name it."""


class OpenedSession(NamedTuple):
    """``session/load`` and ``session/resume``."""

    session_id: SessionId
    cwd: str
    mcp_servers: tuple[str, ...] = ()
    meta: Json = NOTHING


class ListedSessions(NamedTuple):
    """``session/list``."""

    cwd: str | None = None
    cursor: str | None = None


class Prompt(NamedTuple):
    """``session/prompt``; the blocks are checked by ``core.prompt``."""

    session_id: SessionId
    blocks: tuple[Any, ...]
    meta: Json = NOTHING


class SetMode(NamedTuple):
    """``session/set_mode``."""

    session_id: SessionId
    mode_id: str


class SetOption(NamedTuple):
    """``session/set_config_option``."""

    session_id: SessionId
    config_id: str
    value: str


def negotiate_version(value: Any) -> int:
    """The version to answer ``initialize`` with.

    Always our own: a peer of another version decides by the answer whether to go on (ACP,
    initialization), and editors have sent strings, dates and floats.
    """
    del value
    return PROTOCOL_VERSION


def read_params(params: Any) -> Json:
    """The parameters as an object; absent and null mean empty."""
    if params is None:
        return {}
    if not isinstance(params, dict):
        raise _invalid("params", "must be an object")
    return params


def read_new_session(params: Any) -> NewSession:
    """``session/new``. Raises ``InvalidParams`` unless ``cwd``, or one of the other names that
    ZeroClaw has for it, is an absolute path."""
    params = read_params(params)
    servers = _server_names(params.get("mcpServers"))
    alias = next((name for name in _DIRECTORIES if isinstance(params.get(name), str)), "cwd")
    directory = _directory(params if alias == "cwd" else {"cwd": params[alias]})
    return NewSession(directory, servers, _object(params.get("_meta")), _agent(params))


def read_opened_session(params: Any) -> OpenedSession:
    """``session/load`` and ``session/resume``. Raises ``InvalidParams`` as the two readers above
    and below do."""
    params = read_params(params)
    servers = _server_names(params.get("mcpServers"))
    session_id = read_session_id(params)
    return OpenedSession(session_id, _directory(params), servers, _object(params.get("_meta")))


def read_list(params: Any) -> ListedSessions:
    """``session/list``. Raises ``InvalidParams`` for a relative ``cwd`` or an odd cursor."""
    params = read_params(params)
    cursor = params.get("cursor")
    if cursor is not None and not isinstance(cursor, str):
        raise _invalid("cursor", "must be a string")
    cwd = _directory(params) if params.get("cwd") is not None else None
    return ListedSessions(cwd, cursor)


def read_prompt(params: Any) -> Prompt:
    """``session/prompt``. Raises ``InvalidParams`` for a bad session id or a prompt that is no
    list."""
    params = read_params(params)
    session_id = read_session_id(params)
    blocks = params.get("prompt")
    if not isinstance(blocks, list):
        raise _invalid("prompt", "must be a list of content blocks")
    return Prompt(session_id, tuple(blocks), _object(params.get("_meta")))


def read_set_mode(params: Any) -> SetMode:
    """``session/set_mode``. Raises ``InvalidParams`` unless both members are strings."""
    params = read_params(params)
    return SetMode(read_session_id(params), _id(params, "modeId"))


def read_set_option(params: Any) -> SetOption:
    """``session/set_config_option``. Raises ``InvalidParams`` unless all members are strings: no
    option of ours is a boolean."""
    params = read_params(params)
    config_id = _id(params, "configId")
    return SetOption(read_session_id(params), config_id, _id(params, "value"))


def read_method_id(params: Any) -> str:
    """``authenticate``. Raises ``InvalidParams`` unless ``methodId`` is a string."""
    return _string(read_params(params), "methodId")


def read_session_id(params: Any) -> SessionId:
    """The ``sessionId`` of any method. Raises ``InvalidParams`` unless it is a string that can be
    sent."""
    return SessionId(_id(read_params(params), "sessionId"))


def _agent(params: Json) -> str | None:
    """Only the first of the names that is there counts; a blank one is none."""
    name = next((name for name in _AGENTS if name in params), None)
    wanted = params[name] if name is not None else None
    return wanted.strip() or None if isinstance(wanted, str) else None


def _directory(params: Json) -> str:
    cwd = _string(params, "cwd")
    if not cwd.startswith("/") and not _WINDOWS_PATH.match(cwd):
        raise _invalid("cwd", "must be an absolute path")
    return cwd


def _server_names(servers: Any) -> tuple[str, ...]:
    if not isinstance(servers, list):
        return ()
    names = (_object(server).get("name") for server in servers)
    return tuple(name for name in names if isinstance(name, str) and name)


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _string(params: Json, name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise _invalid(name, "must be a string" if name in params else "is missing")
    return value


def _id(params: Json, name: str) -> str:
    """What names something elsewhere: UTF-8 cannot hold half a surrogate pair, and with another
    character in its place it would name something else."""
    value = _string(params, name)
    if well_formed(value) != value:
        raise _invalid(name, "must be well-formed Unicode, without half a surrogate pair")
    return value


def _invalid(name: str, problem: str) -> InvalidParams:
    return InvalidParams(f"The parameter {name} {problem}.", data={"field": name})
