"""The port to the gateway, and what a dialect is.

A *dialect* is one gateway protocol without I/O, in the style of a sans-I/O library: it is fed
texts and commands and gives back events and texts to send. One fresh object serves one
connection. The *gateway client* owns the connections: it dials, supervises, stamps each event with
its generation and drops what comes from an older one, in one place. The service sees only
:class:`Gateway`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from acp_bridge.core.commands import Command, Query, RunCommand
from acp_bridge.core.events import GatewayEvent, Hello, Stamped
from acp_bridge.errors import GatewayError
from acp_bridge.ids import Json

EventSink = Callable[[Stamped], Awaitable[None]]
"""Takes one event. While it waits, the socket is not read; it must not await a query."""


class Gateway(Protocol):
    """Where commands go and events come from."""

    @property
    def hello(self) -> Hello | None:
        """The hello of the live connection, or None."""

    @property
    def trouble(self) -> GatewayError | None:
        """Why there is no connection, as far as known; None while connected or not yet tried."""

    async def wait_hello(self, timeout: float, *, patient: bool = True) -> Hello:
        """Wait for a connection, at most ``timeout`` seconds; if not ``patient``, only until a
        fresh try has failed in whatever way.

        Counts as an act of the user: a parked or backing-off client tries again at once.
        Raises the ``GatewayError`` that says why there is none; a refusal that waiting cannot
        heal (credentials, pairing, version) is raised as soon as a fresh try has met it.
        """

    def announce(self, capabilities: Json) -> None:
        """What the editor can do, in ACP's own shape, for gateways that want to know."""

    def submit(self, command: RunCommand) -> None:
        """Send a run command; never raises, never waits.

        Its answer comes as an event. If the link is down or breaks first, there is none: the
        ``LinkLost`` event says so. ``AnswerPermission`` and ``AbortRun`` likewise.
        """

    async def request(self, query: Query, *, timeout: float = 30.0) -> Any:
        """Send a query and wait for its result (see the query's docstring).

        Raises ``GatewayRefused``, ``ScopeMissing``, ``GatewayTimeout``, ``LinkLost``.
        """

    async def start(self, sink: EventSink) -> None:
        """Begin to connect, in the background, and go on for ever."""

    async def close(self) -> None:
        """Close the connection normally (1000) and stop. Bounded: returns within 2 s."""


class Dialect(Protocol):
    """One gateway protocol, without I/O; lives as long as one connection.

    Times are monotonic seconds, given by the caller.
    """

    def receive(self, text: str | bytes, now: float) -> list[tuple[int | None, GatewayEvent | Any]]:
        """Read one frame. Each pair is ``(None, event)`` for the service or ``(token, outcome)``
        for a query, where the outcome is its result or a ``BridgeError``.

        Raises ``HandshakeRefused`` or ``GatewayUnreachable`` when the gateway refuses the
        connection.
        """

    def send(
        self, command: Command, token: int | None, now: float
    ) -> list[tuple[int | None, GatewayEvent | Any]]:
        """Encode a command; what is known of it at once comes back. ``token`` names a query.
        Raises ``PromptTooLarge`` for a frame over the gateway's limit, and ``InvalidParams`` for a
        prompt that the gateway cannot take: nothing is sent then."""

    def tick(self, now: float) -> list[tuple[int | None, GatewayEvent | Any]]:
        """Let deadlines pass; raises ``GatewayTimeout`` when the link must be taken for dead."""

    def leave(self) -> None:
        """The bridge is about to close the connection: say what must be said before."""

    def data_to_send(self) -> list[str]:
        """Texts to send since the last call, in order."""

    @property
    def hello(self) -> Hello | None: ...
