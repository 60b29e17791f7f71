"""A gateway without a network: the twin of the client behind the same port.

It does what the test tells it and keeps what it was told, so that the service can be tested with
nothing but an event loop. Events reach the sink one at a time, in the order they were given.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from acp_bridge.core.commands import Query, RunCommand
from acp_bridge.core.events import GatewayEvent, Hello, LinkLost, LinkUp, Stamped
from acp_bridge.errors import GatewayError, GatewayTimeout, GatewayUnreachable, HandshakeRefused
from acp_bridge.errors import LinkLost as LinkLostError
from acp_bridge.gateway.port import EventSink
from acp_bridge.ids import Generation, Json

Script = Callable[[RunCommand], Iterable[GatewayEvent]]
"""What the gateway does on a run command: the events it answers with, in order."""

FULL_SCOPES = frozenset({"operator.read", "operator.write", "operator.approvals", "operator.admin"})


def memory_hello(**changes: Any) -> Hello:
    """A plausible hello; ``changes`` replace its fields."""
    plain = Hello(
        generation=Generation(1),
        server_version="memory",
        protocol=4,
        scopes=FULL_SCOPES,
        methods=frozenset(),
        connection_id="memory",
        boot_id="boot-1",
        max_payload=25 * 1024 * 1024,
        tick_interval=30.0,
        default_agent="main",
    )
    return plain._replace(**changes)


class MemoryGateway:
    """In-memory ``Gateway``. It begins without a link; :meth:`up` gives it one.

    ``answers`` maps a query's class to its result. A ``BridgeError`` is raised instead of
    returned, a callable is called with the query, an awaitable is waited for while the link lasts.
    A query without an answer results in None. ``script`` says what a submitted command leads to.
    With ``makes_sessions`` it is one that speaks ACP itself.
    """

    def __init__(
        self,
        *,
        answers: Mapping[type[Query], Any] | None = None,
        script: Script | None = None,
        makes_sessions: bool = False,
    ) -> None:
        self._makes_sessions = makes_sessions
        self.answers: dict[type[Query], Any] = dict(answers or {})
        self.script = script
        self.submitted: list[RunCommand] = []
        """Run commands that were submitted while the link was up."""
        self.lost: list[RunCommand] = []
        """Run commands that were submitted while the link was down: nothing ever answers them."""
        self.requests: list[Query] = []
        self.capabilities: Json = {}
        """What the editor was said to be able to do."""
        self.waits = 0
        """How often somebody waited for a hello: acts of the user."""
        self.is_closed = False
        self._generation = 0
        self._hello: Hello | None = None
        self._trouble: GatewayError | None = None
        self._sink: EventSink | None = None
        self._queue: asyncio.Queue[tuple[Stamped, asyncio.Future[None]]] = asyncio.Queue()
        self._pump: asyncio.Task[None] | None = None
        self._changed = asyncio.Condition()
        self._link_end: asyncio.Future[str] | None = None

    @property
    def hello(self) -> Hello | None:
        return self._hello

    @property
    def trouble(self) -> GatewayError | None:
        return self._trouble

    async def wait_hello(self, timeout: float, *, patient: bool = True) -> Hello:
        self.waits += 1
        try:
            async with asyncio.timeout(timeout), self._changed:
                await self._changed.wait_for(
                    lambda: self._is_decided() or (not patient and self._trouble is not None)
                )
        except TimeoutError:
            raise self._trouble or GatewayUnreachable() from None
        if self._hello is None:
            raise self._trouble or GatewayUnreachable()
        return self._hello

    def announce(self, capabilities: Json) -> None:
        self.capabilities = capabilities

    def submit(self, command: RunCommand) -> None:
        if self._hello is None:
            self.lost.append(command)
            return
        self.submitted.append(command)
        for event in self.script(command) if self.script else ():
            self._put(event)

    async def request(self, query: Query, *, timeout: float = 30.0) -> Any:
        link_end = self._link_end
        if link_end is None:
            raise LinkLostError()
        self.requests.append(query)
        answer = self.answers.get(type(query))
        if callable(answer):
            answer = answer(query)
        if inspect.isawaitable(answer):
            task = asyncio.ensure_future(answer)
            done, _ = await asyncio.wait(
                {task, link_end}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if task not in done:
                task.cancel()
                raise LinkLostError() if done else GatewayTimeout()
            answer = task.result()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def start(self, sink: EventSink) -> None:
        self._sink = sink
        self._pump = asyncio.create_task(self._deliver())

    async def close(self) -> None:
        self.is_closed = True
        self._hello = None
        self._end_link("closed")
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)

    async def up(self, **changes: Any) -> Hello:
        """Open the next generation and deliver its ``LinkUp``; ``changes`` go into the hello."""
        self._generation += 1
        self._trouble = None
        self._link_end = asyncio.get_running_loop().create_future()
        news = {"makes_sessions": self._makes_sessions, **changes}
        self._hello = memory_hello(generation=Generation(self._generation), **news)
        await self._tell()
        await self.emit(LinkUp(self._hello))
        return self._hello

    async def down(
        self,
        reason: str = "connection lost",
        *,
        close_code: int | None = 1006,
        trouble: GatewayError | None = None,
    ) -> None:
        """End the generation, if there is one, and deliver its ``LinkLost``.

        ``trouble`` is what :meth:`wait_hello` then raises: a ``HandshakeRefused`` at once, any
        other after its timeout.
        """
        was_up = self._hello is not None
        self._hello = None
        self._trouble = trouble or GatewayUnreachable()
        self._end_link(reason)
        await self._tell()
        if was_up:
            await self.emit(LinkLost(reason, close_code))

    async def emit(self, *events: GatewayEvent, generation: int | None = None) -> None:
        """Deliver events and return when the sink has taken them.

        ``generation`` is the running one unless given.
        """
        for taken in [self._put(event, generation) for event in events]:
            await taken

    async def settled(self) -> None:
        """Return when the sink has taken all events given so far."""
        await self._queue.join()

    def _is_decided(self) -> bool:
        return self._hello is not None or isinstance(self._trouble, HandshakeRefused)

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _end_link(self, reason: str) -> None:
        if self._link_end is not None:
            self._link_end.set_result(reason)
            self._link_end = None

    def _put(self, event: GatewayEvent, generation: int | None = None) -> asyncio.Future[None]:
        number = Generation(self._generation if generation is None else generation)
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait((Stamped(number, event), taken))
        return taken

    async def _deliver(self) -> None:
        if self._sink is None:  # start() has set it
            return
        while True:
            stamped, taken = await self._queue.get()
            call = asyncio.ensure_future(self._sink(stamped))
            await asyncio.wait([call])
            if taken.done():  # whoever emitted it has stopped waiting
                pass
            elif error := call.exception():
                taken.set_exception(error)
            else:
                taken.set_result(None)
            self._queue.task_done()
