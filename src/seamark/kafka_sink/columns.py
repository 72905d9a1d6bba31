"""The columns of the sink: what they must be, and their rows as the producer takes them."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampType,
)

from seamark.errors import RejectedError, UsageError
from seamark.kafka_sink.control import Amount

_HEADER = "array<struct<key: string, value: binary>>"
_BYTES = (BinaryType, StringType)
_MASK = (1 << 63) - 1
_WANTED: dict[str, tuple[tuple[type[DataType], ...], str, str]] = {
    "key": (_BYTES, "binary or string", "cast(key as binary)"),
    "value": (_BYTES, "binary or string", "cast(value as binary), or to_json(struct(…))"),
    "topic": ((StringType,), "string", "cast(topic as string)"),
    "partition": ((IntegerType,), "int", "cast(partition as int)"),
    "timestamp": ((TimestampType,), "timestamp", "timestamp_millis(timestamp) for milliseconds"),
    "headers": ((ArrayType,), _HEADER, "array(struct('name' as key, cast('…' as binary) as value))"),
    "task": ((IntegerType,), "int", "cast(task as int)"),
}


def read_task(batches: Iterator[pa.RecordBatch], *, number: int) -> tuple[int, Iterator[pa.RecordBatch]]:
    """Which task these rows are of: as the column `task` says, else Spark's own `number`. Gives them with it.

    Spark may number the partitions of a source otherwise when it reads them again.
    """
    rows = (batch for batch in batches if batch.num_rows)
    first = next(rows, None)
    if first is None:
        return number, iter(())
    if first.schema.get_field_index("task") < 0:
        return number, chain([first], rows)
    task = first.column("task")[0].as_py()
    if task is None or task < 0:
        raise RejectedError(f"a row has the task {task}", hint="fill the column task with numbers from 0 on")
    return task, (_expect_task(batch, task) for batch in chain([first], rows))


def _expect_task(batch: pa.RecordBatch, task: int) -> pa.RecordBatch:
    found = pc.unique(batch.column("task")).to_pylist()
    if found != [task]:
        raise RejectedError(
            f"rows of the tasks {', '.join(map(str, found))} came together, after those of task {task}",
            hint="give all rows of a partition of the frame the same number, and no other partition that number",
        )
    return batch


def check_schema(schema: StructType, *, has_topic: bool) -> None:
    """Refuse a frame that the sink would have to guess about; one error names everything."""
    faults = [
        f"there is a column {field.name}, which no Kafka record has"
        for field in schema.fields
        if field.name not in _WANTED
    ]
    for column in schema.fields:
        types, wanted, way = _WANTED.get(column.name, ((DataType,), "", ""))
        if not isinstance(column.dataType, types) or (column.name == "headers" and not _is_headers(column.dataType)):
            faults.append(f"{column.name} is {column.dataType.simpleString()} and must be {wanted}: {way}")
    names = [field.name for field in schema.fields]
    faults += [f"there are two columns {name}" for name in sorted({n for n in names if names.count(n) > 1})]
    if "value" not in names:
        faults.append("there is no column value")
    if "topic" not in names and not has_topic:
        faults.append("there is neither a column topic nor the option topic")
    if faults:
        raise UsageError(
            f"the frame can't be written to Kafka: {'; '.join(faults)}",
            hint=f"select what the records shall be: {', '.join(_WANTED)}",
        )


def _is_headers(found: DataType) -> bool:
    if not isinstance(found, ArrayType) or not isinstance(found.elementType, StructType):
        return False
    fields = [(field.name, type(field.dataType)) for field in found.elementType.fields]
    return fields == [("key", StringType), ("value", BinaryType)]


@dataclass(frozen=True, slots=True)
class ArrowPiece:
    """Some rows as Spark hands them over. They become Python objects when they are gone through, and not before."""

    batch: pa.RecordBatch
    topic: str | None
    amount: Amount
    is_summed: bool = False

    def rows(self) -> Iterable[tuple[Any, ...]]:
        """Topic, key, value, headers, partition, timestamp in milliseconds; None where there is none."""
        return zip(
            repeat(self.topic) if self.topic is not None else self._topics(),
            self._plain("key"),
            self._plain("value"),
            self._headers(),
            self._plain("partition"),
            self._timestamps(),
            # An option for the topic, and columns that are not there, never end.
            strict=False,
        )

    def split(self, records: int) -> tuple[ArrowPiece, ArrowPiece]:
        """The first rows, and the rest."""
        return (
            build_piece(self.batch.slice(0, records), self.topic, is_summed=self.is_summed),
            build_piece(self.batch.slice(records), self.topic, is_summed=self.is_summed),
        )

    def _column(self, name: str) -> Any:
        place = self.batch.schema.get_field_index(name)
        return None if place < 0 else self.batch.column(place)

    def _plain(self, name: str) -> Iterable[Any]:
        column = self._column(name)
        return repeat(None) if column is None else column.to_pylist()

    def _topics(self) -> Iterable[str]:
        column = self._column("topic")
        if column.null_count:
            raise RejectedError("a row names no topic", hint="fill the column topic, or give the option topic")
        return column.to_pylist()  # type: ignore[no-any-return]

    def _timestamps(self) -> Iterable[int | None]:
        column = self._column("timestamp")
        if column is None:
            return repeat(None)
        # The client takes 0 for "now"; the brokers refuse what is before 1970.
        micros = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
        lowest = pc.min(micros).as_py()
        if lowest is not None and lowest < 1000:
            raise RejectedError(
                "a row has a timestamp of 1970-01-01 00:00:00 UTC or before, which no client can write",
                hint="give it another one, or null for the time of writing",
            )
        return pc.divide(micros, 1000).to_pylist()  # type: ignore[no-any-return]

    def _headers(self) -> Iterable[list[tuple[str, bytes | None]] | None]:
        column = self._column("headers")
        if column is None or column.null_count == len(column):
            return repeat(None)
        is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        return map(_parse_headers if is_text else _name_headers, column.to_pylist())


def _parse_headers(text: str | None) -> list[tuple[str, bytes | None]] | None:
    """Parse headers as Spark's `to_json` writes them, with values in base 64.

    A null value is left out, or null where the session sets `spark.sql.jsonGenerator.ignoreNullFields` to false.
    """
    if not text:
        return None
    pairs = [(one["key"], one.get("value")) for one in json.loads(text)]
    return [(key, None if value is None else b64decode(value)) for key, value in pairs]


def _name_headers(found: list[dict[str, Any] | None] | None) -> list[tuple[str, bytes | None]] | None:
    if not found:
        return None
    try:
        pairs = [(header["key"], header["value"]) for header in found]  # type: ignore[index]
    except TypeError:
        pairs = [(None, None)]
    if any(name is None for name, _ in pairs):
        raise RejectedError("a row has a header without a name", hint="leave the header out, or name it")
    return pairs


def build_piece(batch: pa.RecordBatch, topic: str | None, *, is_summed: bool = False) -> ArrowPiece:
    """Some rows with their amount: the bytes of keys and values, headers not counted; and, if asked, their sum."""
    total = 0
    for name in ("key", "value"):
        place = batch.schema.get_field_index(name)
        if place >= 0:
            total += pc.sum(pc.binary_length(batch.column(place))).as_py() or 0
    amount = Amount(batch.num_rows, bytes=total, sum=_sum_rows(batch) if is_summed else 0)
    return ArrowPiece(batch, topic=topic, amount=amount, is_summed=is_summed)


def _sum_rows(batch: pa.RecordBatch) -> int:
    """The sum of the hashes of keys and values, in any order the same, with that of the timestamps."""
    hashed: Iterable[int] = repeat(0)
    for name in ("key", "value"):
        place = batch.schema.get_field_index(name)
        if place >= 0:
            # The hash of a key is where that of its value goes on.
            hashed = map(crc32, batch.column(place).cast(pa.binary()).fill_null(b"").to_pylist(), hashed)
    place = batch.schema.get_field_index("timestamp")
    stamps = 0 if place < 0 else pc.sum(batch.column(place).cast(pa.int64())).as_py() or 0
    return (sum(hashed) + stamps) & _MASK
