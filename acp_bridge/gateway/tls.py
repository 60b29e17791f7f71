"""TLS to a gateway: whom to trust, and what to show of ourselves.

A pin is checked inside the handshake, so that nothing has been sent when it does not fit. The way
is the one that ``ssl`` offers for it: the classes that a context makes its connections of.

Only imported for ``wss://``.
"""

from __future__ import annotations

import hashlib
import hmac
import ssl
from typing import Final

import truststore
from cryptography import x509

from acp_bridge.errors import ConfigError, CredentialsUnusable
from acp_bridge.gateway.route import Route
from acp_bridge.gateway.secret_files import MAX_BYTES, OTHERS_MAY_ENTER, read_private

_MOST_NAMES: Final = 4
_NAME_LENGTH: Final = 100
_MEND: Final = "Mend it and try again; the bridge need not be restarted."


class OtherCertificate(ssl.SSLError):
    """The peer's certificate is not the one that was pinned."""

    def __init__(self, der: bytes) -> None:
        super().__init__(1, "the certificate is not the pinned one")
        self.der = der


def client_context(route: Route) -> ssl.SSLContext:
    """What a connection to a gateway is secured with.

    Raises ``CredentialsUnusable`` for a file that cannot be used, naming the option.
    """
    if route.fingerprint is not None and route.ca_file is None:
        context = _unverified()
    else:
        context = trusting_context(route)
    _show_certificate(context, route)
    if route.fingerprint is not None:
        _pin(context, route.fingerprint)
    return context


def trusting_context(route: Route) -> ssl.SSLContext:
    """Trust in the certificates of ``ca_file``, else in those of the system. This is also what an
    ``https://`` proxy is held to. Raises ``CredentialsUnusable``."""
    if route.ca_file is None:
        # On Linux OpenSSL's own store or the distribution's, elsewhere the system's judgement.
        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    label = f"{route.source('ca_file')} {route.ca_file}"
    try:
        context = ssl.create_default_context(cafile=str(route.ca_file))
    except ssl.SSLError:
        raise _unusable(f"{label} holds no certificate in PEM form.") from None
    except OSError as error:
        raise _unusable(f"{label} cannot be read: {error.strerror}.") from None
    # A gateway's own certificate may be named as well as its authority's; and Python 3.13 is
    # stricter than most homemade authorities are.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def curious_context() -> ssl.SSLContext:
    """Every handshake fails with :class:`OtherCertificate`: to see a certificate, and send
    nothing."""
    context = _unverified()
    _pin(context, "")
    return context


def fingerprint_of(der: bytes) -> str:
    """The SHA-256 of a certificate as people write it: ``AB:CD:…``."""
    return shown_fingerprint(hashlib.sha256(der).hexdigest())


def shown_fingerprint(digits: str) -> str:
    """Hexadecimal digits as people write them."""
    return ":".join(digits[at : at + 2] for at in range(0, len(digits), 2)).upper()


def names_of(der: bytes) -> list[str]:
    """The host names and addresses that a certificate is made out to; some, if there are many."""
    try:
        found = x509.load_der_x509_certificate(der).extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
    except (ValueError, x509.ExtensionNotFound):
        return []
    names = [
        *found.value.get_values_for_type(x509.DNSName),
        *map(str, found.value.get_values_for_type(x509.IPAddress)),
    ]
    shown = [name[:_NAME_LENGTH] for name in names if name.isprintable()]
    return shown if len(shown) <= _MOST_NAMES else [*shown[:_MOST_NAMES], "…"]


def _unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _pin(context: ssl.SSLContext, pin: str) -> None:
    def check(peer: ssl.SSLObject | ssl.SSLSocket) -> None:
        der = peer.getpeercert(binary_form=True) or b""
        if not hmac.compare_digest(hashlib.sha256(der).hexdigest(), pin):
            raise OtherCertificate(der)

    class PinnedObject(ssl.SSLObject):
        def do_handshake(self) -> None:
            super().do_handshake()
            check(self)

    class PinnedSocket(ssl.SSLSocket):
        def do_handshake(self, block: bool = False) -> None:
            super().do_handshake(block)
            check(self)

    context.sslobject_class = PinnedObject
    context.sslsocket_class = PinnedSocket


def _show_certificate(context: ssl.SSLContext, route: Route) -> None:
    if route.client_cert is None:
        return
    label = f"{route.source('client_cert')} {route.client_cert}"
    holder, key = ("client_cert", route.client_cert)
    if route.client_key is not None:
        holder, key = ("client_key", route.client_key)
    try:
        # For what it raises.
        shown = f"{route.source(holder)} {key}"
        read_private(key.expanduser(), shown, forbidden=OTHERS_MAY_ENTER, limit=MAX_BYTES)
        context.load_cert_chain(route.client_cert, route.client_key, _no_passphrase)
    except ConfigError as error:
        raise _unusable(error.message, error.hint) from None
    except _Encrypted:
        raise _unusable(
            f"{route.source(holder)} {key} is encrypted, and the bridge asks for no passphrase.",
            f"Write it without one: openssl pkey -in {key} -out NEW, and chmod 600 NEW",
        ) from None
    except ssl.SSLError:
        what = "and its key" if route.client_key is None else f"and the key in {key}"
        raise _unusable(
            f"{label} {what} cannot be used: they are not in PEM form, or do not belong together."
        ) from None
    except OSError as error:
        raise _unusable(f"{label} cannot be read: {error.strerror}.") from None


class _Encrypted(Exception):
    """OpenSSL asks for a passphrase; without an answer of ours it would ask on the terminal."""


def _no_passphrase() -> str:
    raise _Encrypted


def _unusable(message: str, hint: str | None = None) -> CredentialsUnusable:
    return CredentialsUnusable(message, hint=hint or _MEND)
