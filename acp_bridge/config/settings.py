"""The settings of one bridge, and how they are put together: flag, then variable, then profile,
then default."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from acp_bridge.config.option import DEFAULT, Option
from acp_bridge.config.options import OPTIONS, VERBOSE
from acp_bridge.config.precedence import (
    FLAG,
    NOWHERE,
    PROFILE,
    VARIABLE,
    Urls,
    choose_credentials,
    place_of,
)
from acp_bridge.config.values import LOG_LEVELS
from acp_bridge.errors import ConfigError, UsageError
from acp_bridge.gateway import secret_files
from acp_bridge.gateway.private_files import make_private_directory

_APP = "acp-bridge"
_COMMANDS = ("serve", "chat", "demo", "pair", "config", "ledger")
_LEDGER_FILE = "ledger.db"
_CONFIG_FILE = "config.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What one bridge was told. Made by :func:`load`, which has the defaults.

    ``reconnect_window`` and ``stall_timeout`` are seconds, and 0 for no bound.
    ``scopes`` is ``None`` when the bridge is to choose. ``session_rate`` is a count and a number
    of seconds. At most one of ``token``, ``token_file``, ``token_command`` and a ``keyring`` of
    ``"token"`` is set, and likewise for the password. ``config`` is the file with profiles that was
    read, ``profile`` the one that was named. ``withheld`` says which credential is kept from the
    gateway since it belongs to another one, if any is; ``unused_secrets`` are values that were
    given and do not count. ``ledger_url`` and ``proxy`` may hold a password; the former counts only
    if ``ledger`` is ``"file"``.
    """

    gateway_url: str
    gateway_kind: str
    config_dir: Path | None
    connect_timeout: float
    reconnect_window: float
    stall_timeout: float
    require_gateway: bool
    demo: bool
    allow_insecure_ws: bool
    ca_file: Path | None
    tls_fingerprint: str | None
    client_cert: Path | None
    client_key: Path | None
    proxy: str = field(repr=False)
    header_file: Path | None
    token_file: Path | None
    token_command: tuple[str, ...] | None = field(repr=False)
    token: str | None = field(repr=False)
    token_via: str
    password_file: Path | None
    password_command: tuple[str, ...] | None = field(repr=False)
    password: str | None = field(repr=False)
    keyring: str | None
    scopes: tuple[str, ...] | None
    session: str | None
    session_label: str | None
    require_existing: bool
    reset_session: bool
    agent: str | None
    session_rate: tuple[int, float]
    delete_gateway_sessions: bool
    prefix_cwd: bool
    provenance: str
    foreign_turns: str
    on_exit: str
    ledger: str
    ledger_url: str = field(repr=False)
    max_sessions: int
    max_events_per_session: int
    max_bytes: int
    config: Path | None
    profile: str | None
    state_dir: Path
    insecure_permissions: bool
    log_level: str
    log_format: str
    log_file: Path | None
    withheld: str | None
    unused_secrets: tuple[str, ...] = field(repr=False)
    sources: Mapping[str, str] = field(repr=False)

    def source(self, field: str) -> str:
        """Where the value came from: a flag, a variable's name, a place in a file, or
        ``"default"``."""
        return self.sources.get(field, DEFAULT)


def load(argv: Sequence[str], environ: Mapping[str, str]) -> Settings:
    """The settings that the arguments, the variables and a profile make together.

    An empty value counts as unset. Variables that no option names are not looked at. From now on
    the whole process reads files with secrets by the modes that are wanted.

    Raises:
        UsageError: for an unknown or incomplete option.
        ConfigError: for a bad value; it names the source and a way to mend it.
    """
    flags, verbosity = _parse(argv)
    config, profile = _profile(flags, environ)
    given: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for option in OPTIONS:
        text, source = _find(option, flags, environ, profile)
        if source != DEFAULT:
            sources[option.field] = source
        given[option.field] = None if text is None else _read(option, text, source)
    given["config"] = config
    choice = choose_credentials(given, sources, _urls(flags, environ, profile))
    _raise_verbosity(verbosity, given, sources)
    _choose_ledger(given, sources)
    if given["ledger_url"] is None:
        given["ledger_url"] = f"sqlite:///{_ledger_directory(given) / _LEDGER_FILE}"
    if given["state_dir"] is None:
        given["state_dir"] = _default_directory("state")
    return Settings(
        **given, withheld=choice.withheld, unused_secrets=choice.unused, sources=sources
    )


