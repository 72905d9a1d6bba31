"""The data files of a table: their columns in Arrow, and rows as Parquet, one file for each date and task.

A file counts if a commit names it. A failed task leaves files that no commit names; vacuum deletes them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa

from seamark.errors import RefusedError
from seamark.tables.definition import Landing
from seamark.tables.delta.technology import (
    DATE_COLUMN,
    DEAD_LETTER,
    build_lake_layout,
    build_lake_statements,
    find_lake_type,
)
from seamark.tables.model import ArrayShape, StructShape, TypeShape, parse_type

if TYPE_CHECKING:
    # Executors write files, and have no delta-rs.
    from seamark.tables.delta.table import LakeTable

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import uuid4

import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from seamark.tables.delta.location import TableLocation

# Readers compare whole texts: a longer one would have to be cut, and the most made larger for it.
_LONGEST_TEXT = 32


def build_stats(known: pq.FileMetaData, schema: pa.Schema) -> str:
    """The statistics of a file, as Delta's protocol spells them. A column that is not told of is never skipped by."""
    nulls: dict[str, int] = {}
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    flat = {field.name for field in schema if not pa.types.is_nested(field.type)}
    for column in range(known.num_columns):
        name = known.schema.column(column).path
        if name not in flat:
            continue
        found = [known.row_group(group).column(column).statistics for group in range(known.num_row_groups)]
        if not all(one is not None and one.has_null_count for one in found):
            continue
        nulls[name] = sum(one.null_count for one in found)
        whole = [one for one in found if one.null_count < one.num_values + one.null_count]
        if whole and all(one.has_min_max for one in whole):
            least[name], most[name] = _find_least(whole), _find_most(whole)
    stats: Mapping[str, Any] = {
        "numRecords": known.num_rows,
        "minValues": {name: value for name, value in least.items() if value is not None},
        "maxValues": {name: value for name, value in most.items() if value is not None},
        "nullCount": nulls,
    }
    return json.dumps(stats)


def _find_least(groups: Sequence[pq.Statistics]) -> Any:
    try:
        return spell_statistic(min(one.min for one in groups), is_most=False)
    except OverflowError:
        # Python has no moments of other years than 1 to 9999.
        return None


def _find_most(groups: Sequence[pq.Statistics]) -> Any:
    try:
        return spell_statistic(max(one.max for one in groups), is_most=True)
    except OverflowError:
        # The same, also where it is rounded up beyond the last millisecond.
        return None


def spell_statistic(value: Any, *, is_most: bool) -> Any:  # noqa: PLR0911 - one line for each type
    """Return a least or largest value of a column as JSON; None for what is better left out."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        # Spark takes NaN for the largest of all, and Parquet leaves it out of the most.
        return None if is_most or not math.isfinite(value) else value
    if isinstance(value, datetime):
        return _spell_moment(value, is_most=is_most)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else None
    return None


def _spell_moment(value: datetime, *, is_most: bool) -> str:
    """Delta keeps milliseconds, and cuts the rest off: the most would be less than what is there."""
    moment = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    if is_most and moment.microsecond % 1000:
        moment += timedelta(milliseconds=1)
    # Years have four digits here, which strftime does not give everywhere.
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


# A group of rows is what readers skip or read: large enough to be worth a request.
_GROUP_ROWS = 128 * 1024
_GROUP_BYTES = 64 << 20
FILE_BYTES = 128 << 20
"""How large a file is to be."""
# Rows of more dates at once are written in several files for a date.
_MOST_OPEN = 64


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file as its commit names it: its path below the table, and what is known of its rows."""

    path: str
    size: int
    rows: int
    partition: Mapping[str, str | None]
    stats: str

    def to_dict(self) -> dict[str, Any]:
        """As JSON takes it."""
        return asdict(self)


