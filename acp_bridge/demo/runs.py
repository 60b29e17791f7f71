"""A run of the demo gateway: what a script can do with it, and what the gateway does."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from acp_bridge.demo.frames import RunFrames, RunRows, assistant
from acp_bridge.demo.hub import APPROVAL_CAPS, Connection, Hub
from acp_bridge.demo.options import change, check
from acp_bridge.demo.sessions import Session
from acp_bridge.demo.tools import ApprovalDetails, ToolCall, denial
from acp_bridge.ids import Json

APPROVAL_SECONDS = 1800.0


class RunContext:
    """One run, as its script sees it: what was asked, and how to answer.

    Every method emits the frames that the real gateway would, to the connections that it would
    send them to. A script that returns without an ending ends the run with ``stop``; one that
    raises ends it with an error, and the exception comes out again when the gateway is left.
    Aborting cancels the script at its next ``await``.
    """

    def __init__(
        self, hub: Hub, session: Session, params: Json, sender: Connection | None = None
    ) -> None:
        self.params = params
        self.run_id: str = params["idempotencyKey"]
        self.session_key = session.key
        self.message: str = params.get("message") or ""
        self.attachments: list[Json] = list(params.get("attachments") or [])
        self.status = "running"
        """``running``, then ``ok``, ``error``, ``aborted`` or (by a restart) ``cut``."""
        self.error: str | None = None
        self.started_at = hub.clock()
        self.ended_at: int | None = None
        self.ended = asyncio.Event()
        self.is_registered = True
        self.steered: list[str] = []
        """Prompts that were fed into this run while it went on (``Quirks.steer``)."""
        self._hub = hub
        self._session = session
        self._sender = sender
        self._frames = RunFrames(hub, session, self.run_id, sender)
        self._rows = RunRows(hub, session, self.run_id)
        self._task: asyncio.Task[None] | None = None
        self._done_text = ""
        self._segment = ""
        self._segment_number = 1
        self._thought = ""
        self._tools: dict[str, ToolCall] = {}

    # What a script may read

    @property
    def aborted(self) -> bool:
        """Whether the run was aborted."""
        return self.status == "aborted"

    @property
    def answer(self) -> str:
        """The text of the run so far, as its readers see it: without trailing white space."""
        text = self._segment.rstrip()
        glue = "\n\n" if self._done_text and text and not self._hub.quirks.is_old else ""
        return self._done_text + glue + text

    @property
    def is_first(self) -> bool:
        """Whether nothing was said in the session before this prompt."""
        prompts = (row.get("idempotencyKey") for row in self._session.messages)
        return all(key in (None, f"{self.run_id}:user") for key in prompts)

    async def sleep(self, seconds: float) -> None:
        """Wait, at the gateway's pace; a pace of 0 only lets others run."""
        await asyncio.sleep(seconds * self._hub.pace)

    def choose(self, changes: Json) -> None:
        """Change the session's settings, as commands do. Raises ``Refusal``."""
        check(changes, self._session.model)
        change(self._session, changes)

    # Text, thoughts, plans

    async def text(self, chunk: str) -> None:
        """Say more: an ``assistant`` event and a ``chat`` delta with the whole text so far."""
        before, segment_before = self.answer, self._segment.rstrip()
        self._segment += chunk
        segment = self._segment.rstrip()
        if segment != segment_before:
            data = {"text": segment, "delta": segment[len(segment_before) :]}
            self._frames.assistant(self._segment_number, data)
            self._delta(self.answer[len(before) :])
        await asyncio.sleep(0)

    async def replace(self, text: str) -> None:
        """Rewrite the whole answer, as the gateway does when it strips a leaked tool result."""
        self._done_text, self._segment = "", text
        data = {"text": self.answer, "delta": "", "replace": True}
        self._frames.assistant(self._segment_number, data, droppable=False)
        self._delta(self.answer, replace=True)
        await asyncio.sleep(0)

    async def thought(self, chunk: str) -> None:
        """Think aloud. 2026.6.11 never sends thoughts while it runs."""
        self._thought += chunk
        if not self._hub.quirks.is_old:
            data = {"text": self._thought, "delta": chunk}
            self._frames.agent("thinking", data, droppable=True)
        await asyncio.sleep(0)

    async def plan(self, steps: Sequence[tuple[str, str]], title: str = "Plan updated") -> None:
        """Show the whole plan: pairs of a step and ``pending|in_progress|completed``."""
        listed = [{"step": step, "status": status} for step, status in steps]
        data = {"phase": "update", "title": title, "source": "update_plan", "steps": listed}
        self._frames.agent("plan", data)
        await asyncio.sleep(0)

    # Tools

    async def tool_start(
        self, name: str, args: Json, *, meta: str | None = None, tool_call_id: str | None = None
    ) -> str:
        """Begin a tool call and return its id. The text after it is a segment of its own."""
        call = ToolCall(
            tool_call_id or f"call_{uuid.uuid4().hex[:12]}_{len(self._tools)}",
            name,
            args,
            meta or str(args.get("command") or args.get("path") or name),
            self._hub.clock(),
            self._hub.quirks.is_old,
        )
        self._tools[call.id] = call
        self._rows.prompt(self.message, self.started_at)
        self._close_segment("toolUse", call.transcript_part())
        self._frames.tool(call.started())
        self._items(call, "start")
        await asyncio.sleep(0)
        return call.id

    async def tool_update(self, tool_call_id: str, output: str) -> None:
        """Show the output of a running tool, whole so far."""
        call = self._tools[tool_call_id]
        self._frames.tool(call.updated(output))
        self._items(call, "update", output)
        if call.is_command:
            self._frames.agent("command_output", call.output("delta", output))
        await asyncio.sleep(0)

    async def tool_end(
        self,
        tool_call_id: str,
        output: str,
        *,
        exit_code: int | None = 0,
        is_error: bool | None = None,
        details: Json | None = None,
    ) -> None:
        """End a tool call. Without ``is_error`` an exit code decides, where it does: 2026.9.6
        calls none an error. ``details`` replaces those of the result."""
        call = self._tools[tool_call_id]
        call.end(output, exit_code, is_error, self._hub.clock())
        self._frames.tool(call.result(details))
        self._items(call, "end", output)
        if call.is_command and exit_code is not None:
            self._frames.agent("command_output", call.output("end", output))
        self._rows.add(call.transcript_row(self._hub.clock()))
        await asyncio.sleep(0)

    async def ask_approval(
        self,
        command: str,
        *,
        tool_call_id: str | None = None,
        allowed: Sequence[str] = ("allow-once", "deny"),
        expires_in: float = APPROVAL_SECONDS,
        cwd: str | None = None,
        warning: str | None = None,
    ) -> str:
        """Ask the approvers and wait: ``allow-once``, ``allow-always``, ``deny``, ``expired``
        after ``expires_in`` seconds, or ``unavailable`` where the prompt's connection cannot be
        asked (2026.9.6 without the cap, or without anybody who may approve)."""
        is_old = self._hub.quirks.is_old
        if not self._can_ask():
            return "unavailable"
        asked = ApprovalDetails(
            self.session_key, self.run_id, tool_call_id, allowed, cwd, warning
        ).request(command, is_old=is_old)
        approval = self._hub.open_approval(asked, expires_in)
        if not is_old:
            names = {"approvalId": approval.id, "toolCallId": tool_call_id}
            self._frames.lifecycle("waiting-approval", **names)
        try:
            async with asyncio.timeout(expires_in):
                decision = await approval.decided
        except TimeoutError:
            self._hub.approvals.pop(approval.id, None)
            decision = "expired"
        except asyncio.CancelledError:
            if not is_old and approval.id in self._hub.approvals:
                self._hub.settle_approval(approval.id, "deny", "approval-scope-closed")
            raise
        if not is_old:
            self._frames.lifecycle("approval-resolved", **names)
        return decision

    async def exec(self, command: str, output: str, *, cwd: str | None = None) -> bool:
        """A whole command: asked for, then "run" with a canned output. Tells whether it ran."""
        call_id = await self.tool_start("exec", {"command": command})
        decision = await self.ask_approval(command, tool_call_id=call_id, cwd=cwd)
        if not decision.startswith("allow"):
            await self.tool_end(call_id, denial(command, decision), exit_code=None, is_error=True)
            self._frames.agent("approval", self._tools[call_id].refused())
            return False
        await self.tool_update(call_id, output)
        await self.sleep(0.4)
        await self.tool_end(call_id, output)
        return True

    async def usage(
        self, total: int, *, context: int | None = None, output: int = 0, cost_usd: float = 0.0
    ) -> None:
        """Tell the token counts of the session, in its row and in ``agent usage``."""
        usage = self._session.usage
        usage.total, usage.output, usage.input = total, output, max(total - output, 0)
        usage.context = context or usage.context
        usage.cost_usd += cost_usd
        if not self._hub.quirks.is_old:
            self._frames.agent("usage", {"outputTokens": output})
        self._hub.session_changed(self._session, "model", self.run_id)
        await asyncio.sleep(0)

    # Endings

    async def finish(self, stop_reason: str = "stop", *, message: bool = True) -> None:
        """End the run; without ``message`` the final carries none, as 2026.9.6 often does."""
        settled = {"stopReason": stop_reason, "aborted": False, "livenessState": "working"}
        self._frames.lifecycle("finishing", **settled, endedAt=self._hub.clock())
        answer = self.answer
        self._end("ok", stop_reason)
        tools = [call.name for call in self._tools.values() if not call.has_failed]
        receipt = self._frames.receipt(answer, self.started_at, tools)
        self._frames.lifecycle("end", **settled, endedAt=self.ended_at, **receipt)
        if message and answer:
            final = assistant(answer, self._hub.clock())
            self._frames.chat("final", stopReason=stop_reason, message=final)
        else:
            self._frames.empty_final()
        if self._hub.quirks.second_terminal:
            for call in self._tools.values():
                if call.is_error:
                    self._frames.late_error(f"⚠️ 🛠️ `{call.meta}` failed")
        await asyncio.sleep(0)

    async def final_only(self, text: str) -> None:
        """Answer as the gateway's own commands do: a ``final`` with seq 1 and nothing else."""
        self._segment = text
        self._end("ok", "stop")
        self._frames.command_final(text)
        await asyncio.sleep(0)

    async def fail(
        self, message: str, *, kind: str | None = None, detail: Json | None = None
    ) -> None:
        """End the run with an error, told twice as the gateway does."""
        self.error = message
        self._frames.failing(message, self._hub.clock())
        self._end("error", "error")
        self._frames.failed(message, kind, detail, self.started_at)
        await asyncio.sleep(0)

    # What the gateway does with a run

    def start(
        self,
        script: Callable[[RunContext], Awaitable[None]],
        after: RunContext | None = None,
    ) -> None:
        """Let the script run, once ``after`` has ended. Its first frame comes with the next turn
        of the loop, so an acknowledgement that is queued now goes first."""
        if not self._hub.quirks.late_prompt_row:
            self._rows.prompt(self.message, self.started_at)
        self._task = asyncio.create_task(self._play(script, after), name=f"run {self.run_id}")
        self._hub.tasks.add(self._task)
        self._task.add_done_callback(self._hub.tasks.discard)

    def abort(self, reason: str = "rpc") -> bool:
        """Stop a running run; tells whether there was anything to stop."""
        if self.status != "running":
            return False
        answer = self.answer
        self._end("aborted", "aborted")
        if self._task is not None:
            self._task.cancel()
        extra: Json = {"message": assistant(answer, self._hub.clock())} if answer else {}
        self._frames.chat("aborted", stopReason=reason, **extra)
        times = {"startedAt": self.started_at, "endedAt": self.ended_at}
        self._frames.lifecycle("end", status="cancelled", aborted=True, stopReason=reason, **times)
        return True

    def swallow(self, busy: str) -> None:
        """End a steered prompt: an empty ``final``, and its text goes to the busy run."""
        self._rows.prompt(self.message, self.started_at, steered=busy)
        self._end("ok", "stop")
        self._frames.empty_final()

    def cut(self) -> None:
        """Lose the run without a word, as a restart does; its session remembers the loss."""
        if self.status != "running":
            return
        self.status = "cut"
        self._session.is_active = False
        self._session.aborted_last_run = True
        if self._task is not None:
            self._task.cancel()
        self.ended.set()

    def unregister(self) -> None:
        """Forget that the run was only just there (see ``Quirks.linger``)."""
        self.is_registered = False

    # Inside

    async def _play(
        self, script: Callable[[RunContext], Awaitable[None]], after: RunContext | None
    ) -> None:
        if after is not None:
            await after.ended.wait()
        self._begin()
        try:
            await script(self)
            if self.status == "running":
                await self.finish()
        except Exception as error:
            self._hub.failures.append(error)
            if self.status == "running":
                await self.fail(f"script failed: {type(error).__name__}: {error}")

    def _begin(self) -> None:
        session = self._session
        self.started_at = self._hub.clock()
        session.begin(self.started_at)
        for phase in ("preparing_workspace", "preparing_context", "starting_model"):
            self._frames.status(phase)
        self._frames.lifecycle("start", startedAt=self.started_at)
        self._hub.session_changed(session, "start", self.run_id)

    def _end(self, status: str, stop_reason: str) -> None:
        """Settle the state once; whatever comes after is a late message."""
        if self.status != "running":
            return
        self.status = status
        self.ended_at = self._hub.clock()
        self._rows.prompt(self.message, self.started_at)
        if status == "aborted" and not self._hub.quirks.is_old:
            self._rows.aborted(self.answer)
        else:
            self._close_segment(stop_reason)
        self._session.end(status, self.ended_at)
        self._hub.session_changed(self._session, "end", self.run_id)
        linger = self._hub.quirks.linger
        if linger == 0:
            self.unregister()
        elif linger is not None:
            asyncio.get_running_loop().call_later(linger, self.unregister)
        self.ended.set()

    def _close_segment(self, stop_reason: str, *parts: Json) -> None:
        """Write the text so far, and what follows it, to the transcript; begin a new segment."""
        self._rows.assistant(self._thought, self._segment, parts, stop_reason, self.error)
        self._done_text = self.answer
        self._segment, self._thought = "", ""
        self._segment_number += 1

    def _can_ask(self) -> bool:
        if self._hub.quirks.is_old:
            return True
        has_cap = self._sender is not None and bool(self._sender.caps & APPROVAL_CAPS)
        return has_cap and bool(self._hub.approvers())

    def _delta(self, added: str, **extra: Any) -> None:
        extra["message"] = assistant(self.answer, self._hub.clock())
        self._frames.chat("delta", deltaText=added, **extra)

    def _items(self, call: ToolCall, phase: str, text: str = "") -> None:
        for item in call.items(phase, text):
            self._frames.agent("item", item)


Script = Callable[[RunContext], Awaitable[None]]
"""What plays the agent: called once for each run."""
