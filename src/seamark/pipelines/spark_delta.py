"""The Delta tables of pipelines: tasks write data files, and the driver commits them with the offsets."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from seamark.errors import RefusedError, RejectedError, UnreachableError
from seamark.pipelines.bad_records import BadRecords, WrittenLetters, build_refusal
from seamark.pipelines.binding import Binding
from seamark.pipelines.progress import BatchLanded
from seamark.pipelines.rebuild import build_digest
from seamark.pipelines.spark_frame import KEY, PARTITION, REASON, TIMESTAMP, VALUE, build_land_frame
from seamark.spark.tasks import TaskWriter, run_tasks
from seamark.tables.definition import Landing
from seamark.tables.delta.buckets import HASH
from seamark.tables.delta.commits import Position
from seamark.tables.delta.files import DataFile, TableWriter, build_file_schema, build_table_schema, require_fit
from seamark.tables.delta.location import TableLocation
from seamark.tables.delta.maintenance import RunTasks, compact_files, enter_landing, open_rebuild, vacuum_files
from seamark.tables.delta.rebuild import is_generation_of
from seamark.tables.delta.table import LakeTable
from seamark.tables.delta.technology import DATE_COLUMN, DEAD_LETTER, find_lake_type
from seamark.tables.expressions import parse_expression
from seamark.tables.model import DELETED, OFFSET, RECORD_MILLIS, LedgerAdvance, LedgerEntry

_TURNED = "seamark_turned_"
_ZONE = "spark.sql.session.timeZone"
# Connect's JSON has moments as milliseconds, and dates as days, both since 1970.
_WHOLE = r"^-?[0-9]{1,17}$"
# The years 1 to 9999, in microseconds and in days: Delta's statistics, Python and most others know no more.
_BOUNDS = {"timestamp": (-62_135_596_800_000_000, 253_402_300_799_999_999), "date": (-719_162, 2_932_896)}
_COUNTS = {"timestamp": sf.unix_micros, "date": sf.unix_date}
_MOST_MILLIS = 9_000_000_000_000_000
# So many offsets are worth a task of their own.
_TASK_RECORDS = 20_000
# Pieces of housekeeping in a table are divided among so many tasks.
_MOST_PIECES = 64


def build_lake_frame(records: DataFrame, landing: Landing) -> DataFrame:
    """The rows of these records. What is none has its reason, and nulls in its columns."""
    # A moment without its zone is one of UTC. The session is the landing's own.
    records.sparkSession.conf.set(_ZONE, "UTC")
    read = build_land_frame(records, landing)
    kinds = {column.name: find_lake_type(column) for column in landing.source_columns}
    types = dict(read.dtypes)
    changed = [name for name, kind in kinds.items() if types[name] != kind]
    # A step of its own, so that Spark turns each text once: it is asked for in the reason and in the column.
    turned = read.select("*", *(_turn(name, types[name], kinds[name]).alias(_TURNED + name) for name in changed))
    columns = {name: sf.col(f"`{_TURNED if name in changed else ''}{name}`") for name in kinds}
    doubtful = [name for name, kind in kinds.items() if name in changed or kind in _BOUNDS]
    reasons = [_build_reason(name, kinds[name], turned=columns[name]) for name in doubtful]
    told = turned.withColumn(REASON, reduce(sf.coalesce, [sf.col(REASON), *reasons]))
    if landing.has_expressions:
        told, columns = _compute(told, columns, landing)
    is_dead_letter = landing.dead_letters is not None
    if landing.date_from:
        columns[DATE_COLUMN] = sf.to_date(columns[landing.date_from])
    if is_dead_letter:
        columns = {name: sf.when(sf.col(REASON).isNull(), column) for name, column in columns.items()}
        letter = _build_letter(landing)
        # A task may find one more bad record: one that is older than the tombstones.
        columns[DEAD_LETTER] = letter if landing.order else sf.when(sf.col(REASON).isNotNull(), letter)
    named = [column.alias(name) for name, column in columns.items()]
    more = [] if not landing.mode.has_key else [_build_hash(columns, landing).alias(HASH)]
    kept = [name for name in (PARTITION, OFFSET, REASON, DELETED, RECORD_MILLIS) if name in told.columns]
    if landing.needs_binding:
        kept.append(KEY)
    return told.select(*named, *more, *kept)


def _build_hash(columns: Mapping[str, Column], landing: Landing) -> Column:
    """The hash of a row's key. Of texts: the same number must have the same hash when its column has become wider."""
    texts = [columns[name].cast("string") for name in landing.key]
    return sf.xxhash64(*texts).bitwiseAND(sf.lit(0x7FFF_FFFF)).cast("int")


