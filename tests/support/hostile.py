"""Gateways of either kind that mean no good, on real sockets: they answer what they must to be
talked to, and send whatever a test wants."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, Protocol

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from acp_bridge.ids import Json
from tests.support.waits import WAIT, scaled
from tests.support.wire_gateway import WireGateway, hello, wire_gateway

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\x00\x08\r\u202e\ud83d"
"""What would write a title, clear the screen, colour, overwrite and reorder in a terminal."""

ABSURD: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 1e300, 10**400, float("nan"), float("inf"), "", "\x1b[2J", "\ud800",
    "i" * 1_000_000, [], {}, [[]], {"a": {}},
)  # fmt: skip
"""Values where an id, a text or a number is expected."""


def nested(levels: int, kind: str = "[]") -> str:
    """JSON that is ``levels`` deep."""
    begin, end = ("[", "]") if kind == "[]" else ('{"a":', "}")
    return begin * levels + "0" + end * levels


class Kind(Protocol):
    """How one kind of gateway says things. Frames are texts."""

    def greet(self) -> list[str]:
        """What it sends unasked."""

    def reply(self, request: Json) -> list[str]:
        """What it answers to a call of the bridge; prompts are noted and stay open."""

    def text(self, part: str) -> str:
        """More of the answer to the prompt that is open."""

    def call(self, name: Any, title: Any) -> str:
        """A tool call in it."""

    def approval(self, name: Any, title: Any) -> str:
        """A question in it."""

    def odd(self) -> Iterator[str]:
        """Frames in which each member in turn is absurd."""

    def end(self) -> str:
        """The end of the prompt that is open."""


class OpenClawKind:
    """Speaks as OpenClaw does."""

    def __init__(self) -> None:
        self.run, self.key = "", ""

    def greet(self) -> list[str]:
        return [self._event("connect.challenge", nonce="n", ts=1_796_000_000_000)]

    def reply(self, request: Json) -> list[str]:
        payload: Json = {}
        if request["method"] == "connect":
            payload = hello()
        elif request["method"] == "chat.send":
            params = request["params"]
            self.run, self.key = params["idempotencyKey"], params["sessionKey"]
            payload = {"runId": self.run, "status": "started"}
        return [json.dumps({"type": "res", "id": request["id"], "ok": True, "payload": payload})]

    def text(self, part: str) -> str:
        return self._chat(state="delta", deltaText=part)

    def call(self, name: Any, title: Any) -> str:
        data = {"phase": "start", "toolCallId": name, "name": title, "args": {"path": title}}
        return self._event("agent", runId=self.run, sessionKey=self.key, stream="tool", data=data)

    def approval(self, name: Any, title: Any) -> str:
        asked = {"runId": self.run, "sessionKey": self.key, "command": title}
        asked["allowedDecisions"] = ["allow-once", "deny"]
        return self._event("exec.approval.requested", id=name, request=asked)

    def odd(self) -> Iterator[str]:
        made = (self.text("x"), self.call("c", "t"), self.approval("a", "t"), self.end())
        real: list[Json] = [json.loads(each) for each in made]
        real.append(json.loads(self._event("sessions.changed", sessionKey=self.key, session={})))
        real.append({"type": "res", "id": "9", "ok": False, "error": {"code": 1, "message": 2}})
        yield from spoilt(real, keep={"event", "state"})

    def end(self) -> str:
        return self._chat(state="final", message={"role": "assistant", "content": []})

    def _chat(self, **payload: Any) -> str:
        return self._event("chat", runId=self.run, sessionKey=self.key, **payload)

    def _event(self, name: str, **payload: Any) -> str:
        return json.dumps({"type": "event", "event": name, "payload": payload})


class AcpKind:
    """Speaks ACP itself."""

    def __init__(self) -> None:
        self.key, self._prompt, self._asked = "", 0, 0

    def greet(self) -> list[str]:
        return []

    def reply(self, request: Json) -> list[str]:
        if "id" not in request or "method" not in request:
            return []
        method = request["method"]
        result: Json = {}
        if method == "session/prompt":
            self.key, self._prompt = request["params"]["sessionId"], request["id"]
            return []
        if method == "initialize":
            can = {"loadSession": True, "sessionCapabilities": {"resume": {}}}
            result = {"protocolVersion": 1, "agentCapabilities": can}
        elif method == "session/new":
            result = {"sessionId": "s" * 32}
        return [json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result})]

    def text(self, part: str) -> str:
        content = {"type": "text", "text": part}
        return self._update(sessionUpdate="agent_message_chunk", content=content)

    def call(self, name: Any, title: Any) -> str:
        return self._update(sessionUpdate="tool_call", toolCallId=name, title=title)

    def approval(self, name: Any, title: Any) -> str:
        params: Json = {
            "sessionId": self.key,
            "toolCall": {"toolCallId": f"{name}", "title": title},
        }
        params["options"] = [{"optionId": "yes", "name": title, "kind": "allow_once"}]
        call = {"jsonrpc": "2.0", "id": name, "method": "session/request_permission"}
        return json.dumps({**call, "params": params})

    def odd(self) -> Iterator[str]:
        made = (self.text("x"), self.call("c", "t"), self.approval("a", "t"))
        real: list[Json] = [json.loads(each) for each in made]
        real.append({"jsonrpc": "2.0", "method": "_vendor/x", "params": {"sessionId": self.key}})
        real.append({"jsonrpc": "2.0", "id": "9", "error": {"code": 1, "message": "m"}})
        yield from spoilt(real, keep={"jsonrpc", "method"})

    def end(self) -> str:
        result = {"stopReason": "end_turn"}
        return json.dumps({"jsonrpc": "2.0", "id": self._prompt, "result": result})

    def _update(self, **update: Any) -> str:
        params = {"sessionId": self.key, "update": update}
        return json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params})


def spoilt(real: Iterable[Json], keep: set[str]) -> Iterator[str]:
    """Each message once for each member and each absurd value in its place."""
    for message in real:
        for path in _paths(message):
            if path[-1] in keep:
                continue
            for value in ABSURD:
                copy = json.loads(json.dumps(message))
                holder = copy
                for name in path[:-1]:
                    holder = holder[name]
                holder[path[-1]] = value
                yield json.dumps(copy)


def _paths(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for name, child in items:
        yield (*above, name)
        if isinstance(child, dict | list):
            yield from _paths(child, (*above, name))


class HostileGateway:
    """A gateway of a kind. ``connected`` is the connection that the bridge has made last."""

    def __init__(self, gateway: WireGateway, kind: Kind) -> None:
        self.url, self.port = gateway.url, gateway.port
        self.kind = kind
        self.prompts: asyncio.Queue[None] = asyncio.Queue()
        self._gateway = gateway
        self.connected: ServerConnection | None = None
        self._again = asyncio.Event()

    async def prompted(self) -> None:
        """Return when the bridge has sent the next prompt."""
        async with asyncio.timeout(WAIT):
            await self.prompts.get()

    async def close(self, reason: str) -> None:
        """Close the connection, and wait for the next one."""
        assert self.connected is not None
        self._again.clear()
        await self.connected.close(4001, reason)
        async with asyncio.timeout(scaled(30)):
            await self._again.wait()

    async def send(self, frames: Iterable[str | bytes]) -> int:
        """Send frames as fast as they are taken; how many there were."""
        assert self.connected is not None
        count = 0
        for frame in frames:
            await self.connected.send(frame)
            count += 1
        return count

    async def serve(self) -> None:
        """Answer the bridge, over one connection after the other."""
        while True:
            connection = await self._gateway._waiting.get()
            self.connected = connection.socket
            self._again.set()
            with contextlib.suppress(ConnectionClosed):
                await self.send(self.kind.greet())
                async for text in connection.socket:
                    request = json.loads(text)
                    for frame in self.kind.reply(request):
                        await connection.socket.send(frame)
                    if request.get("method") in ("chat.send", "session/prompt"):
                        self.prompts.put_nowait(None)


@contextlib.asynccontextmanager
async def hostile_gateway(
    kind: Kind, context: ssl.SSLContext | None = None
) -> AsyncIterator[HostileGateway]:
    """A hostile gateway on a free port of loopback; with a ``context`` it speaks TLS."""
    async with wire_gateway(context) as gateway:
        hostile = HostileGateway(gateway, kind)
        serving = asyncio.create_task(hostile.serve())
        try:
            yield hostile
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
