"""What a gateway that speaks ACP itself is told with an opening, and tells with its answer.

What the bridge does not interpret goes both ways as it is; where the bridge has a word of its own
for something, that one counts.
"""

from __future__ import annotations

import logging

from acp_bridge.bridge.capabilities import initialize_result
from acp_bridge.core.commands import OpenSession, RestoreSession
from acp_bridge.core.offers import Offers
from acp_bridge.core.sessions import Session
from acp_bridge.errors import GatewayError
from acp_bridge.gateway.port import Gateway
from acp_bridge.ids import Json, SessionKey
from acp_bridge.wire.acp import NewSession, OpenedSession, Prompt

log = logging.getLogger(__name__)

INITIALIZE_WAIT = 1.5
"""Seconds that ``initialize`` waits for the hello, unless the first try fails sooner. Editors show
a spinner meanwhile, and some give up: the answer must come whatever the gateway does."""
RESTORE_TIMEOUT = 10.0


class Native:
    """Knows what the gateway offers, and which of it the editor has been told."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._offers = Offers()
        self._is_meta_told = False

    @property
    def offers(self) -> Offers:
        """What the gateway offers, or offered when it was last there."""
        if (hello := self._gateway.hello) is not None:
            self._offers = hello.offers
        return self._offers

    async def look(self) -> None:
        """Wait for the hello as long as ``initialize`` can."""
        try:
            await self._gateway.wait_hello(INITIALIZE_WAIT, patient=False)
        except GatewayError as error:
            log.info("initialize answered without a gateway", extra={"fields": {"why": error.code}})

    def initialize(self, params: Json) -> Json:
        """The ``initialize`` result."""
        self._is_meta_told = self._gateway.hello is not None
        return initialize_result(params, self.offers)

    def opening(self, request: NewSession, agent: str | None) -> OpenSession:
        """The making of a session as the editor wants it."""
        return OpenSession(
            request.cwd, request.agent or agent, self._servers(request), passed(request)
        )

    async def restore(self, key: SessionKey, request: OpenedSession) -> Json:
        """Have an earlier session at hand where the gateway names its sessions; what it says for
        the editor, or nothing if it cannot. The ledger may have it all the same."""
        hello = self._gateway.hello
        if hello is None or not hello.makes_sessions:
            return {}
        query = RestoreSession(key, request.cwd, self._servers(request), passed(request))
        try:
            return await self._gateway.request(query, timeout=RESTORE_TIMEOUT) or {}
        except GatewayError as error:
            log.info("the session was not restored", extra={"fields": {"why": error.code}})
            return {}

    def answer(self, session: Session) -> Json:
        """What the answer to an opening says beside the bridge's own words: also what the gateway
        says of itself, if the answer to ``initialize`` came too early for that."""
        if self._is_meta_told or not self.offers.meta:
            return session.extras
        given = session.extras.get("_meta")
        meta = {**self.offers.meta, **(given if isinstance(given, dict) else {})}
        return {**session.extras, "_meta": meta}

    def unused_servers(self, request: NewSession | OpenedSession) -> str | None:
        """What to tell the user of MCP servers that the gateway does not take."""
        unused = [each["name"] for each in request.servers if not self.offers.takes(each)]
        if not unused:
            return None
        names = ", ".join(unused)
        return f"The gateway runs its own MCP servers; those of this editor are not used: {names}"

    def _servers(self, request: NewSession | OpenedSession) -> tuple[Json, ...]:
        return tuple(each for each in request.servers if self.offers.takes(each))


def passed(request: NewSession | OpenedSession | Prompt) -> Json:
    """What a request says that the bridge does not interpret, or not alone."""
    return {**request.extras, "_meta": request.meta} if request.meta else {**request.extras}
