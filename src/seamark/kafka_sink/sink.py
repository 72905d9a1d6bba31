"""`df.write.format("seamark.kafka")`: Kafka records with their timestamps, each exactly once.

The driver checks options, columns and topics before any task starts. Each task is one transaction, or several where
the caller promises that its rows come in the same order again; see `seamark.kafka_sink.exact_task`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from seamark.errors import NotFoundError, RejectedError, UsageError
from seamark.kafka.topics import TopicAdmin
from seamark.kafka_sink.columns import build_piece, check_schema, read_task
from seamark.kafka_sink.control import Claim, build_batch_claim, build_first_claim
from seamark.kafka_sink.control_progress import read_ends, read_progress
from seamark.kafka_sink.control_scan import read_known
from seamark.kafka_sink.control_topic import ensure_control_topic
from seamark.kafka_sink.exact_task import ExactTask
from seamark.kafka_sink.options import SinkOptions, read_options, read_stream_options
from seamark.kafka_sink.task_settings import TaskReport
from seamark.kafka_sink.telling import tell

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

    @tell
    def schema(self) -> StructType:
        """Refused: it is a sink."""
        raise UsageError("seamark.kafka is a sink", hint='read with format("kafka")')

    @tell
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """The writer of a batch job."""
        if overwrite:
            raise UsageError("a topic can't be overwritten", hint='mode("append")')
        options = read_options(dict(self.options))
        return KafkaWriter(options, job=options.job or uuid4().hex, outset=_prepare(schema, options))

    @tell
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """The writer of a stream."""
        if overwrite:
            raise UsageError("a topic can't be overwritten", hint='outputMode("append") or "update"')
        options = read_stream_options(dict(self.options))
        has_task = "task" in schema.fieldNames()
        return KafkaStreamWriter(options, outset=_prepare(schema, options), has_task=has_task)


@dataclass(frozen=True, slots=True)
class Outset:
    """How things stood when a job began: the control topic's id, and what it knew.

    A job without a name has no record before the `starts`. Of one with a name, `records` says how many the tasks have
    written before.
    """

    control_id: str
    starts: Mapping[int, int] = field(default_factory=dict)
    records: Mapping[int, int] = field(default_factory=dict)


def _prepare(schema: StructType, options: SinkOptions) -> Outset:
    """Check what can be checked before a task starts."""
    check_schema(schema, has_topic=options.topic is not None)
    reader, topic = options.build_settings().reader, options.control_topic
    with TopicAdmin(reader) as admin:
        # A producer would have the brokers make a misspelt topic.
        if options.topic is not None and options.topic not in admin.read_found([options.topic]):
            raise NotFoundError(f"the topic {options.topic} is not there", hint="make it first, or check its name")
        control_id = ensure_control_topic(admin, topic)
        if options.job is None:
            return Outset(control_id, starts=read_ends(admin, topic))
    known = read_known(reader, topic, job=options.job)
    return Outset(control_id, records={task: record.amount.records for task, record in known.items()})


def _write(
    options: SinkOptions,
    claim: Claim,
    batches: Iterator[pa.RecordBatch],
    *,
    outset: Outset,
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

    def __init__(self, options: SinkOptions, *, job: str, outset: Outset) -> None:
        self._options = options
        self._job = job
        self._outset = outset

    @tell
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Write one task, on an executor."""
        task, batches = read_task(iterator, number=_context().partitionId())
        claim, outset = Claim(self._job, task=task), self._outset
        # A task that had rows and has none now is not the task that it was.
        is_noted = outset.records.get(claim.task, 0) > 0
        start = outset.starts.get(claim.partition)
        return _write(self._options, claim, batches, outset=outset, start=start, is_noted=is_noted)

    @tell
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Say what was written. There is nothing left to do: each task's commit was its own."""
        self._expect_tasks({message.report.claim.task for message in messages if isinstance(message, TaskMessage)})
        reports = [message.report for message in messages if isinstance(message, TaskMessage)]
        _LOGGER.info(
            "job %s: %d records by %d tasks, %d of which had been done before",
            self._job,
            sum(report.amount.records for report in reports),
            len(reports),
            sum(report.is_repeat for report in reports),
        )

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Say what is left: committed tasks stay, and a repeat of the job under its name goes on from there."""
        done = sum(message is not None for message in messages)
        _LOGGER.warning("job %s failed; %d tasks are written and stay", self._job, done)

    def _expect_tasks(self, tasks: set[int]) -> None:
        """Refuse a job without some of the tasks that have written before: others have written their rows now."""
        gone = {task: records for task, records in self._outset.records.items() if task not in tasks and records}
        if gone:
            raise RejectedError(
                f"job {self._job} has {len(tasks)} tasks now, and no task {max(gone)}, which had been written before",
                cause="its rows were shared out among tasks in another way than the first time",
                hint=f"{sum(gone.values())} rows are there twice, those of {len(gone)} tasks of the first time: write "
                "to a new topic under another name, and always into as many partitions",
            )


class KafkaStreamWriter(DataSourceStreamArrowWriter):
    """Writes the tasks of every batch of a stream.

    With the column `task`, the rows say which task they belong to, so that a batch that runs again has the same tasks.
    Without it, Spark's plan decides, and after a restart it may decide otherwise: file splits depend on the number of
    cores, and adaptive execution on measured sizes. Rows of a task that is done may then be in one that is not. So a
    batch that another run of the stream began is refused before any row of it is written.
    """

    def __init__(self, options: SinkOptions, *, outset: Outset, has_task: bool) -> None:
        self._options = options
        self._outset = outset
        self._has_task = has_task

    @tell
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Write one task of one batch, on an executor."""
        context = _context()
        query, batch = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
        if query is None or batch is None:
            raise UsageError(
                "Spark does not say which batch of which stream this is",
                hint="seamark.kafka writes micro-batches; continuous and real-time mode are not supported",
            )
        # The query's id lives in its checkpoint: a stream with a new one is another stream, whatever its batch numbers.
        if context.partitionId() == 0 and batch == "0":
            _write(self._options, build_first_claim(query), iter(()), outset=self._outset, is_noted=True)
        if not self._has_task:
            self._check_run(query, int(batch), context.getLocalProperty(_RUN_ID) or "")
        task, batches = read_task(iterator, number=context.partitionId())
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
                f"batch {batch} of the stream was begun by another run, which may have written rows of it",
                cause="without the column task, Spark may divide a batch that runs again into other tasks",
                hint=f'option("repeat.batch", "{batch}") lets the stream continue and may write rows of this batch '
                "twice; for later batches add the column task (for a Kafka source: partition AS task)",
            )
