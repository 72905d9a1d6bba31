"""The rows of one task of a landing, from Arrow to CSV, and what becomes of those that the database refuses."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from seamark.errors import RefusedError, RejectedError
from seamark.kafka_sink.inputs import read_whole
from seamark.pipelines.bad_records import BadRecords, WrittenLetters, build_refusal
from seamark.pipelines.binding import Binding
from seamark.pipelines.progress import BatchLanded
from seamark.pipelines.spark_checks import (
    LETTER,
    BatchSpool,
    ColumnCheck,
    CopyLineIndex,
    build_check,
    build_letters,
    judge,
    mark,
    set_reasons,
)
from seamark.pipelines.spark_frame import PARTITION, REASON, build_land_frame, check_bound
from seamark.spark.tasks import run_tasks
from seamark.tables.definition import Landing
from seamark.tables.model import OFFSET, LedgerAdvance, LedgerEntry
from seamark.tables.postgres.stage_checks import MOST, Refusals, SavepointsSpentError, bisect_rejected_rows
from seamark.tables.postgres.table import Refusal
from seamark.tables.postgres.technology import (
    build_landing_table,
    build_statements,
    open_landing_database,
)
from seamark.tables.postgres.writer import RowSink, build_fenced

# Strings are quoted and nulls are not: that is how PostgreSQL tells an empty string from null.
_PLAIN = csv.WriteOptions(include_header=False)
Choose = Callable[[pa.RecordBatch], pa.RecordBatch]


def write_rows(
    landing: Landing, sink: RowSink, batches: Iterable[pa.RecordBatch], *, step: LedgerAdvance, spent: int = 0
) -> None:
    """Hand the batches of one range to the database.

    Args:
        landing: The pipeline.
        sink: Where the rows go.
        batches: The records of the range, as `build_land_frame` gives them, in the sequence of their offsets.
        step: The range.
        spent: How many dead letters the run has written before.

    Raises:
        RejectedError: A record can't be a row, or too many can't.
    """
    if landing.dead_letters is None:
        RowWriter(landing, sink, partition=step.entry.partition).write(batches)
        return
    bad = BadRecords(landing, spot=str(step.entry), offsets=step.end - step.entry.next_offset, spent=spent)
    DeadLetterWriter(landing, sink, bad=bad).write(batches)
    sink.records, sink.reasons = bad.records, dict(bad.reasons)


class RowWriter:
    """Hands the batches of one range to the database. The first record that can't be a row ends it."""

    def __init__(self, landing: Landing, sink: RowSink, *, partition: int) -> None:
        self._landing = landing
        self._sink = sink
        self._spot = f"{landing.topic}-{partition}"
        table = build_landing_table(landing)
        self._names = list(table.staged if sink.is_staged else table.columns)

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Write them all, in one COPY, which spares the database the beginnings and ends of many.

        Raises:
            RejectedError: A record can't be a row.
        """
        lines = CopyLineIndex()
        refusal = self._sink.copy(self._list_texts(batches, lines))
        if refusal is not None:
            offset = None if refusal.line is None else lines.find(refusal.line)
            which = f"a record of {self._spot}, {lines.describe()}," if offset is None else self._name(offset)
            raise build_refusal(self._landing, which, reason=refusal.reason)
        try:
            refused = self._sink.settle()
        except SavepointsSpentError as error:
            raise build_refusal(self._landing, f"a record of {self._spot}", reason=error.reason or _SPENT) from None
        for offset, reason in refused:
            raise build_refusal(self._landing, self._name(offset), reason=reason)

    def _list_texts(self, batches: Iterable[pa.RecordBatch], lines: CopyLineIndex) -> Iterator[bytes]:
        """The batches as CSV. `lines` records them, because the database reports only the line of an error."""
        for batch in filter(len, batches):
            if batch.column(REASON).null_count < batch.num_rows:
                # No more than these two: others may hold what Python can't.
                first = batch.filter(pc.is_valid(batch.column(REASON))).select([OFFSET, REASON]).slice(0, 1)
                which, reason = self._name(first.column(0)[0].as_py()), first.column(1)[0].as_py()
                raise build_refusal(self._landing, which, reason=reason)
            yield build_lines(batch, self._names, lines)

    def _name(self, offset: int) -> str:
        return f"record {self._spot}@{offset}"


_SPENT = f"PostgreSQL rejects more records than can be isolated with {MOST} savepoints of one transaction"


class DeadLetterWriter:
    """Hands the batches of one range to the database. Records that can't be rows become dead letters.

    Rows go straight to the table, in one COPY (upserts: to the stage), without those that are known to be bad. Only
    after a refusal the range is repeated: each value is checked, all rows are staged, and the rows that the table's
    constraints refuse are found by queries. What none of this explains, PostgreSQL itself tells, one record at a
    time, with a savepoint for each.
    """

    def __init__(self, landing: Landing, sink: RowSink, *, bad: BadRecords) -> None:
        self._landing = landing
        self._sink = sink
        self._bad = bad
        table = build_landing_table(landing)
        self._columns, self._staged = list(table.columns), list(table.staged)
        self._names = self._staged if sink.is_staged else self._columns
        self._kept = list(dict.fromkeys([*self._staged, *LETTER]))
        self._types = sink.read_types()
        self._checks: dict[str, ColumnCheck] = {}
        self._refused = Refusals()

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Write them all.

        Raises:
            RejectedError: Too many records are bad, or they can't be distinguished.
        """
        with BatchSpool() as spool:
            texts = self._read(batches, spool)
            refusal = self._sink.copy(texts)
            # What COPY has left when it was refused.
            for _ in texts:
                self._sink.touch()
            spool.close()
            self._bad.end()
            try:
                if refusal is not None:
                    self._repeat(spool)
                self._refuse(self._sink.settle())
            except SavepointsSpentError as error:
                raise self._build_spent(error.reason) from None
            if buried := self._sink.read_buried():
                self._sink.remove_letters(self._list_landed(spool, buried))
            if self._bad.dead:
                self._sink.bury(self._list_letters(spool))

    def _read(self, batches: Iterable[pa.RecordBatch], spool: BatchSpool) -> Iterator[bytes]:
        """Read the range, keep its records, and give the rows of those that are not bad."""
        for batch in filter(len, batches):
            kept = batch.select(self._kept)
            is_row = pc.is_null(kept.column(REASON))
            reasons: Counter[str] = Counter()
            if not pc.all(is_row).as_py():
                # Separate from the good records: columns of bad ones may hold bytes that are not UTF-8.
                dead = kept.filter(pc.invert(is_row))
                spool.add(dead)
                reasons = _count_reasons(dead)
                kept = kept.filter(is_row)
            kept, _ = self._judge(kept)
            spool.add(kept)
            # The whole batch at once: of a part of it all may be bad.
            self._bad.add(reasons + _count_reasons(kept), records=batch.num_rows)
            rows = _choose_rows(kept)
            if rows.num_rows:
                yield build_csv(rows.select(self._names))

    def _judge(self, batch: pa.RecordBatch, *, is_thorough: bool = False) -> tuple[pa.RecordBatch, pa.Array]:
        """Set the reasons of records with a value that PostgreSQL can't read; and tell which are good for sure."""
        reasons, is_good = batch.column(REASON), pa.repeat(pa.scalar(True), batch.num_rows)
        for name in self._columns:
            good, bad = judge(self._find_check(batch, name), batch.column(name), is_thorough=is_thorough)
            is_good = pc.and_(is_good, good)
            for mask, reason in bad:
                reasons = pc.coalesce(reasons, pc.if_else(mask, f"{name}: {reason}", pa.scalar(None, pa.string())))
        return set_reasons(batch, reasons), is_good

    def _find_check(self, batch: pa.RecordBatch, name: str) -> ColumnCheck:
        if name not in self._checks:
            # COPY reports a column that the table doesn't have.
            kind = self._types.get(name)
            self._checks[name] = ColumnCheck() if kind is None else build_check(kind, batch.schema.field(name).type)
        return self._checks[name]

    def _repeat(self, spool: BatchSpool) -> None:
        """Find out which rows were refused, and write the others."""
        doubtful = Refusals()
        for batch in spool.read():
            self._sink.touch()
            judged, is_good = self._judge(_choose_rows(batch), is_thorough=True)
            is_row = pc.is_null(judged.column(REASON))
            bad = judged.filter(pc.invert(is_row))
            self._refuse(zip(bad.column(OFFSET).to_pylist(), bad.column(REASON).to_pylist(), strict=True))
            for offset in judged.column(OFFSET).filter(pc.and_not(is_row, is_good)).to_pylist():
                doubtful.add(offset, "")
        if not self._sink.is_staged:
            self._sink.make_stage()
        self._load(spool, lambda batch: _choose_rows(mark(batch, doubtful)), into_stage=True)
        if len(doubtful):
            self._load(spool, lambda batch: _choose_marked(mark(batch, doubtful)), into_stage=True)
        if not self._sink.is_staged:
            self._refuse(self._sink.find_refused())
            self._load(spool, lambda batch: batch, into_stage=False)

    def _load(
        self, spool: BatchSpool, choose: Choose, *, into_stage: bool, first: int = 0, end: int | None = None
    ) -> None:
        """Copy chosen rows that were not refused yet. A row that PostgreSQL can't take is refused, and left out."""
        names = self._staged if into_stage else self._columns

        def copy(first: int, end: int | None, lines: CopyLineIndex, *, is_sure: bool = False) -> Refusal | None:
            texts = (
                build_lines(rows, names, lines)
                for batch in spool.read()
                if (rows := choose(_choose_rows(mark(_cut(batch, first, end), self._refused)))).num_rows
            )
            if (head := next(texts, None)) is None:
                return None
            return self._sink.copy(chain([head], texts), into_stage=into_stage, is_sure=is_sure)

        while (refusal := copy(first, end, lines := CopyLineIndex())) is not None:
            offset = None if refusal.line is None else lines.find(refusal.line)
            if offset is None:
                self._halve(lines.find_ends(), lambda low, high: copy(low, high, CopyLineIndex()))
                return
            # PostgreSQL has read all rows before that line, and has taken them where nothing is checked at the end.
            if into_stage or not self._sink.checks_late:
                copy(first, offset, CopyLineIndex(), is_sure=True)
            else:
                self._load(spool, choose, into_stage=into_stage, first=first, end=offset)
            self._refuse([(offset, refusal.reason)])
            first = offset + 1

    def _halve(self, ends: tuple[int, int], copy: Callable[[int, int], Refusal | None]) -> None:
        """Copy rows piece by piece, where PostgreSQL doesn't tell the line of a row that it refuses."""
        first, last = ends

        def take(low: int, high: int) -> str | None:
            refusal = copy(first + low, first + high)
            return None if refusal is None else refusal.reason

        self._refuse((first + place, reason) for place, reason in bisect_rejected_rows(last + 1 - first, take))

    def _refuse(self, found: Iterable[tuple[int, str]]) -> None:
        counts: Counter[str] = Counter()
        try:
            for offset, reason in found:
                self._refused.add(offset, reason)
                counts[reason] += 1
        finally:
            # All at once, so that an error names how many they are; also those before the savepoints were spent.
            self._bad.add(counts)

    def _list_letters(self, spool: BatchSpool) -> Iterator[bytes]:
        for batch in spool.read():
            dead = _choose_marked(mark(batch, self._refused))
            if dead.num_rows:
                yield build_csv(build_letters(dead))

    def _list_landed(self, spool: BatchSpool, buried: set[int]) -> Iterator[int]:
        for batch in spool.read():
            landed = _choose_rows(mark(batch, self._refused)).column(OFFSET).to_pylist()
            yield from buried.intersection(landed)

    def _build_spent(self, reason: str) -> RejectedError:
        return RejectedError(
            f"{self._bad.dead:,} of {self._bad.records:,} records of {self._bad.spot} can't be rows of "
            f"{self._landing.table}, and there are more",
            cause=f"{_SPENT}; {self._bad.describe_most_common() or f'the last reason: {reason}'}",
            hint="correct the columns of the pipeline or the table, or use smaller batches: limits.records",
        )


