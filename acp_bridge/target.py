"""Which gateway the bridge is for, and with what it authenticates there.

What the bridge was told counts alone. Only if it was told nothing, what the gateway's own tools on
this machine would use is taken: OpenClaw's variables and configuration, ZeroClaw's variable and
the token of a pairing. The variables belong to the gateway that those tools would choose. Where a
flag or a profile names another one, they are left out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from acp_bridge.config import DEFAULT, Settings
from acp_bridge.config.option import ENV_PREFIX
from acp_bridge.errors import ConfigError
from acp_bridge.gateway import openclaw_config
from acp_bridge.gateway.credentials import (
    OPENCLAW,
    ZEROCLAW,
    Credentials,
    File,
    Source,
    from_environment,
)
from acp_bridge.gateway.detection import ACP
from acp_bridge.gateway.endpoint import Endpoint, acp_endpoint
from acp_bridge.gateway.openclaw_config import OpenClawPlace
from acp_bridge.gateway.origins import origin_of
from acp_bridge.gateway.settings import check_url

log = logging.getLogger(__name__)


_VARIABLES = (f"{OPENCLAW}_TOKEN", f"{OPENCLAW}_PASSWORD", f"{ZEROCLAW}_TOKEN")


class Target(NamedTuple):
    """One gateway, as long as it is not known of which kind it is as both."""

    url: str
    url_source: str
    credentials: Credentials
    """Those for OpenClaw."""
    acp_credentials: Credentials
    """Those for a gateway that speaks ACP."""


def find_target(
    settings: Settings, environ: Mapping[str, str], learn: Callable[[str], None]
) -> Target:
    """The gateway of the settings, else that of the gateway's own tools. No credential is read
    yet; ``learn`` is told each one that is. Raises ``ConfigError``."""
    for name in _VARIABLES:  # secrets, whether they are used or not
        if value := environ.get(name, "").strip():
            learn(value)
    source = settings.source("gateway_url")
    endpoint: Endpoint | None = None
    place: OpenClawPlace | None = None
    if not asks_openclaw(settings):
        endpoint = _endpoint(settings, environ, is_url_given=source != DEFAULT)
        url, source = endpoint.url, endpoint.source
    else:
        place = openclaw_config.find(environ)
        source = place.url_source or source
        url = check_url(place.url, source, allow_insecure=settings.allow_insecure_ws)
    told = Credentials.from_options(
        token=settings.token,
        token_file=settings.token_file,
        token_command=settings.token_command,
        password=settings.password,
        password_file=settings.password_file,
        password_command=settings.password_command,
        keyring=settings.keyring,
        url=url,
        sources=settings.sources,
        withheld=settings.withheld,
        learn=learn,
    )
    if told.are_told:
        return Target(url, source, told, told)
    if place is not None:
        openclaw = told.or_else(place.token, place.password)
    else:
        openclaw = _of_openclaws_variables(told, url, source, environ)
    return Target(url, source, openclaw, _of_zeroclaw(told, url, settings, endpoint, environ))


def asks_openclaw(settings: Settings) -> bool:
    """Whether OpenClaw's own variables and configuration tell the gateway: nothing else does."""
    is_named = settings.source("gateway_url") != DEFAULT or settings.config_dir is not None
    return not is_named and settings.gateway_kind != ACP


def _endpoint(settings: Settings, environ: Mapping[str, str], *, is_url_given: bool) -> Endpoint:
    return acp_endpoint(
        url=settings.gateway_url,
        url_source=settings.source("gateway_url"),
        is_url_given=is_url_given,
        config_dir=settings.config_dir,
        state_dir=settings.state_dir,
        environ=environ,
        allow_insecure=settings.allow_insecure_ws,
    )


def _of_openclaws_variables(
    told: Credentials, url: str, source: str, environ: Mapping[str, str]
) -> Credentials:
    token, password = openclaw_config.of_environment(environ)

    def home() -> str:
        return openclaw_config.find(environ).url

    return _at_home(told, token, password, OPENCLAW, url, source, home)


def _of_zeroclaw(
    told: Credentials,
    url: str,
    settings: Settings,
    endpoint: Endpoint | None,
    environ: Mapping[str, str],
) -> Credentials:
    def home() -> str:
        return _endpoint(settings, environ, is_url_given=False).url

    token = from_environment(f"{ZEROCLAW}_TOKEN", environ)
    source = endpoint.source if endpoint is not None else DEFAULT
    found = _at_home(told, token, None, ZEROCLAW, url, source, home)
    if endpoint is not None and endpoint.wants_pairing:
        found = found.or_else(File("the pairing's", endpoint.token_path, is_optional=True))
    return found


def _at_home(
    told: Credentials,
    token: Source | None,
    password: Source | None,
    prefix: str,
    url: str,
    source: str,
    home: Callable[[], str],
) -> Credentials:
    """``told`` with the credentials of variables, if they may go to ``url``. A URL of the
    environment is of one place with them."""
    if token is None and password is None:
        return told
    if source == DEFAULT or source.startswith(ENV_PREFIX):
        return told.or_else(token, password)
    try:
        theirs = origin_of(home())
    except ConfigError:
        theirs = "a gateway that cannot be told"  # their own files cannot be read
    if theirs == origin_of(url):
        return told.or_else(token, password)
    kinds = {"TOKEN": token, "PASSWORD": password}
    names = " and ".join(f"{prefix}_{kind}" for kind, value in kinds.items() if value is not None)
    log.info("variables are for another gateway", extra={"fields": {"names": names}})
    return replace(
        told,
        withheld=f"{names} is not used: it is for {theirs}, and {source} names another gateway.",
    )