def _compute(told: DataFrame, columns: dict[str, Column], landing: Landing) -> tuple[DataFrame, dict[str, Column]]:
    """Compute the columns of expressions, and leave out the records that `where` doesn't want."""
    named = told.select(
        *(column.alias(name) for name, column in columns.items()),
        *(sf.col(name) for name in told.columns if name not in columns and not name.startswith(_TURNED)),
    )
    if landing.where:
        # What can't be a row is reported, whatever its columns say.
        wanted = sf.coalesce(sf.expr(parse_expression(landing.where, what="where").sql), sf.lit(False))
        if landing.mode.has_key:
            # A row that isn't wanted any longer is deleted.
            named = named.withColumn(DELETED, sf.col(DELETED) | ~wanted)
        else:
            named = named.where(sf.col(REASON).isNotNull() | wanted)
    found = {}
    for column in landing.columns:
        name, kind = column.name, find_lake_type(column)
        if not column.sql:
            found[name] = sf.col(f"`{name}`")
            continue
        value = sf.expr(parse_expression(column.sql, what=name).sql).try_cast(kind)
        found[name] = sf.when(_is_known(value, kind), value) if kind in _BOUNDS else value
    return named, found


def _turn(name: str, found: str, kind: str) -> Column:
    column = sf.col(f"`{name}`")
    if found == "string" and kind in _BOUNDS:
        # Most are dates with their dashes, and Spark's patterns are dear. Of an hour alone Spark would make one of
        # today.
        is_dated = sf.locate("-", column, 2) > 0
        return sf.when(is_dated, column.try_cast(kind)).when(column.rlike(_WHOLE), _read_whole(column, kind))
    if found == "timestamp" and kind not in {"date", "string"}:
        # Kafka's own number. Spark would give seconds.
        return sf.unix_millis(column).try_cast(kind)
    return column.try_cast(kind)


def _read_whole(column: Column, kind: str) -> Column:
    """A date or a moment of its number since 1970."""
    if kind == "date":
        return sf.date_from_unix_date(column.try_cast("int"))
    number = column.try_cast("bigint")
    # Spark fails the whole job where the microseconds are too many.
    return sf.timestamp_millis(sf.when(number.between(-_MOST_MILLIS, _MOST_MILLIS), number))


def _build_reason(name: str, kind: str, *, turned: Column) -> Column:
    """Why a column's text or number could not be turned, or must not be a row."""
    has_value = sf.col(f"`{name}`").isNotNull()
    if kind not in _BOUNDS:
        return sf.when(has_value & turned.isNull(), sf.lit(f"invalid {kind} in column {name}"))
    return sf.when(
        has_value & ~_is_known(turned, kind), sf.lit(f"invalid {kind} in column {name}: expected years 1 to 9999")
    )


def _is_known(column: Column, kind: str) -> Column:
    """Whether there is a moment or a date, and of a year that all readers know."""
    return sf.coalesce(_COUNTS[kind](column).between(*_BOUNDS[kind]), sf.lit(False))


