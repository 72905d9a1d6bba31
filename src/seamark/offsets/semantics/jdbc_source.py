"""Offset semantics of the JDBC sources of Aiven and Confluent, which share one format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import ClassVar

from seamark.core.offsets import Certainty, Count, Distance, Fixed, Mark, OffsetMap, Order, TableRows, Unit, order_of
from seamark.core.readings import Finding
from seamark.offsets.semantics.fields import (
    Notes,
    build_point_in_time,
    is_set,
    read_integer,
    read_text,
    show_fields,
    split_list,
)
from seamark.offsets.semantics.semantics import Consequence, GenericMeaning, Harm

AIVEN = "io.aiven.connect.jdbc.JdbcSourceConnector"
CONFLUENT = "io.confluent.connect.jdbc.JdbcSourceConnector"
# Confluent's value for "from now on".
_CURRENT = -1


class JdbcMode(StrEnum):
    """How a JDBC source detects new rows."""

    BULK = "bulk"
    INCREMENTING = "incrementing"
    TIMESTAMP = "timestamp"
    BOTH = "timestamp+incrementing"
    UNKNOWN = "unknown"

    @property
    def has_number(self) -> bool:
        """Return whether rows are ordered by an incrementing column."""
        return self in (JdbcMode.INCREMENTING, JdbcMode.BOTH)

    @property
    def has_time(self) -> bool:
        """Return whether rows are ordered by a timestamp."""
        return self in (JdbcMode.TIMESTAMP, JdbcMode.BOTH)


@dataclass(frozen=True, slots=True)
class JdbcConfig:
    """The part of the config that determines offsets.

    `number_column` is "" if the connector detects the table's auto-increment column itself. `initial_millis` is None if
    it starts at the time of its first start. `unclear` is the reason if rows can't be counted.
    """

    mode: JdbcMode
    is_query: bool
    tables: tuple[str, ...]
    number_column: str
    time_columns: tuple[str, ...]
    time_zone: str
    delay_ms: int
    initial_number: int
    initial_millis: int | None
    unclear: str = ""


def read_jdbc_config(config: Mapping[str, str], *, is_confluent: bool) -> JdbcConfig:
    """Read the config. Invalid values become defaults, because Connect itself rejects them."""
    initial = _read_number(config, "timestamp.initial" if is_confluent else "timestamp.initial.ms", 0)
    # Without quotation marks, PostgreSQL folds every name to lower case.
    quoting = config.get("quote.sql.identifiers" if is_confluent else "sql.quote.identifiers") or "always"
    is_folded = quoting.strip().lower() == "never"
    number, times = (config.get("incrementing.column.name") or "").strip(), config.get("timestamp.column.name") or ""
    tables = config.get("table.whitelist") or config.get("table.include.list") or ""
    return JdbcConfig(
        mode=_read_mode(config.get("mode") or ""),
        is_query=is_set(config, "query"),
        # Confluent's include list contains patterns, which can't be used to look up a name.
        tables=split_list(tables) if not is_set(config, "table.include.list") else (),
        number_column=number.lower() if is_folded else number,
        time_columns=split_list(times.lower() if is_folded else times),
        time_zone=(config.get("db.timezone") or "UTC").strip(),
        delay_ms=_read_number(config, "timestamp.delay.interval.ms", 0),
        initial_number=-1 if is_confluent else _read_number(config, "incrementing.initial", -1),
        initial_millis=None if is_confluent and initial == _CURRENT else initial,
        unclear=_find_unclear(config),
    )


def _find_unclear(config: Mapping[str, str]) -> str:
    for key in ("incrementing.column.mapping", "timestamp.columns.mapping"):
        if is_set(config, key):
            return f"{key} selects the columns by patterns"
    return ""


def _read_mode(word: str) -> JdbcMode:
    try:
        return JdbcMode(word.strip())
    except ValueError:
        return JdbcMode.UNKNOWN


def _read_number(config: Mapping[str, str], key: str, default: int) -> int:
    try:
        return int((config.get(key) or str(default)).strip())
    except ValueError:
        return default


NUMBER, TIME, NANOS = "incrementing", "timestamp", "timestamp_nanos"
HIGHEST_NANOS = 999_999_999
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_nanos(offset: OffsetMap | None) -> int | None:
    """Return nanoseconds since the epoch as Java's Timestamp: `timestamp_nanos` replaces all below the second."""
    millis = read_integer(offset, TIME)
    if millis is None:
        return None
    nanos = read_integer(offset, NANOS)
    return millis * 1_000_000 if nanos is None else millis // 1000 * 1_000_000_000 + nanos


