"""Credentials that take time to get: from a command, or from the system's keyring.

They are got before a connection is made and kept until a gateway refuses them, since a command may
ask the user something each time it runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from acp_bridge.errors import ConfigError
from acp_bridge.gateway.origins import origin_of
from acp_bridge.gateway.secret import Secret
from acp_bridge.gateway.secret_files import MAX_BYTES, one_line
from acp_bridge.wire.content import escape_controls

COMMAND_TIMEOUT: Final = 10.0
"""Seconds that a command gets."""
KEYRING_TIMEOUT: Final = 30.0
"""Seconds that a keyring gets: it may ask for a password to unlock it."""

_END_TIMEOUT: Final = 1.0
_CHUNK: Final = 64 * 1024
_LONGEST_COMPLAINT: Final = 300
"""Characters of a command's stderr that a message shows."""


class Fetched(Protocol):
    """One place that a credential is got from in time."""

    @property
    def label(self) -> str:
        """Names it in messages."""

    async def get(self) -> Secret:
        """The credential. Raises ``ConfigError``."""


class Command:
    """A program that prints a credential. It is started without a shell and never logged."""

    def __init__(self, name: str, argv: Sequence[str], *, timeout: float = COMMAND_TIMEOUT) -> None:
        self.label = f"{name} ({Path(argv[0]).name})"
        self._argv = argv
        self._timeout = timeout

    async def get(self) -> Secret:
        """Run it. It has no input, and ends with us: it is killed after the time limit, and when
        the waiting is given up."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=os.name == "posix",
            )
        except OSError as error:
            raise ConfigError(
                f"{self.label} cannot be run: {error.strerror}.",
                hint="It is run without a shell: name the program by its path, and its arguments.",
            ) from None
        except ValueError:
            raise ConfigError(f"{self.label} cannot be run: it holds a null character.") from None
        try:
            async with asyncio.timeout(self._timeout):
                output, complaint = await asyncio.gather(
                    _read(process.stdout, MAX_BYTES + 1), _read(process.stderr, _CHUNK)
                )
                code = await process.wait()
        except TimeoutError:
            raise ConfigError(
                f"{self.label} did not end within {self._timeout:g} seconds.",
                hint="Run it in a terminal: it may be waiting for an answer.",
            ) from None
        finally:
            await _end(process)
        if code != 0:
            raise ConfigError(f"{self.label} {_ended(code)}{_shown(complaint)}.")
        if len(output) > MAX_BYTES:
            raise ConfigError(f"{self.label} printed more than 16 KiB; it should print one line.")
        return Secret(one_line(output, f"What {self.label} printed"))


async def _read(stream: asyncio.StreamReader | None, limit: int) -> bytes:
    """What comes until the end; of more than ``limit`` bytes only so many are kept."""
    kept = bytearray()
    while stream is not None and (chunk := await stream.read(_CHUNK)):
        kept += chunk[: limit - len(kept)]
    return bytes(kept)


async def _end(process: asyncio.subprocess.Process) -> None:
    """If it still runs, kill it with all that it has started."""
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    with contextlib.suppress(TimeoutError):  # what got away from it may hold its pipes
        async with asyncio.timeout(_END_TIMEOUT):
            await asyncio.gather(_read(process.stdout, 0), _read(process.stderr, 0), process.wait())


def _ended(code: int) -> str:
    return f"was ended by signal {-code}" if code < 0 else f"failed with exit code {code}"


def _shown(complaint: bytes) -> str:
    text = escape_controls(" ".join(complaint.decode("utf-8", "replace").split()))
    short = text[:_LONGEST_COMPLAINT] + ("…" if len(text) > _LONGEST_COMPLAINT else "")
    return f": {short.rstrip('.')}" if short else ""


class Keyring:
    """The system's keyring. An entry is found by the kind of credential and the gateway's origin,
    so that none can go to another gateway."""

    def __init__(self, name: str, kind: str, url: str) -> None:
        self.label = f"{name} ({service(kind)} {origin_of(url)})"
        self._kind = kind
        self._origin = origin_of(url)
        self._asking: asyncio.Future[str | None] | None = None

    async def get(self) -> Secret:
        """Ask it, in a thread. One that does not answer is not asked a second time meanwhile."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(
                asyncio.to_thread(_ask_keyring, service(self._kind), self._origin)
            )
        try:
            async with asyncio.timeout(KEYRING_TIMEOUT):
                found = await asyncio.shield(self._asking)
        except TimeoutError:
            raise ConfigError(
                "The keyring has not answered.", hint="It may be locked: unlock it, then try again."
            ) from None
        if found is None:
            raise ConfigError(
                f"The keyring has no {self._kind} for {self._origin}.",
                hint=f"Put it there: keyring set {service(self._kind)} {shlex.quote(self._origin)}",
            )
        return Secret(one_line(found.encode("utf-8", "surrogatepass"), self.label))


def service(kind: str) -> str:
    """The name under which a keyring has the bridge's tokens, or passwords."""
    return f"acp-bridge-{kind}"


def _ask_keyring(name: str, origin: str) -> str | None:
    try:
        import keyring  # slow, and an extra
        from keyring.errors import KeyringError, NoKeyringError
    except ImportError:
        raise ConfigError(
            "--keyring needs a package that is not installed.",
            hint="Install the bridge with the extra keyring: 'acp-gateway-bridge[keyring]'.",
        ) from None
    try:
        return keyring.get_password(name, origin)
    except NoKeyringError:
        raise ConfigError(
            "There is no keyring on this machine.",
            hint="Without a desktop there usually is none: use --token-file or --token-command.",
        ) from None
    except (KeyringError, OSError) as error:
        raise ConfigError(
            f"The keyring cannot be read: {escape_controls(str(error)) or type(error).__name__}.",
            hint="It may be locked: unlock it, then try again.",
        ) from None
