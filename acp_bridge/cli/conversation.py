"""One conversation with an agent that is started for it, from the first line to the exit code."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import acp
from acp.schema import ClientCapabilities, Implementation

from acp_bridge import __version__
from acp_bridge.cli.chat_client import ChatClient, Permission
from acp_bridge.cli.keyboard import Lines
from acp_bridge.cli.screen import Screen

OUTCOMES: Final = {
    "end_turn": 0,
    "error": 1,
    "usage": 2,
    "could_not_start": 3,
    "refused_credentials": 4,
    "refusal": 10,
    "max_tokens": 11,
    "max_turn_requests": 12,
    "cancelled": 130,
}
"""How a conversation ended, and the exit code that says so."""

_LINE_LIMIT: Final = 64 * 1024 * 1024
_STOP_SECONDS: Final = 3.0
_CREDENTIALS: Final = frozenset({"auth_rejected", "pairing_required"})
_LEAVE: Final = frozenset({"/quit", "/exit"})


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """A conversation: which agent, which prompts, and who answers its questions."""

    command: tuple[str, ...]
    """The agent's command line."""
    cwd: Path
    prompts: tuple[str, ...] = ()
    """Prompts to send first."""
    permission: Permission = Permission.ASK
    """For ``prompts``. Where nobody can be asked, ASK denies."""
    is_interactive: bool = True
    """Whether lines of standard input follow ``prompts``."""
    typed_permission: Permission = Permission.ASK
    """For prompts that were typed."""
    env: dict[str, str] | None = None
    """The agent's environment; None: ours."""


async def converse(options: ChatOptions, screen: Screen, lines: Lines) -> int:
    """Have a conversation and return its exit code (see ``OUTCOMES``).

    Takes over SIGINT while it lasts: the first one cancels the turn that runs, the next one, or
    one outside a turn, leaves.
    """
    _quieten()
    try:
        async with _started(options) as process:
            return await _Conversation(options, screen, lines, process).run()
    except OSError as error:
        screen.error(f"The bridge could not be started: {error.strerror or error}")
        return OUTCOMES["could_not_start"]


