"""Connections to PostgreSQL: their errors and limits, sessions that ranges reuse, and sessions of stopped processes."""

from __future__ import annotations

import atexit
import hashlib
import os
import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from seamark.errors import (
    AuthenticationError,
    AuthorizationError,
    ConfigurationError,
    NotFoundError,
    RejectedError,
    SeamarkError,
    UnreachableError,
)
from seamark.tables.postgres.ledger import TABLE

# Connections that break off, servers that start or stop, that are a standby during a failover, or are full.
_PASSING = ("08", "57P", "25006", "53300")


def build_connect_error(error: psycopg.Error, name: str) -> SeamarkError:
    """The error for a database that could not be opened."""
    context = {"database": name}
    if isinstance(error, psycopg.ProgrammingError):
        # libpq quotes the piece of the DSN that it could not read, which may be the password.
        return ConfigurationError(
            f"invalid DSN of database {name}",
            cause="libpq can't parse it",
            hint="use postgresql://user:password@host:port/database, or key=value pairs",
            context=context,
        )
    text = _first_line(error)
    if "authentication failed" in text or "no password supplied" in text or "no pg_hba.conf entry" in text:
        return AuthenticationError(
            f"database {name} rejected the login",
            cause=text,
            hint="check user and password of its dsn",
            context=context,
        )
    if 'database "' in text and "does not exist" in text:
        return NotFoundError(f"database {name} does not exist", cause=text, hint="check its dsn", context=context)
    return UnreachableError(
        f"database {name} is unreachable", cause=text, hint="check host and port of its dsn", context=context
    )


def build_query_error(error: psycopg.Error, name: str, *, what: str) -> SeamarkError:
    """The error for a query that failed."""
    context = {"database": name, "table": what}
    text = _first_line(error)
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return AuthorizationError(
            f"not authorized to read {what} in database {name}",
            cause=text,
            hint=f"run GRANT SELECT ON {what}",
            context=context,
        )
    if isinstance(
        error, psycopg.errors.UndefinedTable | psycopg.errors.UndefinedColumn | psycopg.errors.InvalidSchemaName
    ):
        return NotFoundError(
            f"{what} does not exist in database {name}",
            cause=text,
            hint="check that the DSN is that of the database which the connector reads",
            context=context,
        )
    if error.sqlstate is None or error.sqlstate.startswith(("08", "57P")):
        return UnreachableError(f"database {name} closed the connection", cause=text, hint="try again", context=context)
    return RejectedError(f"could not count {what} in database {name}", cause=text, context=context)


def build_landing_error(error: psycopg.Error, table: str) -> SeamarkError:
    """The error for rows that could not be landed."""
    context, text = {"table": table}, _first_line(error)
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return AuthorizationError(
            f"not authorized to write to table {table}",
            cause=text,
            hint=f"run GRANT SELECT, INSERT, UPDATE, DELETE ON {table}, and on the ledger",
            context=context,
        )
    if isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.UndefinedColumn):
        return NotFoundError(
            f"table {table} does not match the pipeline",
            cause=text,
            hint="create the table, or correct its columns",
            context=context,
        )
    if error.sqlstate is None or error.sqlstate.startswith(_PASSING):
        return UnreachableError(
            f"the database of table {table} closed the connection",
            cause=text,
            hint="try again; no rows are duplicated",
            context=context,
        )
    return RejectedError(f"could not write to table {table}", cause=text, context=context)


def build_staging_error(error: psycopg.Error, table: str, *, database: str) -> SeamarkError:
    """The error for rows that need a stage, where the role can't create temporary tables."""
    return AuthorizationError(
        f"could not write to table {table}",
        cause=_first_line(error),
        hint=f"run GRANT TEMPORARY ON DATABASE {database}: mode: upsert and dead letters need temporary tables",
        context={"table": table},
    )


def _first_line(error: psycopg.Error) -> str:
    return (error.diag.message_primary or str(error)).strip().partition("\n")[0]


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
    """A connection that is opened on first use, kept, and reopened after a failure."""

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


_FIND = "SELECT to_regclass(%s) IS NOT NULL"
_OWNERS = "SELECT DISTINCT owner FROM {} WHERE starts_with(owner, %s) ORDER BY owner"


def read_owners(dsn: str, name: str, *, prefix: str) -> tuple[str, ...]:
    """Read the owners with this prefix; none if no ledger exists. `name` is what errors call the database."""
    try:
        connection = psycopg.connect(build_patient_dsn(dsn), autocommit=True)
    except psycopg.Error as error:
        failure = build_connect_error(error, name)
    else:
        try:
            with connection:
                connection.read_only = True
                return _read(connection, prefix)
        except psycopg.Error as error:
            failure = build_query_error(error, name, what=TABLE)
    # Raised here, so that no traceback carries the driver's error with the DSN.
    raise failure


