"""A scripted editor: starts an agent as a real process and talks ACP to it over pipes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support import transcript
from tests.support.acp_oracle import AcpOracle, Violation
from tests.support.permission_policies import PermissionPolicy, allow_once, cancelled
from tests.support.pipes import LineReader
from tests.support.waits import WAIT, scaled

Json = dict[str, Any]


def agent_command(*arguments: str) -> list[str]:
    """The command line of the installed bridge, the one beside this Python if there is one."""
    script = Path(sys.executable).with_name("acp-bridge")
    start = [str(script)] if script.exists() else [sys.executable, "-m", "acp_bridge"]
    return [*start, *arguments]


def editor_environment(home: Path, **extra: str) -> dict[str, str]:
    """A small environment whose home is ``home``: nothing of this machine's user gets in."""
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    return {**kept, "HOME": str(home), "LANG": "C.UTF-8", **extra}


class AgentError(Exception):
    """The agent answered a request with a JSON-RPC error."""

    def __init__(self, error: Json) -> None:
        super().__init__(f"{error['code']} {error['message']} {error.get('data')}")
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: Any = error.get("data")


class Call:
    """A request to the agent that is or will be answered."""

    def __init__(self, editor: EditorProcess, request_id: Any, method: str) -> None:
        self.editor = editor
        self.request_id = request_id
        self.method = method
        self.sent_at = time.monotonic()
        self.answered_at: float | None = None
        self.message: Json | None = None

    @property
    def is_answered(self) -> bool:
        return self.message is not None

    @property
    def seconds(self) -> float:
        """From asking to the answer."""
        assert self.answered_at is not None
        return self.answered_at - self.sent_at

    async def answer(self, timeout: float = WAIT) -> Json:
        """The whole answer, result or error."""
        await self.editor.until(lambda: self.is_answered, f"the answer to {self.method}", timeout)
        assert self.message is not None
        return self.message

    async def result(self, timeout: float = WAIT) -> Json:
        """The result. Raises ``AgentError`` for an error."""
        message = await self.answer(timeout)
        if "error" in message:
            raise AgentError(message["error"])
        result: Json = message["result"]
        return result

    async def error(self, timeout: float = WAIT) -> AgentError:
        """The error; a result fails the test."""
        message = await self.answer(timeout)
        assert "error" in message, f"{self.method} was expected to fail: {message}"
        return AgentError(message["error"])


class PromptHandle(Call):
    """A ``session/prompt`` and what the agent showed for it."""

    def __init__(self, editor: EditorProcess, request_id: Any, session_id: str) -> None:
        super().__init__(editor, request_id, "session/prompt")
        self.session_id = session_id
        self.begin = len(editor.messages)
        self.end: int | None = None

    def __await__(self) -> Generator[Any, None, str]:
        return self.stop_reason().__await__()

    async def stop_reason(self, timeout: float = WAIT) -> str:
        """Wait for the turn's end. Raises ``AgentError`` for an error."""
        return str((await self.result(timeout))["stopReason"])

    @property
    def updates(self) -> list[Json]:
        """The session's updates between the prompt (or the answer of one before) and its answer."""
        return [
            message["params"]["update"]
            for message in self.editor.messages[self.begin : self.end]
            if message.get("method") == "session/update"
            and message["params"]["sessionId"] == self.session_id
        ]

    @property
    def text(self) -> str:
        return transcript.text_of(self.updates)

    @property
    def thoughts(self) -> str:
        return transcript.thoughts_of(self.updates)

    @property
    def texts(self) -> list[str]:
        """The text of each agent message."""
        return transcript.messages(self.updates)

    @property
    def tools(self) -> list[transcript.ToolCard]:
        return transcript.tool_cards(self.updates)

    async def shows(self, part: str, timeout: float = WAIT) -> None:
        """Wait until the agent's text holds ``part``."""
        await self.editor.until(lambda: part in self.text, f"the text {part!r}", timeout)