def build_csv(batch: pa.RecordBatch) -> bytes:
    """As PostgreSQL reads it, with moments in UTC."""
    columns = [
        pc.cast(column, pa.timestamp("us", "UTC")) if pa.types.is_timestamp(column.type) else column
        for column in batch.columns
    ]
    out = pa.BufferOutputStream()
    csv.write_csv(pa.RecordBatch.from_arrays(columns, names=batch.schema.names), out, _PLAIN)
    text: bytes = out.getvalue().to_pybytes()
    return text


def build_lines(batch: pa.RecordBatch, names: list[str], lines: CopyLineIndex) -> bytes:
    """Build the CSV of some columns, and note which line is which record."""
    text = build_csv(batch.select(names))
    lines.add(batch.select(list(dict.fromkeys([*names, OFFSET]))), text)
    return text


def _count_reasons(batch: pa.RecordBatch) -> Counter[str]:
    return Counter(pc.drop_null(batch.column(REASON)).to_pylist())


def _choose_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Choose the records that can be rows, as far as it is known."""
    reasons = batch.column(REASON)
    return batch if reasons.null_count == batch.num_rows else batch.filter(pc.is_null(reasons))


def _choose_marked(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Choose the records that have a reason."""
    return batch.filter(pc.is_valid(batch.column(REASON)))


