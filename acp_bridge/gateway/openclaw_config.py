"""OpenClaw's own files and variables on this machine: where its gateway is, and with what to
authenticate there. Asked only when the bridge was told nothing itself.

Rules of 2026.6.11 and 2026.9.6: the URL is that of ``OPENCLAW_GATEWAY_URL``, then with
``gateway.mode`` ``remote`` that of ``gateway.remote.url``, else this machine at
``OPENCLAW_GATEWAY_PORT`` or ``gateway.port``. A URL from the variable goes with credentials of
variables alone. ``${NAME}`` stands for a variable, and a value with one that is unset counts as
none. Of the references to secrets those to variables (``source`` ``env``) are followed; any other
one (``file``, ``exec``) is an error unless a variable has the credential. Parts that lie in other
files (``$include``) are not read, which ``config show`` tells. For a gateway on this machine
2026.9.6 takes the token of the file before that of the variable, and 2026.6.11 the other way round;
here it is as in the newer one, since the gateway itself reads that file.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from acp_bridge.errors import ConfigError
from acp_bridge.gateway.credentials import OPENCLAW, Found, Source, from_environment
from acp_bridge.gateway.secret import Secret
from acp_bridge.gateway.secret_files import OTHERS_MAY_ENTER, OTHERS_MAY_READ, read_linked
from acp_bridge.gateway.settings import DEFAULT_PORT
from acp_bridge.ids import Json
from acp_bridge.wire.content import escape_controls

log = logging.getLogger(__name__)

_MAX_BYTES: Final = 4 * 1024 * 1024
_DEEPEST: Final = 100
_DIRECTORIES: Final = (".openclaw", ".clawdbot")
_FILES: Final = ("openclaw.json", "clawdbot.json")
"""The second of each is the name of long ago."""
_REMOTE_TOKEN: Final[tuple[str, ...]] = ("remote", "", "auth")
_REMOTE_PASSWORD: Final[tuple[str, ...]] = ("", "remote", "auth")
_LOCAL: Final[tuple[str, ...]] = ("auth", "", "remote")
_LOCAL_PROXIED: Final[tuple[str, ...]] = ("auth", "")
"""Which part of the section is asked when; empty is the variable."""
_INCLUDE: Final = "$include"
_PARTS: Final = ("auth", "remote", "tls")
"""What of the section counts here."""
_LONGEST_SOURCE: Final = 40
"""Characters of a reference's source that a message shows."""
_VARIABLE: Final = re.compile(r"\$?\$\{([A-Z_][A-Z0-9_]*)\}")
_PORT: Final = re.compile(r"(?:.*:)?(\d{1,5})", re.ASCII)
_INSTEAD: Final = "Mend it, or say all with --gateway-url and --token-file."


class OpenClawPlace(NamedTuple):
    """A gateway as OpenClaw's own client would choose it."""

    url: str
    url_source: str
    """For messages; empty if nothing says where the gateway is and this is the usual place."""
    token: Source | None
    password: Source | None


def find(environ: Mapping[str, str]) -> OpenClawPlace:
    """What OpenClaw's variables and configuration say. Raises ``ConfigError`` for a configuration
    that is there and cannot be used."""
    token, password = of_environment(environ)
    if url := environ.get(f"{OPENCLAW}_URL", "").strip():
        return OpenClawPlace(url, f"{OPENCLAW}_URL", token, password)
    path = config_path(environ)
    gateway = _Gateway(path, _read_gateway(path, OTHERS_MAY_READ) or {}, environ)
    remote = gateway.text("remote", "url") if gateway.value("mode") == "remote" else None
    token_order = password_order = _LOCAL
    if remote is not None:
        url, source = remote, f"gateway.remote.url in {path}"
        token_order, password_order = _REMOTE_TOKEN, _REMOTE_PASSWORD
    else:
        url, source = gateway.local_url()
        if gateway.value("auth", "mode") == "trusted-proxy":
            password_order = _LOCAL_PROXIED
    return OpenClawPlace(
        url,
        source,
        _InOrder("token", token_order, path, environ),
        _InOrder("password", password_order, path, environ),
    )


