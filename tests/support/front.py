"""The front on real pipes: channel, router, connection and outbox, with a scripted agent."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from acp_bridge.bridge.outbox import DEFAULT_LIMIT, LedgerOutbox
from acp_bridge.core.effects import Record
from acp_bridge.core.ports import Entry
from acp_bridge.front.connection import Connection
from acp_bridge.front.router import Router
from acp_bridge.front.stdio import claim
from acp_bridge.ids import SessionId
from ledger import NewSession
from ledger.memory import MemoryLedger
from tests.support.acp_oracle import parse_line
from tests.support.handlers import ScriptedHandlers
from tests.support.outbox import chunk
from tests.support.waits import WAIT

INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}


class Front:
    """A running front, and the editor's ends of its pipes.

    ``read`` is what the editor has read so far; nothing is read from the pipe before a test asks.
    ``running`` is the router's task.
    """

    running: asyncio.Task[None]

    def __init__(self, handlers: ScriptedHandlers, *, grace: float, limit: int) -> None:
        self.handlers = handlers
        in_fd, self._to = os.pipe()
        self._from, wire_fd = os.pipe()
        self._fds = {in_fd, self._to, self._from, wire_fd}
        self._buffer = b""
        self.read: list[dict[str, Any]] = []
        self.ledger = MemoryLedger()
        self.ledger.write([NewSession("s1", "key", "/w", 0)])
        self.channel = claim(wire_fd, in_fd)
        self.gone = asyncio.Event()
        self.outbox = LedgerOutbox(
            self.ledger,
            self.channel.write,
            now_ms=lambda: 0,
            on_gone=self.gone.set,
            limit=limit,
        )
        self.connection = Connection(self.outbox)
        self.router = Router(handlers, self.outbox, self.connection, grace=grace)

    def send(self, *messages: Any) -> None:
        """Write messages, each a line, in one write; bytes go as they are."""
        lines = [m if isinstance(m, bytes) else json.dumps(m).encode() for m in messages]
        os.write(self._to, b"".join(line + b"\n" for line in lines))

    async def send_much(self, data: bytes) -> None:
        """Write more than a pipe holds."""

        def write() -> None:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._to, rest) :]

        async with asyncio.timeout(WAIT):
            await asyncio.to_thread(write)

    def call(self, message_id: Any, method: str, **params: Any) -> None:
        """Send one request."""
        self.send({"jsonrpc": "2.0", "id": message_id, "method": method, "params": params})

    def notify(self, method: str, **params: Any) -> None:
        """Send one notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def prompt(self, message_id: Any, session_id: str = "s1") -> None:
        self.call(message_id, "session/prompt", sessionId=session_id, prompt=[])

    def show(self, text: str, session_id: str = "s1") -> None:
        """Let the agent show an update."""
        entry = Entry(SessionId(session_id), Record("update", chunk(text, text)))
        self.outbox.put_update(chunk(text, text), entry)

    def close_input(self) -> None:
        self._close(self._to)

    def close_output(self) -> None:
        """As an editor that has died."""
        self._close(self._from)

    async def next(self) -> dict[str, Any]:
        """Read the next message."""
        async with asyncio.timeout(WAIT):
            while b"\n" not in self._buffer:
                data = await asyncio.to_thread(os.read, self._from, 1 << 16)
                assert data, "the front closed its output"
                self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        message = parse_line(line)
        self.read.append(message)
        return message

    async def answer(self, message_id: Any) -> dict[str, Any]:
        """Read on until the answer to this request."""
        while True:
            message = await self.next()
            if "method" not in message and message["id"] == message_id:
                return message

    async def settled(self) -> None:
        """Return when all that was sent has been dealt with: an unknown method is answered."""
        self.call("settled", "no/such")
        await self.answer("settled")

    async def initialized(self) -> None:
        self.send(INITIALIZE)
        await self.answer(0)

    def _close(self, fd: int) -> None:
        if fd in self._fds:
            self._fds.remove(fd)
            os.close(fd)

    async def end(self) -> None:
        """Close everything and wait for the threads."""
        self.close_input()
        self.close_output()  # a blocked write ends with EPIPE
        self.outbox.close()
        for thread in threading.enumerate():
            if thread.name in ("outbox", "editor-input"):
                await asyncio.to_thread(thread.join, WAIT)
                assert not thread.is_alive()
        for fd in list(self._fds):
            self._close(fd)


@asynccontextmanager
async def running_front(
    handlers: ScriptedHandlers | None = None, *, grace: float = 0.05, limit: int = DEFAULT_LIMIT
) -> AsyncIterator[Front]:
    """A front that runs until the end of the block; errors of its tasks fail the test."""
    front = Front(handlers or ScriptedHandlers(), grace=grace, limit=limit)
    async with asyncio.TaskGroup() as tasks:
        front.running = run = tasks.create_task(front.router.run(front.channel))
        try:
            yield front
        finally:
            front.close_input()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WAIT):
                    await asyncio.wait({run})
            run.cancel()
            await front.end()