def _build_letter(landing: Landing) -> Column:
    return sf.struct(
        sf.col(REASON).alias("reason"),
        sf.lit(landing.topic).alias("topic"),
        sf.col(PARTITION).alias("partition"),
        sf.col(OFFSET).alias("offset"),
        sf.when(_is_known(sf.col(TIMESTAMP), "timestamp"), sf.col(TIMESTAMP)).alias("timestamp"),
        sf.col(KEY).alias("key"),
        sf.col(VALUE).alias("value"),
    )


@dataclass(frozen=True, slots=True)
class LakeWriter:
    """Writes the data files of one task. `offsets` and `spent` bound its dead letters."""

    landing: Landing
    place: TableLocation = field(repr=False)
    offsets: int
    spent: int

    def write(self, iterator: Iterator[pa.RecordBatch]) -> dict[str, Any]:
        """Write the files of one task, on an executor.

        Raises:
            UnreachableError: The store could not be written to.
        """
        try:
            return self._write(iterator)
        except RejectedError as error:
            # Returned and not raised: Spark would run the task four times, with the same result each time.
            return {"refusal": [error.message, error.cause, error.hint]}
        except OSError as error:
            raise build_storage_error(self.place, error) from error

    def _write(self, iterator: Iterator[pa.RecordBatch]) -> dict[str, Any]:
        partition = DATE_COLUMN if self.landing.date_from else ""
        writer = TableWriter(self.place, build_file_schema(self.landing), partition=partition)
        schema = build_table_schema(self.landing)
        bad = BadRecords(self.landing, spot=self.landing.topic, offsets=self.offsets, spent=self.spent)
        for batch in iterator:
            if not batch.num_rows:
                continue
            reasons = Counter(pc.drop_null(batch.column(REASON)).to_pylist())
            if reasons and self.landing.dead_letters is None:
                first = batch.filter(pc.is_valid(batch.column(REASON)))
                raise build_refusal(
                    self.landing,
                    f"record {self.landing.topic}-{first.column(PARTITION)[0]}@{first.column(OFFSET)[0]}",
                    reason=first.column(REASON)[0].as_py(),
                )
            bad.add(reasons, records=batch.num_rows)
            writer.write(batch.select(schema.names).cast(schema))
        bad.end()
        files = [file.to_dict() for file in writer.close()]
        return {"files": files, "records": bad.records, "dead": bad.dead, "reasons": dict(bad.reasons)}


def build_storage_error(place: TableLocation, error: OSError) -> UnreachableError:
    """Build the error for a file that could not be read or written."""
    return UnreachableError(
        f"could not write to {place.url}",
        cause=" ".join(str(error).split())[:300],
        hint="check that the storage of the lake is reachable, and the permissions of its keys",
    )


def read_receipts(rows: DataFrame, writer: TaskWriter) -> list[dict[str, Any]]:
    """Have tasks write these rows, and return their receipts.

    Raises:
        RejectedError: A task has found records that can't be rows.
    """
    receipts = run_tasks(rows, writer)
    for one in receipts:
        if "refusal" in one:
            message, cause, hint = one["refusal"]
            raise RejectedError(message, cause=cause, hint=hint)
    return receipts


def run_in_tasks(spark: SparkSession) -> RunTasks:
    """Return how numbered pieces of work are done in Spark's tasks."""
    return lambda count, writer: run_tasks(spark.range(0, count, 1, min(count, _MOST_PIECES)), writer)


