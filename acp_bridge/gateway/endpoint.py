"""Where a gateway that speaks ACP is, and where the token of a pairing with it is kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from acp_bridge.errors import ConfigError
from acp_bridge.gateway.settings import ACP_URL, check_url, is_loopback
from acp_bridge.gateway.zeroclaw import GatewayConfig, config_directory, read_config, token_path


class Endpoint(NamedTuple):
    """One gateway that speaks ACP."""

    url: str
    source: str
    """Where the URL comes from, for messages."""
    token_path: Path
    wants_pairing: bool


def acp_endpoint(
    *,
    url: str,
    url_source: str,
    is_url_given: bool,
    config_dir: Path | None,
    state_dir: Path,
    environ: Mapping[str, str],
    allow_insecure: bool = False,
) -> Endpoint:
    """The gateway of the options: the URL that is given, else that of ZeroClaw's config, else the
    usual one. A URL that leads to the config's gateway has its token too. Raises ``ConfigError``;
    beside a given URL only a config that is named has to be in order."""
    directory = config_directory(config_dir, environ)
    if is_url_given:
        checked = check_url(url, url_source, allow_insecure=allow_insecure)
        beside = _config_of(checked, directory, is_named=config_dir is not None)
        kept_in = directory if beside is not None else None
        kept = token_path(checked, config_dir=kept_in, state_dir=state_dir)
        return Endpoint(checked, url_source, kept, beside is None or beside.wants_pairing)
    if directory is None:
        kept = token_path(ACP_URL, config_dir=None, state_dir=state_dir)
        return Endpoint(ACP_URL, url_source, kept, wants_pairing=True)
    config = read_config(directory)
    source = str(directory / "config.toml")
    kept = token_path(config.url, config_dir=directory, state_dir=state_dir)
    checked = check_url(config.url, source, allow_insecure=allow_insecure)
    return Endpoint(checked, source, kept, config.wants_pairing)


def _config_of(url: str, directory: Path | None, *, is_named: bool) -> GatewayConfig | None:
    """The config in ``directory``, if it is that of the gateway at ``url``."""
    if directory is None:
        return None
    try:
        config = read_config(directory)
    except ConfigError:
        if is_named:
            raise
        return None
    return config if _place(config.url) == _place(url) else None


def _place(url: str) -> tuple[str, int | None]:
    """Where a URL leads; all names of this machine are one."""
    parts = urlsplit(url)
    if is_loopback(url):
        return "", parts.port
    return f"{parts.scheme}://{parts.hostname}", parts.port
