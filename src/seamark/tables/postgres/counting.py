"""Counting in one database, and the status of a pipeline's table."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta, tzinfo
from types import TracebackType
from typing import Any, LiteralString, Self

import psycopg
from psycopg import sql

from seamark.core.offsets import Certainty, Counted, Distance, Mark, TableRows, WalBytes
from seamark.errors import RejectedError
from seamark.tables.model import LedgerEntry, TableStatus
from seamark.tables.postgres.connection import (
    Cancelled,
    ReadSession,
    Statement,
    build_connect_error,
    build_patient_dsn,
    build_query_error,
)
from seamark.tables.postgres.ledger import TABLE, Ledger, Runner
from seamark.tables.postgres.table import build_table

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def build_count(rows: TableRows, number_column: str | None) -> Statement:
    """`SELECT count(*)` of those rows."""
    return _build(sql.SQL("SELECT count(*) FROM {table}{where}"), rows, number_column)


def build_explain(rows: TableRows, number_column: str | None) -> Statement:
    """What the planner thinks of those rows, without reading one."""
    return _build(sql.SQL("EXPLAIN (FORMAT JSON) SELECT FROM {table}{where}"), rows, number_column)


def _build(frame: sql.SQL, rows: TableRows, number_column: str | None) -> Statement:
    where, values = _build_where(rows, number_column)
    return Statement(frame.format(table=sql.Identifier(*rows.table), where=where), values)


def _build_where(rows: TableRows, number_column: str | None) -> tuple[sql.Composable, tuple[str, ...]]:
    place = _build_place(rows, number_column)
    parts: list[sql.Composable] = []
    values: list[str] = []
    for mark, sign in ((rows.after, ">"), (rows.upto, "<=")):
        if mark is not None and place is not None:
            given = _spell_mark(mark, rows, has_number=number_column is not None)
            # A comparison of whole rows is one scan of an index on (time, number), and of one on the time alone; the OR
            # that the connector itself writes takes two, and a bitmap of both.
            holders = sql.SQL(", ").join([sql.Placeholder()] * len(given))
            parts.append(sql.SQL("({}) {} ({})").format(place, sql.SQL(sign), holders))
            values += given
    if rows.time_columns and rows.upto is None and rows.after is not None:
        # What the connector can't read yet does not count: it stops at the database's clock, less its delay.
        parts.append(
            sql.SQL("{} < CURRENT_TIMESTAMP - {}::interval").format(_build_time(rows.time_columns), sql.Placeholder())
        )
        values.append(f"{rows.delay_ms} milliseconds")
    if not parts:
        return sql.SQL(""), ()
    return sql.SQL(" WHERE ") + sql.SQL(" AND ").join(parts), tuple(values)


def _build_place(rows: TableRows, number_column: str | None) -> sql.Composable | None:
    columns: list[sql.Composable] = []
    if rows.time_columns:
        columns.append(_build_time(rows.time_columns))
    if number_column is not None:
        columns.append(sql.Identifier(number_column))
    return sql.SQL(", ").join(columns) if columns else None


def _build_time(columns: tuple[str, ...]) -> sql.Composable:
    names = [sql.Identifier(column) for column in columns]
    return names[0] if len(names) == 1 else sql.SQL("COALESCE({})").format(sql.SQL(", ").join(names))


def _spell_mark(mark: Mark, rows: TableRows, *, has_number: bool) -> list[str]:
    given: list[str] = []
    if rows.time_columns:
        given.append(_spell_time(mark.time_micros or 0, rows.time_zone))
    if has_number:
        given.append(str(mark.number if mark.number is not None else 0))
    return given


def _spell_time(micros: int, zone: str) -> str:
    """The time of day in the connector's zone with the zone's distance from UTC.

    A column without time zone takes the time alone, one with it both: as with the text that the JDBC driver sends.
    """
    try:
        moment = (_EPOCH + timedelta(microseconds=micros)).astimezone(read_zone(zone))
    except OverflowError:
        raise RejectedError("the timestamp of the offset is out of range", hint="correct the offset") from None
    return moment.isoformat(sep=" ", timespec="microseconds")


def read_zone(name: str) -> tzinfo:
    """The time zone of that name."""
    if name.upper() in {"UTC", "GMT", "Z", "ETC/UTC"}:
        return UTC
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - reads the system's table, which most connectors do not need

    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise RejectedError(
            f"unknown time zone {name}",
            cause="db.timezone of the connector has it, and this machine does not",
            hint="install the time zones of the system (tzdata)",
        ) from None


# A person waits for it, and the source's users do too: a count of a million rows takes 0.1 s, one of 50 million is cut.
LIMIT_SECONDS = 5.0
# The planner answers in milliseconds; longer means that the table is locked, and then the catalogue must do.
_PLANNER_SECONDS = 1.0

# What the JDBC driver calls an auto-increment column: an identity, or a default from a sequence.
_AUTO_INCREMENT = """
SELECT a.attname FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = to_regclass(%s)::oid AND a.attnum > 0 AND NOT a.attisdropped
AND (a.attidentity <> '' OR pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%%')
ORDER BY a.attnum LIMIT 1
"""
_WHOLE_TABLE = "SELECT reltuples FROM pg_class WHERE oid = to_regclass(%s)::oid"
_LOG = """
SELECT pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, %s)
"""


class Database:
    """A PostgreSQL database. Every query is in a read-only transaction with a time limit that the server keeps.

    The connection is opened by the first count and kept. Thread-safe: one count at a time. Close it, or use `with`.
    """

    def __init__(self, dsn: str, *, name: str = "database", limit_seconds: float = LIMIT_SECONDS) -> None:
        """Open nothing yet. `name` is what errors call it."""
        self._session = ReadSession(dsn, name)
        self._lock = threading.Lock()
        self.name = name
        self.limit_seconds = limit_seconds

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        """Its name; the DSN is a secret."""
        return f"Database({self.name!r})"

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._session.close()

    def count(self, distance: Distance) -> Counted:
        """Run the count. At the time limit the server cancels it, and the figure becomes the planner's estimate.

        Raises:
            SeamarkError: the database can't be reached, or the table is not there or not for us.
        """
        with self._lock:
            if isinstance(distance.count, WalBytes):
                return self._count_log(distance.count, distance)
            if isinstance(distance.count, TableRows):
                return self._count_rows(distance.count, distance)
        raise RejectedError(
            "a database can't count this distance", cause=f"unsupported kind {type(distance.count).__name__}"
        )

    def _count_rows(self, rows: TableRows, distance: Distance) -> Counted:
        column = self._find_number_column(rows)
        began = time.monotonic()
        try:
            figure = self._ask(build_count(rows, column), rows, limit_seconds=self.limit_seconds)
        except Cancelled:
            reason = f"the count was canceled in the server after {time.monotonic() - began:.1f} s"
        else:
            return Counted(distance.unit, int(figure), distance.certainty, distance.reason)
        estimate, whose = self._estimate(rows, column)
        if estimate is None:
            return Counted(distance.unit, None, Certainty.UNKNOWN, f"{reason}, and {whose}")
        return Counted(distance.unit, estimate, Certainty.ESTIMATE, f"{reason}; the number is {whose}")

    def _estimate(self, rows: TableRows, column: str | None) -> tuple[int | None, str]:
        try:
            plans = self._ask(build_explain(rows, column), rows, limit_seconds=_PLANNER_SECONDS)
            return int(plans[0]["Plan"]["Plan Rows"]), "the planner's estimate"
        except Cancelled:
            # Planning needs the table's lock; the catalogue does not.
            found = self._ask(_ask_catalogue(_WHOLE_TABLE, rows), rows, limit_seconds=_PLANNER_SECONDS)
        if found is None or found < 0:
            return None, "the table was never analyzed"
        return int(found), "that of the whole table when it was last analyzed"

    def _find_number_column(self, rows: TableRows) -> str | None:
        """Return the named column, or the one that the connector finds: the first auto-increment column."""
        if rows.number_column is None or rows.number_column:
            return rows.number_column
        found = self._ask(_ask_catalogue(_AUTO_INCREMENT, rows), rows, limit_seconds=_PLANNER_SECONDS)
        if found is None:
            table = ".".join(rows.table)
            raise RejectedError(
                f"{table} has no auto-increment column, or does not exist in database {self.name}",
                hint="set incrementing.column.name of the connector",
                context={"database": self.name, "table": table},
            )
        return str(found)

    def _ask(self, statement: Statement, rows: TableRows, *, limit_seconds: float) -> Any:
        """The first value of the answer, or None."""
        row = self._session.ask(
            statement,
            what=".".join(rows.table),
            limit_seconds=limit_seconds,
            # Without times no zone is needed, and the connector's may be one that only Java knows.
            time_zone=rows.time_zone if rows.time_columns else "UTC",
        )
        return None if row is None else row[0]

    def _count_log(self, log: WalBytes, distance: Distance) -> Counted:
        place = f"{log.after_lsn >> 32:X}/{log.after_lsn & 0xFFFFFFFF:X}"
        statement = Statement(sql.Composed([sql.SQL(_LOG)]), (place,))
        try:
            row = self._session.ask(statement, what="the log", limit_seconds=self.limit_seconds)
        except Cancelled:
            return Counted(distance.unit, None, Certainty.UNKNOWN, "the server did not report its position in the WAL")
        figure = None if row is None or row[0] is None else max(0, int(row[0]))
        return Counted(distance.unit, figure, distance.certainty, distance.reason)


def _ask_catalogue(text: LiteralString, rows: TableRows) -> Statement:
    return Statement(sql.Composed([sql.SQL(text)]), (sql.Identifier(*rows.table).as_string(None),))


_FIND = "SELECT to_regclass(%s)::oid"
_ESTIMATE = "SELECT reltuples::bigint FROM pg_class WHERE oid = %s"
# The column has no time zone: it is compared with the clock of a session that has the same one.
_CHANGED = sql.SQL(
    "SELECT (extract(epoch FROM now()) - extract(epoch FROM LOCALTIMESTAMP - max(changed_at)))::float8 "
    "FROM {} WHERE owner = %s"
).format(sql.Identifier(TABLE))


def read_table_status(dsn: str, table: str, *, owner: str) -> TableStatus:
    """Read the ledger of a pipeline, and the planner's estimate of its rows: a count would read the whole table."""
    try:
        connection = psycopg.connect(build_patient_dsn(dsn, client_encoding="UTF8"))
    except psycopg.Error as error:
        failure = build_connect_error(error, table)
    else:
        try:
            with connection:
                connection.read_only = True
                return _read_table_status(connection, table, owner)
        except psycopg.Error as error:
            failure = build_query_error(error, table, what=table)
    # Raised here, so that no traceback carries the driver's error with the DSN.
    raise failure


def _read_table_status(connection: psycopg.Connection[Any], table: str, owner: str) -> TableStatus:
    found = connection.execute(_FIND, [build_table(table).as_string(connection)]).fetchall()[0][0]
    # -1 before the first ANALYZE.
    rows = -1 if found is None else connection.execute(_ESTIMATE, [found]).fetchall()[0][0]
    entries: dict[tuple[str, int], LedgerEntry] = {}
    committed_at: float | None = None
    if connection.execute(_FIND, [TABLE]).fetchall()[0][0] is not None:
        entries = Ledger(owner).read(Runner(connection))
        committed_at = connection.execute(_CHANGED, [owner]).fetchall()[0][0]
    return TableStatus(entries, rows=None if rows < 0 else rows, is_estimate=True, committed_at=committed_at)
