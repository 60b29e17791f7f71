"""This device towards the gateway: its key, and the tokens that gateways issued to it.

The gateway knows a device by its Ed25519 key; the device id is the SHA-256 of the public key.
A new key is a new device, which a remote gateway has to approve anew. That is why a damaged key
is never overwritten.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import logging
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acp_bridge.errors import ConfigError
from acp_bridge.gateway import private_files, secret_files
from acp_bridge.gateway.origins import origin_of
from acp_bridge.gateway.secret import Secret

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

log = logging.getLogger(__name__)

KEY_FILE = "device.pem"
TOKENS_FILE = "device-tokens.json"
_MAX_TOKENS = 1024 * 1024

# The usual file, read and written without the library's module for all kinds of them: that takes
# a megabyte and a tenth of the start.
_PKCS8 = bytes.fromhex("302e020100300506032b657004220420")
"""What stands before the 32 bytes of an Ed25519 key in PKCS #8 (RFC 8410, section 7)."""
_PLAIN = re.compile(
    rb"-----BEGIN PRIVATE KEY-----\s+([A-Za-z0-9+/]{64})\s+-----END PRIVATE KEY-----\s*"
)


class DeviceIdentity:
    """An Ed25519 key pair; it signs what the gateway asks for."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        raw = private.public_key().public_bytes_raw()
        self._private = private
        self.public_key = _b64url(raw)
        """The raw public key in base64url without padding."""
        self.device_id = hashlib.sha256(raw).hexdigest()

    def sign(self, text: str) -> str:
        """The signature of the UTF-8 bytes of ``text`` in base64url without padding."""
        return _b64url(self._private.sign(text.encode()))


def load_or_create(directory: Path) -> DeviceIdentity:
    """The device's identity in ``directory``, made there on the first call.

    Two processes that start at once end up with the same key. Raises ``ConfigError`` naming the
    file if it is damaged, a link, another user's, open to others, or cannot be read or written.
    """
    path = directory / KEY_FILE
    try:
        if not path.exists():
            private_files.make_private_directory(directory)
            private_files.write_new(path, _new_key())
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigError(f"The device key {path} cannot be used: {reason}.") from None
    pem = secret_files.read_private(
        path,
        f"The device key {path}",
        forbidden=secret_files.OTHERS_MAY_NOTHING,
        limit=secret_files.MAX_BYTES,
    )
    return DeviceIdentity(_parse_key(path, pem))


def _new_key() -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    body = base64.b64encode(_PKCS8 + Ed25519PrivateKey.generate().private_bytes_raw())
    return b"-----BEGIN PRIVATE KEY-----\n" + body + b"\n-----END PRIVATE KEY-----\n"


def _parse_key(path: Path, pem: bytes) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    plain = _PLAIN.fullmatch(pem)
    der = base64.b64decode(plain[1]) if plain is not None else b""
    if der.startswith(_PKCS8):
        return Ed25519PrivateKey.from_private_bytes(der[len(_PKCS8) :])
    key = _any_key(pem)
    if isinstance(key, Ed25519PrivateKey):
        return key
    raise ConfigError(
        f"The device key {path} is damaged; it was left as it is.",
        hint=f"Move it away to get a new one; a remote gateway must then approve this device"
        f" again: mv {shlex.quote(str(path))} {shlex.quote(str(path))}.damaged",
    )


def _any_key(pem: bytes) -> object:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    with contextlib.suppress(ValueError, TypeError, UnsupportedAlgorithm):
        return load_pem_private_key(pem, password=None)
    return None


@dataclass(frozen=True, slots=True)
class DeviceToken:
    """A token that a gateway issued to this device."""

    token: Secret
    scopes: tuple[str, ...]
    """What it was issued for; asking for more with it is refused."""


class DeviceTokens:
    """The issued tokens, by gateway and device, in one private file of ``directory``.

    A file that cannot be read as such counts as empty: a gateway issues a token again. One that
    others could have made, or could read, is left as it is: each method raises ``ConfigError``.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / TOKENS_FILE

    def load(self, url: str, device_id: str) -> DeviceToken | None:
        """The token that the gateway at ``url`` issued to this device, if any."""
        entry = self._read().get(origin_of(url), {}).get(device_id)
        if not isinstance(entry, dict) or not isinstance(entry.get("token"), str):
            return None
        scopes = entry.get("scopes")
        return DeviceToken(
            Secret(entry["token"]),
            tuple(s for s in scopes if isinstance(s, str)) if isinstance(scopes, list) else (),
        )

    def save(self, url: str, device_id: str, issued: DeviceToken) -> None:
        """Keep ``issued``. Raises ``OSError`` if it cannot be written."""
        private_files.make_private_directory(self._directory)
        with private_files.locked(self._path):
            tokens = self._read()
            entry = {"token": issued.token.reveal(), "scopes": list(issued.scopes)}
            of_gateway = tokens.setdefault(origin_of(url), {})
            if of_gateway.get(device_id) != entry:
                of_gateway[device_id] = entry
                self._write(tokens)

    def forget(self, url: str, device_id: str, refused: Secret) -> None:
        """Drop the token if it is still ``refused``; another process may have got a new one."""
        known = self.load(url, device_id)
        if known is None or known.token != refused:
            return
        with private_files.locked(self._path):
            tokens = self._read()
            tokens.get(origin_of(url), {}).pop(device_id, None)
            self._write(tokens)

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            raw = secret_files.read_private(
                self._path,
                f"The file of device tokens {self._path}",
                forbidden=secret_files.OTHERS_MAY_NOTHING,
                limit=_MAX_TOKENS,
            )
        except ConfigError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return {}
            raise
        try:
            content = json.loads(raw)
        except (ValueError, RecursionError):
            log.warning(
                "the stored device tokens cannot be read and count as none",
                extra={"fields": {"path": str(self._path)}},
            )
            return {}
        tokens = content.get("tokens") if isinstance(content, dict) else None
        if not isinstance(tokens, dict):
            return {}
        return {origin: entry for origin, entry in tokens.items() if isinstance(entry, dict)}

    def _write(self, tokens: dict[str, dict[str, Any]]) -> None:
        content = json.dumps({"version": 1, "tokens": tokens}, indent=1) + "\n"
        private_files.replace(self._path, content.encode())


def _b64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
