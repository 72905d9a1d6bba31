"""`df.write.format("seamark.kafka")`: Kafka records with their timestamps, each exactly once.

The driver checks options, columns and topics before any task starts. Each task is one transaction, or several where
the caller promises that its rows come in the same order again; see `seamark.kafka_sink.task`.
"""

from __future__ import annotations

import functools
import json
import logging
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from typing import Any, ParamSpec, TypeVar
from uuid import uuid4
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType, TimestampType

from seamark.errors import NotFoundError, RejectedError, SeamarkError, UsageError
from seamark.kafka.records import read_record_bytes
from seamark.kafka.topics import TopicAdmin
from seamark.kafka_sink.control import Amount, Claim, build_batch_claim, build_first_claim
from seamark.kafka_sink.control_reads import ensure_control_topic, read_ends, read_known, read_progress
from seamark.kafka_sink.inputs import read_whole
from seamark.kafka_sink.options import SinkOptions, read_options, read_stream_options
from seamark.kafka_sink.producer import TaskReport
from seamark.kafka_sink.task import ExactTask

# Spark counts the bytes of all columns for each row, to end a batch at 64 MiB. For small rows that is a quarter
# of its work, and ten thousand of them never come near.

_BATCH_BYTES, _BATCH_ROWS = "spark.sql.execution.arrow.maxBytesPerBatch", "spark.sql.execution.arrow.maxRecordsPerBatch"
T = TypeVar("T")
# What Spark takes for "do not count".
_NO_LIMIT = str(2**31 - 1)
_DEFAULT = 64 << 20
# Records that follow may be larger than those that were looked at.
_RESERVE = 4
# How Spark and Arrow say that a batch was too large after all.
_TOO_LARGE = (
    "OutOfMemory",
    "OversizedAllocation",
    "ExecutorLostFailure",
    "MemoryLimit",
    # The kernel's out-of-memory killer takes a Python worker, and Spark only sees that it is gone.
    "Python worker exited unexpectedly",
)


class BatchLimit:
    """Whether the bytes of batches are counted. They are not, once records were seen to be small."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._is_lifted = False

    def look(self, config: Mapping[str, str], topic: str, *, begins: Mapping[int, int]) -> None:
        """Look at the next records of the source. A limit of the user's own stays."""
        if str(self._spark.conf.get(_BATCH_BYTES)).removesuffix("b") != str(_DEFAULT):
            return
        size = read_record_bytes(config, topic, begins=begins)
        rows = int(str(self._spark.conf.get(_BATCH_ROWS)))
        self._is_lifted = 0 < size * rows * _RESERVE <= _DEFAULT

    def run(self, job: Callable[[], T]) -> T:
        """Run a job of Spark's; once more, with bytes counted from then on, where a batch may have been too large.

        What the job wrote the first time it must not write again.
        """
        try:
            with self._hold():
                return job()
        except PySparkException as error:
            if not self._is_lifted or not any(word in str(error) for word in _TOO_LARGE):
                raise
            self._is_lifted = False
            return job()

    @contextmanager
    def _hold(self) -> Iterator[None]:
        if not self._is_lifted:
            yield
            return
        former = str(self._spark.conf.get(_BATCH_BYTES))
        self._spark.conf.set(_BATCH_BYTES, _NO_LIMIT)
        try:
            yield
        finally:
            self._spark.conf.set(_BATCH_BYTES, former)


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
        raise RejectedError(f"invalid value {task} in column task", hint="use whole numbers from 0")
    return task, (_expect_task(batch, task) for batch in chain([first], rows))


def _expect_task(batch: pa.RecordBatch, task: int) -> pa.RecordBatch:
    found = pc.unique(batch.column("task")).to_pylist()
    if found != [task]:
        raise RejectedError(
            f"one partition of the frame has rows of task {task} and of task {', '.join(map(str, found))}",
            hint="use one task number for all rows of a partition of the frame, and for no other partition",
        )
    return batch


