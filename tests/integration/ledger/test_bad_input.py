"""Each thing that can be wrong with a ledger's place has an error and a sentence of its own."""

from __future__ import annotations

import errno
import importlib
import shlex
import shutil
import sqlite3
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Connection, event
from sqlalchemy.exc import DBAPIError

from ledger import (
    BadLedgerUrl,
    DriverMissing,
    EventLedger,
    LedgerError,
    LedgerFull,
    LedgerReadOnly,
    LedgerRefused,
    LedgerUnreachable,
    NotALedger,
    open_ledger,
)
from ledger.engine import ServerPlace, place_of, server_engine
from ledger.failures import ledger_error
from ledger.schema import behind
from tests.integration.ledger.conftest import Open
from tests.support.ledgers import entry, session, texts
from tests.support.unprivileged import run_unprivileged

pytestmark = pytest.mark.integration

SECRET = "hunter2-of-the-database"  # noqa: S105 - of no database


@pytest.mark.parametrize(
    "url",
    [
        "",
        "no url",
        "/var/lib/ledger.db",
        "mysql://user:hunter2-of-the-database@host/db",
        "sqlite+aiosqlite:///x.db",
        "postgresql+asyncpg://user:hunter2-of-the-database@host/db",
        "postgresql://user:hunter2-of-the-database@host:port/db",
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite:x.db",
        "sqlite:///x.db?mode=ro",
    ],
)
def test_a_wrong_url_is_told_without_its_secrets(url: str) -> None:
    with pytest.raises(BadLedgerUrl) as caught:
        open_ledger(url)
    told = f"{caught.value} {caught.value.hint}"
    assert "sqlite:////absolute/path" in told
    assert SECRET not in told


def test_a_missing_driver_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(DriverMissing) as caught:
        open_ledger("postgresql+psycopg://user@127.0.0.1/db")
    assert "acp-gateway-bridge[postgres]" in str(caught.value.hint)


def test_an_unreachable_server_is_told_without_the_password() -> None:
    url = f"postgresql+psycopg://user:{SECRET}@127.0.0.1:1/db"
    with pytest.raises(LedgerUnreachable, match=r"127\.0\.0\.1:1/db.*refused") as caught:
        open_ledger(url)
    assert SECRET not in str(caught.value)
    assert caught.value.is_retryable
    assert "--ledger-url" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("words", "error", "sentence"),
    [
        ('FATAL:  database "nope" does not exist', LedgerRefused, "refuses the connection"),
        ('FATAL:  role "nobody" does not exist', LedgerRefused, "refuses the connection"),
        ('FATAL:  password authentication failed for user "me"', LedgerRefused, "refuses"),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.1"', LedgerRefused, "refuses"),
        ("fe_sendauth: no password supplied", LedgerRefused, "refuses the connection"),
        ("FATAL:  the database system is starting up", LedgerUnreachable, "no more connections"),
        ("FATAL:  sorry, too many clients already", LedgerUnreachable, "no more connections"),
        ("Connection refused", LedgerUnreachable, "no connection"),
    ],
)
def test_a_server_that_answers_is_not_told_as_one_that_does_not(
    words: str, error: type[LedgerError], sentence: str
) -> None:
    cause = psycopg.OperationalError(
        f'connection failed: connection to server at "127.0.0.1", port 5432 failed: {words}'
    )
    place = place_of("postgresql://me@127.0.0.1/nope")
    found = ledger_error(DBAPIError("SELECT 1", None, cause), place)
    assert type(found) is error
    assert sentence in str(found)
    assert words.split(":")[-1].strip() in str(found)
    assert found.hint is not None


@pytest.mark.parametrize(
    "options",
    ["bogus=1", "sslmode=maybe", "connect_timeout=soon", "port=99999", "port=x", "hostaddr=here"],
)
def test_an_option_that_the_driver_does_not_take_is_told(options: str) -> None:
    with pytest.raises(BadLedgerUrl, match="part of the ledger's URL") as caught:
        open_ledger(f"postgresql://me:{SECRET}@127.0.0.1:1/db?{options}")
    assert "--ledger-url" in str(caught.value.hint)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:////a/b c.db", "'sqlite:////a/b c.db'"),
        ("postgresql://me@db/acp", "postgresql+psycopg://me@db/acp"),
        (f"postgresql://me:{SECRET}@db/acp", "'postgresql+psycopg://me:***@db/acp'"),
        (
            f"postgresql://me@/acp?host=/run/postgresql&password={SECRET}",
            "'postgresql+psycopg://me@/acp?host=%2Frun%2Fpostgresql'",
        ),
    ],
)
def test_the_command_that_prepares_a_database_is_told_with_its_url(url: str, shown: str) -> None:
    place = place_of(url)
    told = str(behind(place, None).hint)
    assert told == f"Run: acp-bridge ledger migrate --ledger-url {shown}"
    assert place_of(shlex.split(told)[-1]).shown_url == place.shown_url


