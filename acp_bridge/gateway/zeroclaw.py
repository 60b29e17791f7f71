"""ZeroClaw's own files on this machine: where its gateway listens, and the token of a pairing.

Of ``config.toml`` only ``[gateway]`` is read. Its ``paired_tokens`` are hashes and never used. A
token that was paired for is kept beside the config, under the name that ZeroClaw's own bridge uses,
or, for a gateway that is not that config's, in the bridge's own state under its URL's origin: a
token never goes to another gateway than the one that issued it.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from acp_bridge.errors import ConfigError

TOKEN_FILE: Final = "acp-bridge-token"  # noqa: S105 - the name of a file
CONFIG_FILE: Final = "config.toml"
_PORT: Final = 42617
_PATH: Final = "/acp"
_HOMEBREW: Final = ("/opt/homebrew", "/usr/local")
_MAX_CONFIG: Final = 4 * 1024 * 1024


class GatewayConfig(NamedTuple):
    """What ``[gateway]`` says, with ZeroClaw's defaults (0.8.4)."""

    host: str = "127.0.0.1"
    port: int = _PORT
    prefix: str = ""
    is_tls: bool = False
    wants_pairing: bool = True

    @property
    def url(self) -> str:
        """The WebSocket's address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'wss' if self.is_tls else 'ws'}://{host}:{self.port}{self.prefix}{_PATH}"


def config_directory(
    given: Path | None, environ: Mapping[str, str], platform: str = sys.platform
) -> Path | None:
    """The config directory: the given one; else that of ``ZEROCLAW_CONFIG_DIR``, or the one that
    belongs to ``ZEROCLAW_DATA_DIR`` or, its old name, ``ZEROCLAW_WORKSPACE``; else, if there is a
    config, Homebrew's on macOS and the usual one (the order of ZeroClaw 0.8.4)."""
    if given is not None:
        return given.expanduser()
    if named := environ.get("ZEROCLAW_CONFIG_DIR", "").strip():
        return Path(named).expanduser()
    for name in ("ZEROCLAW_DATA_DIR", "ZEROCLAW_WORKSPACE"):
        if named := environ.get(name, "").strip():
            return _of_data(Path(named).expanduser())
    prefixes = (environ.get("HOMEBREW_PREFIX", "").strip(), *_HOMEBREW)
    brewed = [Path(prefix) / "var" / "zeroclaw" for prefix in prefixes if prefix]
    usual = [*(brewed if platform == "darwin" else ()), Path("~/.zeroclaw").expanduser()]
    found = (each for each in usual if each.is_absolute() and (each / CONFIG_FILE).is_file())
    return next(found, None)


def _of_data(data: Path) -> Path:
    """The config directory of a data directory: itself, or ``.zeroclaw`` beside it."""
    beside = data.parent / ".zeroclaw"
    if (data / CONFIG_FILE).exists():
        return data
    is_beside = (beside / CONFIG_FILE).exists() or data.name in ("data", "workspace")
    return beside if is_beside else data


def read_config(directory: Path) -> GatewayConfig:
    """Read ``config.toml``. Raises ``ConfigError`` saying what is wrong and what to do."""
    import tomllib  # only here: most starts of the bridge read no config

    path = directory / CONFIG_FILE
    try:
        raw = path.read_bytes()[: _MAX_CONFIG + 1]
    except FileNotFoundError:
        raise ConfigError(
            f"There is no {path}.",
            hint="Is ZeroClaw on this machine? Name its directory with --config-dir, or its gateway"
            " with --gateway-url.",
        ) from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from None
    try:
        found = tomllib.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        shown = str(error).partition("\n")[0] if isinstance(error, tomllib.TOMLDecodeError) else ""
        raise ConfigError(
            f"{path} is no valid TOML{f': {shown}' if shown else '.'}",
            hint="Name the gateway with --gateway-url instead, or mend the file.",
        ) from None
    return _read(path, found.get("gateway", {}))


def token_path(url: str, *, config_dir: Path | None, state_dir: Path) -> Path:
    """Where the token of a pairing is kept; ``config_dir`` if the URL comes from there."""
    if config_dir is not None:
        return config_dir / TOKEN_FILE
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{(parts.hostname or '').lower()}:{parts.port or ''}"
    return state_dir / f"{TOKEN_FILE}-{hashlib.sha256(origin.encode()).hexdigest()[:16]}"


def _read(path: Path, section: Any) -> GatewayConfig:
    if not isinstance(section, dict):
        raise ConfigError(f"{path}: gateway is no table.")
    default = GatewayConfig()
    tls = section.get("tls", {})
    host = _member(path, section, "host", str, default.host).strip().strip("[]") or default.host
    prefix = _member(path, section, "path_prefix", str, "").rstrip("/")
    port = _member(path, section, "port", int, default.port)
    if not 0 < port < 65536:
        raise ConfigError(f"{path}: gateway.port is no port.")
    return GatewayConfig(
        # A gateway that listens everywhere listens here too; such an address is no place to dial.
        host={"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host),  # noqa: S104
        port=port,
        prefix=prefix if not prefix or prefix.startswith("/") else f"/{prefix}",
        is_tls=isinstance(tls, dict) and tls.get("enabled") is True,
        wants_pairing=_member(path, section, "require_pairing", bool, True),
    )


def _member(path: Path, section: Any, name: str, kind: type, default: Any) -> Any:
    value = section.get(name, default)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ConfigError(f"{path}: gateway.{name} has the wrong type.")
    return value
