"""A PostgreSQL server of the tests' own, in a temporary directory, gone afterwards."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from ledger import schema

_USER = "ledger"
_OPTIONS = (
    "-c listen_addresses= -c fsync=off -c shared_buffers=16MB -c max_connections=60 "
    "-c timezone=UTC -c lc_messages=C"
)


class PostgresServer:
    """A running server, reached by a socket in its own directory."""

    def __init__(self, programs: Path, home: Path) -> None:
        self._programs = programs
        self._home = home
        self._numbers = itertools.count(1)
        self._has_template = False

    def start(self) -> None:
        options = f"{_OPTIONS} -c unix_socket_directories={self._home}"
        self._run("pg_ctl", "-D", "data", "-w", "-t", "60", "-l", "log", "-o", options, "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", "data", "-w", "-m", "immediate", "stop")

    @contextmanager
    def hung(self) -> Iterator[None]:
        """Within the block all its processes stand still: connections stay, and nobody answers."""
        main = int((self._home / "data/postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        stopped = [main, *map(int, children)]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)

    def make(self) -> None:
        self._run("initdb", "-D", "data", "-U", _USER, "-A", "trust", "-E", "UTF8", "--no-sync")

    def url(self, database: str, user: str = _USER) -> str:
        return f"postgresql+psycopg://{user}@/{database}?host={self._home}"

    def empty_database(self, template: str = "template0") -> str:
        """The URL of a new database without tables."""
        name = f"test_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)

    def ledger_database(self) -> str:
        """The URL of a new database with the ledger's tables."""
        if not self._has_template:
            self.execute("CREATE DATABASE template_ledger")
            schema.upgrade(self.url("template_ledger"))
            self._has_template = True
        return self.empty_database("template_ledger")

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        with psycopg.connect(
            host=str(self._home), user=_USER, dbname=database, autocommit=True
        ) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def _run(self, program: str, *argv: str) -> None:
        with (self._home / "output").open("w+") as output:  # a pipe would wait for the server's end
            done = subprocess.run(
                [str(self._programs / program), *argv],
                cwd=self._home,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=120,
                check=False,
                **_unprivileged(),
            )
            output.seek(0)
            assert done.returncode == 0, output.read()


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """A server until the end of the block."""
    programs = _programs()
    home = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))  # a socket needs a short path
    try:
        if user := _unprivileged():
            shutil.chown(home, user["user"], user["group"])
        server = PostgresServer(programs, home)
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(home)


def _programs() -> Path:
    """Where ``initdb`` and ``pg_ctl`` are; Debian's package is installed if nowhere."""
    found = _look_for_programs()
    if found is None:
        for command in (["update"], ["install", "-y", "--no-install-recommends", "postgresql"]):
            subprocess.run(["apt-get", "-q", *command], check=True, timeout=600)
        found = _look_for_programs()
    assert found is not None, "no PostgreSQL server is installed"
    return found


def _look_for_programs() -> Path | None:
    if on_path := shutil.which("initdb"):
        return Path(on_path).resolve().parent
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else None


def _unprivileged() -> dict[str, Any]:
    """For root: another user to run as, since PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    return {}