def config_file(config: Path | None) -> Path | None:
    """The file with profiles: ``config``, or the usual one; None if there is no home directory."""
    if config is not None:
        return config
    try:
        return _default_directory("config") / _CONFIG_FILE
    except ConfigError:
        return None


def prepare_state_dir(settings: Settings) -> Path:
    """The state directory, made with mode 0700 if it is missing.

    Raises:
        ConfigError: if it cannot be made; names the option to set.
    """
    try:
        make_private_directory(settings.state_dir)
    except OSError as error:
        raise ConfigError(
            f"the state directory {settings.state_dir} cannot be made"
            f" ({settings.source('state_dir')}): {error.strerror}",
            hint="Name a directory that you may write with --state-dir or ACP_BRIDGE_HOME.",
        ) from error
    return settings.state_dir


def _choose_ledger(given: dict[str, Any], sources: dict[str, str]) -> None:
    """A demo leaves nothing behind unless a ledger is named; and a ledger that is named in a
    stronger place beats what says otherwise."""
    is_named = "ledger_url" in sources
    if "ledger" not in sources:
        if given["demo"] and not is_named:
            given["ledger"] = "memory"
    elif given["ledger"] == "memory" and is_named:
        by_kind, by_url = place_of(sources["ledger"]), place_of(sources["ledger_url"])
        if by_kind == by_url:
            raise ConfigError(
                f"{sources['ledger']} says memory, and {sources['ledger_url']} names a database",
                hint="Keep one of them.",
                data={"field": "ledger", "source": sources["ledger"]},
            )
        if by_url < by_kind:
            given["ledger"] = "file"
            del sources["ledger"]


def _ledger_directory(given: dict[str, Any]) -> Path:
    return given["state_dir"] or _default_directory("data")


def _default_directory(kind: str) -> Path:
    # Only here: a path given by the user saves the import on the way to the first answer.
    import platformdirs

    find = {
        "config": platformdirs.user_config_dir,
        "data": platformdirs.user_data_dir,
        "state": platformdirs.user_state_dir,
    }[kind]
    try:
        path = Path(find(_APP, appauthor=False))
    except RuntimeError:  # older ones answer with a relative path instead
        path = Path()
    if not path.is_absolute():
        raise ConfigError(
            "there is no home directory: HOME is unset and the user has no password entry",
            hint="Name a directory for the bridge's state with --state-dir or ACP_BRIDGE_HOME.",
        )
    return path


Flags = Mapping[str, tuple[str, str]]
"""By the option's field: the text and the spelling of the flag."""


def _profile(flags: Flags, environ: Mapping[str, str]) -> tuple[Path | None, Flags]:
    """The file that was read, if there is one, and what its profile gives."""
    by_field = {option.field: option for option in OPTIONS}

    def value(name: str) -> tuple[Any, str]:
        text, source = _find(by_field[name], flags, environ, {})
        return (None if text is None else _read(by_field[name], text, source)), source

    (config, source), (name, profile_source) = value("config"), value("profile")
    secret_files.check_modes(not value("insecure_permissions")[0])
    if name is None and config is None and value("demo")[0]:
        return None, {}  # a demo shows the same to everybody
    path = config_file(config)
    found = None
    if path is not None and (config is not None or name is not None or path.exists()):
        # Only then: most have no such file, and the start is faster without what reads it.
        from acp_bridge.config.profiles import read_profile

        found = read_profile(path, name, profile_source)
    if found is None and (config is not None or name is not None):
        wanted = profile_source if config is None else source
        raise ConfigError(
            f"{wanted}: there is no file {path or _CONFIG_FILE}",
            hint="acp-bridge config init makes one, to be filled in; or leave the option out.",
            data={"field": "profile" if config is None else "config", "source": wanted},
        )
    return (None, {}) if found is None else (path, found)


