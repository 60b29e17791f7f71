"""To which hosts a connection may go in clear text: the rule of OpenClaw's own clients.

It is decided by what stands in the URL alone. No name is looked up: what a name server says could
be another thing at the time of the connection, and asking it would already tell where we go.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

_PRIVATE: Final = tuple(
    ip_network(block)
    for block in (
        "10.0.0.0/8",  # RFC 1918
        "172.16.0.0/12",
        "192.168.0.0/16",
        "169.254.0.0/16",  # link-local
        "100.64.0.0/10",  # shared by carriers, and Tailscale's
        "fe80::/10",  # link-local
        "fec0::/10",  # site-local, RFC 3879
        "fc00::/7",  # unique local, RFC 4193
    )
)
"""Not Python's ``is_private``, which counts documentation and reserved blocks too."""

_NEAR_NAMES: Final = (".local", ".ts.net")
"""Names that only this network's machines (RFC 6762) and those of a tailnet answer to."""


def is_loopback_host(host: str) -> bool:
    """Whether ``host`` is this machine: 127.0.0.0/8, ::1 or ``localhost``."""
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def is_near_host(host: str) -> bool:
    """Whether plain ``ws://`` is allowed to ``host``: loopback, private addresses, ``.local`` and
    ``.ts.net``."""
    if is_loopback_host(host):
        return True
    address = _address(host)
    if address is not None:
        return any(address in block for block in _PRIVATE)
    name = host.lower().removesuffix(".")
    return any(name.endswith(end) and name != end for end in _NEAR_NAMES)


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
