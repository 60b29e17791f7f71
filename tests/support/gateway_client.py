"""A plain client of the gateway's WebSocket, which knows nothing of the bridge."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import itertools
import json
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.support.waits import WAIT

Json = dict[str, Any]
SCOPES = ("operator.read", "operator.write", "operator.approvals", "operator.admin")
CAPS = ("tool-events", "exec-approvals")
NO_SCOPES: tuple[str, ...] = ()


class CallRefused(Exception):
    """An ``ok: false`` answer."""

    def __init__(self, error: Json) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.error = error

    @property
    def reason(self) -> Any:
        """The machine-readable reason of the refusal."""
        details = self.error.get("details", {})
        return details.get("code") or details.get("reason")


class Device:
    """A device identity and its signature."""

    def __init__(self) -> None:
        self._key = Ed25519PrivateKey.generate()
        raw = self._key.public_key().public_bytes_raw()
        self.id = hashlib.sha256(raw).hexdigest()
        self.public_key = _unpadded(raw)

    def identity(self, params: Json, challenge: Json, version: str = "v3") -> Json:
        """The ``device`` of a connect request with these parameters."""
        auth, client = params.get("auth", {}), params["client"]
        fields = [
            version,
            self.id,
            client["id"],
            client["mode"],
            params["role"],
            ",".join(params["scopes"]),
            str(challenge["ts"]),
            auth.get("token") or auth.get("deviceToken") or "",
            challenge["nonce"],
        ]
        if version == "v3":
            fields += [client["platform"], client.get("deviceFamily", "")]
        return {
            "id": self.id,
            "publicKey": self.public_key,
            "signature": _unpadded(self._key.sign("|".join(fields).encode())),
            "signedAt": challenge["ts"],
            "nonce": challenge["nonce"],
        }


class GatewayClient:
    """One connection; use it as an async context manager.

    ``tweak`` may change the finished connect parameters, ``sign`` is the signature's version.
    """

    def __init__(
        self,
        url: str,
        *,
        auth: Json | None = None,
        device: Device | None = None,
        scopes: Sequence[str] = SCOPES,
        caps: Sequence[str] = CAPS,
        sign: str = "v3",
        tweak: Callable[[Json], object] | None = None,
    ) -> None:
        self.url = url
        self.auth = auth
        self.device = device
        self.scopes = scopes
        self.caps = caps
        self.sign = sign
        self.tweak = tweak
        self.challenge: Json = {}
        self.hello: Json = {}
        self.events: list[Json] = []
        self.closed = asyncio.Event()
        self._socket: ClientConnection
        self._reader: asyncio.Task[None] | None = None
        self._ids = map(str, itertools.count(1))
        self._answers: dict[str, asyncio.Future[Json]] = {}
        self._news = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def close_code(self) -> int | None:
        """How the connection was closed."""
        return self._socket.close_code

    @property
    def close_reason(self) -> str | None:
        """What the gateway said as it closed."""
        return self._socket.close_reason

    async def dial(self) -> Json:
        """Connect and take the challenge, without answering it."""
        self._socket = await connect(
            self.url, ping_interval=None, proxy=None, max_size=None, compression=None
        )
        frame = json.loads(await self._socket.recv())
        assert frame["event"] == "connect.challenge"
        self.challenge = frame["payload"]
        self._reader = asyncio.create_task(self._read())
        return self.challenge

    async def open(self) -> None:
        """Connect and shake hands. Raises :class:`CallRefused`."""
        challenge = await self.dial()
        params: Json = {
            "minProtocol": 3,
            "maxProtocol": 4,
            "client": {"id": "cli", "version": "1", "platform": "linux", "mode": "cli"},
            "role": "operator",
            "scopes": list(self.scopes),
            "caps": list(self.caps),
        }
        if self.auth is not None:
            params["auth"] = self.auth
        if self.device is not None:
            params["device"] = self.device.identity(params, challenge, self.sign)
        if self.tweak is not None:
            self.tweak(params)
        try:
            self.hello = await self.call("connect", params)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close the connection and stop reading it."""
        await self._socket.close()
        if self._reader is not None:
            await self._reader

    async def send(self, frame: Any) -> None:
        """Send any JSON, or a text as it is."""
        await self._socket.send(frame if isinstance(frame, str | bytes) else json.dumps(frame))

    async def call(self, method: str, params: Json | None = None) -> Any:
        """Call a method. Raises :class:`CallRefused`, or ``ConnectionError`` on a closed socket."""
        return await self.answer(await self.begin(method, params))

    async def begin(self, method: str, params: Json | None = None) -> str:
        """Send a call without waiting for its answer; return its id."""
        request_id = next(self._ids)
        self._answers[request_id] = asyncio.get_running_loop().create_future()
        await self.send({"type": "req", "id": request_id, "method": method, "params": params or {}})
        return request_id

    def expect(self, request_id: str, answer: asyncio.Future[Json]) -> None:
        """Have the frame that answers this id, whoever sent it, put into ``answer``."""
        self._answers[request_id] = answer

    def is_answered(self, request_id: str) -> bool:
        """Whether the answer to a call has come."""
        return self._answers[request_id].done()

    async def answer(self, request_id: str) -> Any:
        """Wait for the answer to a call."""
        async with asyncio.timeout(WAIT):
            frame = await self._answers[request_id]
        if not frame["ok"]:
            raise CallRefused(frame["error"])
        return frame["payload"]

    async def prompt(self, message: str, *, key: str = "s", run: str = "r1", **more: Any) -> Any:
        """``chat.send``; returns the acknowledgement."""
        params = {"sessionKey": key, "message": message, "idempotencyKey": run, **more}
        return await self.call("chat.send", params)

    async def until(self, what: Callable[[Json], Any]) -> Json:
        """The first event that fits, waited for if need be."""
        async with asyncio.timeout(WAIT):
            while True:
                for event in self.events:
                    if what(event):
                        return event
                self._news.clear()
                await self._news.wait()

    async def until_chat(self, state: str, run: str = "r1") -> Json:
        """The payload of a run's first ``chat`` event of a state."""

        def fits(event: Json) -> bool:
            payload = event["payload"]
            return event["event"] == "chat" and (payload["runId"], payload["state"]) == (run, state)

        payload: Json = (await self.until(fits))["payload"]
        return payload

    def named(self, event: str) -> list[Json]:
        """The payloads of all events of a name so far."""
        return [each["payload"] for each in self.events if each["event"] == event]

    def stream(self, stream: str) -> list[Json]:
        """The data of all ``agent`` events of a stream so far."""
        return [each["data"] for each in self.named("agent") if each["stream"] == stream]

    async def _read(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for text in self._socket:
                frame = json.loads(text)
                if frame["type"] == "event":
                    self.events.append(frame)
                    self._news.set()
                elif frame["id"] in self._answers:
                    self._answers[frame["id"]].set_result(frame)
        self.closed.set()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(ConnectionError("closed"))
                answer.exception()


def _unpadded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