def of_environment(environ: Mapping[str, str]) -> tuple[Source | None, Source | None]:
    """Token and password of OpenClaw's variables. Raises ``ConfigError`` for one that cannot be."""
    return (
        from_environment(f"{OPENCLAW}_TOKEN", environ),
        from_environment(f"{OPENCLAW}_PASSWORD", environ),
    )


def config_path(environ: Mapping[str, str]) -> Path | None:
    """Where the configuration is, or would be; None if there is no home directory."""
    home = _home(environ)
    if named := environ.get("OPENCLAW_CONFIG_PATH", "").strip():
        return _expanded(named, home)
    if named := environ.get("OPENCLAW_STATE_DIR", "").strip():
        directories = [_expanded(named, home)]
    elif home is not None:
        directories = [home / name for name in _DIRECTORIES]
    else:
        return None
    directory = next((each for each in directories if each.is_dir()), directories[0])
    files = [directory / name for name in _FILES]
    return next((each for each in files if each.exists()), files[0])


def _home(environ: Mapping[str, str]) -> Path | None:
    for name in ("OPENCLAW_HOME", "HOME", "USERPROFILE"):
        if text := environ.get(name, "").strip():
            return _expanded(text, None)
    try:
        return Path.home()
    except RuntimeError:
        return None


def _expanded(text: str, home: Path | None) -> Path:
    if home is not None and (text == "~" or text.startswith("~/")):
        return home / text[2:]
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        return Path(text).absolute()


def _read_gateway(path: Path | None, forbidden: int) -> Json | None:
    """The section ``gateway`` of the configuration; None if there is no file."""
    if path is None:
        return None
    label = f"OpenClaw's configuration {path}"
    try:
        raw = read_linked(path, label, forbidden=forbidden, limit=_MAX_BYTES)
    except ConfigError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise ConfigError(error.message, hint=error.hint or _INSTEAD) from None
    content = _parse(raw, label)
    gateway = content.get("gateway", {})
    if not isinstance(gateway, dict):
        raise ConfigError(f"{label}: gateway is no object.", hint=_INSTEAD)
    if members := _included(content, gateway):
        fields = {"path": str(path), "members": members}
        log.info("parts of OpenClaw's configuration are not read", extra={"fields": fields})
    return gateway if not members else {**gateway, _INCLUDE: members}


def not_read(environ: Mapping[str, str]) -> str | None:
    """A sentence on what of the configuration may say more of the gateway and is not read; None
    if there is no such thing. Raises ``ConfigError`` as :func:`find` does."""
    if environ.get(f"{OPENCLAW}_URL", "").strip():
        return None  # nothing of it counts
    path = config_path(environ)
    members = (_read_gateway(path, OTHERS_MAY_READ) or {}).get(_INCLUDE)
    if not members:
        return None
    return f"{members} in {path} lead to other files, which the bridge does not read."


def _included(content: Json, gateway: Json) -> str:
    """The members that lead to other files, of the parts that count."""
    parts = {f"gateway.{name}.": gateway.get(name) for name in _PARTS}
    return ", ".join(
        f"{name}{_INCLUDE}"
        for name, part in {"": content, "gateway.": gateway, **parts}.items()
        if isinstance(part, dict) and _INCLUDE in part
    )


def _parse(raw: bytes, label: str) -> Json:
    """JSON5, which is slow to import, only if it is no JSON, which is what OpenClaw writes."""
    problem = "holds no object"
    content: Any = None
    try:
        text = raw.decode("utf-8-sig")
        try:
            content = json.loads(text)
        except (ValueError, RecursionError):
            import pyjson5

            try:
                content = pyjson5.decode(text, _DEEPEST)
            except pyjson5.Json5DecoderException as error:
                # Its other arguments hold what was read so far, secrets and all.
                where = re.search(r"near (\d+)", str(error.args[0]) if error.args else "")
                offset = min(int(where[1]), len(text)) if where else 0
                line = text.count("\n", 0, offset) + 1
                problem = f"is no valid JSON5 (line {line})"
    except UnicodeDecodeError:
        problem = "is not UTF-8 text"
    if not isinstance(content, dict):
        raise ConfigError(f"{label} {problem}.", hint=_INSTEAD)
    return content


