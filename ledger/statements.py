"""The few statements that every line of the editor waits for, without what SQLAlchemy adds.

It compiles them, once for each kind of database; the driver executes them. That halves the price
of an entry. Types convert nothing here: values are numbers, bytes, truth values and clean text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import Connection, Insert, Select, Update


class _Compiled(NamedTuple):
    text: str
    values: Callable[[Any], Any]
    """What the driver wants, from what the caller has: in order, or by name."""
    is_in_order: bool


class Statement:
    """A statement that is compiled once.

    ``getter`` makes, of the names of its parameters, the function that takes their values, as
    ``operator.itemgetter`` does from mappings and ``operator.attrgetter`` from objects.
    """

    def __init__(
        self,
        statement: Select[Any] | Insert | Update,
        getter: Callable[..., Callable[[Any], Any]] = itemgetter,
    ) -> None:
        self._statement = statement
        self._getter = getter
        self._compiled: dict[str, _Compiled] = {}

    def first(self, connection: Connection, source: Any) -> Any:
        """The first row of a query, as a sequence; None if there is none."""
        return self._execute(connection, source).fetchone()

    def run(self, connection: Connection, source: Any) -> None:
        """Execute with one set of values."""
        self._execute(connection, source)

    def run_many(self, connection: Connection, sources: Sequence[Any]) -> None:
        """Execute with each set of values."""
        text, values, is_in_order = self._for(connection)
        if not is_in_order:
            connection.exec_driver_sql(text, list(map(values, sources)))
        else:
            _raw(connection).executemany(text, map(values, sources))

    def _execute(self, connection: Connection, source: Any) -> Any:
        text, values, is_in_order = self._for(connection)
        if not is_in_order:
            return connection.exec_driver_sql(text, values(source))
        return _raw(connection).execute(text, values(source))

    def _for(self, connection: Connection) -> _Compiled:
        dialect = connection.dialect
        found = self._compiled.get(dialect.name)
        if found is None:
            compiled = self._statement.compile(dialect=dialect)
            order: list[str] | None = getattr(compiled, "positiontup", None)
            names = list(compiled.params) if order is None else order
            values = _taken(self._getter, names)
            if order is None:  # where parameters have names
                values = _named(names, values)
            found = _Compiled(compiled.string, values, order is not None)
            self._compiled[dialect.name] = found
        return found


def _taken(getter: Callable[..., Callable[[Any], Any]], names: list[str]) -> Callable[[Any], Any]:
    take = getter(*names)
    return take if len(names) > 1 else lambda source: (take(source),)


def _named(names: list[str], take: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda source: dict(zip(names, take(source), strict=True))


def _raw(connection: Connection) -> Any:
    return connection.connection.driver_connection
