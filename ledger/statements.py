"""The few statements that every line of the editor waits for, without what SQLAlchemy adds.

It compiles them, once for each kind of database; the driver executes them. That halves the price
of an entry. Types convert nothing here: values are numbers, bytes, truth values and clean text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, CursorResult, Insert, Select, Update


class Statement:
    """A statement that is compiled once."""

    def __init__(self, statement: Select[Any] | Insert | Update) -> None:
        self._statement = statement
        self._compiled: dict[str, tuple[str, list[str] | None]] = {}

    def execute(self, connection: Connection, values: Mapping[str, Any]) -> CursorResult[Any]:
        """Execute with one set of values, by the names of the parameters."""
        text, order = self._for(connection)
        if order is None:
            return connection.exec_driver_sql(text, dict(values))
        return connection.exec_driver_sql(text, tuple([values[name] for name in order]))

    def execute_many(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Execute with each set of values."""
        text, order = self._for(connection)
        if order is None:
            connection.exec_driver_sql(text, [dict(row) for row in rows])
        else:
            connection.exec_driver_sql(text, [tuple([row[n] for n in order]) for row in rows])

    def _for(self, connection: Connection) -> tuple[str, list[str] | None]:
        dialect = connection.dialect
        found = self._compiled.get(dialect.name)
        if found is None:
            compiled = self._statement.compile(dialect=dialect)
            order = getattr(compiled, "positiontup", None)  # None where parameters have names
            found = self._compiled[dialect.name] = compiled.string, order
        return found
