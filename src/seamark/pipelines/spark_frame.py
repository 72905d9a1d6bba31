"""Records as rows of a landing's table: JSON is taken apart by Spark, and what can't be a row bears its reason.

Whole numbers, truths and floating numbers are read as what they are. Everything else stays the text that it was in
JSON, and PostgreSQL makes of it what the column's type says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from seamark.kafka_sink.hashing import build_placer
from seamark.kafka_sink.routing import Routing
from seamark.pipelines.binding import Binding, build_misplaced
from seamark.tables.definition import Format, LandColumn, Landing, Mode, RecordPart
from seamark.tables.model import (
    DELETED,
    KAFKA_TIMESTAMP,
    OFFSET,
    RECORD_MILLIS,
    ArrayShape,
    StructShape,
    TypeShape,
    is_nested,
    parse_type,
)

PARTITION, TIMESTAMP = "seamark_partition", "seamark_timestamp"
REASON, KEY, VALUE = "seamark_reason", "seamark_key", "seamark_value"
_LETTER = {"timestamp": TIMESTAMP, "key": KEY, "value": VALUE}
_BAD = "seamark_bad"
_PAYLOAD, _AFTER, _BEFORE, _OP = "payload", "after", "before", "op"
_ROW_OPS, _DELETE_OP = ("c", "r", "u"), "d"
_DECIMAL = re.compile(r"numeric(?:\((\d+)(?:, (\d+))?\))?")
_REPLACEMENT = "\ufffd"
_JSON_SPACE = " \t\n\r"
_MOST_DIGITS, _SCALE = 38, 18
_DAYS = "days"
_PER_SECOND = {"millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}
_PER_DAY = {_DAYS: 1} | {unit: 86_400 * count for unit, count in _PER_SECOND.items()}
# 0001-01-01 and 9999-12-31.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_LARGEST = 2**63 - 1
_TYPES: dict[str, DataType] = {
    "smallint": ShortType(),
    "int2": ShortType(),
    "int": IntegerType(),
    "int4": IntegerType(),
    "integer": IntegerType(),
    "bigint": LongType(),
    "int8": LongType(),
    "boolean": BooleanType(),
    "bool": BooleanType(),
    "double precision": DoubleType(),
    "float8": DoubleType(),
}
# Within a nested value nothing is turned later: Spark must read each word as its own type.
_INNER_TYPES: dict[str, DataType] = {
    **_TYPES,
    "short": ShortType(),
    "long": LongType(),
    "real": FloatType(),
    "float4": FloatType(),
    "float": FloatType(),
    "double": DoubleType(),
}


# The columns of Spark's Kafka source.
_KAFKA_SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
)
_HEADERS_SCHEMA = ", headers array<struct<key: string, value: binary>>"


class FrameRecipe:
    """How records become rows, built once and used for every batch.

    A column that is built costs a call to the JVM for each of its parts: some hundred for a table, which is a fifth of
    what a small batch costs. Columns refer to others by name, so that they fit every frame of the same schema.
    """

    def __init__(
        self, spark: SparkSession, build: Callable[[DataFrame], DataFrame], *, has_headers: bool = False
    ) -> None:
        schema = _KAFKA_SCHEMA + (_HEADERS_SCHEMA if has_headers else "")
        recorder = _Recorder(spark.createDataFrame([], schema))
        # It has the methods of a frame that a builder uses.
        build(cast("DataFrame", recorder))
        self._calls = recorder.calls

    def apply(self, records: DataFrame) -> DataFrame:
        """Return the rows of these records."""
        for name, arguments in self._calls:
            records = getattr(records, name)(*arguments)
        return records


class _Recorder:
    """A frame that records what it is asked to become."""

    def __init__(self, frame: DataFrame, calls: list[tuple[str, tuple[Any, ...]]] | None = None) -> None:
        self._frame = frame
        self.calls = [] if calls is None else calls

    @property
    def sparkSession(self) -> SparkSession:  # noqa: N802 - Spark's name
        return self._frame.sparkSession

    @property
    def columns(self) -> list[str]:
        return list(self._frame.columns)

    @property
    def dtypes(self) -> list[tuple[str, str]]:
        return list(self._frame.dtypes)

    def select(self, *columns: Column | str) -> _Recorder:
        return self._record("select", *columns)

    def where(self, condition: Column) -> _Recorder:
        return self._record("where", condition)

    def withColumn(self, name: str, column: Column) -> _Recorder:  # noqa: N802
        return self._record("withColumn", name, column)

    def _record(self, name: str, *arguments: Any) -> _Recorder:
        self.calls.append((name, arguments))
        return _Recorder(getattr(self._frame, name)(*arguments), self.calls)


def build_land_frame(records: DataFrame, landing: Landing) -> DataFrame:
    """The rows of these records, in their order, with where each comes from and why it is none."""
    value, key = _read_value(landing), _read_key(landing)
    if landing.format is Format.DEBEZIUM and not landing.is_key_in_key:
        # Behind each delete comes a tombstone, which says the same once more, without what was.
        records = records.where(sf.col("value").isNotNull())
    parsed = records.select("*", value.alias("seamark_json"), key.alias("seamark_json_key"))
    reason = _build_reason(landing)
    is_deleted = _build_deleted(landing)
    columns = [_build_column(column, landing).alias(column.name) for column in landing.source_columns]
    more = [is_deleted.alias(DELETED)] if landing.mode.has_key else []
    if KAFKA_TIMESTAMP in landing.order or landing.mode is Mode.SNAPSHOT:
        more.append(sf.unix_millis("timestamp").alias(RECORD_MILLIS))
    if landing.dead_letters is not None:
        # Of every record: PostgreSQL may refuse one later.
        more += [sf.col(name).alias(alias) for name, alias in _LETTER.items()]
    elif landing.needs_binding:
        more.append(sf.col("key").alias(KEY))
    places = (sf.col("partition").alias(PARTITION), sf.col("offset").alias(OFFSET))
    return parsed.select(*columns, *places, reason.alias(REASON), *more)


def _read_value(landing: Landing) -> Column:
    """The value as a structure, null where there is none; `seamark_bad` is the text of what could not be read."""
    columns = [column for column in landing.source_columns if column.place is RecordPart.VALUE]
    if not columns and landing.format is Format.JSON:
        # No column uses it.
        return _build_nothing()
    row = _build_schema(columns)
    if landing.format is Format.DEBEZIUM:
        row = StructType(
            [StructField(_BEFORE, row), StructField(_AFTER, row), StructField(_OP, StringType())],
        )
    if landing.schemas:
        row = StructType([StructField(_PAYLOAD, row)])
    return _parse(sf.col("value"), row)


def _read_key(landing: Landing) -> Column:
    columns = [column for column in landing.source_columns if column.place is RecordPart.KEY and column.path]
    row = _build_schema(columns)
    if landing.schemas:
        row = StructType([StructField(_PAYLOAD, row)])
    return _parse(sf.col("key"), row) if columns else _build_nothing()


def _build_nothing() -> Column:
    return sf.lit(None).cast(StructType([StructField(_BAD, StringType())]))


def _parse(column: Column, schema: StructType) -> Column:
    # Spark computes what it parses without compiling it: so the text is taken as it is, and looked at afterwards.
    whole = StructType([*schema.fields, StructField(_BAD, StringType())])
    return sf.from_json(column.cast("string"), whole, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _BAD})


def _list_garbled(landing: Landing) -> list[tuple[Column, str]]:
    """List what is not valid UTF-8 and would be written to a column: Spark reads it without an error."""
    found = []
    for column in landing.source_columns:
        if column.place is RecordPart.HEADER:
            is_bad = ~sf.is_valid_utf8(_find_header(column.path[0]).cast("string"))
            found.append((is_bad, f"header {column.path[0]} is not valid UTF-8"))
    for place in (RecordPart.VALUE, RecordPart.KEY):
        whole = sf.col(place.value)
        is_bad = ~sf.is_valid_utf8(whole.cast("string"))
        columns = [column for column in landing.source_columns if column.place is place]
        # To look through whole records is dear. In what it reads of JSON Spark puts U+FFFD for what is none.
        texts = [
            one for one in columns if one.path and (is_nested(one.type) or isinstance(_find_type(one.type), StringType))
        ]
        marks = [_build_column(one, landing).cast("string").contains(_REPLACEMENT) for one in texts]
        if any(not column.path for column in columns):
            found.append((is_bad, f"the {place} is not valid UTF-8"))
        elif marks:
            found.append((reduce(Column.__or__, marks) & is_bad, f"the {place} is not valid UTF-8"))
    return found


def _is_not_object(column: Column) -> Column:
    """Of a list of objects Spark would take one, and say nothing."""
    text = column.cast("string")
    # Most begin with their brace, and need not be copied to be looked at.
    return ~(text.startswith("{") | sf.ltrim(text, sf.lit(_JSON_SPACE)).startswith("{"))


def _build_schema(columns: Sequence[LandColumn]) -> StructType:
    return _build_tree([(column.path, _find_type(column.type)) for column in columns])


def _find_type(name: str) -> DataType:
    """What Spark reads a column as. Of a number that becomes a text Spark keeps no more digits than a double has."""
    return _build_type(parse_type(name), _TYPES)


def _build_type(kind: TypeShape, words: Mapping[str, DataType]) -> DataType:
    if isinstance(kind, ArrayShape):
        return ArrayType(_build_type(kind.item, _INNER_TYPES))
    if isinstance(kind, StructShape):
        return StructType([StructField(name, _build_type(one, _INNER_TYPES)) for name, one in kind.fields])
    if found := _DECIMAL.fullmatch(kind):
        digits, scale = int(found[1] or _MOST_DIGITS), int(found[2] or (_SCALE if found[1] is None else 0))
        if scale <= digits <= _MOST_DIGITS:
            return DecimalType(digits, scale)
    return words.get(kind, StringType())


def _build_tree(leaves: Sequence[tuple[tuple[str, ...], DataType]]) -> StructType:
    heads: dict[str, list[tuple[tuple[str, ...], DataType]]] = {}
    for path, kind in leaves:
        heads.setdefault(path[0], []).append((path[1:], kind))
    fields = []
    for head, below in heads.items():
        whole = [kind for path, kind in below if not path]
        # One column may take a whole object as text only if no other looks into it.
        fields.append(StructField(head, whole[0] if whole else _build_tree(below)))
    return StructType(fields)


def _row(landing: Landing, name: str) -> Column:
    found = sf.col(name)
    if landing.schemas:
        found = found[_PAYLOAD]
    if landing.format is Format.DEBEZIUM and name == "seamark_json":
        # A deleted row is described by its last state.
        return sf.coalesce(found[_AFTER], found[_BEFORE])
    return found


def _build_column(column: LandColumn, landing: Landing) -> Column:
    found = _find_value(column, landing)
    return _read_epoch(found, column.epoch) if column.epoch else found


def _find_value(column: LandColumn, landing: Landing) -> Column:
    if column.place is RecordPart.KAFKA:
        return sf.col(column.path[0])
    if column.place is RecordPart.KEY and not column.path:
        return sf.col("key").cast("string")
    if column.place is RecordPart.HEADER:
        return _find_header(column.path[0]).cast("string")
    name = "seamark_json" if column.place is RecordPart.VALUE else "seamark_json_key"
    found = reduce(lambda found, step: found[step], column.path, _row(landing, name))
    return found.cast("string") if _DECIMAL.fullmatch(column.type) else found


def _read_epoch(text: Column, unit: str) -> Column:
    """Turn a number since 1970 into the text of a date or a time in UTC. Other texts are returned unchanged.

    The result doesn't depend on the time zone of the session. Numbers outside the years 1 to 9999 get their unit, so
    that they are rejected: PostgreSQL or a lake may take them for another date.
    """
    number = text.try_cast("bigint")
    if unit == _DAYS:
        known = sf.date_from_unix_date(number.try_cast("int")).cast("string")
    else:
        seconds = (number.cast("decimal(20, 0)") / _PER_SECOND[unit]).try_cast("decimal(18, 6)")
        begin = sf.lit("1970-01-01 00:00:00").cast("timestamp_ntz")
        moment = begin + sf.make_dt_interval(secs=seconds)
        known = sf.concat(moment.cast("string"), sf.lit("Z"))
    low, high = _FIRST_DAY * _PER_DAY[unit], (_LAST_DAY + 1) * _PER_DAY[unit] - 1
    is_known = number.between(max(low, -_LARGEST), min(high, _LARGEST))
    return sf.when(is_known, known).when(number.isNotNull(), sf.concat_ws(" ", text, sf.lit(unit))).otherwise(text)


def _find_header(name: str) -> Column:
    """The value of the last header of a name, as a consumer's `lastHeader` returns it; null where there is none."""
    named = sf.filter("headers", lambda header: header["key"] == name)
    return sf.try_element_at(named, sf.lit(-1))["value"]


