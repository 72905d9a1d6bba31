"""The sink of a copy: `seamark.kafka` with control records that state which offsets went where.

Its rows contain the record and its origin: `source_partition`, `source_offset`, and a `hash`. Headers are JSON. Each
task owns a source partition or a target partition (`build_tasks`); its first row determines which.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from seamark.copies.plan.checks import check_topic
from seamark.copies.plan.endpoints import CopyEnds
from seamark.copies.plan.plan import CopyPlan, SliceTask, build_tasks
from seamark.copies.plan.progress import CopyProgress, read_progress
from seamark.errors import RefusedError, UsageError
from seamark.kafka.log import PartitionLog
from seamark.kafka.topics import TopicAdmin
from seamark.kafka_sink.control import Amount, Claim
from seamark.kafka_sink.control_reads import ensure_control_topic, read_known, read_records
from seamark.kafka_sink.hashing import build_placer, build_target_column
from seamark.kafka_sink.inputs import SourceSpan, read_whole
from seamark.kafka_sink.options import SinkOptions, read_copy_options
from seamark.kafka_sink.producer import TaskReport
from seamark.kafka_sink.routing import Routing
from seamark.kafka_sink.spark import ArrowPiece, BatchLimit, build_piece, keep_error_details
from seamark.kafka_sink.task import ExactTask, take_over
from seamark.kafka_sink.transaction import DeliveredRange, DeliveryTrace
from seamark.spark.sessions import active_session, branch, build_hash, describe_jobs, read_ranges, register_sink
from seamark.spark.settings import build_source_options
from seamark.spark.slices import Slice

SOURCE_PARTITION, SOURCE_OFFSET, HASH, TARGET = "source_partition", "source_offset", "hash", "partition"
HEADERS = "headers"
_OURS = ("plan", "slice", "routing", "control.id")


@dataclass(frozen=True, slots=True)
class CopyMessage(WriterCommitMessage):
    """What a task reports to the driver; None if it had no rows, and so can't determine which task it is."""

    report: TaskReport | None


@dataclass(frozen=True, slots=True)
class CopyPiece:
    """Some rows of a copy, with their origin."""

    piece: ArrowPiece

    @property
    def amount(self) -> Amount:
        """The number of records and bytes."""
        return self.piece.amount

    def rows(self) -> Iterable[tuple[Any, ...]]:
        """The rows as the producer expects them."""
        return self.piece.rows()

    def stretches(self) -> Iterator[DeliveredRange]:
        """Yield the rows by target and, as long as it stays the same, by source."""
        whole = self.piece.batch.select([TARGET, SOURCE_PARTITION, SOURCE_OFFSET, HASH])
        targets = pc.unique(whole.column(TARGET)).to_pylist()
        for target in targets:
            own, rows = whole, range(whole.num_rows)
            if len(targets) > 1:
                found = pc.indices_nonzero(pc.equal(whole.column(TARGET), target))
                own, rows = whole.take(found), found.to_pylist()
            sources = pc.run_end_encode(own.column(SOURCE_PARTITION))
            begin = 0
            for source, end in zip(sources.values.to_pylist(), sources.run_ends.to_pylist(), strict=True):
                part = own.slice(begin, end - begin)
                offsets, hashes = (_read_longs(part, name) for name in (SOURCE_OFFSET, HASH))
                yield DeliveredRange(target, source, (rows[begin], rows[end - 1]), offsets=offsets, hashes=hashes)
                begin = end

    def spans(self) -> Iterable[SourceSpan]:
        """Return the number of rows and the offsets for each pair of source and target partition."""
        table = pa.Table.from_batches([self.piece.batch.select([SOURCE_PARTITION, TARGET, SOURCE_OFFSET])])
        counted = [(SOURCE_OFFSET, "count"), (SOURCE_OFFSET, "min"), (SOURCE_OFFSET, "max")]
        grouped = table.group_by([SOURCE_PARTITION, TARGET], use_threads=False).aggregate(counted)
        names = (SOURCE_PARTITION, TARGET, *(f"{SOURCE_OFFSET}_{word}" for _, word in counted))
        columns = (grouped.column(name).to_pylist() for name in names)
        return [SourceSpan(*numbers) for numbers in zip(*columns, strict=True)]

    def split(self, records: int) -> tuple[CopyPiece, CopyPiece]:
        """Return the first `records` rows, and the rest."""
        first, rest = self.piece.split(records)
        return CopyPiece(first), CopyPiece(rest)


