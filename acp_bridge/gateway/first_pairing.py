"""The pairing that needs no user: as the first client of a ZeroClaw gateway on this machine."""

from __future__ import annotations

import logging

from acp_bridge.errors import BridgeError, GatewayUnreachable, PairingRequired
from acp_bridge.gateway.apart import begin
from acp_bridge.gateway.secret import Secret
from acp_bridge.gateway.settings import GatewaySettings, is_loopback

log = logging.getLogger(__name__)


class FirstPairing:
    """Pairs where the gateway shows its code to everybody, as it does until it has a client.

    Never with a gateway off this machine, and never where the user has named a token: that one is
    to be mended instead.
    """

    def __init__(self, settings: GatewaySettings) -> None:
        self._settings = settings
        self._is_given_up = False

    async def take(self, refused: Secret | None) -> bool:
        """The gateway has refused this token, or wants one; whether there is another one now."""
        url, kept = self._settings.url, self._settings.acp_credentials.kept
        if kept is None or self._is_given_up or not is_loopback(url):
            return False
        # Only here: most bridges never pair, and their start must not pay for it.
        from acp_bridge.gateway.kept_token import pair_and_keep

        learn, route = self._settings.acp_credentials.learn, self._settings.route
        try:
            await begin(
                lambda: pair_and_keep(url, kept, None, refused=refused, learn=learn, route=route)
            )
        except BridgeError as error:
            # A code that is not taken is not tried again: five of them close pairing for a while.
            self._is_given_up = not isinstance(error, GatewayUnreachable | PairingRequired)
            log.info("not paired", extra={"fields": {"why": error.code, "reason": error.message}})
            return False
        log.info("paired with the gateway, as its first client", extra={"fields": {"url": url}})
        return True