def read_order(config: JdbcConfig, offset: OffsetMap | None) -> tuple[int, ...] | None:
    """Return the numbers by which the connector orders offsets; None if unknown.

    A missing field is read as the connector reads it: as its starting value.
    """
    nanos = read_nanos(offset)
    if nanos is None and config.initial_millis is not None:
        nanos = config.initial_millis * 1_000_000
    number = read_integer(offset, NUMBER)
    if number is None:
        number = config.initial_number
    if config.mode is JdbcMode.INCREMENTING:
        return (number,)
    if nanos is None or not config.mode.has_time:
        return None
    return (nanos, number) if config.mode is JdbcMode.BOTH else (nanos,)


def build_mark(config: JdbcConfig, offset: OffsetMap | None) -> Mark | None:
    """Return the row mark. A database with microseconds is asked for the nearest one, as its driver does."""
    order = read_order(config, offset)
    if order is None:
        return None
    if config.mode is JdbcMode.INCREMENTING:
        return Mark(number=order[0])
    micros = (order[0] + 500) // 1000
    return Mark(number=order[1] if config.mode is JdbcMode.BOTH else None, time_micros=micros)


def show_time(offset: OffsetMap) -> str:
    """Format the time in UTC, with as many digits as it has."""
    nanos = read_nanos(offset)
    if nanos is None:
        return ""
    try:
        whole = _EPOCH + timedelta(seconds=nanos // 1_000_000_000)
    except OverflowError:
        return f"{nanos} ns"
    fraction = f"{nanos % 1_000_000_000:09d}".rstrip("0")
    return f"{whole:%Y-%m-%d %H:%M:%S}{'.' + fraction if fraction else ''} UTC"


PROTOCOL, TABLE, QUERY = "protocol", "table", "query"
_EXAMPLE = '{"protocol": "1", "table": "db.schema.table"}'
_BULK = "bulk mode stores no offset: every poll reads the whole table"
_QUERY = "seamark does not run a query from a config"


class JdbcSourceMeaning(GenericMeaning):
    """`{"protocol": "1", "table": …}` and the last value of each ordering column.

    Protocol 0 is the partition of old versions, `{"table": …}` with the bare name; it is read if protocol 1 has no
    offset. A query has the single partition `{"query": "query"}`, whatever its text.
    """

    family: ClassVar[str] = "JDBC source"

    def __init__(self, connector_class: str, config: Mapping[str, str]) -> None:
        super().__init__(connector_class, config)
        self.jdbc: JdbcConfig = read_jdbc_config(config, is_confluent=connector_class == CONFLUENT)

    @classmethod
    def matches(cls, connector_class: str, config: Mapping[str, str]) -> bool:
        """Match by the connector class."""
        del config
        return connector_class in (AIVEN, CONFLUENT)

    def check(self, partition: OffsetMap, offset: OffsetMap | None) -> tuple[Finding, ...]:
        """Check the shape, the protocol, and the fields that the mode reads."""
        notes = Notes(self.describe_partition(partition))
        if not notes.check_shape(partition, [{PROTOCOL, TABLE}, {TABLE}, {QUERY}], _EXAMPLE):
            return notes.result()
        self._check_partition(notes, partition)
        if offset is not None:
            self._check_offset(notes, partition, offset)
        return notes.result()

    def compare(self, left: OffsetMap | None, right: OffsetMap | None) -> Order:
        """Compare as the connector orders rows: by time, then by number; no offset is its starting value."""
        if left is None and right is None:
            return Order.EQUAL
        first, second = read_order(self.jdbc, left), read_order(self.jdbc, right)
        return Order.UNKNOWN if first is None or second is None else order_of(first, second)

    def describe(self, partition: OffsetMap, offset: OffsetMap | None) -> tuple[str, str]:
        """Return the table, and the last value of each column."""
        where = self.describe_partition(partition)
        if offset is None:
            return where, "nothing"
        parts = []
        number = read_integer(offset, NUMBER)
        if number is not None:
            parts.append(f"{self.jdbc.number_column or NUMBER} {number}")
        if read_nanos(offset) is not None:
            parts.append(f"{' or '.join(self.jdbc.time_columns) or TIME} {show_time(offset)}")
        return where, ", ".join(parts) or show_fields(offset)

    def find_times(self, partition: OffsetMap, offset: OffsetMap) -> Mapping[str, datetime]:
        """Return the time of the timestamp columns."""
        del partition
        time = build_point_in_time(read_nanos(offset), per_second=1_000_000_000)
        return {} if time is None else {TIME: time}

    def describe_partition(self, partition: OffsetMap) -> str:
        """Return `table game.public.purchase`, or `the query`."""
        table = read_text(partition, TABLE)
        if set(partition) == {QUERY}:
            return "the query"
        if table is None or not set(partition) <= {PROTOCOL, TABLE}:
            return show_fields(partition)
        return f"table {table}" if PROTOCOL in partition else f"table {table} (protocol 0)"

    def explain_rewind(self) -> Consequence:
        """Describe a rewind: rows are sent again, with their current content."""
        if self.jdbc.mode is JdbcMode.BULK:
            return Consequence(Harm.NOTHING, _BULK)
        return Consequence(
            Harm.DUPLICATES,
            "the rows are sent again with their current values and are duplicated in its topic; deleted rows are "
            "not sent",
        )

    def explain_skip(self) -> Consequence:
        """Describe a skip: rows are not sent."""
        if self.jdbc.mode is JdbcMode.BULK:
            return Consequence(Harm.NOTHING, _BULK)
        later = "" if self.jdbc.mode is JdbcMode.INCREMENTING else " until they change again"
        return Consequence(Harm.LOSS, f"the skipped rows are not sent{later}")

    def build_distance(self, partition: OffsetMap, start: OffsetMap | None, end: OffsetMap | None) -> Distance:
        """Return the distance in rows, by the same comparison that the connector makes."""
        first, last = read_nanos(start), read_nanos(end)
        seconds = None if first is None or last is None or not self.jdbc.mode.has_time else (last - first) / 1e9
        if self.jdbc.is_query or set(partition) == {QUERY}:
            return self._build_query_distance(start, end, seconds)
        # The connector writes the name without quotation marks, so a dot within a part can't be recognized.
        table = tuple((read_text(partition, TABLE) or "").split("."))
        if len(table) > 3 or not all(table) or self.jdbc.unclear:
            return _unknown(self.jdbc.unclear or "the parts of the table's name can't be distinguished", seconds)
        if self.jdbc.mode is JdbcMode.BULK:
            return Distance(Unit.ROWS, TableRows(table), reason=_BULK)
        return self._build_table_distance(table, start, end, seconds)

    def _build_table_distance(
        self, table: tuple[str, ...], start: OffsetMap | None, end: OffsetMap | None, seconds: float | None
    ) -> Distance:
        mode = self.jdbc.mode
        after, upto = build_mark(self.jdbc, start), None if end is None else build_mark(self.jdbc, end)
        if after is None or (end is not None and upto is None):
            return _unknown("the offset has no value to count from", seconds)
        rows = TableRows(
            table,
            number_column=self.jdbc.number_column if mode.has_number else None,
            time_columns=self.jdbc.time_columns if mode.has_time else (),
            after=after,
            upto=upto,
            time_zone=self.jdbc.time_zone,
            delay_ms=self.jdbc.delay_ms,
        )
        return Distance(Unit.ROWS, rows, seconds=seconds)

    def _build_query_distance(self, start: OffsetMap | None, end: OffsetMap | None, seconds: float | None) -> Distance:
        """Return a bound from a number column, because each number occurs once; nothing else is known for a query."""
        count: Count | None = None
        first, last = read_integer(start, NUMBER), read_integer(end, NUMBER)
        if self.jdbc.mode is JdbcMode.INCREMENTING and end is not None and last is not None:
            first = self.jdbc.initial_number if first is None else first
            count = Fixed(max(0, last - first))
        if count is None:
            return _unknown(_QUERY, seconds)
        return Distance(Unit.ROWS, count, Certainty.BOUND, reason=f"{_QUERY}; each number is one row at most")

    def _check_partition(self, notes: Notes, partition: OffsetMap) -> None:
        if QUERY in partition:
            if partition[QUERY] != "query":
                notes.error(f"{QUERY} must be the string query", 'the partition of every query is {"query": "query"}')
            if not self.jdbc.is_query:
                notes.warn("the connector reads tables, not a query", "this offset is never read")
            return
        table = read_text(partition, TABLE)
        if not table:
            notes.error(f"{TABLE} must be a string", "write the name as in an offset that the connector stored")
            return
        if partition.get(PROTOCOL, "1") != "1":
            notes.error('protocol must be the string "1"', "the task reads no other")
        if self.jdbc.is_query:
            notes.warn("the connector has a query and reads no table", "this offset is never read")
        elif self.jdbc.tables and table.rpartition(".")[2] not in {
            name.rpartition(".")[2] for name in self.jdbc.tables
        }:
            notes.warn("the table is not in table.whitelist", "this offset is not read now")

    def _check_offset(self, notes: Notes, partition: OffsetMap, offset: OffsetMap) -> None:
        mode = self.jdbc.mode
        notes.check_integers(offset, (NUMBER, TIME, NANOS))
        if mode is JdbcMode.BULK:
            notes.warn(_BULK, "this offset is never read")
            return
        notes.check_known(offset, (NUMBER, TIME, NANOS))
        if TABLE in partition and PROTOCOL not in partition:
            notes.info("an offset of protocol 0", "it is read only while protocol 1 has no offset for the table")
        for key, is_used, start in (
            (NUMBER, mode.has_number, "incrementing.initial"),
            (TIME, mode.has_time, "timestamp.initial"),
        ):
            if is_used and offset.get(key) is None:
                notes.warn(f"{key} is missing", f"the connector then starts from {start}")
            elif not is_used and offset.get(key) is not None and mode is not JdbcMode.UNKNOWN:
                notes.warn(f"mode {mode.value} does not read {key}", "remove it")
        _check_nanos(notes, offset)


def _check_nanos(notes: Notes, offset: OffsetMap) -> None:
    millis, nanos = read_integer(offset, TIME), read_integer(offset, NANOS)
    if nanos is None:
        return
    if not 0 <= nanos <= HIGHEST_NANOS:
        notes.error(f"{NANOS} must be from 0 to {HIGHEST_NANOS}", "the task fails with any other value")
    elif millis is None:
        notes.warn(f"{NANOS} without {TIME} is not read", "remove it")
    elif nanos // 1_000_000 != millis % 1000:
        notes.warn(
            f"{TIME} and {NANOS} differ below the second, and {NANOS} is used",
            f"write {NANOS} {millis % 1000 * 1_000_000}, or remove it",
        )


def _unknown(reason: str, seconds: float | None = None) -> Distance:
    return Distance(Unit.ROWS, None, Certainty.UNKNOWN, reason=reason, seconds=seconds)
