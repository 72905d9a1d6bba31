"""`df.write.format("seamark.kafka")`: Kafka records with their timestamps, each exactly once.

The driver checks options, columns and topics before any task starts. Each task is one transaction, or several where
the caller promises that its rows come in the same order again; see `seamark.kafka.exact_task`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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

from seamark.errors import NotFoundError, UsageError
from seamark.kafka.control import read_ends
from seamark.kafka.control_topic import ensure_control_topic
from seamark.kafka.exact_task import ExactTask
from seamark.kafka.task_settings import TaskReport
from seamark.kafka.topics import TopicAdmin
from seamark.model.control import Claim
from seamark.spark.columns import build_piece, check_schema
from seamark.spark.options import SinkOptions, read_options
from seamark.spark.telling import tell

_LOGGER = logging.getLogger("seamark.spark")
_BATCH_ID = "streaming.sql.batchId"
_QUERY_ID = "sql.streaming.queryId"


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
        job = options.job or uuid4().hex
        return KafkaWriter(options, job=job, starts=_prepare(schema, options))

    @tell
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """The writer of a stream."""
        if overwrite:
            raise UsageError("a topic can't be overwritten", hint='outputMode("append") or "update"')
        options = read_options(dict(self.options))
        _prepare(schema, options)
        return KafkaStreamWriter(options)


def _prepare(schema: StructType, options: SinkOptions) -> dict[int, int]:
    """Check what can be checked before a task starts. Gives where a job without a name must look for its records."""
    check_schema(schema, has_topic=options.topic is not None)
    with TopicAdmin(options.build_settings().reader) as admin:
        # A producer would have the brokers make a misspelt topic.
        if options.topic is not None and options.topic not in admin.read_found([options.topic]):
            raise NotFoundError(f"the topic {options.topic} is not there", hint="make it first, or check its name")
        ensure_control_topic(admin, options.control_topic)
        return read_ends(admin, options.control_topic) if options.job is None else {}


def _write(options: SinkOptions, claim: Claim, batches: Iterator[pa.RecordBatch], *, start: int | None) -> TaskMessage:
    task = ExactTask(options.build_settings(), claim, control_start=start)
    report = task.write(build_piece(batch, options.topic) for batch in batches)
    return TaskMessage(report)


def _context() -> Any:
    found = TaskContext.get()
    if found is None:
        raise AssertionError
    return found


class KafkaWriter(DataSourceArrowWriter):
    """Writes the tasks of one batch job."""

    def __init__(self, options: SinkOptions, *, job: str, starts: dict[int, int]) -> None:
        self._options = options
        self._job = job
        self._starts = starts

    @tell
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Write one task, on an executor."""
        claim = Claim(self._job, task=_context().partitionId())
        return _write(self._options, claim, iterator, start=self._starts.get(claim.partition))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Say what was written. There is nothing left to do: each task's commit was its own."""
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


class KafkaStreamWriter(DataSourceStreamArrowWriter):
    """Writes the tasks of every batch of a stream."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

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
        claim = Claim(self._options.job or query, task=context.partitionId(), query=query, batch=int(batch))
        return _write(self._options, claim, iterator, start=None)
