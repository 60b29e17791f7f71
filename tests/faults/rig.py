"""A bridge in this process, from the editor's lines to the gateway's socket, in quick time."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from acp_bridge.bridge.outbox import LedgerOutbox
from acp_bridge.bridge.service import Bridge, Surroundings
from acp_bridge.bridge.timing import Deadlines
from acp_bridge.core.sessions import CreationLimit, SessionOptions
from acp_bridge.front.connection import Connection
from acp_bridge.front.router import Router
from acp_bridge.gateway.client import GatewayClient
from acp_bridge.gateway.credentials import Credentials
from acp_bridge.gateway.settings import GatewaySettings
from ledger.memory import MemoryLedger
from tests.faults.plan import SCALE
from tests.support.acp_oracle import MAX_LINE, AcpOracle, Violation
from tests.support.editor import agent_command, editor_environment
from tests.support.waits import WAIT

Json = dict[str, Any]

CONNECT = 6.0
"""Seconds of the wall that a prompt waits for the link: longer than any outage."""


class QuickClock:
    """The loop's time, ``SCALE`` times as fast."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def time(self) -> float:
        return self._loop.time() * SCALE

    def call_later(self, delay: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(delay / SCALE, callback)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / SCALE)


class Lines:
    """The editor's input, as the router reads it; or ``write`` takes it elsewhere."""

    def __init__(self, write: Callable[[bytes], None] | None = None) -> None:
        self.ended = asyncio.Event()
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()
        self._write = write or self._lines.put_nowait

    async def read(self) -> bytes:
        return await self._lines.get()

    def put(self, line: bytes) -> None:
        if not line:
            self.ended.set()
        self._write(line)


class QuickEditor:
    """Talks ACP to the bridge; every line that it gets is judged by the oracle."""

    def __init__(self, lines: Lines) -> None:
        self.messages: list[Json] = []
        self.violations: list[str] = []
        self.on_permission: Callable[[Json], None] = lambda message: None
        self._lines = lines
        self._oracle = AcpOracle()
        self._ids = itertools.count(1)
        self._calls: dict[int, asyncio.Future[Json]] = {}

    def send(self, message: Json) -> None:
        self._oracle.sent(message)
        self._lines.put(json.dumps(message).encode() + b"\n")

    def call(self, method: str, **params: Any) -> asyncio.Future[Json]:
        """Send a request; the whole answer."""
        number = next(self._ids)
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._calls[number] = answer
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return answer

    def notify(self, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def take(self, lines: bytes) -> None:
        """Lines of the bridge."""
        for line in lines.splitlines():
            message = json.loads(line)
            try:
                self._oracle.received(line)
            except Violation as violation:
                self.violations.append(str(violation))
            self.messages.append(message)
            if message.get("method") == "session/request_permission":
                self.on_permission(message)
            elif "method" not in message:
                call = self._calls.pop(message["id"], None)
                if call is not None and not call.done():
                    call.set_result(message)

    def updates(self, session_id: str, begin: int = 0) -> list[Json]:
        return [
            message["params"]["update"]
            for message in self.messages[begin:]
            if message.get("method") == "session/update"
            and message["params"]["sessionId"] == session_id
        ]


class _Left(Exception):
    """Ends the task group."""


@contextlib.asynccontextmanager
async def quick_bridge(
    url: str,
    ledger: MemoryLedger,
    state_dir: Path,
    seed: int,
    *,
    credentials: Credentials | None = None,
) -> AsyncIterator[QuickEditor]:
    """A running bridge and its editor, initialized."""
    loop, clock, lines = asyncio.get_running_loop(), QuickClock(), Lines()
    chance = random.Random(seed)  # noqa: S311 - the same jitter for the same seed
    settings = GatewaySettings(
        url=url,
        url_source="--url",
        credentials=credentials or Credentials(),
        scopes=None,
        state_dir=state_dir,
    )
    client = GatewayClient(settings, clock=clock.time, sleep=clock.sleep, rng=chance.random)
    editor = QuickEditor(lines)
    outbox = LedgerOutbox(
        ledger,
        lambda data: _post(loop, editor.take, data),
        now_ms=lambda: 1_700_000_000_000,
    )
    connection = Connection(outbox)
    try:
        async with asyncio.TaskGroup() as tasks:
            bridge = Bridge(
                gateway=client,
                outbox=outbox,
                editor=connection,
                ledger=ledger,
                options=SessionOptions(prefix_cwd=False),
                limit=CreationLimit(),
                surroundings=Surroundings(home=None, host="test", cwd="/"),
                clock=clock,
                deadlines=Deadlines(connect=CONNECT),
                tasks=tasks,
                leaving=lines.ended,
                new_id=lambda: f"{chance.getrandbits(128):032x}",
                now_ms=lambda: 1_700_000_000_000,
            )
            await client.start(bridge.on_event)
            router = Router(bridge, outbox, connection, grace=0.0)
            tasks.create_task(router.run(lines))  # type: ignore[arg-type]
            await editor.call("initialize", protocolVersion=1, clientCapabilities={})
            try:
                yield editor
            finally:
                await bridge.stop(0, detach=False)
                await client.close()
                outbox.close()
                await outbox.ended(1.0)
            raise _Left  # noqa: TRY301 - it must leave through the group, to end it
    except* _Left:
        pass


@contextlib.asynccontextmanager
async def piped_bridge(url: str, home: Path, _seed: int) -> AsyncIterator[QuickEditor]:
    """The installed command over pipes, at its own pace, with its ledger under ``home``."""
    command = agent_command("--url", url, "--no-prefix-cwd", "--state-dir", str(home / "state"))
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=editor_environment(home),
        limit=MAX_LINE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    lines = Lines(process.stdin.write)
    editor = QuickEditor(lines)
    reading = asyncio.create_task(_read(process.stdout, editor))
    try:
        await editor.call("initialize", protocolVersion=1, clientCapabilities={})
        yield editor
        process.stdin.close()
        async with asyncio.timeout(WAIT):
            await process.wait()
        await reading
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        reading.cancel()


async def _read(stdout: asyncio.StreamReader, editor: QuickEditor) -> None:
    while line := await stdout.readline():
        editor.take(line)


def _post(loop: asyncio.AbstractEventLoop, take: Callable[[bytes], None], data: bytes) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(take, data)
