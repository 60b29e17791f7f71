"""The few statements that every line of the editor waits for, without what SQLAlchemy adds.

It compiles them, once for each kind of database; the driver executes them. That halves the price
of an entry. Types convert nothing here: values are numbers, bytes, truth values and clean text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Insert, Select, Update


class Statement:
    """A statement that is compiled once."""

    def __init__(self, statement: Select[Any] | Insert | Update) -> None:
        self._statement = statement
        self._compiled: dict[str, tuple[str, list[str] | None]] = {}

    def first(self, connection: Connection, values: Mapping[str, Any]) -> Any:
        """The first row of a query, as a sequence; None if there is none."""
        return self._execute(connection, values).fetchone()

    def run(self, connection: Connection, values: Mapping[str, Any]) -> None:
        """Execute with one set of values, by the names of the parameters."""
        self._execute(connection, values)

    def run_many(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Execute with each set of values."""
        text, order = self._for(connection)
        if order is None:
            connection.exec_driver_sql(text, [dict(row) for row in rows])
        else:
            _raw(connection).executemany(text, [[row[name] for name in order] for row in rows])

    def _execute(self, connection: Connection, values: Mapping[str, Any]) -> Any:
        text, order = self._for(connection)
        if order is None:
            return connection.exec_driver_sql(text, dict(values))
        return _raw(connection).execute(text, [values[name] for name in order])

    def _for(self, connection: Connection) -> tuple[str, list[str] | None]:
        dialect = connection.dialect
        found = self._compiled.get(dialect.name)
        if found is None:
            compiled = self._statement.compile(dialect=dialect)
            order = getattr(compiled, "positiontup", None)  # None where parameters have names
            found = self._compiled[dialect.name] = compiled.string, order
        return found


def _raw(connection: Connection) -> Any:
    return connection.connection.driver_connection