@pytest.mark.parametrize(
    ("url", "sslmode"),
    [
        ("postgresql+psycopg://user@127.0.0.1/db", None),
        ("postgresql://user@localhost/db", None),
        ("postgresql+psycopg://user@[::1]/db", None),
        ("postgresql+psycopg://user@/db?host=/run/postgresql", None),
        ("postgresql+psycopg://user@/db", None),
        ("postgresql+psycopg://user@db.example.com/db", "require"),
        ("postgresql+psycopg://user@10.0.0.1/db", "require"),
        ("postgresql+psycopg://user@/db?host=db.example.com", "require"),
        ("postgresql+psycopg://user@/db?host=localhost&host=db.example.com", "require"),
        ("postgresql+psycopg://user@/db?host=localhost,db.example.com", "require"),
        ("postgresql+psycopg://user@localhost/db?hostaddr=10.0.0.1", "require"),
        ("postgresql+psycopg://user@db.example.com/db?sslmode=verify-full", "verify-full"),
        ("postgresql+psycopg://user@db.example.com/db?sslmode=disable", "disable"),
    ],
)
def test_off_this_machine_the_connection_is_encrypted_unless_the_url_says_otherwise(
    url: str, sslmode: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGHOST", raising=False)
    monkeypatch.delenv("PGHOSTADDR", raising=False)
    assert asked_of_driver(url).get("sslmode") == sslmode


def test_a_host_from_the_environment_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "db.example.com")
    assert asked_of_driver("postgresql+psycopg://user@/db").get("sslmode") == "require"


def asked_of_driver(url: str) -> dict[str, str]:
    """With what the driver would connect."""
    place = place_of(url)
    assert isinstance(place, ServerPlace)
    engine = server_engine(place, lock_timeout=1)
    asked: dict[str, str] = {}

    class Stop(Exception):
        pass

    def look(dialect: object, record: object, args: object, params: dict[str, str]) -> None:
        asked.update(params)
        raise Stop

    event.listen(engine, "do_connect", look)
    with pytest.raises(Stop):
        engine.connect()
    return asked


@pytest.fixture
def open_home() -> Iterator[Path]:
    """A directory that everybody may enter."""
    home = Path(tempfile.mkdtemp())
    home.chmod(0o755)
    yield home
    shutil.rmtree(home)


def outcome(url: str) -> str:
    """What opening and writing ends with."""
    try:
        ledger = open_ledger(url)
        ledger.write([session()])
    except LedgerError as error:
        return f"{type(error).__name__}: {error} {error.hint}"
    return "written"


def import_all() -> None:
    """Everything that a process that may not read this checkout will need."""
    for name in ("ledger.opening", "alembic.command", "alembic.config", "logging.config"):
        importlib.import_module(name)


by_fork = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@by_fork
@pytest.mark.requirement("C070")
def test_a_directory_that_cannot_be_written(open_home: Path) -> None:
    import_all()
    home = open_home / "state"
    home.mkdir(mode=0o555)
    told = run_unprivileged(lambda: outcome(f"sqlite:///{home}/ledger.db"))
    assert told.startswith("LedgerReadOnly: The ledger's directory cannot be written.")
    assert str(home) in told
    assert "--state-dir" in told
    told = run_unprivileged(lambda: outcome(f"sqlite:///{home}/deeper/ledger.db"))
    assert told.startswith("LedgerReadOnly: ")


@by_fork
@pytest.mark.requirement("C070")
def test_a_ledger_that_cannot_be_written(open_home: Path) -> None:
    import_all()
    path = open_home / "ledger.db"
    open_ledger(f"sqlite:///{path}").close()
    path.chmod(stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
    told = run_unprivileged(lambda: outcome(f"sqlite:///{path}"))
    assert told.startswith("LedgerReadOnly: ")


def test_a_path_through_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotALedger, match="a part of that path is a file"):
        open_ledger(f"sqlite:///{tmp_path}/file/ledger.db")


def test_links_that_lead_in_a_ring(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    file.symlink_to(file)
    with pytest.raises(LedgerError, match="is a link that leads to no file"):
        open_ledger(f"sqlite:///{file}")


@pytest.mark.requirement("C070")
def test_a_full_disk_is_told_and_afterwards_all_goes_on(open_file: Open) -> None:
    ledger = open_file()
    ledger.write([session(), entry("one")])
    fill_disk(ledger)
    with pytest.raises(LedgerFull, match="no space left") as caught:
        ledger.write([entry("two"), entry("x" * 5_000_000), entry("three")])
    assert caught.value.is_retryable
    assert texts(ledger) == ["one"]
    ledger.write([entry("four")])
    assert texts(ledger) == ["one", "four"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_is_full_from_the_start(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(number, "full")

    monkeypatch.setattr("ledger.files.os.open", refuse)
    with pytest.raises(LedgerFull, match="no space left"):
        open_ledger(f"sqlite:///{path}")


def fill_disk(ledger: EventLedger) -> None:
    """From now on the file may not grow, as far as the open connection is concerned."""
    kept: Connection = ledger._kept  # type: ignore[attr-defined]  # of an SqlLedger
    driver: sqlite3.Connection = kept.connection.driver_connection  # type: ignore[assignment]  # SQLite's
    driver.execute("PRAGMA max_page_count = 1")


def test_an_unknown_failure_of_the_database_is_an_error_of_the_ledger(
    path: Path, open_file: Open
) -> None:
    ledger = open_file()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE blob_uses")
        connection.execute("DROP TABLE archives")
        connection.execute("DROP TABLE entries")
    with pytest.raises(LedgerError, match="no such table"):
        ledger.write([session(), entry("one")])


def test_every_error_has_a_sentence_and_tells_where(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").mkdir()
    with pytest.raises(LedgerError) as caught:
        open_ledger(f"sqlite:///{tmp_path}/ledger.db")
    assert str(tmp_path) in str(caught.value)
    assert str(LedgerReadOnly()) == "The ledger's file, directory or server cannot be written."