def _cut(batch: pa.RecordBatch, first: int, end: int | None) -> pa.RecordBatch:
    """Cut the records from one offset to before another one out of a batch."""
    offsets = batch.column(OFFSET)
    if batch.num_rows and first > offsets[0].as_py():
        batch = batch.filter(pc.greater_equal(offsets, first))
    if end is not None and batch.num_rows:
        batch = batch.filter(pc.less(batch.column(OFFSET), end))
    return batch


@dataclass(frozen=True, slots=True)
class LandingWriter:
    """Writes the range of one task, and moves its entry of the ledger in the same transaction."""

    landing: Landing
    steps: Mapping[int, LedgerAdvance]
    url: str = field(repr=False)
    binding: Binding | None = None
    spent: int = 0

    def write(self, iterator: Iterator[pa.RecordBatch]) -> dict[str, Any] | None:
        """Land one range, on an executor.

        Returns:
            What was landed; None for a task without records, which doesn't know its partition. `refusal` is the
            message, cause and hint of the error where its records can't be rows. It is returned and not raised, because
            Spark would run the task four times, with the same result each time.
        """
        batches = (batch for batch in read_whole(iterator) if batch.num_rows)
        first = next(batches, None)
        if first is None:
            return None
        partition = first.column(PARTITION)[0].as_py()
        rows = _expect_one(chain([first], batches), partition)
        if self.binding is not None:
            rows = check_bound(rows, self.landing, self.binding, partition=partition)
        step = self.steps[partition]
        refusals: list[RejectedError] = []

        def write(sink: RowSink) -> None:
            try:
                write_rows(self.landing, sink, rows, step=step, spent=self.spent)
            except RejectedError as error:
                refusals.append(error)
                raise

        try:
            database = open_landing_database(self.landing, self.url)
            landed = database.land(step, write, is_strict=self.landing.dead_letters is None)
        except RejectedError as error:
            if error not in refusals:
                raise
            return {"partition": partition, "refusal": [error.message, error.cause, error.hint]}
        return {"partition": partition, **asdict(landed)}


