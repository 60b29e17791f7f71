"""The two seams of the service towards the editor.

The front calls :class:`Handlers`; the service writes to :class:`Editor` and :class:`Outbox`.
Front and service do not know each other; ``app`` joins them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from acp_bridge.core.effects import Record
from acp_bridge.core.replay import Recorded
from acp_bridge.ids import Generation, Json, RunId, SessionId
from acp_bridge.wire.acp import (
    ListedSessions,
    NewSession,
    OpenedSession,
    Prompt,
    SetMode,
    SetOption,
)


class Entry(NamedTuple):
    """What is written to the ledger before a line is shown."""

    session_id: SessionId
    record: Record
    run_id: RunId | None = None
    generation: Generation | None = None
    key: str | None = None
    """A stable identity: a second entry of the session with the same one is not recorded."""
    offset: int | None = None
    """Of a chunk: how many characters of its text were shown before it."""


class Unrecorded(NamedTuple):
    """What the ledger has not taken yet of a session, oldest first; it may have some by now."""

    entries: list[Recorded]
    is_whole: bool
    """Whether nothing of it was lost."""


class Outbox(Protocol):
    """The one ordered way to standard output: recorded first, then shown.

    All methods are called on the event loop and return at once.
    """

    def put_message(self, message: Json, *, session_id: SessionId | None = None) -> None:
        """Queue an answer or a request. With a session id it keeps its place behind that
        session's updates."""

    def put_update(self, update: Json, entry: Entry) -> None:
        """Queue one ``session/update`` and the entry that records it. Text chunks of the same
        message that still wait are merged."""

    def put_record(self, entry: Entry, done: Callable[[], None] | None = None) -> None:
        """Queue an entry without a line. ``done`` is called on the loop once it is committed
        (or known to be impossible to commit)."""

    async def flush(self, timeout: float) -> bool:
        """Wait until all that is queued by now is recorded and written, at most ``timeout``
        seconds. Returns whether that was reached."""

    async def unrecorded(self, session_id: SessionId, timeout: float) -> Unrecorded:
        """As :meth:`flush`; then what still waits for a ledger that does not take it."""

    @property
    def is_full(self) -> bool:
        """Whether the waiting bytes have reached the bound."""

    async def room(self) -> None:
        """Return when the waiting bytes are below the bound again."""


class Responder(Protocol):
    """The one answer to one request of the editor. A second answer is a bug and raises
    ``LocalProtocolError``."""

    def result(self, result: Json) -> None: ...

    def error(self, error: BaseException) -> None: ...


class Ask(Protocol):
    """A request of ours that the editor has not answered yet."""

    def withdraw(self) -> None:
        """Send ``$/cancel_request``; a late answer is ignored. No-op after the answer."""


class EditorAnswer(NamedTuple):
    """The editor's answer to a request of ours: a result, or an error object."""

    result: Any = None
    error: Json | None = None


class Editor(Protocol):
    """Requests to the editor."""

    def ask(
        self,
        method: str,
        params: Json,
        on_answer: Callable[[EditorAnswer], None],
        *,
        session_id: SessionId,
    ) -> Ask:
        """Send a request. ``on_answer`` is called on the loop, at most once, and never after
        :meth:`Ask.withdraw`."""


class Handlers(Protocol):
    """What the editor may call. Parameters are read and checked before they get here.

    Each capability that ``initialize`` advertises has its method here, and only those; modes and
    options are advertised by the sessions that have some.
    """

    async def initialize(self, params: Json) -> Json:
        """The ``initialize`` result. Called for each ``initialize``; keeps no state per call
        beyond the client's capabilities."""

    async def authenticate(self, method_id: str) -> Json:
        """The ``authenticate`` result, once the gateway accepts us."""

    async def new_session(self, request: NewSession) -> Json:
        """The ``session/new`` result. No update of the session leaves before it is written."""

    def prompt(self, request: Prompt, respond: Responder) -> None:
        """Start a turn; ``respond`` is answered when it ends. May raise a ``BridgeError``."""

    def cancel(self, session_id: SessionId) -> None:
        """``session/cancel``: silent for unknown and idle sessions."""

    def cancel_prompt(self, respond: Responder) -> None:
        """``$/cancel_request`` for one ``session/prompt``: the turn ends as cancelled."""

    async def load_session(self, request: OpenedSession) -> Json:
        """The ``session/load`` result. The whole replay is queued before it, and the live
        updates of a running turn after it."""

    async def resume_session(self, request: OpenedSession) -> Json:
        """The ``session/resume`` result; no history is shown."""

    async def list_sessions(self, request: ListedSessions) -> Json:
        """The ``session/list`` result."""

    async def delete_session(self, session_id: SessionId) -> Json:
        """The ``session/delete`` result; an unknown session is as good as deleted."""

    async def close_session(self, session_id: SessionId) -> Json:
        """The ``session/close`` result; a running turn is cancelled first."""

    async def set_mode(self, request: SetMode) -> Json:
        """The ``session/set_mode`` result, once the gateway has accepted the mode."""

    async def set_option(self, request: SetOption) -> Json:
        """The ``session/set_config_option`` result: all options with the values that hold now."""

    async def forward(self, method: str, params: Any) -> Json:
        """The result of a method that the bridge does not know. Raises ``UnknownMethod`` unless
        the gateway may know it."""

    def notify(self, method: str, params: Any) -> None:
        """A notification that the bridge does not know. Raises ``SessionNotFound``."""
