"""The ledger in an SQL database."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from ledger import queries
from ledger.appending import append
from ledger.checking import checked, checked_page, checked_text
from ledger.engine import MANUAL
from ledger.errors import LedgerClosed, LedgerError
from ledger.failures import Place, is_conflict, told_of
from ledger.files import FileWatch
from ledger.housekeeping import keep_limits
from ledger.model import Change, Page, Replay, SessionRecord, Stats
from ledger.redaction import Redact, redacted
from ledger.retention import Limits
from ledger.transaction import Transaction

_log = logging.getLogger(__name__)

_ATTEMPTS = 5
"""How often a transaction is tried that lost against another one."""

_T = TypeVar("_T")


class SqlLedger:
    """Implements ``ledger.port.EventLedger``; made by ``ledger.open_ledger``.

    ``refusal`` makes the error that every write ends with, if the database may only be read.
    ``watch`` notices that the ledger's file is not in its place any more.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        place: Place,
        limits: Limits,
        owner: str | None,
        host: str | None,
        redact: Redact,
        refusal: Callable[[], LedgerError] | None = None,
        watch: FileWatch | None = None,
    ) -> None:
        self._engine = engine
        self._place = place
        self._limits = limits
        self._owner = owner
        self._host = host
        self._redact = redact
        self._refusal = refusal
        self._watch = watch
        self._writing = threading.Lock()
        self._allowance = 0
        self._has_warned = False
        self._kept: Connection | None = None
        self._is_server = engine.dialect.name == "postgresql"
        # What one read sees must be of one moment, as it always is with SQLite.
        self._read_options = {"isolation_level": "REPEATABLE READ"} if self._is_server else {}
        self._is_closed = False

    def write(self, changes: Sequence[Change]) -> None:
        self._check_open()
        if self._refusal is not None:
            raise self._refusal()
        changes = checked(changes)
        if not changes:
            return
        changes = redacted(changes, self._redact)
        with self._writing:
            self._check_open()
            if self._watch is not None:
                self._watch.look_if_due()
            added, has_new_session = self._write(
                lambda connection: self._apply(connection, changes)
            )
            self._allowance -= added
            if has_new_session or self._allowance <= 0:
                self._keep_limits(changes)

    def read(self, session_id: str) -> Replay | None:
        session_id = checked_text(session_id)
        with self._reading() as connection:
            return queries.replay(connection, session_id, self._owner)

    def find(self, session_id: str, session_key: str) -> SessionRecord | None:
        session_id, session_key = checked_text(session_id), checked_text(session_key)
        with self._reading() as connection:
            return queries.record_by_id_and_key(connection, session_id, session_key, self._owner)

    def find_by_key(self, session_key: str) -> SessionRecord | None:
        session_key = checked_text(session_key)
        with self._reading() as connection:
            return queries.record_by_key(connection, session_key, self._owner)

    def list_sessions(self, page: Page) -> list[SessionRecord]:
        page = checked_page(page)
        with self._reading() as connection:
            return queries.records(connection, page, self._owner) if page.limit > 0 else []

    def stats(self) -> Stats:
        with self._reading() as connection:
            return queries.stats(connection, self._owner)

    def confirm(self) -> None:
        self._check_open()
        self._look_again()

    def close(self) -> None:
        self._is_closed = True
        with self._writing:
            if self._kept is not None:
                self._kept.close()
                self._kept = None
            self._engine.dispose()

    def _check_open(self) -> None:
        if self._is_closed:
            raise LedgerClosed("The ledger is closed.")

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        self._check_open()
        if self._watch is not None:
            self._watch.look()
        try:
            with told_of(self._place, reading=True), self._engine.connect() as connection:
                connection = connection.execution_options(**self._read_options)
                with connection.begin():
                    yield connection
        except LedgerError:
            self._look_again()
            raise

    def _look_again(self) -> None:
        """A file that is gone is told as that, whatever else it has done to the database."""
        if self._watch is not None:
            self._watch.look()

    def _apply(self, connection: Connection, changes: Sequence[Change]) -> tuple[int, bool]:
        """The bytes that were added, and whether there is a new session."""
        added = append(connection, changes, owner=self._owner, limits=self._limits)
        if added is not None:
            return added, False
        transaction = Transaction(
            connection,
            owner=self._owner,
            host=self._host,
            limits=self._limits,
            redact=self._redact,
        )
        transaction.apply(changes)
        return transaction.bytes, transaction.has_new_session

    def _keep_limits(self, changes: Sequence[Change]) -> None:
        """What was written is written: a failure here is no failure of the write."""
        times = [at for change in changes if (at := getattr(change, "at", None)) is not None]
        if not times:
            return
        now = max(times)
        try:
            self._allowance = self._write(
                lambda connection: keep_limits(
                    connection, owner=self._owner, limits=self._limits, now=now
                )
            )
        except LedgerError as error:
            level = logging.DEBUG if self._has_warned else logging.WARNING
            self._has_warned = True
            _log.log(level, "the ledger's limits could not be kept: %s", error)

    def _write(self, work: Callable[[Connection], _T]) -> _T:
        """Do ``work`` in a transaction, again if it lost against another one."""
        try:
            with told_of(self._place):
                for _ in range(_ATTEMPTS - 1):
                    try:
                        return self._once(work)
                    except DBAPIError as error:
                        if not is_conflict(error):
                            raise
                return self._once(work)
        except LedgerError:
            self._look_again()
            raise

    def _once(self, work: Callable[[Connection], _T]) -> _T:
        if self._is_server:
            with self._engine.begin() as connection:
                return work(connection)
        # A file does not break off like a server: its connection is kept, and its transactions
        # are the driver's own. That halves the time that every line waits.
        if self._kept is None:
            self._kept = self._engine.connect().execution_options(**MANUAL)
        driver: Any = self._kept.connection.driver_connection
        try:
            driver.execute("BEGIN IMMEDIATE")
            result = work(self._kept)
            driver.execute("COMMIT")
        except BaseException as error:
            with suppress(sqlite3.Error):
                driver.execute("ROLLBACK")
            if isinstance(error, (DBAPIError, sqlite3.Error)):
                self._kept.invalidate()
                self._kept.close()
                self._kept = None
            raise
        return result
