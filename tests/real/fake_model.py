"""A model server that speaks OpenAI's streaming chat completions and answers by script.

``python -m tests.real.fake_model`` serves alone, for trying things by hand.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.real import model_script as script
from tests.support.waits import WAIT

MODEL = "fake-1"
PLAIN_MODEL = "plain-1"
"""The same without levels of thinking."""


@dataclass
class ModelRequest:
    """One request that the gateway made, and how it ended."""

    turn: script.Turn
    body: dict[str, Any] = field(repr=False)
    outcome: str = "running"
    """``running``, ``finished`` or ``disconnected`` (the gateway hung up)."""


class FakeModel:
    """The server, on an ephemeral port of this machine, in threads of its own."""

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def pause(self, seconds: float) -> None:
        """Let time pass within an answer; cut short when the server stops."""
        self._stopping.wait(seconds)

    def changed(self, change: Callable[[], object]) -> None:
        """Change what the tests look at, and wake those who wait."""
        with self._changed:
            change()
            self._changed.notify_all()

    def wait_for(self, part: str, outcome: str, timeout: float = WAIT) -> ModelRequest:
        """Wait until a request whose prompt holds ``part`` has this outcome. Blocks."""

        def found() -> ModelRequest | None:
            matching = [r for r in self.requests if part in r.turn.prompt]
            return next((r for r in matching if r.outcome == outcome), None)

        with self._changed:
            request = self._changed.wait_for(found, timeout)
        assert request is not None, f"no {outcome} request with {part!r}: {self.requests}"
        return request


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, model: FakeModel) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.model = model

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Silent for a gateway that drops an idle connection; a bug still speaks."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def _model(self) -> FakeModel:
        assert isinstance(self.server, _Server)
        return self.server.model

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: the tests look at ``FakeModel.requests``."""

    def do_GET(self) -> None:
        self._reply(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = ModelRequest(script.newest_turn(body["messages"]), body)
        self._model.changed(lambda: self._model.requests.append(request))
        outcome = "finished"
        try:
            _Answer(self).play(request.turn)
        except ConnectionError:
            outcome = "disconnected"
            self.close_connection = True
        self._model.changed(lambda: setattr(request, "outcome", outcome))

    def _reply(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class _Answer:
    """Plays the steps of one answer as server-sent events."""

    def __init__(self, handler: _Handler) -> None:
        self._handler = handler
        self._begun = False
        self._calls = 0

    def play(self, turn: script.Turn) -> None:
        for step in script.steps_for(turn):
            self._play(step)

    def _play(self, step: script.Step) -> None:
        match step:
            case script.HttpError(status):
                error = {"message": f"fake model error {status}", "type": "fake", "code": "fake"}
                self._handler._reply(status, {"error": error})
            case script.Pause(seconds):
                self._handler._model.pause(seconds)
            case script.Text(text):
                self._delta({"content": text})
            case script.Thought(text):
                self._delta({"reasoning_content": text})
            case script.ToolCall(name, arguments):
                self._tool_call(name, json.dumps(arguments))
            case script.Break():
                self._handler.close_connection = True
                self._handler.connection.shutdown(2)
            case script.Finish(reason):
                self._finish(reason)

    def _tool_call(self, name: str, arguments: str) -> None:
        index = self._calls
        self._calls += 1
        call_id = f"call_{len(self._handler._model.requests)}_{index}"
        begin = {"index": index, "id": call_id, "type": "function"}
        self._delta({"tool_calls": [{**begin, "function": {"name": name, "arguments": ""}}]})
        middle = len(arguments) // 2
        for part in (arguments[:middle], arguments[middle:]):
            self._delta({"tool_calls": [{"index": index, "function": {"arguments": part}}]})

    def _finish(self, reason: str) -> None:
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        self._chunk([{"index": 0, "delta": {}, "finish_reason": reason}], usage=usage)
        self._event("[DONE]")
        self._handler.wfile.write(b"0\r\n\r\n")

    def _delta(self, delta: dict[str, Any]) -> None:
        self._chunk([{"index": 0, "delta": delta, "finish_reason": None}])

    def _chunk(self, choices: list[dict[str, Any]], **more: Any) -> None:
        if not self._begun:
            self._begin()
        about = {"id": "chatcmpl-fake", "object": "chat.completion.chunk", "model": MODEL}
        self._event(json.dumps({**about, "created": 0, "choices": choices, **more}))

    def _begin(self) -> None:
        self._begun = True
        self._handler.send_response(200)
        self._handler.send_header("Content-Type", "text/event-stream")
        self._handler.send_header("Transfer-Encoding", "chunked")
        self._handler.end_headers()
        self._delta({"role": "assistant", "content": ""})

    def _event(self, data: str) -> None:
        event = f"data: {data}\n\n".encode()
        self._handler.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))


def main() -> None:
    with FakeModel() as model:
        sys.stderr.write(f"{model.url}\n")
        threading.Event().wait()


if __name__ == "__main__":
    main()
