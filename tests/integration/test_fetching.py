"""Credentials from a command and from the keyring: got once, bounded in every way, told safely."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import keyring.backend
import keyring.backends.fail
import keyring.errors
import pytest

from acp_bridge.config import values
from acp_bridge.core.events import LinkUp
from acp_bridge.errors import AuthenticationFailed, ConfigError
from acp_bridge.gateway.credentials import AuthMaterial, Credentials, Secret
from acp_bridge.gateway.fetching import Command
from tests.support.client_rig import client_rig
from tests.support.waits import WAIT
from tests.support.wire_gateway import wire_gateway

pytestmark = pytest.mark.integration
posix = pytest.mark.skipif(os.name != "posix", reason="shell scripts are POSIX's")

URL = "wss://gw.example/x"


def python(program: str) -> tuple[str, ...]:
    return (sys.executable, "-c", program)


async def printed(program: str, **options: Any) -> str:
    return (await Command("--token-command", python(program), **options).get()).reveal()


async def complaint(program: str, **options: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        await printed(program, **options)
    return caught.value


# --- a command -------------------------------------------------------------------------------


@pytest.mark.parametrize("output", [b"tok", b"tok\n", b"tok\r\n", b"\xef\xbb\xbftok\n"])
async def test_what_a_command_prints_is_the_credential(output: bytes) -> None:
    assert await printed(f"import os; os.write(1, {output!r})") == "tok"


async def test_a_command_is_split_into_words_and_no_shell_sees_it(tmp_path: Path) -> None:
    text = f"{shlex.quote(sys.executable)} -c 'import sys; print(sys.argv[1:])' $HOME '*' ';' a\\ b"

    got = await Command("--token-command", values.command(text)).get()

    assert got.reveal() == "['$HOME', '*', ';', 'a b']"


async def test_a_command_has_no_input_to_wait_for() -> None:
    assert await printed("import sys; print('got', repr(sys.stdin.read()))") == "got ''"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("pass", "printed is empty"),
        ("print('a'); print('b')", "holds 2 lines"),
        ("import os; os.write(1, b'\\xff')", "is not UTF-8 text"),
        ("print('x' * 16 * 1024)", "more than 16 KiB"),
        ("raise SystemExit(3)", "failed with exit code 3"),
        ("import os; os.kill(os.getpid(), 15)", "was ended by signal 15"),
    ],
)
async def test_each_way_in_which_a_command_can_fail_has_its_sentence(
    program: str, said: str
) -> None:
    error = await complaint(program)

    assert said in error.message
    assert "--token-command" in error.message


async def test_what_a_command_complains_of_is_shown_cut_and_without_control_characters() -> None:
    error = await complaint(
        "import sys; sys.stderr.write('\\x1b[2Jno\\nsession ' + 'x' * 200_000); sys.exit(1)"
    )

    assert "exit code 1: \\x1b[2Jno session xxx" in error.message
    assert len(error.message) < 500
    assert error.message.isprintable()


async def test_the_arguments_of_a_command_are_in_no_message() -> None:
    command = Command("--token-command", (*python("raise SystemExit(1)"), "s3cr3t-argument"))

    with pytest.raises(ConfigError) as caught:
        await command.get()

    assert "s3cr3t" not in f"{caught.value.message} {caught.value.hint} {command.label}"


async def test_a_command_that_is_not_there_says_so() -> None:
    with pytest.raises(ConfigError, match="cannot be run: No such file") as caught:
        await Command("--token-command", ("no-such-program-here",)).get()

    assert "without a shell" in (caught.value.hint or "")


async def test_endless_output_costs_no_memory_and_ends_with_the_time() -> None:
    program = "import os\nwhile True: os.write(1, b'x' * 65536)"

    error = await complaint(program, timeout=0.5)

    assert "did not end within 0.5 seconds" in error.message


async def test_at_the_time_limit_a_command_is_given_up() -> None:
    error = await complaint("import time; time.sleep(600)", timeout=0.1)

    assert "did not end within 0.1 seconds" in error.message
    assert "waiting for an answer" in (error.hint or "")


@posix
async def test_a_command_that_is_given_up_is_killed_with_what_it_started(tmp_path: Path) -> None:
    held = tmp_path / "held"  # its reader sees the end once nobody who opened it lives any more
    os.mkfifo(held)
    program = (
        f"import os, subprocess, sys, time; pipe = open({str(held)!r}, 'w');"
        "os.set_inheritable(pipe.fileno(), True);"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(30)'], close_fds=False);"
        "pipe.write('started'); pipe.flush(); time.sleep(30)"
    )
    running = asyncio.create_task(printed(program))
    async with reader(held) as pipe, asyncio.timeout(WAIT):
        assert await pipe.readexactly(7) == b"started"

        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

        assert await pipe.read() == b""


@contextlib.asynccontextmanager
async def reader(fifo: Path) -> AsyncIterator[asyncio.StreamReader]:
    """What comes out of a FIFO; nothing here waits in a thread that could not be ended."""
    stream = asyncio.StreamReader()
    pipe = os.fdopen(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), pipe
    )
    try:
        yield stream
    finally:
        transport.close()
        await asyncio.sleep(0)  # it closes the file in the next round


# --- when it is asked ------------------------------------------------------------------------


def counting(tmp_path: Path, said: str = "token-{n}") -> tuple[str, ...]:
    """A command that counts its runs and prints ``said``."""
    count = tmp_path / "count"
    return python(
        f"p = {str(count)!r}\n"
        "try: n = int(open(p).read()) + 1\n"
        "except FileNotFoundError: n = 1\n"
        f"open(p, 'w').write(str(n)); print({said!r}.format(n=n))"
    )


def runs(tmp_path: Path) -> int:
    return int((tmp_path / "count").read_text())


async def test_a_command_is_run_once_and_not_for_each_connection(tmp_path: Path) -> None:
    credentials = Credentials.from_options(token_command=counting(tmp_path))

    for _ in range(3):
        await credentials.fetch()
        assert credentials.current().token == Secret("token-1")

    assert runs(tmp_path) == 1


async def test_a_command_that_failed_is_tried_again(tmp_path: Path) -> None:
    flag = tmp_path / "unlocked"
    program = f"import os; print('tok') if os.path.exists({str(flag)!r}) else exit(1)"
    credentials = Credentials.from_options(password_command=python(program))
    await credentials.fetch()
    with pytest.raises(ConfigError, match=r"--password-command .* failed with exit code 1"):
        credentials.current()

    flag.touch()
    await credentials.fetch()

    assert credentials.current().password == Secret("tok")


async def test_after_a_refusal_a_command_is_asked_anew_and_its_token_used_at_once(
    tmp_path: Path,
) -> None:
    async with (
        wire_gateway() as gateway,
        client_rig(gateway.url, tmp_path, token_command=counting(tmp_path)) as rig,
    ):
        params = await (await gateway.accepted()).reject("AUTH_TOKEN_MISMATCH")
        assert params["auth"] == {"token": "token-1"}
        params = await (await gateway.accepted()).accept()
        assert params["auth"] == {"token": "token-2"}
        await rig.next(LinkUp)
        assert runs(tmp_path) == 2


async def test_a_command_whose_token_stays_refused_is_not_run_in_a_circle(tmp_path: Path) -> None:
    async with (
        wire_gateway() as gateway,
        client_rig(gateway.url, tmp_path, token_command=counting(tmp_path)) as rig,
    ):
        waiting = asyncio.create_task(rig.client.wait_hello(WAIT))
        await (await gateway.accepted()).reject("AUTH_TOKEN_MISMATCH")
        await (await gateway.accepted()).reject("AUTH_TOKEN_MISMATCH")
        with pytest.raises(AuthenticationFailed, match="refused the token from --token-command"):
            await waiting
        assert gateway.upgrades == 2
        assert runs(tmp_path) == 2
        again = asyncio.create_task(rig.client.wait_hello(WAIT))
        params = await (await gateway.accepted()).accept()
        await again
        assert params["auth"] == {"token": "token-3"}


async def test_a_token_that_is_still_the_same_is_not_tried_twice(tmp_path: Path) -> None:
    command = counting(tmp_path, "always")
    async with (
        wire_gateway() as gateway,
        client_rig(gateway.url, tmp_path, token_command=command) as rig,
    ):
        waiting = asyncio.create_task(rig.client.wait_hello(WAIT))
        await (await gateway.accepted()).reject("AUTH_TOKEN_MISMATCH")
        with pytest.raises(AuthenticationFailed):
            await waiting
        assert gateway.upgrades == 1


# --- the keyring -----------------------------------------------------------------------------


class Ring(keyring.backend.KeyringBackend):
    """A keyring in memory."""

    priority = 1.0

    def __init__(self, failure: Exception | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # the library's
        self._failure = failure
        self._entries: dict[tuple[str, str], str] = {}

    def set_password(self, service: str, username: str, password: str) -> None:
        self._entries[service, username] = password

    def get_password(self, service: str, username: str) -> str | None:
        if self._failure is not None:
            raise self._failure
        return self._entries.get((service, username))


@pytest.fixture(autouse=True)
def own_keyring() -> Any:
    before = keyring.get_keyring()
    yield
    keyring.set_keyring(before)


async def from_keyring(kind: str = "token", url: str = URL) -> AuthMaterial:
    credentials = Credentials.from_options(keyring=kind, url=url)
    await credentials.fetch()
    return credentials.current()


async def test_the_keyring_has_credentials_by_kind_and_origin() -> None:
    keyring.set_keyring(Ring())
    keyring.set_password("acp-bridge-token", "wss://gw.example:443", "tok")
    keyring.set_password("acp-bridge-password", "wss://gw.example:443", "word")

    token, password = await from_keyring(), await from_keyring("password")

    assert token == AuthMaterial(
        Secret("tok"), None, "--keyring (acp-bridge-token wss://gw.example:443)"
    )
    assert (password.token, password.password) == (None, Secret("word"))
    with pytest.raises(ConfigError, match=r"has no token for wss://other\.example:443") as caught:
        await from_keyring(url="wss://other.example")
    assert caught.value.hint == (
        "Put it there: keyring set acp-bridge-token wss://other.example:443"
    )


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (keyring.errors.NoKeyringError("x"), "no keyring on this machine"),
        (keyring.errors.KeyringLocked("it is \x1b locked"), r"cannot be read: it is \\x1b locked"),
        (OSError(), "cannot be read: OSError"),
    ],
)
async def test_a_keyring_that_cannot_be_used_says_why(failure: Exception, said: str) -> None:
    keyring.set_keyring(Ring(failure))

    with pytest.raises(ConfigError, match=said) as caught:
        await from_keyring()

    assert caught.value.hint


async def test_without_the_extra_the_message_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)

    with pytest.raises(ConfigError, match="package that is not installed") as caught:
        await from_keyring()

    assert "acp-gateway-bridge[keyring]" in (caught.value.hint or "")


async def test_a_keyring_that_waits_for_its_user_blocks_nothing_else() -> None:
    answered = threading.Event()

    class Waiting(Ring):
        def get_password(self, service: str, username: str) -> str | None:
            return "tok" if answered.wait(WAIT) else None

    keyring.set_keyring(Waiting())
    asking = asyncio.create_task(from_keyring())
    await asyncio.sleep(0)  # it has begun

    answered.set()

    assert (await asking).token == Secret("tok")
