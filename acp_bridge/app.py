"""The composition root: builds the parts, runs them, and stops them in order.

Order of stopping, whatever the cause (end of input, a signal, an editor that is gone): stop
reading the editor; answer live turns, cancelled or left to the gateway (``--on-exit``); close the
gateway connection; flush the outbox, ledger first and then stdout. Each step has a bound, all
together less than the 2 s after which editors kill. Blocked threads are daemons, so that an editor
that reads nothing any more cannot hold the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import platform
import signal
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator

from acp_bridge.bridge.outbox import LedgerOutbox
from acp_bridge.bridge.service import Bridge, Surroundings
from acp_bridge.bridge.timing import Deadlines
from acp_bridge.config import Settings, route_of
from acp_bridge.core.sessions import CreationLimit, SessionOptions
from acp_bridge.errors import GatewayError
from acp_bridge.front.connection import Connection
from acp_bridge.front.router import Router
from acp_bridge.front.stdio import Channel, claim
from acp_bridge.gateway.client import GatewayClient
from acp_bridge.gateway.credentials import Credentials
from acp_bridge.gateway.settings import GatewaySettings
from acp_bridge.logs import register_secret, without_credentials
from acp_bridge.storage import LazyLedger, ledger_of
from acp_bridge.target import find_target

EXIT_OK = 0
"""The editor closed its end, of either direction."""
EXIT_SIGNAL = 128
"""Plus the number of the signal, as a shell reports it."""

REQUEST_GRACE = 0.4
"""Seconds that requests already read get to be answered after the end of input."""
TURN_GRACE = 0.3
"""Seconds that live turns get to end by the gateway's own word."""
OUTBOX_GRACE = 0.5
"""Seconds to record and write what is left; a little more than ``outbox.LAST_PATIENCE``."""
CLOSE_GRACE = 0.2

Ending = int | GatewayError
"""What the process leaves with."""


def serve(settings: Settings, wire_fd: int) -> int:
    """Serve one editor on stdin and ``wire_fd``, as the last thing that the process does. Returns
    the exit code.

    Raises ``ConfigError`` for settings that cannot work, and with ``--require-gateway`` the
    ``GatewayError`` that prevented a hello.
    """
    # Never closed: that would wait for the look-up of a name, which nothing can break off, and what
    # the process still has goes with it, at once.
    return asyncio.Runner().run(_serve(settings, wire_fd))


async def _serve(settings: Settings, wire_fd: int) -> int:
    leave: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
    with _signals(leave):
        async with _gateway_settings(settings) as gateway_settings:
            client = GatewayClient(gateway_settings)
            try:
                return await _run(settings, client, claim(wire_fd), leave)
            finally:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(CLOSE_GRACE):
                        await client.close()


async def _run(
    settings: Settings, client: GatewayClient, channel: Channel, leave: asyncio.Future[Ending]
) -> int:
    ledger = ledger_of(settings, host=platform.node())
    outbox = LedgerOutbox(
        ledger,
        _writer(channel, ledger),
        now_ms=_now_ms,
        on_gone=lambda: _leave(leave, EXIT_OK),
        hide=without_credentials,
    )
    editor = Connection(outbox, without_credentials)
    try:
        async with asyncio.TaskGroup() as tasks:
            bridge = Bridge(
                gateway=client,
                outbox=outbox,
                editor=editor,
                ledger=ledger,
                options=_session_options(settings),
                limit=CreationLimit(*settings.session_rate),
                surroundings=Surroundings(_home(), platform.node(), os.getcwd()),
                clock=asyncio.get_running_loop(),
                deadlines=Deadlines(
                    connect=settings.connect_timeout,
                    reconnect=settings.reconnect_window or math.inf,
                    stall=settings.stall_timeout,
                ),
                tasks=tasks,
                leaving=channel.ended,
                new_id=new_id,
                now_ms=_now_ms,
            )
            await client.start(bridge.on_event)
            router = Router(bridge, outbox, editor, grace=REQUEST_GRACE)
            tasks.create_task(_read(settings, client, router, channel, leave))
            await asyncio.wait({leave})
            await bridge.stop(TURN_GRACE, detach=_detaches(settings, leave.result()))
            outbox.close()
            await outbox.ended(OUTBOX_GRACE)
            ledger.close()
            raise _Left  # noqa: TRY301 - it must leave through the group, to end it
    except* _Left:
        pass
    ending = leave.result()
    if isinstance(ending, GatewayError):
        raise ending
    return ending