@dataclass(frozen=True, slots=True)
class _Gateway:
    """The section ``gateway``, with its variables put in."""

    path: Path | None
    section: Json
    environ: Mapping[str, str]

    def value(self, *names: str) -> Any:
        found: Any = self.section
        for name in names:
            found = found.get(name) if isinstance(found, dict) else None
        return found

    def text(self, *names: str) -> str | None:
        """The text there, None if there is none that says something."""
        found = self.value(*names)
        return _substituted(found, self.environ) if isinstance(found, str) else None

    def local_url(self) -> tuple[str, str]:
        """The gateway on this machine, and what says so."""
        scheme = "wss" if self.value("tls", "enabled") is True else "ws"
        source = f"gateway in {self.path}"
        named = environ_port(self.environ)
        port = self.value("port")
        if named is not None:
            port, source = named, f"{OPENCLAW}_PORT"
        elif isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
            port = DEFAULT_PORT
            if scheme == "ws":
                source = ""
        return f"{scheme}://127.0.0.1:{port}", source

    def credential(self, part: str, kind: str) -> Secret | None:
        """``gateway.PART.KIND``. Raises ``ConfigError`` for a reference that cannot be followed."""
        found = self.value(part, kind)
        if isinstance(found, dict):
            return self._referred(f"gateway.{part}.{kind}", found)
        text = self.text(part, kind)
        return None if text is None else Secret(text)

    def _referred(self, name: str, reference: Json) -> Secret:
        place, key = reference.get("source"), reference.get("id")
        if place == "env" and isinstance(key, str):
            if value := self.environ.get(key, "").strip():
                return Secret(value)
            what = f"the variable {key}, which is not set"
        else:
            what = f"a secret of {_source(place)}; the bridge follows references to variables alone"
        raise ConfigError(
            f"{name} in {self.path} refers to {what}.",
            hint="Give the bridge the credential itself: --token-file, --token-command or"
            " --password-file.",
        )


@dataclass(frozen=True, slots=True)
class _InOrder:
    """The first of several places that has a credential of one kind: ``gateway.PART.KIND`` of the
    configuration, which is read anew each time, or, for an empty part, the variable."""

    kind: str
    parts: tuple[str, ...]
    path: Path | None
    environ: Mapping[str, str]

    def read(self) -> Found | None:
        section: Json | None = None
        unfollowed: ConfigError | None = None
        for part in self.parts:
            if not part:
                value = from_environment(f"{OPENCLAW}_{self.kind.upper()}", self.environ)
                if value is not None:
                    return value.read()
                continue
            if section is None:
                section = _read_gateway(self.path, OTHERS_MAY_READ) or {}
            gateway = _Gateway(self.path, section, self.environ)
            try:
                secret = gateway.credential(part, self.kind) if unfollowed is None else None
            except ConfigError as error:
                unfollowed = error  # a variable may still have it; the other part is no stand-in
                continue
            if secret is not None:
                _read_gateway(self.path, OTHERS_MAY_ENTER)  # a secret is in it
                return Found(secret, f"gateway.{part}.{self.kind} in {self.path}")
        if unfollowed is not None:
            raise unfollowed
        return None


def _source(place: Any) -> str:
    if not isinstance(place, str):
        return "no source"
    short = place if len(place) <= _LONGEST_SOURCE else f"{place[:_LONGEST_SOURCE]}…"
    more = " without the name of a variable" if place == "env" else ""
    return f"the source '{escape_controls(short)}'{more}"


def environ_port(environ: Mapping[str, str]) -> int | None:
    """The port that ``OPENCLAW_GATEWAY_PORT`` names, alone or behind a host."""
    match = _PORT.fullmatch(environ.get(f"{OPENCLAW}_PORT", "").strip())
    port = int(match[1]) if match else 0
    return port if 0 < port < 65536 else None


def _substituted(text: str, environ: Mapping[str, str]) -> str | None:
    """``text`` with its variables put in; None if one is unset, or nothing is left."""
    is_whole = True

    def put_in(match: re.Match[str]) -> str:
        nonlocal is_whole
        if match[0].startswith("$$"):
            return match[0][1:]
        value = environ.get(match[1], "")
        is_whole = is_whole and bool(value)
        return value

    found = _VARIABLE.sub(put_in, text).strip()
    return found if is_whole and found else None