def _expect_one(batches: Iterator[pa.RecordBatch], partition: int) -> Iterator[pa.RecordBatch]:
    """The batches of one partition. Another one among them would be counted to the wrong entry."""
    for batch in batches:
        numbers = batch.column(PARTITION)
        if set(numbers.unique().to_pylist()) != {partition}:
            raise RefusedError(
                "a task received records of more than one partition",
                hint="remove minPartitions, maxRecordsPerPartition and adaptive execution",
            )
        yield batch


# Deletes are remembered for days, so that it doesn't matter when exactly they are forgotten.
_PURGE_SECONDS = 3600.0


class TableTarget:
    """The table of one pipeline in PostgreSQL, for the driver."""

    def __init__(self, landing: Landing, url: str) -> None:
        self._landing = landing
        self._url = url
        self._database = open_landing_database(landing, url)
        self._binding: Binding | None = None
        self._letters = WrittenLetters(landing)
        self._purged_at = time.monotonic()

    def prepare(self, spark: SparkSession) -> None:
        """Check that the table fits, and create the ledger."""
        # An order that the table doesn't keep would be lost, and one that the pipeline doesn't keep would be wrong.
        columns = self._database.read_columns()
        if columns is not None and (missing := build_statements(self._landing, columns)):
            raise RefusedError(
                f"table {self._landing.table} does not match pipeline {self._landing.name}",
                cause=f"missing: {'; '.join(missing)}",
                hint=f"add it: seamark pipelines run {self._landing.name}",
            )
        self._database.prepare()

    def bind(self, binding: Binding) -> None:
        """Have every task check that the keys of its records belong in its partition."""
        self._binding = binding

    def read(self) -> dict[tuple[str, int], LedgerEntry]:
        """What the ledger says."""
        return self._database.read()

    def claim(self, firsts: Iterable[LedgerEntry]) -> list[LedgerEntry]:
        """Claim partitions from their holders."""
        # After a failed batch: those of its committed ranges are stored.
        self._letters.restart(written=self._letters.written)
        return self._database.claim(firsts)

    def watch(self, entries: Sequence[LedgerEntry]) -> None:
        """Check for another epoch, which means that another run has claimed a partition."""
        ledger = self._database.read()
        for entry in entries:
            if (found := ledger.get(entry.key)) is None or found.epoch != entry.epoch:
                raise build_fenced(self._landing.owner, entry, found)

    def compact(self, spark: SparkSession) -> tuple[int, int]:
        """Nothing to do: PostgreSQL has no files of ours."""
        return 0, 0

    def vacuum(self, spark: SparkSession, *, keep_seconds: float) -> int:
        """Nothing to do: autovacuum does it."""
        return 0

    def build_rows(self, records: DataFrame) -> DataFrame:
        """The columns of the table, and the metadata of each record."""
        return build_land_frame(records, self._landing)

    def land(self, rows: DataFrame, steps: Sequence[LedgerAdvance], *, number: int) -> BatchLanded:
        """Have each task land its range, and move over those without a record."""
        writer = LandingWriter(
            self._landing,
            {step.entry.partition: step for step in steps},
            self._url,
            binding=self._binding,
            spent=self._letters.written,
        )
        try:
            receipts = run_tasks(rows, writer)
        except PySparkException:
            self._refuse_others(steps)
            raise
        for one in sorted(receipts, key=lambda one: int(one["partition"])):
            if "refusal" in one:
                message, cause, hint = one["refusal"]
                raise RejectedError(message, cause=cause, hint=hint)
        self._settle(steps)
        self._letters.add(receipts)
        if time.monotonic() - self._purged_at > _PURGE_SECONDS:
            self._database.purge_tombstones()
            self._purged_at = time.monotonic()
        names = ("rows", "deleted", "dead")
        return BatchLanded(number, **{name: sum(one[name] for one in receipts) for name in names})

    def _refuse_others(self, steps: Sequence[LedgerAdvance]) -> None:
        """Raise if a batch has failed because another run has claimed or moved a partition."""
        ledger = self._database.read()
        for step in steps:
            if (found := ledger.get(step.entry.key)) not in (step.entry, step.after):
                raise build_fenced(self._landing.owner, step.entry, found)

    def _settle(self, steps: Sequence[LedgerAdvance]) -> None:
        """Make sure that every range is landed. One without a record had no task that knew of it."""
        ledger = self._database.read()
        for step in steps:
            found = ledger.get(step.entry.key)
            if found == step.entry:
                self._database.move_empty(step)
            elif found != step.after:
                raise build_fenced(self._landing.owner, step.entry, found)
