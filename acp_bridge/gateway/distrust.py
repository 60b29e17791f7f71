"""Why a certificate is not trusted, in words. Only imported once that has happened."""

from __future__ import annotations

import ssl
from typing import Final
from urllib.parse import urlsplit

from acp_bridge.gateway.network_errors import (
    CertificateMisnamed,
    CertificateUntrusted,
    FingerprintMismatch,
)
from acp_bridge.gateway.route import Route
from acp_bridge.gateway.tls import OtherCertificate, fingerprint_of, names_of, shown_fingerprint

_WRONG_NAME: Final = (62, 64)
"""``X509_V_ERR_HOSTNAME_MISMATCH`` and the one for addresses."""
_NOT_IN_TIME: Final = (9, 10)
"""Not yet valid, and not any more."""
_TO_COMPARE: Final = "openssl x509 -in CERTIFICATE.pem -noout -fingerprint -sha256"


def wrong_pin(url: str, error: OtherCertificate, route: Route) -> FingerprintMismatch:
    """The gateway shows another certificate than the pinned one."""
    seen = fingerprint_of(error.der)
    pinned = shown_fingerprint(route.fingerprint or "")
    option = route.source("fingerprint")
    return FingerprintMismatch(
        f"The certificate of the gateway at {url} is not the pinned one; nothing was sent to it."
        f" Its SHA-256 is {seen}, and {option} says {pinned}.",
        hint="It was renewed, or somebody stands in between. On the gateway's machine compare:"
        f" {_TO_COMPARE}. Only if that is the gateway's own, set {option} to {seen}",
        data={"fingerprint": seen, "pinned": pinned},
    )


def untrusted(
    url: str, error: ssl.SSLCertVerificationError, der: bytes | None, route: Route
) -> CertificateUntrusted:
    """The certificate failed verification. ``der`` is what the gateway shows, if it could be
    asked."""
    seen = fingerprint_of(der) if der else None
    data = {"fingerprint": seen} if seen else {}
    its = f" Its SHA-256 is {seen}." if seen else ""
    if error.verify_code in _WRONG_NAME:
        return _misnamed(url, names_of(der) if der else [], its, data)
    reason = (error.verify_message or error.reason or "unknown reason").rstrip(".")
    by = f" by {route.source('ca_file')} {route.ca_file}" if route.ca_file else ""
    pin = f"--tls-fingerprint {seen or 'SHA256'}"
    if error.verify_code in _NOT_IN_TIME:
        hint = "Renew it on the gateway; or is the clock of this machine wrong?"
    else:
        hint = (
            f"On the gateway's machine compare: {_TO_COMPARE}. If that is the same, trust it with"
            f" {pin}; or name the authority's certificate: --ca-file PATH"
        )
    return CertificateUntrusted(
        f"The certificate of the gateway at {url} is not trusted{by}: {reason}.{its}",
        hint=hint,
        data=data,
    )


def _misnamed(url: str, names: list[str], its: str, data: dict[str, str]) -> CertificateMisnamed:
    made_out = f" It is made out to {', '.join(names)}." if names else ""
    return CertificateMisnamed(
        f"The certificate of the gateway at {url} is for another name than"
        f" {urlsplit(url).hostname}.{made_out}{its}",
        hint="Use a name of the certificate as the gateway's address, or have one made out to this"
        f" name. If it is the gateway's own (compare: {_TO_COMPARE}), its --tls-fingerprint"
        " suffices too.",
        data=data,
    )
