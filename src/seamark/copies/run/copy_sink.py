"""The sink of a copy: `seamark.kafka` whose control records say which offsets went where. For `copy_job` alone.

Its rows have, beside what a record is made of, where they come from: `source_partition`, `source_offset`, and a `hash`.
Headers come as JSON.
Each task owns a source partition or a target one (`pipelines.tasks`), which its first row tells.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from seamark.copies.plan.tasks import SliceTask, build_tasks
from seamark.errors import RefusedError, UsageError
from seamark.kafka_sink.columns import ArrowPiece, build_piece
from seamark.kafka_sink.control import Amount, Claim
from seamark.kafka_sink.copy_input import SourceSpan
from seamark.kafka_sink.copy_trace import CopyTrace, Stretch
from seamark.kafka_sink.exact_task import ExactTask
from seamark.kafka_sink.options import SinkOptions, read_copy_options
from seamark.kafka_sink.placing import build_placer
from seamark.kafka_sink.routing import Routing
from seamark.kafka_sink.task_settings import TaskReport
from seamark.kafka_sink.telling import tell

SOURCE_PARTITION, SOURCE_OFFSET, HASH, TARGET = "source_partition", "source_offset", "hash", "partition"
HEADERS = "headers"
_OURS = ("plan", "slice", "routing", "control.id")


@dataclass(frozen=True, slots=True)
class CopyMessage(WriterCommitMessage):
    """What a task tells the driver; None where it had no rows, and so can't know which task it is."""

    report: TaskReport | None


@dataclass(frozen=True, slots=True)
class CopyPiece:
    """Some rows of a copy, with where they come from."""

    piece: ArrowPiece

    @property
    def amount(self) -> Amount:
        """How much it is."""
        return self.piece.amount

    def rows(self) -> Iterable[tuple[Any, ...]]:
        """As the producer takes them."""
        return self.piece.rows()

    def stretches(self) -> Iterator[Stretch]:
        """The rows by target and, as long as it stays the same, by source."""
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
                yield Stretch(target, source, (rows[begin], rows[end - 1]), offsets=offsets, hashes=hashes)
                begin = end

    def spans(self) -> Iterable[SourceSpan]:
        """How many rows there are of each source and target partition, and from which offset to which."""
        table = pa.Table.from_batches([self.piece.batch.select([SOURCE_PARTITION, TARGET, SOURCE_OFFSET])])
        counted = [(SOURCE_OFFSET, "count"), (SOURCE_OFFSET, "min"), (SOURCE_OFFSET, "max")]
        grouped = table.group_by([SOURCE_PARTITION, TARGET], use_threads=False).aggregate(counted)
        names = (SOURCE_PARTITION, TARGET, *(f"{SOURCE_OFFSET}_{word}" for _, word in counted))
        columns = (grouped.column(name).to_pylist() for name in names)
        return [SourceSpan(*numbers) for numbers in zip(*columns, strict=True)]

    def split(self, records: int) -> tuple[CopyPiece, CopyPiece]:
        """The first rows, and the rest."""
        first, rest = self.piece.split(records)
        return CopyPiece(first), CopyPiece(rest)


def _read_attempt() -> int:
    """Which attempt of Spark's this is, from 0. The driver's own is the first."""
    context = TaskContext.get()
    return 0 if context is None else context.attemptNumber()


def _read_longs(batch: pa.RecordBatch, name: str) -> array[int]:
    """A column of longs as Python's own array, without an object for each."""
    column = batch.column(name)
    found = array("q")
    found.frombytes(memoryview(column.buffers()[1])[8 * column.offset : 8 * (column.offset + len(column))])
    return found


class CopySink(DataSource):
    """The sink as Spark knows it."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "seamark.copy"

    @tell
    def schema(self) -> StructType:
        """Refused: it is a sink."""
        raise UsageError("seamark.copy is a sink")

    @tell
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """The writer of one slice."""
        del schema
        if overwrite:
            raise UsageError("a topic can't be overwritten", hint='mode("append")')
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

    @tell
    def write(self, iterator: Iterator[pa.RecordBatch]) -> CopyMessage:
        """Write one task, on an executor."""
        batches = (self._place(batch) for batch in iterator if batch.num_rows)
        first = next(batches, None)
        if first is None:
            return CopyMessage(None)
        return CopyMessage(self._write(self._find_task(first), chain([first], batches)))

    @tell
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Write the records of tasks that had no rows: without them nobody would know that they are finished."""
        reports = [message.report for message in messages if isinstance(message, CopyMessage)]
        written = {report.claim.task for report in reports if report is not None}
        for task in build_tasks(self._routing):
            if task.number not in written:
                self._write(task, ())

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing is to be done: committed tasks stay, and the next run of the slice goes on from there."""

    def _write(self, task: SliceTask, batches: Iterable[pa.RecordBatch]) -> TaskReport:
        claim = Claim(self._plan, task=task.number, part=self._part)
        # A task that failed may have failed for what lies between its records: its reports tell.
        trace = CopyTrace(len(build_tasks(self._routing)), is_thorough=_read_attempt() > 0)
        pieces = (CopyPiece(build_piece(_check(batch, task), self._options.topic)) for batch in batches)
        settings = replace(self._options.build_settings(), control_id=self._control_id)
        return ExactTask(settings, claim, trace=trace).write(pieces)

    def _find_task(self, first: pa.RecordBatch) -> SliceTask:
        """The task whose rows these are. Where the source tells, a key that lies elsewhere must not."""
        routing = self._routing
        source: int = first.column(SOURCE_PARTITION)[0].as_py()
        if not routing.needs_shuffle:
            number = source
        elif routing.is_told_by_source:
            number = source % routing.targets
        else:
            number = first.column(TARGET)[0].as_py()
        return build_tasks(routing)[number]

    def _place(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """With target partitions. Where the source tells the task, nobody has asked for them yet."""
        if batch.schema.get_field_index(TARGET) >= 0:
            return batch
        place = build_placer(self._routing)
        return batch.append_column(TARGET, place(batch.column("key"), batch.column(SOURCE_PARTITION)))


def _check(batch: pa.RecordBatch, task: SliceTask) -> pa.RecordBatch:
    """Stop at a record that the plan does not foresee: another task may be writing to the same partition."""
    foreseen = {SOURCE_PARTITION: set(task.sources), TARGET: set(task.targets)}
    if any(not allowed.issuperset(pc.unique(batch.column(name)).to_pylist()) for name, allowed in foreseen.items()):
        pairs = zip(*(batch.column(name).to_pylist() for name in foreseen), strict=True)
        place, (source, target) = next(
            (place, pair)
            for place, pair in enumerate(pairs)
            if pair[0] not in foreseen[SOURCE_PARTITION] or pair[1] not in foreseen[TARGET]
        )
        raise RefusedError(
            f"the record at {batch.column(SOURCE_OFFSET)[place].as_py()} of partition {source} does not lie where its "
            f"key belongs: it would go to partition {target}",
            cause="the plan took its rule from samples, and this record has another one",
            hint="make the plan anew, and say that keys may lie anywhere",
        )
    return batch