class LakeTarget:
    """The table of one pipeline in a lake, for the driver; with the ID of a rebuild, that rebuild of the table."""

    def __init__(self, landing: Landing, lake: TableLocation, *, rebuild: str = "") -> None:
        self._landing = landing
        self._lake = lake
        self._is_rebuild = bool(rebuild)
        table = LakeTable(lake.below(landing.table), owner=landing.owner)
        self._table = open_rebuild(table, rebuild=rebuild) if rebuild else table
        self._letters = WrittenLetters(landing)
        self._kept_letters = 0
        self._seen: Position | None = None
        # That of the files when this run began: its definition is the one that they fit.
        self._generation: int | None = None
        # Who watches must not take a commit of ours for another's.
        self._committing = threading.Lock()

    def prepare(self, spark: SparkSession) -> None:
        """Check that the table fits, and register the pipeline in the lake."""
        require_fit(self._table, self._landing)
        if self._is_rebuild:
            # The offsets of the pipeline are in its table until the rebuild is swapped in.
            return
        enter_landing(self._lake, self._landing.owner, table=self._landing.table)

    def read(self) -> dict[tuple[str, int], LedgerEntry]:
        """What the last commit says."""
        return self._table.read_position().entries

    def claim(self, firsts: Iterable[LedgerEntry]) -> list[LedgerEntry]:
        """Begin at the table's offsets. No run is excluded: of two runs the one that commits first has its batch.

        A partition that the table does not know is entered at once: a next run must begin there too, also where this
        one lands nothing, and `latest` will be elsewhere by then.
        """
        wanted = list(firsts)
        with self._committing:
            self._seen = self._table.enter(wanted)
            found = self._seen.entries
            # A rebuild may have been swapped in since `prepare`. One that is swapped in from now on fences this run.
            require_fit(self._table, self._landing)
            self._check_generation()
        # After a failed batch: nothing of it was committed.
        self._letters.restart(written=self._kept_letters)
        return [found[first.key] for first in wanted]

    def _check_generation(self) -> None:
        """Check that no rebuild has replaced the files by those of another definition while this run had its own.

        Raises:
            RefusedError: One has. Columns alone don't show it: an expression may be another one.
        """
        if self._is_rebuild:
            return
        found = self._table.read_generation()
        if self._generation is None:
            self._generation = found
        elif found != self._generation and not is_generation_of(found, build_digest(self._landing)):
            raise RefusedError(
                f"the table of {self._landing.owner} was rebuilt by another definition while it ran",
                cause="this run has the definition of before, and would add its rows to the rebuilt ones",
                hint="start the run or the application again, with the definition that is applied",
            )

    def watch(self, entries: Sequence[LedgerEntry]) -> None:
        """Check for a commit that landed or moved the offsets. Renew ours before Delta cleans it away."""
        with self._committing:
            if self._seen is not None:
                self._table.require(self._seen)
                self._seen = self._table.renew(self._seen)

    def compact(self, spark: SparkSession) -> tuple[int, int]:
        """Merge small files. Returns how many became how many."""
        return compact_files(self._table, run_in_tasks(spark))

    def vacuum(self, spark: SparkSession, *, keep_seconds: float) -> int:
        """Delete files that no version of the last `keep_seconds` has. Returns how many."""
        return vacuum_files(self._table, run_in_tasks(spark), keep_seconds=keep_seconds)

    def bind(self, binding: Binding) -> None:
        """Nothing to check: a lake's table only takes more rows."""

    def build_rows(self, records: DataFrame) -> DataFrame:
        """The columns of the table, and the metadata of each record."""
        return build_lake_frame(records, self._landing)

    def land(self, rows: DataFrame, steps: Sequence[LedgerAdvance], *, number: int) -> BatchLanded:
        """Have the tasks write the files of a batch, and commit them with the offsets."""
        offsets = sum(step.end - step.entry.next_offset for step in steps)
        writer = LakeWriter(self._landing, self._table.at, offsets=offsets, spent=self._letters.written)
        # One file for few records, and not one for each partition of the topic: files cost every reader.
        receipts = read_receipts(rows.coalesce(max(1, min(len(steps), offsets // _TASK_RECORDS))), writer)
        # Before the commit: if too many are bad, nothing of the batch is landed.
        self._letters.add(receipts)
        files = [DataFile(**file) for one in receipts for file in one["files"]]
        with self._committing:
            seen = self._seen or self._table.read_position()
            self._seen = self._table.commit(files, [step.after for step in steps], seen=seen)
        self._kept_letters = self._letters.written
        count, dead = sum(file.rows for file in files), sum(one["dead"] for one in receipts)
        return BatchLanded(number, rows=count - dead, deleted=0, dead=dead)
