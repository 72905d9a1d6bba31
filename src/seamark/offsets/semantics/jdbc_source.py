"""JDBC sources of Aiven and Confluent, whose offsets have one shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from seamark.core.offsets import Certainty, Count, Distance, Fixed, OffsetMap, Order, TableRows, Unit, order_of
from seamark.core.readings import Finding
from seamark.offsets.semantics.fields import Notes, read_integer, read_text, show_fields
from seamark.offsets.semantics.jdbc_config import (
    AIVEN,
    CONFLUENT,
    HIGHEST_NANOS,
    NANOS,
    NUMBER,
    TIME,
    JdbcConfig,
    JdbcMode,
    build_mark,
    read_jdbc_config,
    read_nanos,
    read_order,
    show_time,
)
from seamark.offsets.semantics.semantics import Consequence, GenericMeaning, Harm

PROTOCOL, TABLE, QUERY = "protocol", "table", "query"
_EXAMPLE = '{"protocol": "1", "table": "db.schema.table"}'
_BULK = "bulk mode keeps no position: every poll reads the whole table"
_QUERY = "seamark does not run the text of a query that stands in a config"


class JdbcSourceMeaning(GenericMeaning):
    """`{"protocol": "1", "table": …}` and the last value of each column that rows are told by.

    Protocol 0 is the partition of old versions, `{"table": …}` with the bare name; it is read where protocol 1 has
    nothing. A query has the one partition `{"query": "query"}`, whatever its text.
    """

    family: ClassVar[str] = "JDBC source"

    def __init__(self, connector_class: str, config: Mapping[str, str]) -> None:
        super().__init__(connector_class, config)
        self.jdbc: JdbcConfig = read_jdbc_config(config, is_confluent=connector_class == CONFLUENT)

    @classmethod
    def matches(cls, connector_class: str, config: Mapping[str, str]) -> bool:
        """By its class."""
        del config
        return connector_class in (AIVEN, CONFLUENT)

    def check(self, partition: OffsetMap, offset: OffsetMap | None) -> tuple[Finding, ...]:
        """The shape, the protocol, and the fields that the mode reads."""
        notes = Notes(self.describe_partition(partition))
        if not notes.check_shape(partition, [{PROTOCOL, TABLE}, {TABLE}, {QUERY}], _EXAMPLE):
            return notes.result()
        self._check_partition(notes, partition)
        if offset is not None:
            self._check_offset(notes, partition, offset)
        return notes.result()

    def compare(self, left: OffsetMap | None, right: OffsetMap | None) -> Order:
        """As the connector orders rows: by time, then by number; nothing is the place it begins at."""
        if left is None and right is None:
            return Order.EQUAL
        first, second = read_order(self.jdbc, left), read_order(self.jdbc, right)
        return Order.UNKNOWN if first is None or second is None else order_of(first, second)

    def describe(self, partition: OffsetMap, offset: OffsetMap | None) -> tuple[str, str]:
        """The table, and the last value of each column."""
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

    def describe_partition(self, partition: OffsetMap) -> str:
        """`table game.public.purchase`, or `the query`."""
        table = read_text(partition, TABLE)
        if set(partition) == {QUERY}:
            return "the query"
        if table is None or not set(partition) <= {PROTOCOL, TABLE}:
            return show_fields(partition)
        return f"table {table}" if PROTOCOL in partition else f"table {table} (protocol 0)"

    def explain_rewind(self) -> Consequence:
        """Rows are sent again, as they are now."""
        if self.jdbc.mode is JdbcMode.BULK:
            return Consequence(Harm.NOTHING, _BULK)
        return Consequence(
            Harm.DUPLICATES,
            "the rows are sent again as they are now and will be in its topic twice; rows deleted since do not come",
        )

    def explain_skip(self) -> Consequence:
        """Rows are not sent."""
        if self.jdbc.mode is JdbcMode.BULK:
            return Consequence(Harm.NOTHING, _BULK)
        later = "" if self.jdbc.mode is JdbcMode.INCREMENTING else " until they change again"
        return Consequence(Harm.LOSS, f"the rows between are not sent{later}")

    def build_distance(self, partition: OffsetMap, start: OffsetMap | None, end: OffsetMap | None) -> Distance:
        """Rows, by the same comparison that the connector makes."""
        seconds = self._measure_seconds(start, end)
        if self.jdbc.is_query or set(partition) == {QUERY}:
            return self._build_query_distance(start, end, seconds)
        table = _split_table(read_text(partition, TABLE) or "")
        if table is None or self.jdbc.unclear:
            return _unknown(self.jdbc.unclear or "the parts of the table's name can't be told apart", seconds)
        if self.jdbc.mode is JdbcMode.BULK:
            return Distance(Unit.ROWS, TableRows(table), reason=_BULK)
        return self._build_table_distance(table, start, end, seconds)

    def _build_table_distance(
        self, table: tuple[str, ...], start: OffsetMap | None, end: OffsetMap | None, seconds: float | None
    ) -> Distance:
        mode = self.jdbc.mode
        after, upto = build_mark(self.jdbc, start), None if end is None else build_mark(self.jdbc, end)
        if after is None or (end is not None and upto is None):
            return _unknown("the offset holds no place to count from", seconds)
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
        """A number column gives a bound, since no number is there twice; nothing else can be told."""
        count: Count | None = None
        first, last = read_integer(start, NUMBER), read_integer(end, NUMBER)
        if self.jdbc.mode is JdbcMode.INCREMENTING and end is not None and last is not None:
            first = self.jdbc.initial_number if first is None else first
            count = Fixed(max(0, last - first))
        if count is None:
            return _unknown(_QUERY, seconds)
        return Distance(Unit.ROWS, count, Certainty.BOUND, reason=f"{_QUERY}; each number is one row at most")

    def _measure_seconds(self, start: OffsetMap | None, end: OffsetMap | None) -> float | None:
        first, last = read_nanos(start), read_nanos(end)
        return None if first is None or last is None or not self.jdbc.mode.has_time else (last - first) / 1e9

    def _check_partition(self, notes: Notes, partition: OffsetMap) -> None:
        if QUERY in partition:
            if partition[QUERY] != "query":
                notes.error(f"{QUERY} must be the text query", 'the partition of every query is {"query": "query"}')
            if not self.jdbc.is_query:
                notes.warn("the connector reads tables, not a query", "this offset is never read")
            return
        table = read_text(partition, TABLE)
        if not table:
            notes.error(f"{TABLE} must be a text", "write the name as it stands in an offset that the connector wrote")
            return
        if partition.get(PROTOCOL, "1") != "1":
            notes.error('protocol must be the text "1"', "the task looks no other up")
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
            notes.tell("an offset of protocol 0", "it is read only while protocol 1 holds nothing for the table")
        for key, is_used, start in (
            (NUMBER, mode.has_number, "incrementing.initial"),
            (TIME, mode.has_time, "timestamp.initial"),
        ):
            if is_used and offset.get(key) is None:
                notes.warn(f"{key} is missing", f"the connector then begins at {start}")
            elif not is_used and offset.get(key) is not None and mode is not JdbcMode.UNKNOWN:
                notes.warn(f"mode {mode.value} does not read {key}", "leave it out")
        _check_nanos(notes, offset)


def _check_nanos(notes: Notes, offset: OffsetMap) -> None:
    millis, nanos = read_integer(offset, TIME), read_integer(offset, NANOS)
    if nanos is None:
        return
    if not 0 <= nanos <= HIGHEST_NANOS:
        notes.error(f"{NANOS} must be from 0 to {HIGHEST_NANOS}", "the task fails with another")
    elif millis is None:
        notes.warn(f"{NANOS} without {TIME} is not read", "leave it out")
    elif nanos // 1_000_000 != millis % 1000:
        notes.warn(
            f"{TIME} and {NANOS} differ below the second, and {NANOS} counts",
            f"write {NANOS} {millis % 1000 * 1_000_000}, or leave it out",
        )


def _split_table(name: str) -> tuple[str, ...] | None:
    """The parts of a name as the connector spells it: without quotation marks. A dot in a name can't be told."""
    parts = tuple(name.split("."))
    return parts if len(parts) <= 3 and all(parts) else None


def _unknown(reason: str, seconds: float | None = None) -> Distance:
    return Distance(Unit.ROWS, None, Certainty.UNKNOWN, reason=reason, seconds=seconds)