def _build_deleted(landing: Landing) -> Column:
    is_deleted = sf.col("value").isNull()
    if landing.format is Format.DEBEZIUM:
        is_deleted = is_deleted | (_operation(landing) == _DELETE_OP)
    return is_deleted


def _operation(landing: Landing) -> Column:
    found = sf.col("seamark_json")
    return (found[_PAYLOAD] if landing.schemas else found)[_OP]


def _build_reason(landing: Landing) -> Column:
    """Return why a record can't be a row; null where it can."""
    says = sf.lit(None).cast("string")
    for is_so, why in reversed(_list_reasons(landing)):
        says = sf.when(is_so, sf.lit(why)).otherwise(says)
    return says


def _list_reasons(landing: Landing) -> list[tuple[Column, str]]:
    has_value = sf.col("value").isNotNull()
    found = []
    if not (landing.mode.has_key and landing.is_key_in_key):
        found.append((~has_value, "the value is null"))
    if landing.format is Format.DEBEZIUM or any(column.place is RecordPart.VALUE for column in landing.source_columns):
        is_bad = has_value & (sf.col("seamark_json")[_BAD].isNotNull() | _is_not_object(sf.col("value")))
        found.append((is_bad, "the value is not valid JSON for the columns"))
    if landing.schemas and any(column.place is RecordPart.VALUE for column in landing.source_columns):
        is_missing = has_value & sf.col("seamark_json")[_PAYLOAD].isNull()
        found.append((is_missing, "the value has no field payload, which from.schemas requires"))
    if landing.format is Format.DEBEZIUM:
        known = _operation(landing).isin(*_ROW_OPS, *((_DELETE_OP,) if landing.mode.has_key else ()))
        found.append((has_value & ~sf.coalesce(known, sf.lit(False)), "the value has an unsupported op"))
        found.append(
            (has_value & _row(landing, "seamark_json").isNull(), "the value has neither field after nor field before")
        )
    if any(column.place is RecordPart.KEY and column.path for column in landing.source_columns):
        is_bad = sf.col("seamark_json_key")[_BAD].isNotNull() | _is_not_object(sf.col("key"))
        found.append((sf.col("key").isNotNull() & is_bad, "the key is not valid JSON for the columns"))
    found += _list_garbled(landing)
    for name in landing.key:
        column = next(one for one in landing.source_columns if one.name == name)
        found.append((_build_column(column, landing).isNull(), f"column {name} of the table's key is null"))
    return found + _list_unordered(landing)


