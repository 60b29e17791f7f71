"""Pairing with a ZeroClaw gateway and keeping the token, whoever else does the same.

Whoever pairs holds the token's file meanwhile, so that of several processes none overwrites what
another one has just got, and a code, which counts once, is spent only when the token can be kept.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

from acp_bridge.errors import ConfigError
from acp_bridge.gateway import pairing, private_files
from acp_bridge.gateway.route import DIRECT, Route
from acp_bridge.gateway.secret import Secret
from acp_bridge.gateway.secret_files import read_credential


def pair_and_keep(
    url: str,
    path: Path,
    code: str | None,
    *,
    refused: Secret | None,
    learn: Callable[[str], None] = lambda _value: None,
    route: Route = DIRECT,
) -> Secret:
    """Exchange ``code`` for a token and write it to ``path``.

    Without a code the gateway is asked for the one that it shows to its first client; if another
    process was that meanwhile, its token is taken: one that is there and not the ``refused`` one.
    ``learn`` is told each secret, for the log to keep it out; ``route`` holds as for the WebSocket.
    Blocks for two requests of
    ``pairing.TIMEOUT`` seconds at most, and while another process pairs.

    Raises ``ConfigError`` if the token cannot be kept, with no code spent, and as ``pairing`` does.
    """
    with _held(path):
        if code is None:
            known = known_token(path)
            if known is not None and known != refused:
                learn(known.reveal())
                return known
            code = pairing.open_code(url, route)
        learn(code)
        token = pairing.pair(url, code, route)
        learn(token.reveal())
        try:
            private_files.replace(path, f"{token.reveal()}\n".encode())
        except OSError as error:
            raise _unwritable(path, error) from None
    return token


def known_token(path: Path) -> Secret | None:
    """The token in ``path``; None if there is none that could be used."""
    try:
        return Secret(read_credential(path, "the pairing's token")) if path.exists() else None
    except ConfigError:
        return None


@contextlib.contextmanager
def _held(path: Path) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        try:
            private_files.make_private_directory(path.parent)
            stack.enter_context(private_files.locked(path))
            if not os.access(path.parent, os.W_OK | os.X_OK):
                raise PermissionError(13, "Permission denied")
        except OSError as error:
            raise _unwritable(path, error) from None
        if path.is_symlink() or (path.exists() and not path.is_file()):
            aside = f"mv {shlex.quote(str(path))} {shlex.quote(f'{path}.old')}"
            raise ConfigError(
                f"The token cannot be kept in {path}: what is there is no regular file.",
                hint=f"Move it away: {aside}",
            )
        yield


def _unwritable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"The token cannot be kept in {path}: {error.strerror or type(error).__name__}.",
        hint="Let your user write that directory, or name another one: --config-dir, --state-dir.",
    )
