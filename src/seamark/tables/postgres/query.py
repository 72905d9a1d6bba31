"""The SQL of a count. Names are quoted, values are parameters; nothing of a config becomes SQL text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

from psycopg import sql

from seamark.core.distance import Mark, TableRows
from seamark.errors import RejectedError
from seamark.tables.postgres.session import Statement

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

    A column without time zone takes the former, one with it both: as with the text that the JDBC driver sends.
    """
    try:
        moment = (_EPOCH + timedelta(microseconds=micros)).astimezone(read_zone(zone))
    except OverflowError:
        raise RejectedError("the time of the offset lies outside of the calendar", hint="correct the offset") from None
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
            f"the time zone {name} is not known on this machine",
            cause="the connector's db.timezone names it",
            hint="install the system's time zones (tzdata)",
        ) from None
