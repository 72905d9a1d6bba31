"""Statements on a connection of the user's: psycopg's, SQLAlchemy's, or that of any driver with Python's DB-API."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from seamark.errors import UsageError

_HOLE = re.compile(r"\{(\w+)\}")
_STYLES = {"format": "%s", "pyformat": "%({name})s", "qmark": "?", "named": ":{name}", "numeric": ":{place}"}
_BY_NAME = frozenset({"pyformat", "named"})


class Runner:
    """One connection. Nothing is committed here: the transaction is the caller's."""

    def __init__(self, connection: Any) -> None:
        # SQLAlchemy's connection hands a statement to the driver as it is.
        self._execute: Callable[..., Any] | None = getattr(connection, "exec_driver_sql", None)
        self._connection = connection
        self._style = _find_style(connection)

    @property
    def is_postgres(self) -> bool:
        """Whether it is PostgreSQL, by a driver that is known."""
        dialect = getattr(self._connection, "dialect", None)
        name = getattr(dialect, "name", None) or _root(self._connection)
        return name in {"postgresql", "psycopg", "psycopg2", "pg8000"}

    @property
    def is_alone(self) -> bool:
        """Whether each statement is committed by itself, as far as that can be seen."""
        read_options = getattr(self._connection, "get_execution_options", None)
        if read_options is not None and read_options().get("isolation_level") == "AUTOCOMMIT":
            return True
        connection = _unwrap(self._connection)
        root = _root(connection)
        if root in {"psycopg", "psycopg2"}:
            # 0 is idle.
            return bool(connection.autocommit) and connection.info.transaction_status == 0
        if root == "sqlite3":
            # The attribute is there from Python 3.12 on, and is a number where it says nothing.
            is_automatic = connection.isolation_level is None or getattr(connection, "autocommit", None) is True
            return is_automatic and not connection.in_transaction
        return False

    def expect_transaction(self) -> None:
        """Refuse a connection on which each statement is committed by itself."""
        if self.is_alone:
            raise UsageError(
                "the offsets can't be saved outside of a transaction",
                cause="rows and offsets must be committed together",
                hint="write the rows first, in the same transaction: with connection.transaction(): …",
            )

    def change(self, text: str, **values: object) -> int:
        """Run a statement whose values stand as `{name}` in it. Gives how many rows it has changed."""
        return self._run(text, values, lambda cursor: int(cursor.rowcount))  # type: ignore[no-any-return]

    def read(self, text: str, **values: object) -> Sequence[Sequence[Any]]:
        """All rows of a query, whatever the connection makes of them."""
        return self._run(text, values, lambda cursor: [_list_values(row) for row in cursor.fetchall()])  # type: ignore[no-any-return]

    def read_named(self, text: str, **values: object) -> list[dict[str, Any]]:
        """All rows of a query by column name, in lower case."""
        return self._run(text, values, _list_named)  # type: ignore[no-any-return]

    def _run(self, text: str, values: Mapping[str, object], take: Callable[[Any], Any]) -> Any:
        names = _HOLE.findall(text)
        places = iter(range(1, len(names) + 1))
        spelled = _HOLE.sub(lambda hole: _STYLES[self._style].format(name=hole[1], place=next(places)), text)
        given = {name: values[name] for name in names} if self._style in _BY_NAME else tuple(values[n] for n in names)
        if self._execute is not None:
            return take(self._execute(spelled, given))
        cursor = self._connection.cursor()
        try:
            cursor.execute(spelled, given)
            return take(cursor)
        finally:
            cursor.close()


def _find_style(connection: Any) -> str:
    dialect = getattr(connection, "dialect", None)
    style = getattr(dialect, "paramstyle", None) or getattr(sys.modules.get(_root(connection)), "paramstyle", None)
    # Under these names SQLAlchemy has what some asynchronous drivers want.
    style = {"numeric_dollar": "numeric"}.get(str(style), style)
    if style not in _STYLES:
        raise UsageError(
            f"a connection of {type(connection).__module__} is not understood",
            cause="its module has no paramstyle of Python's DB-API",
            hint="give a connection of psycopg, SQLAlchemy (Connection, not Engine) or another driver with the DB-API",
        )
    return str(style)


def _unwrap(connection: Any) -> Any:
    """The driver's connection, beneath SQLAlchemy's and its pool's."""
    if getattr(connection, "exec_driver_sql", None) is None:
        return connection
    return getattr(getattr(connection, "connection", None), "dbapi_connection", None)


def _list_values(row: Any) -> Sequence[Any]:
    """The values of a row in the order of the query's columns."""
    if isinstance(row, Mapping):
        return tuple(row.values())
    if isinstance(row, str) or not isinstance(row, Iterable):
        raise UsageError(
            f"rows that are {type(row).__name__} are not understood",
            cause="the connection has a row factory of its own",
            hint="open the consumer's connection without one: rows must be tuples or dicts",
        )
    return tuple(row)


def _list_named(cursor: Any) -> list[dict[str, Any]]:
    # SQLAlchemy wraps the driver's cursor.
    description = getattr(cursor, "cursor", cursor).description
    names = [str(column[0]).lower() for column in description]
    return [dict(zip(names, _list_values(row), strict=True)) for row in cursor.fetchall()]


def _root(connection: Any) -> str:
    """The package of a connection's driver; whoever has a class of their own has it from the driver's."""
    roots = [kind.__module__.partition(".")[0] for kind in type(connection).__mro__]
    return next((root for root in roots if hasattr(sys.modules.get(root), "paramstyle")), roots[0])
