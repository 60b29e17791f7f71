"""``acp-bridge pair``: get a token from a ZeroClaw gateway and keep it for the bridge."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from acp_bridge.cli.failures import tell
from acp_bridge.config import load, route_of
from acp_bridge.logs import register_secret


def pair(
    code: Annotated[
        str | None,
        typer.Option(
            metavar="CODE",
            help="The code that the gateway shows (default: ZEROCLAW_ACP_PAIRING_CODE, or the one"
            " that a gateway without any client shows to all).",
            show_default=False,
        ),
    ] = None,
    gateway_url: Annotated[
        str | None,
        typer.Option("--gateway-url", "--url", metavar="URL", help="Address of the gateway."),
    ] = None,
    config_dir: Annotated[
        Path | None, typer.Option(metavar="PATH", help="ZeroClaw's directory on this machine.")
    ] = None,
    state_dir: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Directory for the bridge's state.")
    ] = None,
) -> int:
    """Pair with a ZeroClaw gateway: exchange a code for a token, which the bridge uses then.

    A code that is given always gets a new token, whatever was kept before.

    Example: acp-bridge pair --code 123456
    """
    # Here and not above: serving must not pay for it.
    from acp_bridge.gateway import kept_token
    from acp_bridge.gateway.endpoint import acp_endpoint

    given = {"--gateway-url": gateway_url, "--config-dir": config_dir, "--state-dir": state_dir}
    argv = [f"{flag}={value}" for flag, value in given.items() if value is not None]
    settings = load(["--gateway-kind=acp", *argv], os.environ)
    endpoint = acp_endpoint(
        url=settings.gateway_url,
        url_source=settings.source("gateway_url"),
        is_url_given=settings.source("gateway_url") != "default",
        config_dir=settings.config_dir,
        state_dir=settings.state_dir,
        environ=os.environ,
        allow_insecure=settings.allow_insecure_ws,
    )
    given_code = (code or os.environ.get("ZEROCLAW_ACP_PAIRING_CODE", "")).strip() or None
    kept_token.pair_and_keep(
        endpoint.url,
        endpoint.token_path,
        given_code,
        refused=kept_token.known_token(endpoint.token_path),
        learn=register_secret,
        route=route_of(settings, endpoint.url, register_secret),
    )
    tell(f"Paired with {endpoint.url}; the token is kept in {endpoint.token_path}.")
    return 0
