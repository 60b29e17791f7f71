"""Readers for the ACP messages that the bridge interprets; the rest stays raw.

They are as lenient as the ACP schema wants a receiver to be: a bad optional member counts as
absent, bad items of a list are skipped, unknown members are ignored. ``_meta`` is read apart and
never alters a standard parameter. What is missing or wrong beyond that raises ``InvalidParams``,
which names the field in its message and in ``data.field``, and never repeats a value.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Any, NamedTuple

from acp_bridge.errors import InvalidParams
from acp_bridge.ids import MAX_ID, NOTHING, Json, SessionId
from acp_bridge.wire.content import well_formed

PROTOCOL_VERSION = 1
"""The one version of ACP that the bridge speaks."""

MAX_PATH = 32_767
"""Characters of a directory: the longest path of Windows, and eight of Linux."""
MAX_CURSOR = 256 * 1024
"""Characters of a cursor; ours hold a directory in base64."""
MAX_SERVERS = 100
"""MCP servers that are named to the user, each by at most ``MAX_ID`` characters."""

_DIRECTORIES = ("cwd", "workspaceDir", "workspace_dir")
_AGENTS = ("agentAlias", "agent_alias", "agent")
_WINDOWS_PATH = re.compile(r"[A-Za-z]:[\\/]|\\\\[^\\/]")


class NewSession(NamedTuple):
    """``session/new``."""

    cwd: str
    servers: tuple[Json, ...] = ()
    """The MCP servers that the editor offers, each with a name; they may hold secrets."""
    meta: Json = NOTHING
    agent: str | None = None
    """The agent that is wanted, as ZeroClaw's clients name it."""
    extras: Json = NOTHING
    """What is not interpreted; ``_meta`` stands apart."""


class OpenedSession(NamedTuple):
    """``session/load`` and ``session/resume``."""

    session_id: SessionId
    cwd: str
    servers: tuple[Json, ...] = ()
    meta: Json = NOTHING
    extras: Json = NOTHING


class ListedSessions(NamedTuple):
    """``session/list``."""

    cwd: str | None = None
    cursor: str | None = None


class Prompt(NamedTuple):
    """``session/prompt``; the blocks are checked by ``core.prompt``."""

    session_id: SessionId
    blocks: tuple[Any, ...]
    meta: Json = NOTHING
    extras: Json = NOTHING


class SetMode(NamedTuple):
    """``session/set_mode``."""

    session_id: SessionId
    mode_id: str
    extras: Json = NOTHING
    """What is not interpreted, ``_meta`` included."""


class SetOption(NamedTuple):
    """``session/set_config_option``."""

    session_id: SessionId
    config_id: str
    value: str | bool
    extras: Json = NOTHING


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
    alias = next((name for name in _DIRECTORIES if isinstance(params.get(name), str)), "cwd")
    return NewSession(
        _directory(params if alias == "cwd" else {"cwd": params[alias]}),
        _servers(params.get("mcpServers")),
        _object(params.get("_meta")),
        _agent(params),
        _extras(params, "mcpServers", *_DIRECTORIES, *_AGENTS),
    )


def read_opened_session(params: Any) -> OpenedSession:
    """``session/load`` and ``session/resume``. Raises ``InvalidParams`` as the two readers above
    and below do."""
    params = read_params(params)
    return OpenedSession(
        read_session_id(params),
        _directory(params),
        _servers(params.get("mcpServers")),
        _object(params.get("_meta")),
        _extras(params, "sessionId", "cwd", "mcpServers"),
    )


def read_list(params: Any) -> ListedSessions:
    """``session/list``. Raises ``InvalidParams`` for a relative ``cwd`` or an odd cursor."""
    params = read_params(params)
    cursor = params.get("cursor")
    if cursor is not None and not isinstance(cursor, str):
        raise _invalid("cursor", "must be a string")
    if cursor is not None and len(cursor) > MAX_CURSOR:
        raise _invalid("cursor", f"is longer than {MAX_CURSOR:,} characters")
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
    extras = _extras(params, "sessionId", "prompt")
    return Prompt(session_id, tuple(blocks), _object(params.get("_meta")), extras)


def read_set_mode(params: Any) -> SetMode:
    """``session/set_mode``. Raises ``InvalidParams`` unless both members are strings."""
    params = read_params(params)
    extras = _without(params, "sessionId", "modeId")
    return SetMode(read_session_id(params), _id(params, "modeId"), extras)


def read_set_option(params: Any) -> SetOption:
    """``session/set_config_option``. Raises ``InvalidParams`` unless all members are strings; the
    value of what is said to be a boolean may be one."""
    params = read_params(params)
    config_id = _id(params, "configId")
    value = params.get("value")
    if params.get("type") != "boolean" or not isinstance(value, bool):
        value = _id(params, "value")
    extras = _without(params, "sessionId", "configId", "value")
    return SetOption(read_session_id(params), config_id, value, extras)


def read_method_id(params: Any) -> str:
    """``authenticate``. Raises ``InvalidParams`` unless ``methodId`` is a string."""
    return _string(read_params(params), "methodId")


def read_session_id(params: Any) -> SessionId:
    """The ``sessionId`` of any method. Raises ``InvalidParams`` unless it is a string that can be
    sent, of at most ``MAX_ID`` characters."""
    return SessionId(_id(read_params(params), "sessionId"))


def _agent(params: Json) -> str | None:
    """Only the first of the names that is there counts; a blank one is none."""
    name = next((name for name in _AGENTS if name in params), None)
    wanted = params[name] if name is not None else None
    if isinstance(wanted, str) and len(wanted) > MAX_ID:
        raise _invalid(str(name), f"is longer than {MAX_ID:,} characters")
    return wanted.strip() or None if isinstance(wanted, str) else None


def _directory(params: Json) -> str:
    cwd = _string(params, "cwd", MAX_PATH)
    if not cwd.startswith("/") and not _WINDOWS_PATH.match(cwd):
        raise _invalid("cwd", "must be an absolute path")
    return cwd


def _servers(servers: Any) -> tuple[Json, ...]:
    if not isinstance(servers, list):
        return ()
    names = ((server, _object(server).get("name")) for server in servers)
    named = (server for server, name in names if isinstance(name, str) and 0 < len(name) <= MAX_ID)
    return tuple(islice(named, MAX_SERVERS))


def _extras(params: Json, *known: str) -> Json:
    return _without(params, "_meta", *known)


def _without(params: Json, *known: str) -> Json:
    return {name: value for name, value in params.items() if name not in known}


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _string(params: Json, name: str, limit: int = MAX_ID) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise _invalid(name, "must be a string" if name in params else "is missing")
    if len(value) > limit:
        raise _invalid(name, f"is longer than {limit:,} characters")
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
