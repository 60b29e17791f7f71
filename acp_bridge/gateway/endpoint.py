"""Where a gateway that speaks ACP is, and where the token of a pairing with it is kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from acp_bridge.gateway.settings import ACP_URL, check_url
from acp_bridge.gateway.zeroclaw import config_directory, read_config, token_path


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
    usual one. Raises ``ConfigError``."""
    if is_url_given:
        checked = check_url(url, url_source, allow_insecure=allow_insecure)
        kept = token_path(checked, config_dir=None, state_dir=state_dir)
        return Endpoint(checked, url_source, kept, wants_pairing=True)
    directory = config_directory(config_dir, environ)
    if directory is None:
        kept = token_path(ACP_URL, config_dir=None, state_dir=state_dir)
        return Endpoint(ACP_URL, url_source, kept, wants_pairing=True)
    config = read_config(directory)
    source = str(directory / "config.toml")
    kept = token_path(config.url, config_dir=directory, state_dir=state_dir)
    checked = check_url(config.url, source, allow_insecure=allow_insecure)
    return Endpoint(checked, source, kept, config.wants_pairing)