def new_id() -> str:
    """A new id for a session or a run: a random UUID without its hyphens.

    With them, one in 256 ends in ``fc-`` and twelve digits, which OpenClaw takes for a credential:
    the transcript then shows the run as ``…8e***`` and nobody knows whose it is (measured on
    2026.6.11).
    """
    return uuid.uuid4().hex


def _writer(channel: Channel, ledger: LazyLedger) -> Callable[[bytes], None]:
    """Writes lines. The first one answers ``initialize``: from then on the ledger may take its
    time to open."""

    def write(lines: bytes) -> None:
        channel.write(lines)
        ledger.warm()

    return write


class _Left(Exception):
    """Ends the task group: what still runs in it has nobody to work for."""


async def _read(
    settings: Settings,
    client: GatewayClient,
    router: Router,
    channel: Channel,
    leave: asyncio.Future[Ending],
) -> None:
    if settings.require_gateway:
        try:
            await _first_hello(client, channel, settings.connect_timeout)
        except GatewayError as error:
            _leave(leave, error)
            return
    await router.run(channel)
    _leave(leave, EXIT_OK)


async def _first_hello(client: GatewayClient, channel: Channel, timeout: float) -> None:
    """Wait for the gateway's first hello. When the editor has closed its end, what it asked before
    is still worth a moment. Raises the ``GatewayError`` that prevented a hello."""
    channel.open()
    waits = [
        asyncio.create_task(client.wait_hello(timeout)),
        asyncio.create_task(channel.ended.wait()),
    ]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        await (waits[0] if waits[0].done() else client.wait_hello(REQUEST_GRACE))
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


def _detaches(settings: Settings, ending: Ending) -> bool:
    """Whether running turns go on without us. An embedded gateway ends with us, and who presses
    Ctrl-C means it."""
    is_interrupt = ending == EXIT_SIGNAL + signal.SIGINT
    return settings.on_exit == "detach" and not settings.demo and not is_interrupt


def _leave(leave: asyncio.Future[Ending], ending: Ending) -> None:
    if not leave.done():
        leave.set_result(ending)


@contextlib.contextmanager
def _signals(leave: asyncio.Future[Ending]) -> Iterator[None]:
    """The signals that end the process cleanly; the first one decides the exit code."""
    loop = asyncio.get_running_loop()
    numbers = [
        getattr(signal, name) for name in ("SIGHUP", "SIGINT", "SIGTERM") if hasattr(signal, name)
    ]
    with contextlib.ExitStack() as stack:
        for number in numbers:
            try:
                loop.add_signal_handler(number, _leave, leave, EXIT_SIGNAL + number)
            except NotImplementedError:  # Windows: its loop has none, its default handlers do
                continue
            stack.callback(loop.remove_signal_handler, number)
        yield


@contextlib.asynccontextmanager
async def _gateway_settings(settings: Settings) -> AsyncIterator[GatewaySettings]:
    if settings.demo:
        async with _demo_settings() as demo:
            yield demo
        return
    target = find_target(settings, os.environ, register_secret)
    yield GatewaySettings(
        url=target.url,
        url_source=target.url_source,
        credentials=target.credentials,
        scopes=settings.scopes,
        state_dir=settings.state_dir,
        kind=settings.gateway_kind,
        kind_source=settings.source("gateway_kind"),
        acp_credentials=target.acp_credentials,
        route=route_of(settings, target.url, register_secret),
        token_via=settings.token_via,
    )


@contextlib.asynccontextmanager
async def _demo_settings() -> AsyncIterator[GatewaySettings]:
    """A gateway in this process; it leaves nothing behind."""
    # Only here: serving a real gateway must not pay for a server.
    import tempfile
    from pathlib import Path

    from acp_bridge.demo import DemoGateway

    with tempfile.TemporaryDirectory(prefix="acp-bridge-demo-") as state:
        async with DemoGateway() as gateway:
            yield GatewaySettings(
                url=gateway.url,
                url_source="--demo",
                credentials=Credentials(),
                scopes=None,
                state_dir=Path(state),
            )


def _session_options(settings: Settings) -> SessionOptions:
    return SessionOptions(
        session_key=settings.session,
        label=settings.session_label,
        require_existing=settings.require_existing,
        reset=settings.reset_session,
        agent=settings.agent,
        prefix_cwd=settings.prefix_cwd,
        provenance=settings.provenance,
        delete_at_gateway=settings.delete_gateway_sessions,
        shows_foreign=settings.foreign_turns == "show",
    )


def _home() -> str | None:
    home = os.path.expanduser("~")
    return home if os.path.isabs(home) else None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
