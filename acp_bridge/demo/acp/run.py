"""A run of the ACP demo gateway: what a script can do with it, and what the gateway does."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from acp_bridge.demo.acp import store
from acp_bridge.demo.acp.wire import INTERNAL, AcpConnection, Refused
from acp_bridge.demo.hub import Refusal
from acp_bridge.ids import Json

if TYPE_CHECKING:
    from acp_bridge.demo.acp.methods import LiveSession

CANCELLED: Final = "[turn cancelled via client]"
_INTERRUPTED: Final = "[interrupted]"
_OPTIONS: Final = (
    ("allow-once", "Allow once", "allow_once"),
    ("allow-always", "Allow always", "allow_always"),
    ("reject-with-edit", "Reject with edit", "reject_with_edit"),
    ("reject-once", "Reject", "reject_once"),
)
_OF_OPTION: Final = {"reject-once": "deny", "reject-always": "deny"}


class _Failed(Exception):
    """The script has ended the run with an error."""


class AcpRun:
    """One turn, as its script sees it. It has the methods of the other face's runs, so that one
    script can play both agents.

    What it shows goes to the connection of its prompt and is lost when that is gone. Nothing is
    stored before it ends, and only if it ends well.
    """

    def __init__(
        self,
        session: LiveSession,
        message: str,
        *,
        pace: float,
        now: float,
        patience: float,
    ) -> None:
        self.session = session
        self.message = message
        self.status = "running"
        """``running``, then ``ok``, ``error``, ``aborted`` or (by a restart) ``cut``."""
        self.ended = asyncio.Event()
        self.rows: list[Json] = [store.user_row(message, now)]
        self.content = ""
        """The text of the last iteration, or of everything after a cancel."""
        self._patience = patience
        self._pace = pace
        self._task: asyncio.Task[None] | None = None
        self._said = ""
        self._running_tools: dict[str, str] = {}
        self._is_asking = False
        self._is_cancelled = False

    @property
    def connection(self) -> AcpConnection:
        """Where the prompt came from."""
        return self.session.connection

    @property
    def session_key(self) -> str:
        """The session's id."""
        return self.session.stored.session_id

    @property
    def aborted(self) -> bool:
        """Whether the run was cancelled."""
        return self.status == "aborted"

    @property
    def answer(self) -> str:
        """All that was said so far."""
        return self._said

    @property
    def is_first(self) -> bool:
        """Whether nothing was stored of the session before this prompt."""
        return not self.session.stored.rows

    async def sleep(self, seconds: float) -> None:
        """Wait, at the gateway's pace; a pace of 0 only lets others run."""
        await asyncio.sleep(seconds * self._pace)

    def choose(self, changes: Json) -> None:
        """Change the session's settings: this gateway has none. Raises ``Refusal``."""
        raise Refusal(f"there is no setting {', '.join(changes)}")

    # What a script shows

    def update(self, name: str, /, **fields: Any) -> None:
        """Send any update of the session."""
        update = {"sessionUpdate": name, **fields}
        self.connection.notify("session/update", {"sessionId": self.session_key, "update": update})

    def notify(self, method: str, **params: Any) -> None:
        """Send any notification about the session."""
        self.connection.notify(method, {"sessionId": self.session_key, **params})

    async def text(self, chunk: str) -> None:
        """Say more."""
        self._said += chunk
        self.content += chunk
        self.update("agent_message_chunk", content={"type": "text", "text": chunk})
        await asyncio.sleep(0)

    async def thought(self, chunk: str) -> None:
        """Think aloud; it is never stored."""
        self.update("agent_thought_chunk", content={"type": "text", "text": chunk})
        await asyncio.sleep(0)

    async def plan(self, steps: Sequence[tuple[str, str]], title: str = "") -> None:
        """Show the whole plan: pairs of a step and ``pending|in_progress|completed``."""
        entries = [
            {"content": step, "status": status, "priority": "medium"} for step, status in steps
        ]
        self.session.stored.plan = entries
        self.update("plan", entries=entries)
        await asyncio.sleep(0)

    async def tool_start(self, name: str, args: Json, *, tool_call_id: str | None = None) -> str:
        """Begin a tool call and return its id."""
        call_id = tool_call_id or f"call_{uuid.uuid4().hex[:24]}"
        self.rows.append(
            store.assistant_row(self.content, [{"id": call_id, "name": name, "args": args}])
        )
        self.content = ""
        self._running_tools[call_id] = name
        self.session.send_update(store.tool_call(call_id, name, args))
        await asyncio.sleep(0)
        return call_id

    async def tool_update(self, tool_call_id: str, output: str) -> None:
        """Output of a running tool is never shown here."""
        await asyncio.sleep(0)

    async def tool_end(
        self,
        tool_call_id: str,
        output: str,
        *,
        exit_code: int | None = 0,
        is_error: bool | None = None,
        details: Json | None = None,
        extra: Sequence[Json] = (),
    ) -> None:
        """End a tool call. How it went is in its text alone: the status is always the same."""
        name = self._running_tools.pop(tool_call_id)
        self.rows.append(store.tool_row(tool_call_id, output))
        self.session.send_update(store.tool_end(tool_call_id, name, output, *extra))
        await asyncio.sleep(0)

    async def ask_permission(self, tool: str, args: Json) -> Json | None:
        """Ask for a tool's approval; the answer's ``outcome`` or None."""
        raw, diff = store.edit_shape(tool, args)
        options = [
            {"optionId": option, "name": name, "kind": kind}
            for option, name, kind in _OPTIONS
            if diff or option != "reject-with-edit"
        ]
        call: Json = {
            "toolCallId": f"approval-{uuid.uuid4()}",
            "title": f"Approve {tool}?",
            "kind": "edit" if diff else "execute",
            "status": "pending",
            "rawInput": raw if diff else {"tool": tool},
            "content": [diff or _text_content(str(args.get("command") or tool))],
        }
        if diff:
            call["proposedEdit"] = raw["newText"]
        params = {"sessionId": self.session_key, "options": options, "toolCall": call}
        return await self._ask("session/request_permission", params, self._patience)

    async def ask_user(self, question: str, choices: Sequence[str]) -> str | None:
        """Ask the user to choose: as a form if the client can show one. The choice, or None."""
        if self.session.has_elicitation:
            offered = [{"const": f"choice-{i}", "title": c} for i, c in enumerate(choices)]
            schema = {
                "type": "object",
                "properties": {"choice": {"type": "string", "oneOf": offered}},
                "required": ["choice"],
            }
            form = {
                "sessionId": self.session_key,
                "mode": "form",
                "message": question,
                "requestedSchema": schema,
            }
            answer = await self.connection.ask("elicitation/create", form, 300.0)
            chosen = (answer or {}).get("content", {}).get("choice")
        else:
            options = [
                {"optionId": f"choice-{i}", "name": c, "kind": "allow_once"}
                for i, c in enumerate(choices)
            ]
            call = {
                "toolCallId": f"ask-user-{uuid.uuid4()}",
                "title": question,
                "kind": "other",
                "status": "pending",
            }
            params = {"sessionId": self.session_key, "options": options, "toolCall": call}
            answer = await self.connection.ask("session/request_permission", params, 300.0)
            chosen = _outcome(answer).get("optionId")
        names = {f"choice-{i}": c for i, c in enumerate(choices)}
        return names.get(chosen) if isinstance(chosen, str) else None

    async def ask_approval(self, command: str, **_more: Any) -> str:
        """Ask whether a command may run: ``allow-once``, ``allow-always`` or ``deny``."""
        outcome = await self.ask_permission("shell", {"command": command})
        chosen = str((outcome or {}).get("optionId", "deny"))
        return _OF_OPTION.get(chosen, chosen)

    async def exec(self, command: str, output: str, *, cwd: str | None = None) -> bool:
        """A whole command: asked for, then "run" with a canned output. Tells whether it ran."""
        decision = await self.ask_approval(command)
        was_allowed = decision.startswith("allow")
        call = await self.tool_start("shell", {"command": command})
        if was_allowed:
            await self.sleep(0.4)
        await self.tool_end(call, output if was_allowed else "Denied by the operator.")
        return was_allowed

    async def deliver(self, title: str, mime_type: str, blob: str) -> None:
        """Hand a file over, in base64."""
        call = await self.tool_start("deliver_file", {"path": title, "mimeType": mime_type})
        resource = {"uri": "attachment://deliver/0", "mimeType": mime_type, "blob": blob}
        content = {"type": "content", "content": {"type": "resource", "resource": resource}}
        await self.tool_end(call, f"Delivered {title}", extra=[content])

    async def usage(self, total: int, **_more: Any) -> None:
        """Token counts are never told here."""
        await asyncio.sleep(0)

    async def final_only(self, text: str) -> None:
        """Answer from the response cache: nothing is streamed, the result has it all."""
        self.content = text
        await asyncio.sleep(0)

    async def fail(self, message: str, **_more: Any) -> None:
        """End the run with an error."""
        raise _Failed(message)

    # What the gateway does with a run

    def start(self, script: AcpScript) -> None:
        """Let the script run."""
        self._task = asyncio.create_task(self._play(script), name=f"turn {self.session_key}")

    def cancel(self) -> None:
        """The client's cancel; it is not honoured before an open permission request is answered."""
        self._is_cancelled = True
        if self._task is not None and not self._is_asking:
            self._task.cancel()

    def cut(self) -> None:
        """Lose the run without a word, as the end of the process does."""
        if self.status == "running":
            self.status = "cut"
            if self._task is not None:
                self._task.cancel()

    async def result(self) -> Json:
        """The result of ``session/prompt``, once the turn is over. Raises ``Refused``."""
        await self.ended.wait()
        if self.status in ("error", "cut"):
            raise Refused(INTERNAL, f"Agent turn failed: {self.content}")
        reason = "end_turn" if self.status == "ok" else "cancelled"
        return {"sessionId": self.session_key, "stopReason": reason, "content": self.content}

    async def _play(self, script: AcpScript) -> None:
        try:
            await script(self) if self.message.strip() else await self.fail("an empty prompt")
        except _Failed as failed:
            self.status, self.content = "error", str(failed)
        except asyncio.CancelledError:
            if self.status == "running":
                self._cancelled()
        except Exception as error:
            self.session.failures.append(error)
            self.status, self.content = "error", type(error).__name__
        else:
            self.status = "ok"
            self.rows.append(store.assistant_row(self.content, []))
            self.session.stored.keep(self.rows)
        self.session.run = None
        self.ended.set()

    def _cancelled(self) -> None:
        self.status = "aborted"
        for call_id, name in self._running_tools.items():
            self.session.send_update(store.tool_end(call_id, name, _INTERRUPTED))
        self.update(
            "tool_call",
            toolCallId=f"turn-cancelled-{self.session_key}",
            name="turn-cancelled",
            title="turn-cancelled",
            kind="think",
            status="completed",
            content=[_text_content(CANCELLED)],
        )
        self.content = f"{self._said}\n\n{CANCELLED}" if self._said else CANCELLED

    async def _ask(self, method: str, params: Json, timeout: float) -> Json | None:
        self._is_asking = True
        try:
            answer = await self.connection.ask(method, params, timeout)
        finally:
            self._is_asking = False
        if self._is_cancelled:
            raise asyncio.CancelledError
        return _outcome(answer)


def _outcome(answer: Json | None) -> Json:
    outcome = (answer or {}).get("outcome")
    return outcome if isinstance(outcome, dict) else {}


def _text_content(text: str) -> Json:
    return {"type": "content", "content": {"type": "text", "text": text}}


AcpScript = Callable[[AcpRun], Awaitable[None]]
"""What plays the agent: called once for each turn."""
