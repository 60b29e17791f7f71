"""Opens connections to the kind of gateway that it is, or is taken to be until a hello says so."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import NamedTuple

from acp_bridge.errors import (
    AuthenticationFailed,
    CredentialsUnusable,
    GatewayError,
    GatewayUnreachable,
    HandshakeRefused,
    PairingRequired,
)
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
        self._credentials = {ACP: settings.acp_credentials, OPENCLAW: settings.credentials}
        self._has_renewed = False
        """Whether credentials were got anew since the last hello: once is enough."""
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
        self._has_renewed = False
        self._choice = dialed.choice
        if not self._has_told:
            self._has_told = True
            kind, reason = dialed.choice
            fields = {"kind": kind, "reason": reason}
            log.info("the kind of the gateway is known", extra={"fields": fields})

    async def refused(self, dialed: Dialed, error: HandshakeRefused) -> bool:
        """The gateway refused us over this connection; whether another attempt at once, with
        another credential, makes sense."""
        kind = dialed.choice.kind
        return dialed.attempt.refused(error) or await self._is_renewed(kind, error)

    async def _is_renewed(self, kind: str, error: GatewayError) -> bool:
        """Whether the credential that was refused is another one by now."""
        is_ours = isinstance(error, PairingRequired | CredentialsUnusable)
        if is_ours or not isinstance(error, AuthenticationFailed):
            return False
        credentials = self._credentials[kind]
        if credentials.withheld is not None:
            error.hint = " ".join(filter(None, (credentials.withheld, error.hint)))
        if self._has_renewed:
            credentials.forget()
            return False
        self._has_renewed = True
        return await credentials.renew()

    async def _dial_as(
        self,
        choice: Choice,
        generation: Generation,
        upgrade: Upgrade | None = None,
        *,
        is_last: bool = False,
    ) -> Dialed:
        await self._credentials[choice.kind].fetch()
        attempt = self._approaches[choice.kind].attempt(generation)
        try:
            return await self._open(attempt, choice, upgrade)
        except GatewayError as error:
            is_mended = not is_last and await attempt.mended(error)
            explained = attempt.explained(error)
            if is_last or not (is_mended or await self._is_renewed(choice.kind, explained)):
                raise explained from None
        log.info("trying another credential")
        return await self._dial_as(choice, generation, upgrade, is_last=True)

    async def _open(self, attempt: Attempt, choice: Choice, upgrade: Upgrade | None) -> Dialed:
        upgrade = upgrade or attempt.upgrade
        given = (upgrade,) if upgrade != PLAIN else ()
        return Dialed(attempt, await self._connect(self._url, *given), choice)
