"""How a connection is made to each kind of gateway: with what at the upgrade, in which dialect.

The client dials and supervises; an *approach* lasts as long as the client and knows the
credentials, an *attempt* serves one connection.
"""

from __future__ import annotations

import logging
from asyncio import Future
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol
from urllib.parse import quote

from acp_bridge import __version__
from acp_bridge.errors import (
    AuthenticationFailed,
    ConfigError,
    CredentialsUnusable,
    GatewayError,
    HandshakeRefused,
)
from acp_bridge.gateway import health
from acp_bridge.gateway.access import Access
from acp_bridge.gateway.apart import begin
from acp_bridge.gateway.dialects.acp_ws import handshake
from acp_bridge.gateway.dialects.acp_ws.dialect import AcpDialect
from acp_bridge.gateway.dialects.acp_ws.memory import Memory, Process
from acp_bridge.gateway.dialects.openclaw.dialect import OpenClawDialect
from acp_bridge.gateway.dialects.openclaw.opening import Opening
from acp_bridge.gateway.first_pairing import FirstPairing
from acp_bridge.gateway.network_errors import UpgradeRefused
from acp_bridge.gateway.port import Dialect
from acp_bridge.gateway.secret import AuthMaterial
from acp_bridge.gateway.settings import GatewaySettings
from acp_bridge.gateway.transport import PLAIN, Upgrade
from acp_bridge.ids import Generation, Json

log = logging.getLogger(__name__)

PING_INTERVAL: Final = 20.0
"""Seconds between pings to a gateway that never says anything by itself; an answer is expected
within as many again."""
_MEND: Final = "Mend it and try again; the bridge need not be restarted."


class Attempt(Protocol):
    """One connection of a kind of gateway."""

    @property
    def generation(self) -> Generation:
        """The number that the connection gets if it is accepted."""

    @property
    def upgrade(self) -> Upgrade:
        """What goes with the WebSocket's upgrade."""

    def dialect(self, now: float) -> Dialect:
        """A fresh dialect, once the connection is open."""

    def accepted(self) -> None:
        """A hello came."""

    def refused(self, error: HandshakeRefused) -> bool:
        """The gateway refused us; whether another attempt at once, with another credential, makes
        sense."""

    async def mended(self, error: GatewayError) -> bool:
        """The connection could not be opened; whether that was mended, so that another one at once
        makes sense."""

    def explained(self, error: GatewayError) -> GatewayError:
        """The error in words that fit this kind of gateway."""


class Approach(Protocol):
    """The way to one kind of gateway."""

    @property
    def kind(self) -> str:
        """``openclaw`` or ``acp``."""

    def attempt(self, generation: Generation) -> Attempt:
        """The next connection. Raises ``CredentialsUnusable``."""


class OpenClawApproach:
    """OpenClaw: everything is said after the upgrade."""

    kind = "openclaw"

    def __init__(self, settings: GatewaySettings) -> None:
        self._access = Access(settings)

    def attempt(self, generation: Generation) -> Attempt:
        return _OpenClawAttempt(self._access, self._access.opening(generation))


@dataclass(slots=True)
class _OpenClawAttempt:
    _access: Access
    _opening: Opening
    _dialect: OpenClawDialect | None = None

    @property
    def generation(self) -> Generation:
        return self._opening.generation

    @property
    def upgrade(self) -> Upgrade:
        return PLAIN

    def dialect(self, now: float) -> Dialect:
        self._dialect = OpenClawDialect(self._opening, now)
        return self._dialect

    def accepted(self) -> None:
        issued = self._dialect.issued_token if self._dialect is not None else None
        self._access.accepted(self._opening, issued)

    def refused(self, error: HandshakeRefused) -> bool:
        return self._access.refused(self._opening, error)

    async def mended(self, error: GatewayError) -> bool:
        return False

    def explained(self, error: GatewayError) -> GatewayError:
        return error