@contextlib.asynccontextmanager
async def _started(options: ChatOptions) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start the agent, in a process group of its own: Ctrl-C is for this client to handle."""
    group: dict[str, Any]
    if sys.platform == "win32":
        group = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    else:
        group = {"process_group": 0}
    process = await asyncio.create_subprocess_exec(
        *options.command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        limit=_LINE_LIMIT,
        env=options.env,
        **group,
    )
    try:
        yield process
    finally:
        await _stop(process)


async def _stop(process: asyncio.subprocess.Process) -> None:
    """End of input, then SIGTERM, then SIGKILL, with a deadline each."""
    if process.stdin is not None:
        process.stdin.close()
    for insist in (process.terminate, process.kill):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await process.wait()
                return
        with contextlib.suppress(ProcessLookupError):
            insist()
    await process.wait()


def _quieten() -> None:
    """Keep the SDK from setting up a log on stderr for each message that it does not know."""
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(logging.NullHandler())


class _Conversation:
    """Talks with a started agent."""

    def __init__(
        self,
        options: ChatOptions,
        screen: Screen,
        lines: Lines,
        process: asyncio.subprocess.Process,
    ) -> None:
        self._options = options
        self._screen = screen
        self._lines = lines
        self._process = process
        self._client = ChatClient(screen, lines)
        self._agent = acp.connect_to_agent(
            self._client.as_client(),
            process.stdin,
            process.stdout,
            observers=[self._client.observe],
        )
        self._session_id = ""
        self._is_in_turn = False
        self._cancelling: asyncio.Task[None] | None = None
        self._has_left = asyncio.Event()

    async def run(self) -> int:
        """Hold the conversation; return its exit code."""
        try:
            with self._interrupts():
                return await self._until_left(self._talk())
        finally:
            with contextlib.suppress(ConnectionError):
                await self._agent.close()

    async def _talk(self) -> int:
        code = await self._open()
        if code:
            return code
        for text in self._options.prompts:
            self._screen.note(f"> {text}")
            code = await self._turn(text, self._options.permission) or code
        if self._options.is_interactive and self._process.returncode is None:
            code = await self._listen() or code
        return code

    async def _listen(self) -> int:
        """Take prompts from standard input until it ends."""
        if self._lines.is_interactive:
            self._screen.note("Type a prompt. Ctrl-C cancels a turn; Ctrl-D or /quit leaves.")
        code = 0
        while self._process.returncode is None:
            if self._lines.is_interactive:
                self._screen.prompt("> ")
            text = await self._lines.read()
            self._screen.entered()
            if text is None or text.strip() in _LEAVE:
                # What a person has seen fail needs no exit code; a script does.
                return 0 if self._lines.is_interactive else code
            if text.strip():
                code = await self._turn(text, self._options.typed_permission) or code
        return code

    async def _open(self) -> int:
        """Begin a session."""
        try:
            await self._agent.initialize(
                acp.PROTOCOL_VERSION,
                ClientCapabilities(),
                Implementation(name="acp-bridge-chat", title="chat", version=__version__),
            )
            session = await self._agent.new_session(str(self._options.cwd), mcp_servers=[])
        except acp.RequestError as error:
            refused = self._tell(error) in _CREDENTIALS
            return OUTCOMES["refused_credentials" if refused else "could_not_start"]
        except ConnectionError:
            return await self._ended("could_not_start")
        self._session_id = session.session_id
        return 0

    async def _turn(self, text: str, permission: Permission) -> int:
        self._client.permission = permission
        self._is_in_turn, self._cancelling = True, None
        try:
            answer = await self._agent.prompt(self._session_id, [acp.text_block(text)])
        except acp.RequestError as error:
            self._tell(error)
            return OUTCOMES["error"]
        except ConnectionError:
            return await self._ended("error")
        finally:
            self._is_in_turn = False
        used = ""
        if self._client.usage is not None:
            used = ", {:,} of {:,} tokens".format(*self._client.usage)
        self._screen.note(f"[{answer.stop_reason}{used}]")
        return OUTCOMES[answer.stop_reason]

    def _tell(self, error: acp.RequestError) -> str:
        """Show an error answer with its hint; return its code in words."""
        data = error.data if isinstance(error.data, dict) else {}
        code = str(data.get("code") or error.code)
        self._screen.error(f"error: {error} ({code})")
        if data.get("hint"):
            self._screen.note(f"hint: {data['hint']}")
        return code

    async def _ended(self, outcome: str) -> int:
        """The agent is gone, having said why on stderr. Where it has an exit code for that kind
        of failure, so have we."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await self._process.wait()
        code = self._process.returncode
        self._screen.error(f"The bridge has ended (exit code {code}).")
        known = {OUTCOMES["usage"], OUTCOMES["could_not_start"], OUTCOMES["refused_credentials"]}
        return code if code in known else OUTCOMES[outcome]

    async def _until_left(self, talk: Coroutine[Any, Any, int]) -> int:
        """Talk until it is over or the user leaves."""
        talking, leaving = asyncio.create_task(talk), asyncio.create_task(self._has_left.wait())
        try:
            await asyncio.wait({talking, leaving}, return_when=asyncio.FIRST_COMPLETED)
            return talking.result() if talking.done() else OUTCOMES["cancelled"]
        finally:
            talking.cancel()
            leaving.cancel()
            await asyncio.gather(talking, leaving, return_exceptions=True)

    @contextlib.contextmanager
    def _interrupts(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        before = signal.signal(signal.SIGINT, lambda *_: loop.call_soon_threadsafe(self._interrupt))
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _interrupt(self) -> None:
        if not self._is_in_turn or self._cancelling is not None:
            self._has_left.set()
            return
        self._screen.note("Cancelling. Ctrl-C once more leaves.")
        self._client.cancel_questions()
        self._cancelling = asyncio.create_task(self._cancel())

    async def _cancel(self) -> None:
        with contextlib.suppress(ConnectionError):
            await self._agent.cancel(self._session_id)
