"""Who connects, and with what: all that the handshake needs to know."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from acp_bridge.gateway.secret import Secret
from acp_bridge.ids import Generation

MIN_PROTOCOL = 3
MAX_PROTOCOL = 4
"""Both measured gateway versions want the range to contain 4."""


class Signer(Protocol):
    """A device identity."""

    @property
    def device_id(self) -> str: ...

    @property
    def public_key(self) -> str: ...

    def sign(self, text: str) -> str: ...


class Opening(NamedTuple):
    """One connection's introduction."""

    url: str
    """For messages."""
    source: str
    """Where the credentials come from, for messages."""
    token: Secret | None
    password: Secret | None
    device_token: Secret | None
    """A token that the gateway issued to this device earlier, if it is to be used."""
    device: Signer
    platform: str
    """Constant for an installation: a change of it needs an approval (``metadata-upgrade``)."""
    scopes: tuple[str, ...]
    generation: Generation
    """The number that the connection gets if it is accepted."""