def _list_unordered(landing: Landing) -> list[tuple[Column, str]]:
    """List what has no order, so that it can't be compared with the row."""
    found = [
        (_build_column(column, landing).isNull(), f"column {column.name} of to.order is null")
        for column in landing.source_columns
        if column.name in landing.order
    ]
    needs_time = "mode: snapshot" if landing.mode is Mode.SNAPSHOT else "to.order"
    if KAFKA_TIMESTAMP in landing.order or landing.mode is Mode.SNAPSHOT:
        # Kafka's -1: the producer's client is from before timestamps.
        found.append((sf.unix_millis("timestamp") < 0, f"the record has no timestamp, which {needs_time} requires"))
    return found


def check_bound(
    batches: Iterator[pa.RecordBatch], landing: Landing, binding: Binding, *, partition: int
) -> Iterator[pa.RecordBatch]:
    """Pass on the batches of a partition.

    Raises:
        RefusedError: The key of a record belongs in another partition.
    """
    for batch in batches:
        wrong = _find_wrong(batch, binding, partition)
        if pc.any(wrong).as_py():
            offset = batch.column(OFFSET).filter(wrong)[0].as_py()
            raise build_misplaced(landing, partition=partition, offset=offset, binding=binding)
        yield batch


def _find_wrong(batch: pa.RecordBatch, binding: Binding, partition: int) -> pa.Array:
    rule = binding.rule
    if rule is None:
        return pa.repeat(pa.scalar(False), batch.num_rows)
    keys, sources = batch.column(KEY), batch.column(PARTITION)

    def is_elsewhere(count: int) -> pa.Array:
        place = build_placer(Routing(rule, binding.partitions, targets=count))
        return pc.not_equal(place(keys, sources), pa.scalar(partition, pa.int32()))

    wrong = is_elsewhere(binding.partitions)
    if (grown_at := binding.grown_at.get(partition)) is not None:
        is_former = pc.less(batch.column(OFFSET), pa.scalar(grown_at, pa.int64()))
        wrong = pc.and_(wrong, pc.or_(pc.invert(is_former), is_elsewhere(binding.before)))
    return wrong
