"""A ledger that a team shares on a server: who sees what, and a server that goes away."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from ledger import (
    LEASE_MS,
    DeleteSession,
    EventLedger,
    LedgerBusy,
    LedgerError,
    LedgerReadOnly,
    LedgerRefused,
    LedgerUnreachable,
    Limits,
    NotALedger,
    Page,
    SchemaBehind,
    SessionShared,
    SessionTitle,
    UnknownSession,
    open_ledger,
    schema,
)
from ledger.engine import login_name
from tests.support.ledgers import entry, record, session, texts

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer

pytestmark = [pytest.mark.integration, pytest.mark.postgres]

OpenFor = Callable[[str], EventLedger]


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.ledger_database()


@pytest.fixture
def open_for(url: str) -> Iterator[OpenFor]:
    """Opens the one ledger for an owner."""
    opened: list[EventLedger] = []

    def open_it(owner: str) -> EventLedger:
        opened.append(open_ledger(url, owner=owner, host=f"{owner}-laptop"))
        return opened[-1]

    yield open_it
    for ledger in opened:
        ledger.close()


def seen(ledger: EventLedger) -> list[str]:
    return sorted(found.session_id for found in ledger.list_sessions(Page()))


def test_rows_carry_owner_and_host(open_for: OpenFor) -> None:
    ledger = open_for("ann")
    ledger.write([session()])
    assert (record(ledger).owner, record(ledger).host) == ("ann", "ann-laptop")


def test_the_owner_is_whoever_runs_the_process(url: str) -> None:
    ledger = open_ledger(url)
    ledger.write([session()])
    assert record(ledger).owner == login_name()
    ledger.close()


def test_a_session_is_its_owners_alone(open_for: OpenFor) -> None:
    ann, bob = open_for("ann"), open_for("bob")
    ann.write([session("a", session_key="k"), entry("one", "a")])
    bob.write([session("b")])
    assert (seen(ann), seen(bob)) == (["a"], ["b"])
    assert bob.read("a") is None
    assert bob.find("a", "k") is None
    assert bob.find_by_key("k") is None
    assert (ann.stats().entries, bob.stats().entries) == (1, 0)
    with pytest.raises(UnknownSession):
        bob.write([entry("two", "a")])
    with pytest.raises(LedgerRefused, match="somebody else"):
        bob.write([session("a")])
    bob.write([DeleteSession("a")])
    assert texts(ann, "a") == ["one"]


def test_a_shared_session_is_everybodys_to_read_and_continue_and_its_owners_to_delete(
    open_for: OpenFor,
) -> None:
    ann, bob = open_for("ann"), open_for("bob")
    ann.write([session("a", session_key="k"), entry("one", "a"), SessionShared("a")])
    assert seen(bob) == ["a"]
    assert texts(bob, "a") == ["one"]
    assert bob.find_by_key("k") is not None
    bob.write([session("a"), entry("two", "a"), SessionTitle("a", "T", 3000)])
    assert texts(ann, "a") == ["one", "two"]
    assert record(ann, "a").owner == "ann"
    for change in (DeleteSession("a"), SessionShared("a", shared=False)):
        with pytest.raises(LedgerRefused, match="belongs to ann"):
            bob.write([change])
    ann.write([SessionShared("a", shared=False)])
    assert bob.read("a") is None


def test_the_limits_are_each_owners_own(url: str) -> None:
    ledgers = {
        owner: open_ledger(url, owner=owner, limits=Limits(max_sessions=2)) for owner in "ab"
    }
    ledgers["a"].write([session("a0"), session("a1")])
    for number in range(4):
        ledgers["b"].write([session(f"b{number}", 10 * LEASE_MS * (number + 1))])
    archived = {
        found.session_id
        for ledger in ledgers.values()
        for found in ledger.list_sessions(Page())
        if found.archived
    }
    assert archived == {"b0", "b1"}
    for ledger in ledgers.values():
        ledger.close()


def test_a_server_that_went_away_is_told_and_used_again_when_it_is_back(
    postgres: PostgresServer, open_for: OpenFor
) -> None:
    ledger = open_for("ann")
    ledger.write([session(), entry("one")])
    postgres.stop()
    try:
        for _ in range(2):
            with pytest.raises(LedgerUnreachable):
                ledger.write([entry("lost")])
            with pytest.raises(LedgerUnreachable):
                ledger.read("s1")
    finally:
        postgres.start()
    ledger.write([entry("two")])
    assert texts(ledger) == ["one", "two"]


def test_a_server_that_was_restarted_in_between_is_not_noticed(
    postgres: PostgresServer, open_for: OpenFor
) -> None:
    ledger = open_for("ann")
    ledger.write([session(), entry("one")])
    postgres.stop()
    postgres.start()
    ledger.write([entry("two")])
    assert texts(ledger) == ["one", "two"]


def test_a_lock_held_too_long_is_told_and_then_forgotten(
    postgres: PostgresServer, url: str
) -> None:
    import psycopg

    ledger = open_ledger(url, lock_timeout=0.1)
    ledger.write([session(), entry("one")])
    with psycopg.connect(url.replace("+psycopg", "")) as other:
        other.execute("SELECT * FROM sessions FOR UPDATE")
        with pytest.raises(LedgerBusy, match="locked"):
            ledger.write([entry("two")])
        assert texts(ledger) == ["one"]
    ledger.write([entry("three")])
    assert texts(ledger) == ["one", "three"]
    ledger.close()


@pytest.mark.parametrize(
    ("database", "error"), [("missing", LedgerRefused), ("postgres", SchemaBehind)]
)
def test_a_database_without_a_ledger_is_told(
    postgres: PostgresServer, database: str, error: type[LedgerError]
) -> None:
    with pytest.raises(error, match=r"does not exist|no ledger yet"):
        open_ledger(postgres.url(database))


def test_a_role_that_is_not_there_is_told(postgres: PostgresServer) -> None:
    with pytest.raises(LedgerRefused, match=r"refuses the connection.*role"):
        open_ledger(postgres.url("postgres", "nobody-knows"))


def test_the_hint_of_an_empty_database_works_as_it_is_written(postgres: PostgresServer) -> None:
    with pytest.raises(SchemaBehind) as caught:
        open_ledger(postgres.empty_database())
    words = shlex.split(str(caught.value.hint))
    assert words[:5] == ["Run:", "acp-bridge", "ledger", "migrate", "--ledger-url"]
    schema.upgrade(words[5])
    open_ledger(words[5]).close()


@pytest.mark.parametrize("table", ["entries", "ledger_version"])
def test_a_table_of_another_program_that_is_in_the_way_is_told(
    postgres: PostgresServer, table: str
) -> None:
    url = postgres.empty_database()
    database = url.rpartition("/test_")[2].partition("?")[0]
    postgres.execute(f"CREATE TABLE {table} (mine text)", f"test_{database}")
    with pytest.raises(NotALedger, match="table") as caught:
        schema.upgrade(url)
    assert "database of its own" in str(caught.value.hint)


def test_looking_makes_and_changes_nothing(postgres: PostgresServer, url: str) -> None:
    with pytest.raises(SchemaBehind):
        open_ledger(postgres.empty_database(), read_only=True)
    ledger = open_ledger(url, read_only=True)
    assert ledger.stats().sessions == 0
    with pytest.raises(LedgerReadOnly):
        ledger.write([session()])
    ledger.close()


def test_a_user_without_rights_is_told(postgres: PostgresServer, url: str) -> None:
    if not postgres.execute("SELECT 1 FROM pg_roles WHERE rolname = 'reader'"):
        postgres.execute("CREATE ROLE reader LOGIN")
    database = url.rpartition("/test_")[2].partition("?")[0]
    postgres.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader", f"test_{database}")
    ledger = open_ledger(postgres.url(f"test_{database}", "reader"))
    assert seen(ledger) == []
    with pytest.raises(LedgerRefused, match="permission denied"):
        ledger.write([session()])
    ledger.close()


def test_a_standby_that_only_reads_is_told(url: str) -> None:
    ledger = open_ledger(f"{url}&options=-c%20default_transaction_read_only%3Don")
    with pytest.raises(LedgerReadOnly):
        ledger.write([session()])
    ledger.close()


def test_nothing_of_a_payload_gets_into_an_error(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    ledger = open_ledger(f"{url}&options=-c%20default_transaction_read_only%3Don")
    with pytest.raises(LedgerReadOnly) as caught:
        ledger.write([session("secret-session"), entry("hunter2", "secret-session")])
    cause = caught.value.__cause__
    assert "hunter2" not in f"{caught.value} {cause} {caplog.text}"
    ledger.close()
