"""The client's side of ACP in ``acp-bridge chat``: shows updates and answers questions."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Any, Final, cast

import acp
from acp.connection import StreamDirection, StreamEvent
from acp.schema import (
    AllowedOutcome,
    DeniedOutcome,
    PermissionOption,
    RequestPermissionResponse,
    ToolCallUpdate,
)

from acp_bridge.cli.keyboard import Lines
from acp_bridge.cli.screen import Screen

_REQUEST_CANCELLED: Final = -32800


class Permission(StrEnum):
    """What to answer when the agent asks for a permission."""

    ASK = "ask"
    ALLOW = "allow"
    DENY = "deny"


class ChatClient:
    """What the agent may call. It offers no files and no terminals."""

    def __init__(self, screen: Screen, lines: Lines) -> None:
        self.permission = Permission.ASK
        self.usage: tuple[int, int] | None = None
        """Tokens used and tokens that fit, as last told."""
        self._screen = screen
        self._lines = lines
        self._arrived: list[tuple[Any, Any]] = []
        self._open: dict[Any, asyncio.Future[None]] = {}
        self._one_at_a_time = asyncio.Lock()
        self._withdrawn: set[Any] = set()

    def as_client(self) -> acp.Client:
        """Itself, as the SDK's type: what is not offered is not there to be called."""
        return cast("acp.Client", self)

    def observe(self, event: StreamEvent) -> None:
        """Look at each message before the SDK does: it hides the ids of questions and knows
        nothing of their withdrawal."""
        if event.direction is not StreamDirection.INCOMING:
            return
        method, params = event.message.get("method"), event.message.get("params") or {}
        if method == "session/request_permission":
            request_id = event.message.get("id")
            self._open[request_id] = asyncio.get_running_loop().create_future()
            tool_call_id = (params.get("toolCall") or {}).get("toolCallId")
            self._arrived.append((request_id, tool_call_id))
        elif method == "$/cancel_request" and params.get("requestId") in self._open:
            self._withdrawn.add(params["requestId"])
            self._settle(params["requestId"])

    def cancel_questions(self) -> None:
        """Answer all open questions as cancelled, as ACP wants of a client that cancels."""
        for request_id in list(self._open):
            self._settle(request_id)

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        """Show one update; those that a terminal has no use for are left out."""
        match update.session_update:
            case "agent_message_chunk":
                self._screen.message(_text_of(update.content))
            case "agent_thought_chunk":
                self._screen.thought(_text_of(update.content))
            case "plan":
                self._screen.plan([(entry.content, entry.status) for entry in update.entries])
            case "tool_call" | "tool_call_update":
                self._screen.tool(
                    update.tool_call_id,
                    title=update.title,
                    status=update.status,
                    contents=update.content or (),
                )
            case "usage_update":
                self.usage = (update.used, update.size)

    async def request_permission(
        self,
        session_id: str,
        tool_call: ToolCallUpdate,
        options: list[PermissionOption],
        **_: Any,
    ) -> RequestPermissionResponse:
        """Ask the user, or answer as ``permission`` says. Raises the SDK's error for a cancelled
        request when the agent has withdrawn its question."""
        request_id = self._claim(tool_call.tool_call_id)
        try:
            async with self._one_at_a_time:
                chosen = await self._choose(self._open[request_id], tool_call, options)
        finally:
            del self._open[request_id]
        if request_id in self._withdrawn:
            self._withdrawn.remove(request_id)
            self._screen.note("The question was withdrawn: it was settled elsewhere.")
            raise acp.RequestError(_REQUEST_CANCELLED, "Request cancelled")
        if chosen is None:
            self._screen.note("Not allowed.")
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        self._screen.note(f"Answered: {chosen.name}")
        return RequestPermissionResponse(
            outcome=AllowedOutcome(option_id=chosen.option_id, outcome="selected")
        )

    # Inside

    def _claim(self, tool_call_id: str) -> Any:
        """The id of the oldest question about a tool call that nobody has taken up."""
        found = next(each for each in self._arrived if each[1] == tool_call_id)
        self._arrived.remove(found)
        return found[0]

    async def _choose(
        self,
        settled: asyncio.Future[None],
        tool_call: ToolCallUpdate,
        options: list[PermissionOption],
    ) -> PermissionOption | None:
        if settled.done():
            return None
        self._screen.question(_subject(tool_call), [option.name for option in options])
        if self.permission is Permission.ASK and self._lines.is_interactive:
            return await self._ask(settled, options)
        if self.permission is Permission.ALLOW:
            self._screen.note("Answered for you, as told.")
            return _of_kind(options, "allow_once")
        if self.permission is Permission.ASK:
            self._screen.note("Nobody can be asked here, so it is denied; --yes allows.")
        return _of_kind(options, "reject_once")

    async def _ask(
        self, settled: asyncio.Future[None], options: list[PermissionOption]
    ) -> PermissionOption | None:
        """Wait for a number; the end of input, a cancelled turn and a withdrawal give None."""
        self._lines.discard()  # what was typed before the question is no answer to it
        reading = asyncio.create_task(self._read_number(len(options)))
        settled.add_done_callback(lambda _: reading.cancel())
        try:
            number = await reading
        except asyncio.CancelledError:
            if not settled.done():
                raise
            number = None
        return None if number is None else options[number - 1]

    async def _read_number(self, highest: int) -> int | None:
        while True:
            self._screen.prompt(f"1-{highest}? ")
            line = await self._lines.read()
            self._screen.entered()
            if line is None:
                return None
            if line.strip().isdecimal() and 1 <= int(line) <= highest:
                return int(line)

    def _settle(self, request_id: Any) -> None:
        settled = self._open.get(request_id)
        if settled is not None and not settled.done():
            settled.set_result(None)


def _of_kind(options: list[PermissionOption], kind: str) -> PermissionOption | None:
    return next((option for option in options if option.kind == kind), None)


def _subject(tool_call: ToolCallUpdate) -> str:
    """What is asked for: the title, and the command where the title does not show it."""
    title = tool_call.title or tool_call.tool_call_id
    given = tool_call.raw_input if isinstance(tool_call.raw_input, dict) else {}
    command = given.get("command")
    return f"{title}\n  $ {command}" if command and str(command) not in title else title


def _text_of(content: Any) -> str:
    return content.text if content.type == "text" else f"[{content.type}]"