def _urls(flags: Flags, environ: Mapping[str, str], profile: Flags) -> Urls:
    option = next(option for option in OPTIONS if option.field == "gateway_url")
    none: Flags = {}
    found = {
        FLAG: _find(option, flags, {}, none),
        VARIABLE: _find(option, none, environ, none),
        PROFILE: _find(option, none, {}, profile),
        NOWHERE: _find(option, none, {}, none),
    }
    return Urls(
        {
            place: text
            for place, (text, source) in found.items()
            if text is not None and place_of(source) == place
        }
    )


def _find(
    option: Option, flags: Flags, environ: Mapping[str, str], profile: Flags
) -> tuple[str | None, str]:
    """The text of the option and where it stands."""
    text, flag = flags.get(option.field, ("", ""))
    if text:
        return text, flag
    for name in option.env:
        if text := environ.get(name, ""):
            return text, name
    return profile.get(option.field, (option.default, DEFAULT))


def _read(option: Option, text: str, source: str) -> object:
    try:
        return option.read(text)
    except ValueError as error:
        raise ConfigError(
            f"{source}{_shown(option, text)} {error}",
            hint=_remedy(option, source),
            data={"field": option.field, "source": source},
        ) from error


def _remedy(option: Option, source: str) -> str:
    if option.is_secret:
        return f"Check what sets it, or use {option.flag}-file."
    if place_of(source) == PROFILE:
        return f'For example: {option.field} = "{option.example}"'
    if source in option.env:
        return f"For example: {source}={'true' if option.is_switch else option.example}"
    return f"For example: {option.flag} {option.example}"


def _shown(option: Option, text: str) -> str:
    """The value for an error message, unless it is or may hold a secret."""
    if option.is_secret or "@" in text or "?" in text:
        return ""
    short = text if len(text) <= 60 else text[:60] + "..."
    return f" {short!r}"


def _raise_verbosity(count: int, given: dict[str, Any], sources: dict[str, str]) -> None:
    """Apply ``-v``; of it and a ``--log-level`` the more talkative wins."""
    if not count:
        return
    level = "info" if count == 1 else "debug"
    is_flag = sources.get("log_level", DEFAULT).startswith("-")
    if is_flag and LOG_LEVELS.index(given["log_level"]) <= LOG_LEVELS.index(level):
        return
    given["log_level"] = level
    sources["log_level"] = "-v" if count == 1 else "-vv"


class _Note(argparse.Action):
    """Keeps the text and the spelling of the flag it came with; the last one counts."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        flag = option_string or ""
        if self.nargs == 0:
            values = self.const or ("false" if flag.startswith("--no-") else "true")
        namespace.given[self.dest] = (values, flag)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(
            message, hint="acp-bridge --help lists the options; --option=VALUE takes any value."
        )


def _parse(argv: Sequence[str]) -> tuple[Flags, int]:
    """What the flags say: by field, text and flag; and how often ``-v`` was given."""
    parser = _Parser(prog=_APP, add_help=False, allow_abbrev=False)
    for option in OPTIONS:
        parser.add_argument(
            *option.flags, dest=option.field, action=_Note, nargs=0 if option.is_switch else None
        )
        if option.off is not None:
            parser.add_argument(
                option.negative, dest=option.field, action=_Note, nargs=0, const=option.off
            )
    parser.add_argument(*VERBOSE, action="count", default=0)
    known, rest = parser.parse_known_args(argv, argparse.Namespace(given={}))
    if rest:
        raise _unknown(rest[0])
    return known.given, known.verbose


def _unknown(argument: str) -> UsageError:
    if argument in _COMMANDS:
        return UsageError(
            f"the command {argument} stands behind an option",
            hint=f"A command comes first: acp-bridge {argument} ...",
        )
    import difflib  # only on the way to an error

    flags = [flag for option in OPTIONS for flag in option.flags]
    name = argument.partition("=")[0]
    near = difflib.get_close_matches(name, flags, n=1)
    kind = "option" if name.startswith("-") else "argument"
    return UsageError(
        f"unknown {kind} {name!r}",
        hint=f"Did you mean {near[0]}?" if near else "acp-bridge --help lists the options.",
    )
