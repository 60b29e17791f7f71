"""The options that say how the connection to the gateway is made."""

from __future__ import annotations

from typing import Final

from acp_bridge.config import values
from acp_bridge.config.option import Option

_GROUP: Final = "Network"

NETWORK_OPTIONS: Final = (
    Option(
        "allow_insecure_ws",
        "--allow-insecure-ws",
        values.switch,
        "Allow plain ws:// to any host: others on the way can read and use the token.",
        _GROUP,
        default="false",
    ),
    Option(
        "ca_file",
        "--ca-file",
        values.path,
        "Certificates (PEM) to trust for wss://, instead of the system's.",
        _GROUP,
        metavar="PATH",
        example="~/.config/acp-bridge/ca.pem",
    ),
    Option(
        "tls_fingerprint",
        "--tls-fingerprint",
        values.fingerprint,
        "SHA-256 of the only certificate to accept for wss://; it may be self-signed then.",
        _GROUP,
        metavar="HEX",
        example=":".join(["AB"] * 32),
    ),
    Option(
        "client_cert",
        "--client-cert",
        values.path,
        "Certificate (PEM) to show to a gateway that asks for one.",
        _GROUP,
        metavar="PATH",
        example="~/.config/acp-bridge/client.pem",
    ),
    Option(
        "client_key",
        "--client-key",
        values.path,
        "The certificate's key (PEM), readable by you alone, if it is in a file of its own.",
        _GROUP,
        metavar="PATH",
        example="~/.config/acp-bridge/client.key",
    ),
    Option(
        "proxy",
        "--proxy",
        values.proxy,
        "Proxy to the gateway, http:// or socks5h://; auto is the environment's. Never for this"
        " machine, nor for hosts of NO_PROXY. --no-proxy is none.",
        _GROUP,
        metavar="URL",
        default="auto",
        example="http://proxy:3128",
        off="none",
    ),
    Option(
        "header_file",
        "--header-file",
        values.path,
        "File of headers for the gateway, one 'Name: value' a line, readable by you alone.",
        _GROUP,
        metavar="PATH",
        example="~/.config/acp-bridge/headers",
    ),
)
