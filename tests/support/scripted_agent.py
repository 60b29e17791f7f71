"""An ACP agent that does what its prompts say; a program of its own, started by tests of clients.

A prompt's text is a JSON list of steps, each a list of a name and its arguments:

- ``["update", {...}]`` sends a session update, ``["raw", text]`` any line;
- ``["ask", tool_call, options]`` asks for a permission and says the answer in a message;
- ``["withdraw", tool_call, options]`` asks, takes the question back, and says the answer;
- ``["wait"]`` waits for ``session/cancel``;
- ``["stop", reason]`` and ``["error", {...}]`` answer the prompt, ``["exit", code]`` ends at once.

Started with ``die METHOD CODE`` it ends when that method comes; with ``refuse METHOD ERROR`` it
answers the method with that error object.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

Json = dict[str, Any]
SESSION = "session-1"
_OWN_ID = 100


class Agent:
    """Reads stdin line by line and writes stdout."""

    def __init__(self, arguments: list[str]) -> None:
        self.special = {arguments[1]: arguments} if arguments else {}
        self.own_id = _OWN_ID
        self.is_cancelled = False

    def serve(self) -> None:
        """Answer until the end of input."""
        while (message := self.read()) is not None:
            if message.get("method") == "session/cancel":
                self.is_cancelled = True
            elif "method" in message:
                self.call(message)

    def read(self) -> Json | None:
        line = sys.stdin.readline()
        return json.loads(line) if line else None

    def send(self, **message: Any) -> None:
        self.raw(json.dumps({"jsonrpc": "2.0", **message}))

    def raw(self, line: str) -> None:
        os.write(1, f"{line}\n".encode())

    def call(self, message: Json) -> None:
        method, request_id = message["method"], message["id"]
        if method in self.special:
            kind, _, argument = self.special[method]
            if kind == "die":
                sys.exit(int(argument))
            self.send(id=request_id, error=json.loads(argument))
        elif method == "initialize":
            self.send(id=request_id, result={"protocolVersion": 1})
        elif method == "session/new":
            self.send(id=request_id, result={"sessionId": SESSION})
        else:
            self.is_cancelled = False
            for name, *arguments in json.loads(message["params"]["prompt"][0]["text"]):
                getattr(self, f"do_{name}")(request_id, *arguments)

    def do_update(self, _request_id: Any, update: Json) -> None:
        self.send(method="session/update", params={"sessionId": SESSION, "update": update})

    def do_raw(self, _request_id: Any, line: str) -> None:
        self.raw(line)

    def do_ask(self, request_id: Any, tool_call: Json, options: list[Json]) -> None:
        self.report(request_id, self.ask(tool_call, options))

    def do_withdraw(self, request_id: Any, tool_call: Json, options: list[Json]) -> None:
        asked = self.ask(tool_call, options)
        self.send(method="$/cancel_request", params={"requestId": asked})
        self.report(request_id, asked)

    def do_wait(self, _request_id: Any) -> None:
        while not self.is_cancelled:
            message = self.read()
            if message is None:
                sys.exit(0)
            self.is_cancelled = message.get("method") == "session/cancel"

    def do_stop(self, request_id: Any, reason: str) -> None:
        self.send(id=request_id, result={"stopReason": reason})

    def do_error(self, request_id: Any, error: Json) -> None:
        self.send(id=request_id, error=error)

    def do_exit(self, _request_id: Any, code: int) -> None:
        sys.exit(code)

    def ask(self, tool_call: Json, options: list[Json]) -> int:
        self.own_id += 1
        params = {"sessionId": SESSION, "toolCall": tool_call, "options": options}
        self.send(id=self.own_id, method="session/request_permission", params=params)
        return self.own_id

    def report(self, request_id: Any, asked: int) -> None:
        while (message := self.read()) is not None:
            if message.get("id") == asked:
                answer = message.get("result", {}).get("outcome") or message.get("error")
                text = f"answer: {json.dumps(answer)}"
                content = {"type": "text", "text": text}
                self.do_update(
                    request_id, {"sessionUpdate": "agent_message_chunk", "content": content}
                )
                return
            self.is_cancelled = message.get("method") == "session/cancel"


if __name__ == "__main__":
    Agent(sys.argv[1:]).serve()