def _read_attempt() -> int:
    """Return the number of Spark's attempt, from 0. The driver's own is the first."""
    context = TaskContext.get()
    return 0 if context is None else context.attemptNumber()


def _read_longs(batch: pa.RecordBatch, name: str) -> array[int]:
    """Return a column of longs as a Python array, without an object per value."""
    column = batch.column(name)
    found = array("q")
    found.frombytes(memoryview(column.buffers()[1])[8 * column.offset : 8 * (column.offset + len(column))])
    return found


class CopySink(DataSource):
    """The sink as Spark registers it."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "seamark.copy"

    @keep_error_details
    def schema(self) -> StructType:
        """Refuse: this data source is a sink."""
        raise UsageError("seamark.copy can't be read: it is a sink")

    @keep_error_details
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer of one slice."""
        if overwrite:
            raise UsageError("a topic can't be overwritten", hint='use mode("append")')
        given = dict(self.options)
        plan, part, routing, control_id = (given.pop(name, "") for name in _OURS)
        return CopyWriter(
            read_copy_options(given),
            plan=plan,
            part=part,
            routing=Routing.from_dict(json.loads(routing)),
            control_id=control_id,
        )


class CopyWriter(DataSourceArrowWriter):
    """Writes the tasks of one slice."""

    def __init__(self, options: SinkOptions, *, plan: str, part: str, routing: Routing, control_id: str = "") -> None:
        self._options = options
        self._plan = plan
        self._part = part
        self._routing = routing
        self._control_id = control_id

    @keep_error_details
    def write(self, iterator: Iterator[pa.RecordBatch]) -> CopyMessage:
        """Write one task, on an executor."""
        batches = (self._place(batch) for batch in read_whole(iterator) if batch.num_rows)
        first = next(batches, None)
        if first is None:
            return CopyMessage(None)
        return CopyMessage(self._write(self._find_task(first), chain([first], batches)))

    @keep_error_details
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Write the control records of tasks without rows: without them, the slice would never count as finished."""
        reports = [message.report for message in messages if isinstance(message, CopyMessage)]
        written = {report.claim.task for report in reports if report is not None}
        for task in build_tasks(self._routing):
            if task.number not in written:
                self._write(task, ())

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Do nothing: committed tasks stay, and the next run of the slice continues from there."""

    def _write(self, task: SliceTask, batches: Iterable[pa.RecordBatch]) -> TaskReport:
        claim = Claim(self._plan, task=task.number, part=self._part)
        # A failed task may have failed because of gaps between its records. The delivery reports show them.
        trace = DeliveryTrace(len(build_tasks(self._routing)), is_thorough=_read_attempt() > 0)
        pieces = (CopyPiece(build_piece(_check(batch, task), self._options.topic)) for batch in batches)
        settings = replace(self._options.build_settings(), control_id=self._control_id)
        return ExactTask(settings, claim, trace=trace).write(pieces)

    def _find_task(self, first: pa.RecordBatch) -> SliceTask:
        """Return the task of these rows. If the source determines it, a misplaced key must not."""
        routing = self._routing
        source: int = first.column(SOURCE_PARTITION)[0].as_py()
        if not routing.needs_shuffle:
            number = source
        elif routing.is_determined_by_source:
            number = source % routing.targets
        else:
            number = first.column(TARGET)[0].as_py()
        return build_tasks(routing)[number]

    def _place(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with target partitions. They are missing if the source determines the task."""
        if batch.schema.get_field_index(TARGET) >= 0:
            return batch
        place = build_placer(self._routing)
        return batch.append_column(TARGET, place(batch.column("key"), batch.column(SOURCE_PARTITION)))


def _check(batch: pa.RecordBatch, task: SliceTask) -> pa.RecordBatch:
    """Refuse a record that the plan doesn't allow: another task may be writing to the same partition."""
    foreseen = {SOURCE_PARTITION: set(task.sources), TARGET: set(task.targets)}
    if any(not allowed.issuperset(pc.unique(batch.column(name)).to_pylist()) for name, allowed in foreseen.items()):
        pairs = zip(*(batch.column(name).to_pylist() for name in foreseen), strict=True)
        place, (source, target) = next(
            (place, pair)
            for place, pair in enumerate(pairs)
            if pair[0] not in foreseen[SOURCE_PARTITION] or pair[1] not in foreseen[TARGET]
        )
        raise RefusedError(
            f"misplaced record at offset {batch.column(SOURCE_OFFSET)[place].as_py()} of partition {source}: its key "
            f"belongs to target partition {target}, which another task may write",
            cause="the plan determined the partitioner from samples, and this record was placed differently",
            hint="create a new plan with --partitioner, so that keys may be on any partition",
        )
    return batch


# If each target has one source, nothing is shuffled: a source partition is one task. Otherwise records are shuffled to
# the task of their target, and sorted by their origin. In both cases the target has the order of the sources.

# The brokers end the transaction of a dead owner at the first check after its timeout, which runs at least every 10 s.
_SLACK_SECONDS = 30.0

OnSlice = Callable[[Slice, int, int], None]
"""Called after each slice with the slice, the number of finished slices, and the number of all slices."""


def run_copy(spark: SparkSession, plan: CopyPlan, ends: CopyEnds, *, on_slice: OnSlice | None = None) -> CopyProgress:
    """Copy the rest of a plan. The slices of an earlier run are not copied again.

    `on_slice` may wait, to limit the load on the brokers, and may raise, to end the run between two slices.

    Raises:
        RefusedError: the plan can't be run, its topics are not those that it was made for, or its control records
            contradict each other or the target.
    """
    routing = plan.require_accepted()
    # Invalid options are refused before anything is created, and not by the first slice.
    build_source_options(ends.source)
    options = ends.read_sink_options(plan.target.topic)
    control_id = _prepare(plan, ends, options)
    register_sink(spark, CopySink)
    ends_before = _read_ends(plan, options)
    if any(ends_before.values()):
        # Control records of another format version are refused before the process that wrote them is fenced.
        read_known(options.build_settings().reader, options.control_topic, job=plan.id)
        take_over(plan.id, options.build_settings(), tasks=len(build_tasks(routing)))
    before = _read_progress(plan, options)
    _check_target(plan, before, options)
    left = before.slices[before.done :]
    if left:
        # The limit of bytes per batch changes while slices are copied; the caller's session keeps its own.
        spark = branch(spark, {})
    limit = BatchLimit(spark)
    if left:
        begins = {one.partition: one.begin for one in left[0].ranges}
        limit.look(ends.find_source_client(plan, options), plan.source.topic, begins=begins)
    for done, part in enumerate(left, start=before.done + 1):
        limit.run(partial(write_slice, spark, plan, part, ends=ends, routing=routing, control_id=control_id))
        if on_slice is not None:
            on_slice(part, done, len(before.slices))
    return _read_progress(plan, options)


def write_slice(
    spark: SparkSession, plan: CopyPlan, part: Slice, *, ends: CopyEnds, routing: Routing, control_id: str = ""
) -> None:
    """Copy one slice. `control_id` is the topic ID of the control topic at the start of the run."""
    frame = build_frame(spark, plan.source.topic, part, options=ends.source, routing=routing)
    writer = frame.write.format(CopySink.name()).mode("append").options(**ends.target)
    writer = writer.option("topic", plan.target.topic).option("control.topic", ends.control_topic)
    writer = writer.option("plan", plan.id).option("slice", part.id)
    writer = writer.option("control.id", control_id)
    writer = writer.option("routing", json.dumps(routing.to_dict()))
    described = f"seamark copy {plan.source.topic} to {plan.target.topic}: slice {part.id}"
    with active_session(spark), describe_jobs(spark, described):
        writer.save()


def build_frame(
    spark: SparkSession, topic: str, part: Slice, *, options: Mapping[str, str], routing: Routing
) -> DataFrame:
    """Return the records of a slice, in the tasks that write them."""
    chosen = read_ranges(spark, topic, part.ranges, options=options).select(
        "key",
        "value",
        # JSON text, because most records have no headers: for a null list, Spark recomputes the bytes of its batch for
        # each row.
        sf.to_json("headers").alias(HEADERS),
        "timestamp",
        sf.col("partition").alias(SOURCE_PARTITION),
        sf.col("offset").alias(SOURCE_OFFSET),
        build_hash().alias(HASH),
    )
    if not routing.needs_shuffle:
        return chosen
    if routing.is_determined_by_source:
        # The sink computes the partitions of keys, as it does without a shuffle. That saves one Python process per
        # task.
        shuffled = chosen.repartitionById(routing.targets, sf.col(SOURCE_PARTITION) % routing.targets)
    else:
        target = build_target_column(sf.col("key"), sf.col(SOURCE_PARTITION), routing=routing)
        shuffled = chosen.withColumn(TARGET, target).repartitionById(routing.targets, TARGET)
    return shuffled.sortWithinPartitions(SOURCE_PARTITION, SOURCE_OFFSET)


def _prepare(plan: CopyPlan, ends: CopyEnds, options: SinkOptions) -> str:
    """Check both topics before a task starts, and return the topic ID of the control topic."""
    with TopicAdmin(ends.find_source_client(plan, options)) as admin:
        check_topic(admin, plan.source, role="source")
    with TopicAdmin(options.build_settings().reader) as admin:
        check_topic(admin, plan.target, role="target")
        return ensure_control_topic(admin, options.control_topic)


def _read_progress(plan: CopyPlan, options: SinkOptions) -> CopyProgress:
    settings = options.build_settings()
    patience = settings.transaction_seconds + _SLACK_SECONDS
    records = read_records(settings.reader, options.control_topic, job=plan.id, patience_seconds=patience)
    return read_progress(plan.id, plan.slices, records)


def _read_ends(plan: CopyPlan, options: SinkOptions) -> dict[int, int]:
    """Return the current end of each partition of the target."""
    with TopicAdmin(options.build_settings().reader) as admin:
        found = admin.read_end_offsets((plan.target.topic, number) for number in range(plan.target.partitions))
    return {partition: end for (_, partition), end in found.items()}


def _check_target(plan: CopyPlan, progress: CopyProgress, options: SinkOptions) -> None:
    """Check that the target is the one that the control records describe, before more is written to it."""
    settings, topic = options.build_settings(), plan.target.topic
    ends = _read_ends(plan, options)
    progress.check_target(ends)
    if progress.records:
        return
    patience = settings.transaction_seconds + _SLACK_SECONDS
    for partition in (partition for partition, end in ends.items() if end):
        # Aborted records have offsets, too.
        with PartitionLog(settings.reader, topic, partition=partition, patience_seconds=patience) as log:
            if next(iter(log.read()), None) is None:
                continue
        if _read_progress(plan, options).records:
            # A task of an earlier run, whose transaction was still open, has just been committed.
            return
        raise RefusedError(
            f"topic {topic} has records, but control topic {options.control_topic} has no control records of this copy",
            cause="the copy was started with another control topic, or another producer writes to the target",
            hint="pass the original control topic with --control-topic, or create a new plan with a new target",
        )
