"""Sessions: which there are, and which session of the gateway each one is.

Routing, first match: label in ``_meta``, key in ``_meta``, ``--session-label``, ``--session``,
else a key of its own. The gateway spells keys in its own way (lower case, ``agent:<agent>:``
in front), and its events carry that spelling.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from acp_bridge.core.options import Shown
from acp_bridge.errors import (
    InvalidParams,
    SessionNotFound,
    SessionRateLimited,
    TooManySessions,
)
from acp_bridge.ids import MAX_ID, Json, SessionId, SessionKey

MAX_SESSIONS = 5_000
"""Sessions kept in memory; the idle one that was not used for longest makes room."""
MAX_IDLE = 24 * 3600.0
"""Seconds after which an idle session is forgotten when another one is opened. An editor that still
has it open gets ``session_not_found`` and loads it again."""


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
    used_at: float = 0.0
    """When the editor last named it, in the monotonic seconds of :class:`Sessions`."""


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
    as absent, since ``_meta`` is anybody's. Raises ``InvalidParams`` for an endless one.
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
    """The sessions of this process. ``clock`` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float], limit: int = MAX_SESSIONS) -> None:
        self._sessions: dict[SessionId, Session] = {}
        self._clock = clock
        self._limit = limit

    def add(
        self, session: Session, *, is_busy: Callable[[SessionId], bool] = lambda _session_id: False
    ) -> None:
        """Enter a session; forget those that are idle for too long, and at the limit the one that
        was not used for longest. Raises ``TooManySessions`` if all are busy."""
        now = self._clock()
        session.used_at = now
        others = [each for each in self._sessions.values() if each.session_id != session.session_id]
        if len(others) >= self._limit or (others and others[0].used_at <= now - MAX_IDLE):
            self._make_room(others, now, is_busy)
        self._sessions[session.session_id] = session

    def _make_room(
        self, others: list[Session], now: float, is_busy: Callable[[SessionId], bool]
    ) -> None:
        idle = sorted(
            (each for each in others if not is_busy(each.session_id)),
            key=lambda each: each.used_at,
        )
        spare = len(others) - self._limit + 1
        if spare > len(idle):
            raise TooManySessions(
                f"{self._limit:,} sessions are at work in this bridge, as many as it keeps.",
                hint="Wait until a turn ends, or close a session.",
            )
        for place, each in enumerate(idle):
            if place < spare or each.used_at <= now - MAX_IDLE:
                del self._sessions[each.session_id]

    def get(self, session_id: SessionId) -> Session:
        """The session, for a call of the editor. Raises ``SessionNotFound``."""
        session = self._sessions.pop(session_id, None)
        if session is None:
            shown = session_id if len(session_id) <= 100 else session_id[:100] + "…"
            raise SessionNotFound(
                f"Session not found: {shown}",
                hint="Open it with session/load or session/resume, or start a new session.",
                data={"sessionId": shown},
            )
        session.used_at = self._clock()
        self._sessions[session_id] = session  # behind all others: it was used last
        return session

    def find(self, session_id: SessionId) -> Session | None:
        """The session, or None."""
        return self._sessions.get(session_id)

    def all(self) -> list[Session]:
        """All sessions, the one first that was not used for longest."""
        return list(self._sessions.values())

    def remove(self, session_id: SessionId) -> None:
        """Forget a session; unknown ids are ignored."""
        self._sessions.pop(session_id, None)

    def with_key(self, key: str, default_agent: str | None) -> Iterator[Session]:
        """The sessions that are this session of the gateway, in either spelling."""
        wanted = canonical_key(key, default_agent)
        for session in self.all():
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
            if len(value) > MAX_ID:
                raise InvalidParams(
                    f"The member {name} of _meta is longer than {MAX_ID:,} characters.",
                    data={"field": f"_meta.{name}"},
                )
            return value.strip()
    return None


def _flag(meta: Json, *names: str) -> bool:
    return next((meta[name] for name in names if isinstance(meta.get(name), bool)), False)