def build_file_name(prefix: str = "part-") -> str:
    """Return a new name for a file."""
    return f"{prefix}{uuid4().hex}.parquet"


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Give a batch the columns of a schema. A file from before a column was added doesn't have it."""
    columns = [
        batch.column(one.name).cast(one.type) if one.name in batch.schema.names else pa.nulls(batch.num_rows, one.type)
        for one in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class TableWriter:
    """Writes the rows of one task. `partition` is the column of dates that files are parted by; none if empty."""

    def __init__(self, place: TableLocation, schema: pa.Schema, *, partition: str = "", prefix: str = "part-") -> None:
        self._place = place
        self._files = place.open_files()
        self._prefix = prefix
        self._schema = schema
        self._partition = partition
        self._open: dict[date | None, FileWriter] = {}
        self._done: list[DataFile] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch, each row to the file of its date."""
        if not self._partition:
            self._append(None, batch)
            return
        dates = batch.column(self._partition)
        rows = batch.drop_columns([self._partition])
        for found in pc.unique(dates):
            chosen = pc.is_null(dates) if not found.is_valid else pc.equal(dates, found)
            self._append(found.as_py(), rows.filter(chosen))

    def close(self) -> list[DataFile]:
        """End all files, and tell of them."""
        for day in list(self._open):
            self._end(day)
        return self._done

    def _append(self, day: date | None, rows: pa.RecordBatch) -> None:
        if day not in self._open:
            if len(self._open) >= _MOST_OPEN:
                self._end(next(iter(self._open)))
            self._open[day] = FileWriter(self._place, self._build_name(day), self._schema, files=self._files)
        file = self._open[day]
        file.append(rows)
        if file.size >= FILE_BYTES:
            self._end(day)

    def _end(self, day: date | None) -> None:
        value = {self._partition: None if day is None else day.isoformat()} if self._partition else {}
        self._done.append(self._open.pop(day).close(value))

    def _build_name(self, day: date | None) -> str:
        name = build_file_name(self._prefix)
        if not self._partition:
            return name
        # As Hive names it, which every reader of Delta knows.
        return f"{self._partition}={'__HIVE_DEFAULT_PARTITION__' if day is None else day.isoformat()}/{name}"


class FileWriter:
    """Writes one file. `stats` are the columns of the table; None: all columns of the file."""

    def __init__(
        self,
        place: TableLocation,
        name: str,
        schema: pa.Schema,
        *,
        stats: pa.Schema | None = None,
        files: pafs.FileSystem | None = None,
    ) -> None:
        self._name = name
        self._schema = schema
        self._stats = schema if stats is None else stats
        files, path = files or place.open_files(), f"{place.path}/{name}"
        if isinstance(files, pafs.LocalFileSystem):
            files.create_dir(path.rpartition("/")[0], recursive=True)
        self._sink = files.open_output_stream(path)
        self._writer = pq.ParquetWriter(self._sink, schema, compression="zstd", compression_level=1)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    @property
    def size(self) -> int:
        """What is written so far."""
        return int(self._sink.tell())

    def append(self, rows: pa.RecordBatch) -> None:
        """Write rows, in groups that are worth a request of a reader."""
        self._waiting.append(rows)
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        if self._rows >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._flush()

    def close(self, partition: Mapping[str, str | None]) -> DataFile:
        """End the file."""
        self._flush()
        self._writer.close()
        size = self.size
        self._sink.close()
        known = self._writer.writer.metadata
        return DataFile(self._name, size, known.num_rows, partition, build_stats(known, self._stats))

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema), row_group_size=self._rows)
        self._waiting = []
        self._rows = self._bytes = 0


_TYPES = {
    "string": pa.string(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_LETTER = pa.struct(
    [
        ("reason", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", _TYPES["timestamp"]),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)


def build_file_schema(landing: Landing) -> pa.Schema:
    """Return the columns of the data files."""
    fields = [pa.field(column.name, _find(find_lake_type(column))) for column in landing.columns]
    if landing.dead_letters is not None:
        fields.append(pa.field(DEAD_LETTER, _LETTER))
    return pa.schema(fields)


def build_table_schema(landing: Landing) -> pa.Schema:
    """What the table has: dates that it is parted by stand in no file."""
    fields = list(build_file_schema(landing))
    if landing.date_from:
        fields.append(pa.field(DATE_COLUMN, pa.date32()))
    return pa.schema(fields)


def make_fit(table: LakeTable, landing: Landing) -> None:
    """Make the table, or add the columns that it has not.

    Raises:
        RefusedError: the table has a column of another type, or is parted otherwise.
    """
    schema = build_table_schema(landing)
    table.create(schema, partition_by=build_lake_layout(landing).parted_by)
    # Another process may have made it, by another file.
    build_lake_statements(landing, table.read_layout())
    table.add_columns(schema)


def require_fit(table: LakeTable, landing: Landing) -> None:
    """Look at the table before rows are landed in it: files that do not fit it would move the offsets all the same.

    Raises:
        RefusedError: something is missing, or is otherwise.
    """
    if missing := build_lake_statements(landing, table.read_layout()):
        raise RefusedError(
            f"table {landing.table} does not match pipeline {landing.name}",
            cause=f"missing: {missing[0]}",
            hint=f"run seamark pipelines run {landing.name}, or call seamark.tables.delta.files.make_fit",
        )


def _find(kind: str) -> pa.DataType:
    return _build(parse_type(kind))


def _build(kind: TypeShape) -> pa.DataType:
    if isinstance(kind, ArrayShape):
        return pa.list_(_build(kind.item))
    if isinstance(kind, StructShape):
        return pa.struct([(name, _build(one)) for name, one in kind.fields])
    if found := _DECIMAL.fullmatch(kind):
        return pa.decimal128(int(found[1]), int(found[2]))
    return _TYPES[kind]
