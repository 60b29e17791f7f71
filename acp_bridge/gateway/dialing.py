"""Opens connections to the kind of gateway that it is, or is taken to be until a hello says so."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import NamedTuple

from acp_bridge.errors import GatewayError, GatewayUnreachable
from acp_bridge.gateway.approach import AcpApproach, Approach, Attempt, OpenClawApproach
from acp_bridge.gateway.detection import ACP, ASKING, OPENCLAW, Choice, choose, greeting, selected
from acp_bridge.gateway.settings import GatewaySettings
from acp_bridge.gateway.transport import PLAIN, Transport, Upgrade
from acp_bridge.ids import Generation, Json

log = logging.getLogger(__name__)

Connect = Callable[..., Awaitable[Transport]]
"""Takes the URL and, where something goes with it, an ``Upgrade``."""


class Dialed(NamedTuple):
    """An open connection, as what it was opened, and why as that."""

    attempt: Attempt
    transport: Transport
    choice: Choice


class Dialer:
    """The way to one gateway, whatever its kind."""

    def __init__(
        self, settings: GatewaySettings, connect: Connect, sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        self._url = settings.url
        self._connect = connect
        self._sleep = sleep
        self._acp = AcpApproach(settings)
        self._approaches: dict[str, Approach] = {
            ACP: self._acp,
            OPENCLAW: OpenClawApproach(settings),
        }
        self._choice = choose(settings.kind, settings.url, settings.kind_source)
        self._has_told = False

    def announce(self, capabilities: Json) -> None:
        """What the editor can do, from now on."""
        self._acp.announce(capabilities)

    async def dial(self, generation: Generation) -> Dialed:
        """Open a connection. Raises the ``GatewayError`` that prevents it."""
        if self._choice is not None:
            return await self._dial_as(self._choice, generation)
        dialed = await self._dial_asking(Choice(OPENCLAW, "the gateway spoke first"), generation)
        if (choice := selected(dialed.transport)) is not None:
            await dialed.transport.close(1000, "")
            return await self._dial_as(choice, generation)
        greeted = await greeting(dialed.transport, self._sleep)
        if greeted is not None:
            return dialed._replace(transport=greeted)
        return await self._dial_as(Choice(ACP, "the gateway waited for a first word"), generation)

    async def _dial_asking(self, choice: Choice, generation: Generation) -> Dialed:
        try:
            return await self._dial_as(choice, generation, ASKING)
        except GatewayUnreachable as error:
            if error.data.get("httpStatus") != HTTPStatus.BAD_REQUEST:
                raise
        return await self._dial_as(choice, generation)  # perhaps it takes no subprotocol at all

    def accepted(self, dialed: Dialed) -> None:
        """A hello came over this connection: from now on the gateway's kind is known."""
        dialed.attempt.accepted()
        self._choice = dialed.choice
        if not self._has_told:
            self._has_told = True
            kind, reason = dialed.choice
            fields = {"kind": kind, "reason": reason}
            log.info("the kind of the gateway is known", extra={"fields": fields})

    async def _dial_as(
        self, choice: Choice, generation: Generation, upgrade: Upgrade | None = None
    ) -> Dialed:
        attempt = self._approaches[choice.kind].attempt(generation)
        try:
            return await self._open(attempt, choice, upgrade)
        except GatewayError as error:
            if not await attempt.mended(error):
                raise attempt.explained(error) from None
        attempt = self._approaches[choice.kind].attempt(generation)
        try:
            return await self._open(attempt, choice, upgrade)
        except GatewayError as error:
            raise attempt.explained(error) from None

    async def _open(self, attempt: Attempt, choice: Choice, upgrade: Upgrade | None) -> Dialed:
        upgrade = upgrade or attempt.upgrade
        given = (upgrade,) if upgrade != PLAIN else ()
        return Dialed(attempt, await self._connect(self._url, *given), choice)
