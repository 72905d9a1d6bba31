"""The data files of a table: rows from Arrow as Parquet, one file for each date and task, each under a name of its own.

A file counts if a commit names it. A failed task leaves files that no commit names; Delta's VACUUM deletes them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import uuid4

import pyarrow as pa
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
        return _spell(min(one.min for one in groups), is_most=False)
    except OverflowError:
        # Python has no moments of other years than 1 to 9999.
        return None


def _find_most(groups: Sequence[pq.Statistics]) -> Any:
    try:
        return _spell(max(one.max for one in groups), is_most=True)
    except OverflowError:
        # The same, also where it is rounded up beyond the last millisecond.
        return None


def _spell(value: Any, *, is_most: bool) -> Any:  # noqa: PLR0911 - one line for each type
    """As JSON; None for what is better left out."""
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
