"""Sessions: which there are, and which session of the gateway each one is.

Routing, first match: label in ``_meta``, key in ``_meta``, ``--session-label``, ``--session``,
else a key of its own. The gateway spells keys in its own way (lower case, ``agent:<agent>:``
in front), and its events carry that spelling.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from acp_bridge.core.options import Shown
from acp_bridge.errors import SessionNotFound, SessionRateLimited
from acp_bridge.ids import Json, SessionId, SessionKey

MAX_SESSIONS = 5_000
"""Sessions kept in memory; the oldest idle one makes room. A guard against leaks, not a quota."""


@dataclass(slots=True)
class Session:
    """One conversation of this process."""

    session_id: SessionId
    session_key: SessionKey
    cwd: str
    prefix_cwd: bool = True
    title: str | None = None
    usage: tuple[int, int, float | None] | None = None
    extras: Json = field(default_factory=dict)
    """What the gateway's answer to ``session/new`` says for the editor."""
    shown: Shown = field(default_factory=Shown)


class SessionOptions(NamedTuple):
    """What the command line says of sessions."""

    session_key: str | None = None
    label: str | None = None
    require_existing: bool = False
    reset: bool = False
    agent: str | None = None
    prefix_cwd: bool = True
    provenance: str = "off"
    delete_at_gateway: bool = False
    """Whether ``session/delete`` also deletes the gateway's session."""
    shows_foreign: bool = True
    """Whether turns of other clients are shown as they happen."""


class Route(NamedTuple):
    """Which session of the gateway a new session wants."""

    key: SessionKey | None
    label: str | None
    require_existing: bool
    reset: bool
    prefix_cwd: bool


def route(meta: Json, options: SessionOptions) -> Route:
    """Read the routing of ``session/new``: ``_meta`` wins over the options.

    Strings are trimmed and must not be empty, booleans must be real ones; anything else counts
    as absent, since ``_meta`` is anybody's.
    """
    meta_label = _text(meta, "sessionLabel", "label")
    meta_key = _text(meta, "sessionKey", "session", "key")
    label = meta_label or (None if meta_key else options.label)
    key = None if label else (meta_key or options.session_key)
    return Route(
        key=with_agent(SessionKey(key), options.agent) if key else None,
        label=label,
        require_existing=_flag(meta, "requireExistingSession", "requireExisting")
        or options.require_existing,
        reset=_flag(meta, "resetSession", "reset") or options.reset,
        prefix_cwd=prefix_wanted(meta, options.prefix_cwd),
    )


def prefix_wanted(meta: Json, otherwise: bool) -> bool:
    """Whether prompts carry the working directory."""
    value = meta.get("prefixCwd")
    return value if isinstance(value, bool) else otherwise


def with_agent(key: SessionKey, agent: str | None) -> SessionKey:
    """Put the key under an agent, unless it names one."""
    if agent is None or key.lower().startswith("agent:"):
        return key
    return SessionKey(f"agent:{agent}:{key}")


def own_key(session_id: SessionId, agent: str | None) -> SessionKey:
    """The key of a session that nobody routed elsewhere."""
    return with_agent(SessionKey(f"acp-bridge:{session_id}"), agent)


def canonical_key(key: str, default_agent: str | None) -> SessionKey:
    """The gateway's spelling of a key (seen on 2026.6.11 and 2026.9.6)."""
    lowered = key.strip().lower()
    return SessionKey(
        lowered if lowered.startswith("agent:") else f"agent:{default_agent or 'main'}:{lowered}"
    )


class Sessions:
    """The sessions of this process."""

    def __init__(self, limit: int = MAX_SESSIONS) -> None:
        self._sessions: dict[SessionId, Session] = {}
        self._limit = limit

    def add(self, session: Session, *, is_busy: Any = lambda _session_id: False) -> None:
        """Enter a session. At the limit the oldest one that is not busy is forgotten."""
        if len(self._sessions) >= self._limit:
            idle = next((sid for sid in self._sessions if not is_busy(sid)), None)
            if idle is not None:
                del self._sessions[idle]
        self._sessions[session.session_id] = session

    def get(self, session_id: SessionId) -> Session:
        """The session. Raises ``SessionNotFound``."""
        session = self._sessions.get(session_id)
        if session is None:
            shown = session_id if len(session_id) <= 100 else session_id[:100] + "…"
            raise SessionNotFound(
                f"Session not found: {shown}",
                hint="Open it with session/load or session/resume, or start a new session.",
                data={"sessionId": shown},
            )
        return session

    def find(self, session_id: SessionId) -> Session | None:
        """The session, or None."""
        return self._sessions.get(session_id)

    def all(self) -> list[Session]:
        """All sessions, the oldest first."""
        return list(self._sessions.values())

    def remove(self, session_id: SessionId) -> None:
        """Forget a session; unknown ids are ignored."""
        self._sessions.pop(session_id, None)

    def with_key(self, key: str, default_agent: str | None) -> Iterator[Session]:
        """The sessions that are this session of the gateway, in either spelling."""
        wanted = canonical_key(key, default_agent)
        for session in self._sessions.values():
            if canonical_key(session.session_key, default_agent) == wanted:
                yield session


@dataclass(slots=True)
class CreationLimit:
    """At most ``count`` new sessions in ``window`` seconds, counted in a sliding window.

    It keeps an editor in a loop from flooding the gateway with sessions.
    """

    count: int = 120
    window: float = 10.0
    _times: deque[float] = field(default_factory=deque)

    def take(self, now: float) -> None:
        """Count one creation at ``now`` (seconds). Raises ``SessionRateLimited``."""
        while self._times and now - self._times[0] >= self.window:
            self._times.popleft()
        if len(self._times) >= self.count:
            wait = max(0.0, self.window - (now - self._times[0]))
            raise SessionRateLimited(
                f"More than {self.count} sessions were created within {self.window:g} s.",
                hint=f"Try again in {wait:.1f} s, or raise --session-rate.",
                data={"retryAfter": round(wait, 1)},
            )
        self._times.append(now)


def _text(meta: Json, *names: str) -> str | None:
    for name in names:
        value = meta.get(name)
        if isinstance(value, str) and value.strip():
            return value.strip()
    return None


def _flag(meta: Json, *names: str) -> bool:
    return next((meta[name] for name in names if isinstance(meta.get(name), bool)), False)