class AcpApproach:
    """A gateway that speaks ACP: the token goes with the upgrade, the rest is ``initialize``."""

    kind = "acp"

    def __init__(self, settings: GatewaySettings) -> None:
        self._settings = settings
        self._memory = Memory()
        self._first_pairing = FirstPairing(settings)

    def announce(self, capabilities: Json) -> None:
        """What the editor can do, from now on."""
        self._memory.capabilities = capabilities

    def attempt(self, generation: Generation) -> Attempt:
        try:
            material = self._settings.acp_credentials.current()
        except ConfigError as error:
            raise CredentialsUnusable(error.message, hint=error.hint or _MEND) from None
        named = handshake.Opening(self._settings.url, generation, __version__)
        return _AcpAttempt(self._settings, self._memory, named, material, self._first_pairing)


@dataclass(slots=True)
class _AcpAttempt:
    _settings: GatewaySettings
    _memory: Memory
    _opening: handshake.Opening
    _material: AuthMaterial
    _first_pairing: FirstPairing

    @property
    def generation(self) -> Generation:
        return self._opening.generation

    @property
    def upgrade(self) -> Upgrade:
        token = self._material.token.reveal() if self._material.token is not None else None
        via = self._settings.token_via
        protocols = [handshake.SUBPROTOCOL]
        headers: tuple[tuple[str, str], ...] = ()
        query = ""
        if token is not None and via == "header":
            headers = (("Authorization", f"Bearer {token}"),)
        elif token is not None and via == "subprotocol":
            protocols.append(f"bearer.{token}")
        elif token is not None:
            query = f"token={quote(token, safe='')}"
        return Upgrade(
            headers=headers,
            subprotocols=tuple(protocols),
            query=query,
            ping_interval=PING_INTERVAL,
            max_frame=handshake.MAX_FRAME,
        )

    def dialect(self, now: float) -> Dialect:
        return AcpDialect(self._opening, self._memory, now, self._ask)

    def _ask(self) -> None:
        settings, connection = self._settings, self._memory.connection
        answer = begin(lambda: health.ask(settings.url, settings.route))
        answer.add_done_callback(partial(self._learned, connection))

    def _learned(self, connection: int, answer: Future[Process | None]) -> None:
        if not answer.cancelled() and (process := answer.result()) is not None:
            self._memory.learned(process, connection)

    def accepted(self) -> None:
        pass

    def refused(self, error: HandshakeRefused) -> bool:
        return False

    async def mended(self, error: GatewayError) -> bool:
        if error.data.get("httpStatus") != 401:
            return False
        return await self._first_pairing.take(self._material.token)

    def explained(self, error: GatewayError) -> GatewayError:
        status = error.data.get("httpStatus")
        url = self._settings.url
        if status in (401, 403):
            return self._unauthorized(status)
        if status == 404:
            return UpgradeRefused(
                f"The gateway at {url} has nothing at this path (HTTP 404).",
                hint="ZeroClaw's is /acp, behind its path_prefix if it has one:"
                " ws://HOST:42617/acp",
                data=error.data,
            )
        if status == 429:
            return UpgradeRefused(
                f"The gateway at {url} asks for fewer attempts (HTTP 429).",
                hint="Wait; the bridge tries again by itself.",
                data=error.data,
            )
        return error

    def _unauthorized(self, status: int) -> AuthenticationFailed:
        source = self._material.source
        if self._material.token is None:
            said, hint = "wants a token, and none is configured", "Give one with --token-file"
        else:
            said, hint = f"refused the token of {source}", "Give another one with --token-file"
        return AuthenticationFailed(
            f"The gateway at {self._settings.url} {said} (HTTP {status}).",
            hint=f"{hint} or ZEROCLAW_ACP_BRIDGE_TOKEN; or pair anew: run zeroclaw gateway"
            " get-paircode --new on its machine, and then acp-bridge pair --code CODE here.",
            data={"httpStatus": status},
        )
