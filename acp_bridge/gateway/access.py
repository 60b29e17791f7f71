"""With what to knock: which credential each connection uses, and what a refusal teaches.

- A configured token or password is used as it is. If the gateway says that the token is the wrong
  one, the token that it once issued to this device is tried beside it, once, and only where the
  endpoint can be trusted with it (loopback or TLS).
- Without one, the issued token is used alone, with the scopes it was issued for.
- An issued token that the gateway refuses is dropped, and one more attempt is made without it.
"""

from __future__ import annotations

import logging
import sys
from urllib.parse import urlsplit

from acp_bridge.errors import (
    ConfigError,
    CredentialsUnusable,
    GatewayError,
)
from acp_bridge.gateway.dialects.openclaw.handshake import IssuedToken
from acp_bridge.gateway.dialects.openclaw.opening import Opening
from acp_bridge.gateway.dialects.openclaw.refusals import details_code
from acp_bridge.gateway.identity import DeviceIdentity, DeviceToken, DeviceTokens, load_or_create
from acp_bridge.gateway.scopes import scopes_to_ask
from acp_bridge.gateway.settings import GatewaySettings, is_loopback
from acp_bridge.ids import Generation

log = logging.getLogger(__name__)

_MEND = "Mend it and try again; the bridge need not be restarted."

PLATFORM = {"darwin": "macos", "win32": "windows"}.get(sys.platform, "linux")
"""Never anything finer: a device whose platform changes has to be approved again."""

_STORED_TOKEN = "the token issued to this device"  # noqa: S105 - words for a message


class Access:
    """The credentials of one client over all its connections."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._settings = settings
        self._tokens = DeviceTokens(settings.state_dir)
        self._identity: DeviceIdentity | None = None
        self._is_trusted = is_loopback(settings.url) or urlsplit(settings.url).scheme == "wss"
        self._try_issued_token = False
        self._has_retried: set[str] = set()

    def opening(self, generation: Generation) -> Opening:
        """How the next connection introduces itself.

        Reads the credentials anew. Raises ``CredentialsUnusable`` with the sentence of the
        ``ConfigError`` if they or the device's key cannot be read.
        """
        try:
            return self._opening(generation)
        except ConfigError as error:
            raise CredentialsUnusable(error.message, hint=error.hint or _MEND) from None

    def accepted(self, opening: Opening, issued: IssuedToken | None) -> None:
        """A hello came: keep the token that came with it."""
        self._try_issued_token = False
        self._has_retried.clear()
        if issued is None:
            return
        device_id = opening.device.device_id
        token = DeviceToken(issued.token, issued.scopes)
        self._settings.credentials.learn(issued.token.reveal())
        try:
            self._tokens.save(self._settings.url, device_id, token)
        except (ConfigError, OSError) as error:
            _warn_about_store(error)

    def refused(self, opening: Opening, error: GatewayError) -> bool:
        """A refusal came. Whether another attempt at once, with another credential, makes sense;
        each kind of it once until the next hello."""
        code = details_code(error)
        stored = self._stored(opening.device.device_id)
        self._try_issued_token = False
        if stored is None or code in self._has_retried:
            return False
        if code == "AUTH_DEVICE_TOKEN_MISMATCH":
            self._forget(opening.device.device_id, stored)
        elif code == "AUTH_TOKEN_MISMATCH" and self._is_trusted and opening.device_token is None:
            self._try_issued_token = True
        else:
            return False
        self._has_retried.add(code)
        return True

    def _stored(self, device_id: str) -> DeviceToken | None:
        try:
            return self._tokens.load(self._settings.url, device_id)
        except ConfigError as error:
            _warn_about_store(error)
            return None

    def _forget(self, device_id: str, refused: DeviceToken) -> None:
        try:
            self._tokens.forget(self._settings.url, device_id, refused.token)
        except (ConfigError, OSError) as error:
            _warn_about_store(error)

    def _opening(self, generation: Generation) -> Opening:
        if self._identity is None:
            self._identity = load_or_create(self._settings.state_dir)
        material = self._settings.credentials.current()
        is_configured = material.token is not None or material.password is not None
        stored = None
        if self._try_issued_token or not is_configured:
            stored = self._tokens.load(self._settings.url, self._identity.device_id)
        if stored is not None:
            self._settings.credentials.learn(stored.token.reveal())
        scopes = scopes_to_ask(
            self._settings.scopes,
            is_owner=material.token is not None and is_loopback(self._settings.url),
        )
        if stored and stored.scopes and not is_configured and self._settings.scopes is None:
            scopes = stored.scopes  # asking for more with it is refused
        return Opening(
            url=self._settings.url,
            source=material.source if is_configured or not stored else _STORED_TOKEN,
            token=material.token,
            password=material.password,
            device_token=stored.token if stored else None,
            device=self._identity,
            platform=PLATFORM,
            scopes=scopes,
            generation=generation,
        )


def _warn_about_store(error: ConfigError | OSError) -> None:
    if isinstance(error, ConfigError):
        reason = error.message
    else:
        reason = error.strerror or type(error).__name__
    log.warning("the file of device tokens cannot be used", extra={"fields": {"reason": reason}})
