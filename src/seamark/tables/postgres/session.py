"""One connection to PostgreSQL on which nothing can be changed, and nothing runs longer than it may."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from seamark.tables.postgres.failures import build_connect_error, build_query_error

Row = tuple[Any, ...]

# A dead host shows after 10 s, a dead connection after 10 + 3 x 5 s; a DSN may say otherwise.
_PATIENCE = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "25000",
    "application_name": "seamark",
}
_LIMITS = "SELECT set_config('statement_timeout', %s, true), set_config('TimeZone', %s, true)"


@dataclass(frozen=True, slots=True)
class Statement:
    """A query and its parameters. All of them are texts: the server reads each as the type of its column."""

    text: sql.Composed
    values: tuple[str, ...] = ()


class Cancelled(Exception):  # noqa: N818 - no error: the caller asked for the limit
    """The server cancelled a query at its limit."""


class ReadSession:
    """A connection that is opened when it is first needed, kept, and opened anew where it broke."""

    def __init__(self, dsn: str, name: str) -> None:
        self._dsn = dsn
        self._connection: psycopg.Connection[Row] | None = None
        self.name = name

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def ask(self, statement: Statement, *, what: str, limit_seconds: float, time_zone: str = "UTC") -> Row | None:
        """The first row of a query, in a read-only transaction of its own with a limit that the server keeps.

        Raises:
            Cancelled: the limit was reached, and the query does not run any more.
            SeamarkError: the database can't be reached, or refuses the query.
        """
        connection = self._open()
        limits = (str(max(1, int(limit_seconds * 1000))), time_zone)
        try:
            # BEGIN, the limits, the query and COMMIT go out at once: on a busy machine every round to the server
            # costs as much as a thousand rows.
            with _pipeline(connection), connection.transaction():
                connection.execute(_LIMITS, limits)
                cursor = connection.execute(statement.text, statement.values)
            return cursor.fetchone()
        except psycopg.errors.QueryCanceled:
            self._recover(connection)
            raise Cancelled from None
        except psycopg.Error as error:
            failure = build_query_error(error, self.name, what=what)
            self._recover(connection)
        raise failure

    def _recover(self, connection: psycopg.Connection[Row]) -> None:
        """Give the connection up where it is not ready for the next query; its query has ended in any case."""
        idle = psycopg.pq.TransactionStatus.IDLE
        if connection.broken or connection.closed or connection.info.transaction_status != idle:
            self.close()

    def _open(self) -> psycopg.Connection[Row]:
        if self._connection is not None and not self._connection.closed:
            return self._connection
        try:
            connection = psycopg.connect(build_patient_dsn(self._dsn), autocommit=True)
            connection.read_only = True
            # A plan for unknown values could be another than the one for these; each count is planned for itself.
            connection.prepare_threshold = None
        except psycopg.Error as error:
            failure = build_connect_error(error, self.name)
        else:
            self._connection = connection
            return connection
        # Raised here, so that no traceback carries the driver's error with the DSN.
        raise failure


def build_patient_dsn(dsn: str, **more: str) -> str:
    """A DSN under which a dead host and a dead connection show; what it says itself stays, but for `more`."""
    own = psycopg.conninfo.conninfo_to_dict(dsn)
    missing = {key: value for key, value in _PATIENCE.items() if key not in own}
    return psycopg.conninfo.make_conninfo(dsn, **{**missing, **more})


def _pipeline(connection: psycopg.Connection[Row]) -> AbstractContextManager[object]:
    # A libpq before 14 has none; then each statement is a round of its own.
    return connection.pipeline() if psycopg.capabilities.has_pipeline() else nullcontext()