class EditorProcess:
    """One run of an agent; use as an async context manager.

    Leaving the context closes the agent's stdin, which must end it within five seconds and leave no
    process of its group behind. Each line of its stdout is judged by ``oracle`` as it arrives; a
    violation is raised by the next wait, or at the end. Without ``reads_stderr`` its stderr is a
    pipe that nobody empties before the end.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path | None = None,
        oracle: AcpOracle | None = None,
        grace: float = WAIT,
        reads_stderr: bool = True,
    ) -> None:
        self.command = list(command)
        self.messages: list[Json] = []
        """All messages of the agent, in order."""
        self.permissions: list[Json] = []
        """The requests for permission, whole messages."""
        self.permission_policy: PermissionPolicy = allow_once
        self.may_tear = False
        """Whether the agent's last line may be torn: it cannot be whole when nobody reads it."""
        self._env = dict(env)
        self._cwd = cwd
        self._oracle = oracle or AcpOracle()
        self._grace = grace
        self._reads_stderr = reads_stderr
        self._calls: dict[str, Call] = {}
        self._next_id = 0
        self._line_begun = bytearray()
        self._changed = asyncio.Event()
        self._violation: BaseException | None = None
        self._open_permissions: dict[str, Json] = {}

    # --- life ---------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._stdout = await LineReader.open(self._line_arrived, self._changed.set)
        self._stderr = await LineReader.open(lambda line: self._changed.set(), self._changed.set)
        if not self._reads_stderr:
            self._stderr.pause()
        self.started_at = time.monotonic()
        self._process = await asyncio.create_subprocess_exec(
            *self.command,
            stdin=asyncio.subprocess.PIPE,
            stdout=self._stdout.write_end,
            stderr=self._stderr.write_end,
            env=self._env,
            cwd=self._cwd,
            start_new_session=True,
        )
        self._stdout.close_write_end()
        self._stderr.close_write_end()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        trouble = await self._stop()
        if error is not None:
            error.add_note(self.report(trouble))
        elif trouble is not None:
            trouble.add_note(self.report())
            raise trouble

    async def _stop(self) -> BaseException | None:
        trouble: BaseException | None = None
        try:
            self.close_stdin()
            self._stdout.resume()
            await self.wait_exit(self._grace)
            assert not self._group_is_alive(), "the agent left a process behind"
            assert self.may_tear or not self._stdout.rest, f"torn: {self._stdout.rest[:200]!r}"
        except (AssertionError, TimeoutError) as error:
            trouble = error
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()
            self._stdout.close()
            self._stderr.close()
        return self._violation or trouble

    def _group_is_alive(self) -> bool:
        try:
            os.killpg(self._process.pid, 0)
        except ProcessLookupError:
            return False
        return True

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stderr(self) -> str:
        """What the agent wrote to stderr so far."""
        lines = [*self._stderr.lines, bytes(self._stderr.rest)]
        return b"\n".join(lines).decode(errors="replace")

    def report(self, trouble: BaseException | None = None) -> str:
        """What to know of the agent when a test failed."""
        last = "\n".join(json.dumps(m)[:500] for m in self.messages[-12:])
        return (
            f"agent: {' '.join(self.command)}\nexit code: {self._process.returncode}\n"
            f"{f'also: {trouble}' if trouble else ''}\n"
            f"last lines on stdout:\n{last}\nstderr:\n{self.stderr[-6000:]}"
        )

    def rss_kib(self, field: str = "VmRSS") -> int:
        """Resident memory of the agent; ``VmHWM`` is its peak."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1])
        raise AssertionError(f"no {field} for process {self.pid}")

    def cpu_seconds(self) -> float:
        """Processor time that the agent has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    async def process_ended(self) -> int:
        """The exit code, once the process is gone, whatever its pipes still hold."""
        return await self._process.wait()

    async def wait_exit(self, timeout: float = WAIT) -> int:
        """The exit code, once the agent is gone and its pipes are read to their end."""
        async with asyncio.timeout(timeout):
            code = await self._process.wait()
            self._stderr.resume()
            await self._stdout.ended.wait()
            await self._stderr.ended.wait()
        self._check()
        return code

    # --- raw traffic --------------------------------------------------------------------------

    def close_stdin(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def close_stdout(self) -> None:
        """Close the editor's end of the agent's stdout."""
        self._stdout.close()

    def pause_reading(self) -> None:
        """Stop to read the agent's stdout: its pipe fills up."""
        self._stdout.pause()

    def resume_reading(self) -> None:
        self._stdout.resume()

    def send_raw(self, data: bytes) -> None:
        """Write bytes in one piece, whatever they are."""
        assert self._process.stdin is not None
        *lines, rest = data.split(b"\n")
        for line in lines:
            # What this editor cannot read itself is not for the oracle.
            with contextlib.suppress(ValueError, RecursionError):
                self._oracle.sent(json.loads(bytes(self._line_begun) + line))
            self._line_begun.clear()
        self._line_begun += rest
        self._process.stdin.write(data)

    async def drain(self, timeout: float = WAIT) -> None:
        """Wait until the agent has taken what was written."""
        assert self._process.stdin is not None
        async with asyncio.timeout(timeout):
            await self._process.stdin.drain()

    def send(self, *messages: Json) -> None:
        """Write messages in one piece."""
        self.send_raw(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    async def until(self, is_true: Callable[[], bool], what: str, timeout: float = WAIT) -> None:
        """Wait until a line of the agent makes a condition true."""
        try:
            async with asyncio.timeout(timeout):
                while not is_true():
                    self._check()
                    if self._stdout.ended.is_set():
                        raise AssertionError(f"the agent's stdout ended before {what}")
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"waited {timeout:g} s in vain for {what}") from None
        self._check()

    async def until_stderr(self, part: str, timeout: float = WAIT) -> None:
        """Wait until stderr holds ``part``."""
        await self.until(lambda: part in self.stderr, f"{part!r} on stderr", timeout)

    async def never_within(self, seconds: float, is_true: Callable[[], bool], what: str) -> None:
        """Watch the agent's lines for a while; fails as soon as the condition is true."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(scaled(seconds)):
                while True:
                    assert not is_true(), what
                    self._check()
                    self._changed.clear()
                    await self._changed.wait()

    # --- calls --------------------------------------------------------------------------------

    def message(self, method: str, params: Json | None = None) -> tuple[Call, Json]:
        """A request that is not sent yet, and the call that will hold its answer."""
        self._next_id += 1
        call: Call
        if method == "session/prompt" and params and isinstance(params.get("sessionId"), str):
            call = PromptHandle(self, self._next_id, params["sessionId"])
        else:
            call = Call(self, self._next_id, method)
        self._calls[json.dumps(self._next_id)] = call
        message: Json = {"jsonrpc": "2.0", "id": self._next_id, "method": method}
        return call, message if params is None else {**message, "params": params}

    def call(self, method: str, params: Json | None = None) -> Call:
        """Send a request."""
        call, message = self.message(method, params)
        self.send(message)
        return call

    def expect(self, request_id: Any, method: str) -> Call:
        """The call for a request with an id of the test's own, sent as raw bytes."""
        call = Call(self, request_id, method)
        self._calls[json.dumps(request_id)] = call
        return call

    def notify(self, method: str, params: Json | None = None) -> None:
        message: Json = {"jsonrpc": "2.0", "method": method}
        self.send(message if params is None else {**message, "params": params})

    async def initialize(self, timeout: float = WAIT, **params: Any) -> Json:
        """The ``initialize`` result."""
        defaults = {"protocolVersion": 1, "clientCapabilities": {}}
        return await self.call("initialize", {**defaults, **params}).result(timeout)

    async def new_session(self, cwd: Path | str, timeout: float = WAIT, **params: Any) -> str:
        """The id of a new session."""
        wanted = {"cwd": str(cwd), "mcpServers": [], **params}
        return str((await self.call("session/new", wanted).result(timeout))["sessionId"])

    async def open(self, cwd: Path | str, timeout: float = WAIT) -> str:
        """Initialize and begin a session; its id."""
        await self.initialize(timeout)
        return await self.new_session(cwd, timeout)

    def prompt(self, session_id: str, *blocks: Json | str, **params: Any) -> PromptHandle:
        """Send a prompt. A string is a text block."""
        handle, message = self.prompt_message(session_id, *blocks, **params)
        self.send(message)
        return handle

    def prompt_message(
        self, session_id: str, *blocks: Json | str, **params: Any
    ) -> tuple[PromptHandle, Json]:
        """A prompt that is not sent yet."""
        content = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
        call, message = self.message(
            "session/prompt", {"sessionId": session_id, "prompt": content, **params}
        )
        assert isinstance(call, PromptHandle)
        return call, message

    def cancel_message(self, session_id: str) -> Json:
        return {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session_id}}

    def cancel(self, session_id: str) -> None:
        """Cancel a turn and answer its open permission requests, as ACP asks of an editor."""
        self.send(self.cancel_message(session_id))
        for request in list(self._open_permissions.values()):
            if request["params"]["sessionId"] == session_id:
                self.answer_permission(request, cancelled(request["params"]) or {})

    def updates(self, session_id: str) -> list[Json]:
        """All updates of a session so far."""
        return [
            message["params"]["update"]
            for message in self.messages
            if message.get("method") == "session/update"
            and message["params"]["sessionId"] == session_id
        ]

    def text_of(self, session_id: str) -> str:
        """All text of the agent in a session so far."""
        return transcript.text_of(self.updates(session_id))

    def withdrawn(self) -> list[Any]:
        """Ids of the agent's requests that it took back."""
        return [
            m["params"]["requestId"] for m in self.messages if m.get("method") == "$/cancel_request"
        ]

    def answer_permission(self, request: Json, body: Json) -> None:
        """Answer a permission request with a body made by a policy."""
        self._open_permissions.pop(json.dumps(request["id"]), None)
        self.send({"jsonrpc": "2.0", "id": request["id"], **body})

    # --- what arrives -------------------------------------------------------------------------

    def _line_arrived(self, line: bytes) -> None:
        try:
            message = self._oracle.received(line)
            self.messages.append(message)
            self._dispatch(message)
        except Exception as error:  # a failed check is raised where the test waits
            self._violation = self._violation or error
        self._changed.set()

    def _dispatch(self, message: Json) -> None:
        if message.get("method") == "session/request_permission":
            self.permissions.append(message)
            self._open_permissions[json.dumps(message["id"])] = message
            body = self.permission_policy(message["params"])
            if body is not None:
                self.answer_permission(message, body)
        elif "method" in message:
            return
        elif (call := self._calls.pop(json.dumps(message["id"]), None)) is not None:
            call.message, call.answered_at = message, time.monotonic()
            if isinstance(call, PromptHandle):
                self._turn_ended(call)

    def _turn_ended(self, ended: PromptHandle) -> None:
        ended.end = len(self.messages)
        for call in self._calls.values():
            if isinstance(call, PromptHandle) and call.session_id == ended.session_id:
                call.begin = ended.end

    def _check(self) -> None:
        if self._violation is not None:
            raise self._violation


__all__ = ["AgentError", "Call", "EditorProcess", "PromptHandle", "Violation", "agent_command"]
