"""The channel over every kind of descriptor that an editor or a shell may hand to the bridge."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import pty
import socket
import subprocess
import sys
import textwrap
import threading
import tty
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from acp_bridge.front import stdio
from acp_bridge.front.stdio import Channel, EditorGone, claim
from tests.support.waits import WAIT, scaled

pytestmark = pytest.mark.integration

MIB = 1024 * 1024
Ends = tuple[int, int]


def pipe() -> Ends:
    return os.pipe()


def socket_pair() -> Ends:
    ours, theirs = socket.socketpair()
    return ours.detach(), theirs.detach()


def terminal() -> Ends:
    master, slave = pty.openpty()
    tty.setraw(slave)
    return slave, master


class Fds:
    """Descriptors that are closed after the test, whatever happened to them in it."""

    def __init__(self) -> None:
        self._open: list[int] = []

    def own(self, *fds: int) -> Ends:
        self._open += fds
        return fds[0], fds[-1]

    def close(self, fd: int) -> None:
        self._open.remove(fd)
        os.close(fd)

    def close_all(self) -> None:
        for fd in reversed(self._open):  # writing ends first, which ends the readers
            os.close(fd)
        # Numbers are given again: a reader that is still there could take the next test's bytes.
        for thread in threading.enumerate():
            if thread.name == "editor-input":
                thread.join(WAIT)


@pytest.fixture
def fds() -> Iterator[Fds]:
    fds = Fds()
    yield fds
    fds.close_all()


async def read_all(channel: Channel) -> bytes:
    """All input up to its end."""
    parts = []
    async with asyncio.timeout(WAIT):
        while data := await channel.read():
            parts.append(data)
        assert await channel.read() == b""  # the end stays the end
    assert channel.ended.is_set()
    return b"".join(parts)


async def in_thread(call: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT):
        await asyncio.to_thread(call)


def read_exactly(fd: int, size: int) -> bytes:
    parts = []
    while size > 0 and (data := os.read(fd, size)):
        parts.append(data)
        size -= len(data)
    return b"".join(parts)


@pytest.mark.requirement("C079", "C083", "ACP-21")
@pytest.mark.parametrize("make", [pipe, socket_pair, terminal])
async def test_input_of_a_stream_is_read_up_to_its_end(fds: Fds, make: Callable[[], Ends]) -> None:
    ours, theirs = make()
    fds.own(ours, theirs)
    channel = claim(99, ours)
    os.write(theirs, b"one\ntw")
    async with asyncio.timeout(WAIT):
        assert await channel.read() == b"one\ntw"
    assert not channel.ended.is_set()
    os.write(theirs, b"o")
    async with asyncio.timeout(WAIT):
        assert await channel.read() == b"o"
    fds.close(theirs)
    assert await read_all(channel) == b""


@pytest.mark.requirement("C079")
async def test_input_from_a_file_is_read_whole(fds: Fds, tmp_path: Path) -> None:
    content = os.urandom(MIB)
    (tmp_path / "in").write_bytes(content)
    fd, _ = fds.own(os.open(tmp_path / "in", os.O_RDONLY))
    assert await read_all(claim(99, fd)) == content


@pytest.mark.requirement("C079", "C083")
async def test_no_input_at_all_is_its_end(fds: Fds) -> None:
    null, _ = fds.own(os.open(os.devnull, os.O_RDWR))
    closed = os.dup(null)
    os.close(closed)
    for channel in (claim(99, null), claim(99, closed), claim(null, null)):
        assert await read_all(channel) == b""


@pytest.mark.parametrize("make", [pipe, socket_pair, terminal])
def test_all_is_written_though_the_reader_is_slow(fds: Fds, make: Callable[[], Ends]) -> None:
    ends = make()
    wire, theirs = ends if make is not pipe else ends[::-1]
    fds.own(wire, theirs)
    data = os.urandom(MIB)
    writer = threading.Thread(target=claim(wire, theirs).write, args=(data,))
    writer.start()
    assert read_exactly(theirs, len(data)) == data
    writer.join(WAIT)
    assert not writer.is_alive()


def test_output_to_a_file_and_to_nowhere_is_written(fds: Fds, tmp_path: Path) -> None:
    flags = os.O_WRONLY | os.O_CREAT
    for path in (tmp_path / "out", Path(os.devnull)):
        fd, _ = fds.own(os.open(path, flags))
        claim(fd, 99).write(b"line\n")
    assert (tmp_path / "out").read_bytes() == b"line\n"


async def test_descriptors_that_someone_else_made_non_blocking_work_as_well(fds: Fds) -> None:
    wire_out, wire_in = fds.own(*os.pipe())
    read_end, write_end = fds.own(*os.pipe())
    for fd in (wire_in, read_end):
        os.set_blocking(fd, False)
    channel = claim(wire_in, read_end)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(in_thread(lambda: channel.write(b"x" * MIB)))
        tasks.create_task(in_thread(lambda: read_exactly(wire_out, MIB)))
        reading = tasks.create_task(channel.read())
        tasks.create_task(in_thread(lambda: os.write(write_end, b"late")))
    assert reading.result() == b"late"


async def test_the_flags_of_the_descriptions_stay_as_they_were(fds: Fds) -> None:
    wire_out, wire_in = fds.own(*os.pipe())
    read_end, write_end = fds.own(*os.pipe())
    before = [fcntl.fcntl(fd, fcntl.F_GETFL) for fd in (wire_in, read_end)]
    channel = claim(wire_in, read_end)
    os.write(write_end, b"a")
    await channel.read()
    channel.write(b"b")
    assert os.read(wire_out, 1) == b"b"
    assert [fcntl.fcntl(fd, fcntl.F_GETFL) for fd in (wire_in, read_end)] == before
    fds.close(write_end)
    assert await read_all(channel) == b""


@pytest.mark.requirement("ACP-24", "C085")
def test_a_reader_that_has_gone_is_told(fds: Fds) -> None:
    out, wire = fds.own(*os.pipe())
    fds.close(out)
    with pytest.raises(EditorGone) as gone:
        claim(wire, 99).write(b"line\n")
    assert gone.value.errno == errno.EPIPE


@pytest.mark.requirement("ACP-24", "C085")
def test_a_reader_that_goes_while_a_write_is_blocked_is_told(fds: Fds) -> None:
    out, wire = fds.own(*os.pipe())
    outcome: list[type[BaseException]] = []

    def write() -> None:
        try:
            claim(wire, 99).write(b"x" * MIB)
        except EditorGone as error:
            outcome.append(type(error))

    writer = threading.Thread(target=write)
    writer.start()
    assert os.read(out, 1)
    fds.close(out)
    writer.join(WAIT)
    assert outcome == [EditorGone]


def test_a_closed_output_is_told(fds: Fds) -> None:
    out, wire = fds.own(*os.pipe())
    fds.close(wire)
    with pytest.raises(EditorGone):
        claim(wire, out).write(b"line\n")


@pytest.mark.requirement("ACP-25")
async def test_input_that_nobody_handles_is_not_read_for_ever(
    fds: Fds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "MAX_WAITING", MIB)
    read_end, write_end = fds.own(*os.pipe())
    channel = claim(99, read_end)
    written = 0

    def write_much() -> None:
        nonlocal written
        for _ in range(64):
            written += os.write(write_end, b"x" * 65536)
        fds.close(write_end)

    writer = threading.Thread(target=write_much)
    writer.start()
    total = len(await channel.read())
    async with asyncio.timeout(WAIT):
        while channel._waiting < MIB:  # noqa: ASYNC110 -- it grows in a thread
            await asyncio.sleep(0.001)
    writer.join(0.2)
    assert writer.is_alive()
    assert channel._waiting <= MIB + 65536
    assert written <= MIB + 5 * 65536
    total += len(await read_all(channel))
    assert total == 64 * 65536
    writer.join(WAIT)


@pytest.mark.requirement("ACP-21", "C083")
def test_blocked_threads_do_not_hold_the_process() -> None:
    program = textwrap.dedent(
        """
        import asyncio, os, threading
        from acp_bridge.front.stdio import claim

        async def main():
            channel = claim(os.dup(1))
            blocked = threading.Thread(target=channel.write, args=(b"x" * 1000000,), daemon=True)
            blocked.start()
            await channel.read()

        asyncio.run(main())
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
        try:
            assert process.wait(scaled(5)) == 0
        finally:
            process.kill()
            process.stdout.read()