def check_schema(schema: StructType, *, has_topic: bool) -> None:
    """Refuse a frame that the sink would have to guess about; one error names everything."""
    faults = [f"unknown column {field.name}" for field in schema.fields if field.name not in _WANTED]
    for column in schema.fields:
        types, wanted, way = _WANTED.get(column.name, ((DataType,), "", ""))
        if not isinstance(column.dataType, types) or (column.name == "headers" and not _is_headers(column.dataType)):
            faults.append(f"{column.name} is {column.dataType.simpleString()} and must be {wanted}: {way}")
    names = [field.name for field in schema.fields]
    faults += [f"duplicate column {name}" for name in sorted({n for n in names if names.count(n) > 1})]
    if "value" not in names:
        faults.append("column value is missing")
    if "topic" not in names and not has_topic:
        faults.append("neither column topic nor option topic is set")
    if faults:
        raise UsageError(
            f"the frame can't be written to Kafka: {'; '.join(faults)}",
            hint=f"select only these columns: {', '.join(_WANTED)}",
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
            raise RejectedError("a row has no topic", hint="fill column topic, or set option topic")
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
                "a row has a timestamp of 1970-01-01 00:00:00 UTC or earlier, which clients can't write",
                hint="set a later timestamp, or null for the time of writing",
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
        raise RejectedError("a row has a header without a name", hint="set its key, or remove the header")
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
            # The hash of the key is the start value of the hash of the value.
            hashed = map(crc32, batch.column(place).cast(pa.binary()).fill_null(b"").to_pylist(), hashed)
    place = batch.schema.get_field_index("timestamp")
    stamps = 0 if place < 0 else pc.sum(batch.column(place).cast(pa.int64())).as_py() or 0
    return (sum(hashed) + stamps) & _MASK


P = ParamSpec("P")


def keep_error_details(call: Callable[P, T]) -> Callable[P, T]:
    """Put cause and hint into the message of what a call raises. For everything of a sink that Spark calls."""

    @functools.wraps(call)
    def told(*arguments: P.args, **keywords: P.kwargs) -> T:
        try:
            return call(*arguments, **keywords)
        except SeamarkError as error:
            words = (error.message, error.cause and f"cause: {error.cause}", error.hint and f"hint: {error.hint}")
            error.args = ("\n  ".join(word for word in words if word),)
            raise

    return told


_LOGGER = logging.getLogger("seamark.spark")
_BATCH_ID = "streaming.sql.batchId"
_QUERY_ID = "sql.streaming.queryId"
# Spark runs the jobs of a query in a group that has the ID of the run.
_RUN_ID = "spark.jobGroup.id"


@dataclass(frozen=True, slots=True)
class TaskMessage(WriterCommitMessage):
    """What a task tells the driver."""

    report: TaskReport


class KafkaSink(DataSource):
    """The sink as Spark knows it."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "seamark.kafka"

    @keep_error_details
    def schema(self) -> StructType:
        """Refused: it is a sink."""
        raise UsageError("seamark.kafka can't be read: it is a sink", hint='use format("kafka")')

    @keep_error_details
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """The writer of a batch job."""
        if overwrite:
            raise UsageError("a topic can't be overwritten", hint='use mode("append")')
        options = read_options(dict(self.options))
        return KafkaWriter(options, job=options.job or uuid4().hex, outset=_prepare(schema, options))

    @keep_error_details
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """The writer of a stream."""
        if overwrite:
            raise UsageError("a topic can't be overwritten", hint='use outputMode("append") or outputMode("update")')
        options = read_stream_options(dict(self.options))
        has_task = "task" in schema.fieldNames()
        return KafkaStreamWriter(options, outset=_prepare(schema, options), has_task=has_task)


@dataclass(frozen=True, slots=True)
class JobStart:
    """The control topic when a job began: its id, and the records in it.

    A job without a name has no record before the `starts`. Of one with a name, `records` says how many the tasks have
    written before.
    """

    control_id: str
    starts: Mapping[int, int] = field(default_factory=dict)
    records: Mapping[int, int] = field(default_factory=dict)


def _prepare(schema: StructType, options: SinkOptions) -> JobStart:
    """Check what can be checked before a task starts."""
    check_schema(schema, has_topic=options.topic is not None)
    reader, topic = options.build_settings().reader, options.control_topic
    with TopicAdmin(reader) as admin:
        # A producer would have the brokers make a misspelt topic.
        if options.topic is not None and options.topic not in admin.read_found([options.topic]):
            raise NotFoundError(
                f"topic {options.topic} does not exist",
                hint=f"run seamark topics create {options.topic}, or check its name",
            )
        control_id = ensure_control_topic(admin, topic)
        if options.job is None:
            return JobStart(control_id, starts=read_ends(admin, topic))
    known = read_known(reader, topic, job=options.job)
    return JobStart(control_id, records={task: record.amount.records for task, record in known.items()})


def _write(
    options: SinkOptions,
    claim: Claim,
    batches: Iterator[pa.RecordBatch],
    *,
    outset: JobStart,
    start: int | None = None,
    is_noted: bool = False,
) -> TaskMessage:
    settings = replace(options.build_settings(), control_id=outset.control_id)
    task = ExactTask(settings, claim, control_start=start, is_noted=is_noted)
    return TaskMessage(task.write(build_piece(batch, options.topic, is_summed=True) for batch in batches))


def _context() -> Any:
    found = TaskContext.get()
    if found is None:
        raise AssertionError
    return found


class KafkaWriter(DataSourceArrowWriter):
    """Writes the tasks of one batch job."""

    def __init__(self, options: SinkOptions, *, job: str, outset: JobStart) -> None:
        self._options = options
        self._job = job
        self._outset = outset

    @keep_error_details
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Write one task, on an executor."""
        task, batches = read_task(read_whole(iterator), number=_context().partitionId())
        claim, outset = Claim(self._job, task=task), self._outset
        # A task that had rows and has none now is not the task that it was.
        is_noted = outset.records.get(claim.task, 0) > 0
        start = outset.starts.get(claim.partition)
        return _write(self._options, claim, batches, outset=outset, start=start, is_noted=is_noted)

    @keep_error_details
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Say what was written. There is nothing left to do: each task's commit was its own."""
        self._expect_tasks({message.report.claim.task for message in messages if isinstance(message, TaskMessage)})
        reports = [message.report for message in messages if isinstance(message, TaskMessage)]
        _LOGGER.info(
            "job %s: %d records by %d tasks, %d of which were finished by an earlier run",
            self._job,
            sum(report.amount.records for report in reports),
            len(reports),
            sum(report.is_repeat for report in reports),
        )

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log what is left: committed tasks stay, and a repeat of the job under its name resumes from there."""
        done = sum(message is not None for message in messages)
        _LOGGER.warning("job %s failed; %d tasks are committed", self._job, done)

    def _expect_tasks(self, tasks: set[int]) -> None:
        """Refuse a job without some of the tasks that have written before: others have written their rows now."""
        gone = {task: records for task, records in self._outset.records.items() if task not in tasks and records}
        if gone:
            raise RejectedError(
                f"job {self._job} has {len(tasks)} tasks now, and task {max(gone)} of an earlier run is missing",
                cause="Spark distributed the rows to the tasks differently than in the earlier run",
                hint=f"write to a new topic under another job name, always with the same number of partitions; "
                f"{sum(gone.values())} rows are duplicated",
            )


class KafkaStreamWriter(DataSourceStreamArrowWriter):
    """Writes the tasks of every batch of a stream.

    With the column `task`, the rows say which task they belong to, so that a batch that runs again has the same tasks.
    Without it, Spark's plan decides, and after a restart it may decide otherwise: file splits depend on the number of
    cores, and adaptive execution on measured sizes. Rows of a task that is done may then be in one that is not. So a
    batch that another run of the stream began is refused before any row of it is written.
    """

    def __init__(self, options: SinkOptions, *, outset: JobStart, has_task: bool) -> None:
        self._options = options
        self._outset = outset
        self._has_task = has_task

    @keep_error_details
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Write one task of one batch, on an executor."""
        context = _context()
        query, batch = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
        if query is None or batch is None:
            raise UsageError(
                "Spark did not report the batch and the query of this stream",
                hint="use micro-batches: continuous and real-time mode are not supported",
            )
        # The query's id lives in its checkpoint: a stream with a new one is another stream, whatever its batch numbers.
        if context.partitionId() == 0 and batch == "0":
            _write(self._options, build_first_claim(query), iter(()), outset=self._outset, is_noted=True)
        if not self._has_task:
            self._check_run(query, int(batch), context.getLocalProperty(_RUN_ID) or "")
        task, batches = read_task(read_whole(iterator), number=context.partitionId())
        claim = Claim(query, task=task, query=query, batch=int(batch))
        return _write(self._options, claim, batches, outset=self._outset)

    def _check_run(self, query: str, batch: int, run: str) -> None:
        """Record that this run begins the batch, or find who did.

        Raises:
            RejectedError: Another run began it.
        """
        claim = build_batch_claim(query, batch)
        settings = replace(self._options.build_settings(), control_id=self._outset.control_id)
        # Every task asks, and only the first has to write.
        found = read_progress(
            settings.reader,
            settings.control_topic,
            claim=claim,
            patience_seconds=settings.transaction_seconds,
            topic_id=settings.control_id,
        )
        began = found.run if found is not None and found.claim == claim else ""
        if not began:
            began = ExactTask(settings, claim, is_noted=True, run=run).write(()).run
        if began != run and self._options.repeat_batch != batch:
            raise RejectedError(
                f"batch {batch} of the stream was started by another run, which may have written some of its rows",
                cause="without column task, Spark may split the rows of a retried batch into other tasks",
                hint=f'set option("repeat.batch", "{batch}") to continue, which may duplicate rows of this batch; '
                "for later batches, add column task (for a Kafka source: partition AS task)",
            )
