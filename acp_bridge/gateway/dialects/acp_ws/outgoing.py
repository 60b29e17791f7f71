"""What goes out over one connection, what is waited for, and what has become known meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from acp_bridge.core.events import GatewayEvent
from acp_bridge.errors import PromptTooLarge
from acp_bridge.gateway.dialects.acp_ws.handshake import MAX_MESSAGE
from acp_bridge.gateway.requests import Requests
from acp_bridge.ids import Json
from acp_bridge.wire import jsonrpc

Outcome = tuple[int | None, GatewayEvent | Any]

OnAnswer = Callable[[Any, Json | None], None]
"""Takes a result or an error object; both are None when no answer came in time."""


class Outgoing:
    """Texts to send, requests in flight and outcomes that are not delivered yet.

    ``now`` is the time of the call that is being served, in monotonic seconds.
    """

    def __init__(self, now: float) -> None:
        self.now = now
        self._requests: Requests[OnAnswer] = Requests()
        self._texts: list[str] = []
        self._outcomes: list[Outcome] = []

    def request(
        self, method: str, params: Json, on_answer: OnAnswer, *, timeout: float | None
    ) -> None:
        """Send a request with an id of ours; ``timeout`` in seconds, None for as long as the
        connection lasts."""
        request_id = self._requests.open(on_answer, now=self.now, timeout=timeout)
        self.send(jsonrpc.request(request_id, method, params))

    def notify(self, method: str, params: Json) -> None:
        """Send a notification."""
        self.send(jsonrpc.notification(method, params))

    def send(self, message: Json) -> None:
        """Send any message. One that is larger than the gateway takes is the caller's mistake, see
        :func:`check_size`."""
        self._texts.append(jsonrpc.encode(message).decode().rstrip("\n"))

    def answered(self, request_id: object, result: Any, error: Json | None) -> bool:
        """An answer has come; whether anybody waits for it."""
        on_answer = self._requests.close(request_id)
        if on_answer is None:
            return False
        on_answer(result, error)
        return True

    def expire(self) -> None:
        """Let the requests fail whose time is up."""
        for on_answer in self._requests.expire(self.now):
            on_answer(None, None)

    def emit(self, *events: GatewayEvent) -> None:
        """Keep events for the service."""
        self._outcomes += [(None, event) for event in events]

    def settle(self, token: int, outcome: Any) -> None:
        """Keep the result of a query, or its error."""
        self._outcomes.append((token, outcome))

    def take_outcomes(self) -> list[Outcome]:
        """What has become known since the last call."""
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def take_texts(self) -> list[str]:
        """What is to be sent since the last call."""
        texts, self._texts = self._texts, []
        return texts


def check_size(params: Json) -> None:
    """Raises ``PromptTooLarge`` for params that the gateway cannot read in one message."""
    size = len(jsonrpc.encode(params))
    if size > MAX_MESSAGE - 1024:
        raise PromptTooLarge(
            f"The prompt makes a message of {size:,} bytes; the gateway takes {MAX_MESSAGE:,}.",
            hint="Send smaller files, or links to them.",
            data={"size": size, "limit": MAX_MESSAGE},
        )