def _read(connection: psycopg.Connection[Any], prefix: str) -> tuple[str, ...]:
    ((is_there,),) = connection.execute(_FIND, [TABLE]).fetchall()
    if not is_there:
        return ()
    rows = connection.execute(sql.SQL(_OWNERS).format(sql.Identifier(TABLE)), [prefix]).fetchall()
    return tuple(owner for (owner,) in rows)


_COLUMN_TYPES = """
    SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""


def read_column_types(dsn: str, name: str, *, table: str) -> dict[str, str]:
    """Read the types of a table's columns, in PostgreSQL's words. `name` is what errors call the database."""
    try:
        connection = psycopg.connect(build_patient_dsn(dsn), autocommit=True)
    except psycopg.Error as error:
        failure = build_connect_error(error, name)
    else:
        try:
            with connection:
                connection.read_only = True
                target = sql.Identifier(*table.split(".")).as_string(connection)
                found: dict[str, str] = dict(connection.execute(_COLUMN_TYPES, [target]).fetchall())
        except psycopg.Error as error:
            failure = build_query_error(error, name, what=table)
        else:
            if found:
                return found
            failure = NotFoundError(
                f"there is no table {table} in database {name}",
                hint="check columns.source.table, with its schema where it isn't in search_path",
            )
    # Raised here, so that no traceback carries the driver's error with the DSN.
    raise failure


# A process that was stopped inside its transaction keeps its locks. PostgreSQL ends such a session only while it waits
# for the next statement; a session that waits for more data of a COPY has no timeout.

_SESSIONS = """
    SELECT a.pid, a.backend_start, a.xact_start, a.query_start, a.state, a.state_change, p.bytes_processed
    FROM pg_stat_activity a LEFT JOIN pg_stat_progress_copy p ON p.pid = a.pid
    WHERE a.application_name = %s AND a.datname = current_database() AND a.usename = current_user
    AND a.pid <> pg_backend_pid() AND a.xact_start IS NOT NULL AND a.wait_event = 'ClientRead'
"""
_END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %s AND backend_start = %s"


def build_session_name(owner: str, topic_id: str, partition: int) -> str:
    """What the sessions that may hold one row of the ledger are called: PostgreSQL's names have 63 bytes at most."""
    digest = hashlib.sha256(f"{owner}\0{topic_id}\0{partition}".encode()).hexdigest()[:24]
    return f"seamark-pipeline-{digest}"


class ZombieWatch:
    """Looks at the sessions of one name from time to time, and ends those in which nothing happens."""

    def __init__(self, name: str, *, patience_seconds: float) -> None:
        self._name = name
        self._patience_seconds = patience_seconds
        self._seen: Mapping[tuple[Any, ...], float] = {}

    def look(self, connection: psycopg.Connection[Any]) -> int:
        """End those that were just so the last times, for longer than the patience. Gives how many."""
        now = time.monotonic()
        # Within a transaction PostgreSQL returns the statistics of the first read, until the snapshot is cleared.
        connection.execute("SELECT pg_stat_clear_snapshot()")
        rows = connection.execute(_SESSIONS, [self._name]).fetchall()
        self._seen = {tuple(row): self._seen.get(tuple(row), now) for row in rows}
        dead = [row for row, since in self._seen.items() if now - since >= self._patience_seconds]
        for pid, began_at, *_ in dead:
            connection.execute(_END, [pid, began_at])
        return len(dead)


# A temporary table belongs to a session. A session for each range would insert and delete rows of PostgreSQL's own
# catalog with each range, which a run of days makes 100,000 times. So each process keeps one session per database.
_idle: dict[str, tuple[int, psycopg.Connection[Any]]] = {}
_idle_lock = threading.Lock()


def take_session(dsn: str, name: str) -> psycopg.Connection[Any] | None:
    """Return the idle session of this process for a database, under another application name; None if it has none.

    Args:
        dsn: The database, as given to `keep_session`.
        name: The session's application name from now on. It is set by a transaction of its own: the caller's may be
            rolled back and begin again.
    """
    with _idle_lock:
        pid, connection = _idle.pop(dsn, (0, None))
    # The session of a parent process is the parent's. It can't be closed here either, without ending it there.
    if connection is None or pid != os.getpid():
        return None
    try:
        connection.execute("SELECT set_config('application_name', %s, false)", [name])
        connection.commit()
    except psycopg.Error:
        # The server was restarted, or ends idle sessions.
        connection.close()
        return None
    return connection


def keep_session(dsn: str, connection: psycopg.Connection[Any]) -> None:
    """Keep an idle session for the next range of this process, or close it if there is one."""
    with _idle_lock:
        known = _idle.setdefault(dsn, (os.getpid(), connection))
        if known[0] != os.getpid():
            known = _idle[dsn] = (os.getpid(), connection)
    if known[1] is not connection:
        connection.close()


@atexit.register
def close_sessions() -> None:
    """Close the idle sessions of this process."""
    with _idle_lock:
        for pid, connection in _idle.values():
            if pid == os.getpid():
                connection.close()
        _idle.clear()
