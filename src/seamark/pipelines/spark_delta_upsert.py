"""Delta tables with keys: tasks rewrite the files of changed buckets, and the driver commits them with the offsets.

With mode snapshot, a row expires when its source no longer sends it. Time is that of the records, and never the
clock's: while a topic is silent nothing expires, and after a silence of `expire_after` all rows get that time again,
because the source has to send them first.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from seamark.errors import RefusedError, RejectedError, StaleFilesError
from seamark.pipelines.bad_records import BadRecords, build_refusal
from seamark.pipelines.binding import Binding
from seamark.pipelines.progress import BatchLanded
from seamark.pipelines.spark_delta import LakeTarget, build_storage_error, read_receipts
from seamark.pipelines.spark_frame import KEY, PARTITION, REASON, check_bound
from seamark.tables.definition import Landing, Mode
from seamark.tables.delta import buckets
from seamark.tables.delta.buckets import DEAD_PREFIX, HASH, Bucket, BucketFile, BucketIndex, build_index
from seamark.tables.delta.commits import RecordTimes
from seamark.tables.delta.files import DataFile, TableWriter, build_file_schema
from seamark.tables.delta.location import TableLocation
from seamark.tables.delta.merge import FORGOTTEN, BucketMerger, MergeResult, MergeRules
from seamark.tables.delta.stored_files import Rewrite, StoredFile
from seamark.tables.delta.technology import DEAD_LETTER
from seamark.tables.model import DELETED, KAFKA_OFFSET, OFFSET, RECORD_MILLIS, LedgerAdvance

# A batch is divided into at most 2**6 tasks, however many buckets there are.
_MOST_TASK_BITS = 6
# How often a batch is merged again because another process has changed the files meanwhile.
_ATTEMPTS = 5
# A silence of the topic is measured with this precision: a part of `expire_after`.
_BINS = 16
_LETTER = "seamark_letter"


@dataclass(frozen=True, slots=True)
class UpsertWriter:
    """Merges the records of one task into the buckets of their keys, on an executor.

    Attributes:
        landing: The pipeline.
        place: Its table.
        rules: How rows are merged.
        index: Which file has which keys.
        bits: The bits of a new bucket.
        offsets: How many offsets the batch has; with `spent`, it bounds the dead letters.
        spent: How many dead letters the run has written before.
        binding: In which partition the keys of records belong.
    """

    landing: Landing
    place: TableLocation = field(repr=False)
    rules: MergeRules
    index: BucketIndex
    bits: int
    offsets: int
    spent: int
    binding: Binding | None = None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> dict[str, Any] | None:
        """Merge the records of a task.

        Raises:
            UnreachableError: The store could not be read or written.
        """
        batches = [batch for batch in iterator if batch.num_rows]
        if not batches:
            return None
        try:
            return self._write(pa.Table.from_batches(batches))
        except RejectedError as error:
            # Returned and not raised: Spark would run the task four times, with the same result each time.
            return {"refusal": [error.message, error.cause, error.hint]}
        except OSError as error:
            raise build_storage_error(self.place, error) from error

    def _write(self, records: pa.Table) -> dict[str, Any]:
        self._check_bound(records)
        records = _set_letters_aside(records)
        bad = BadRecords(self.landing, spot=self.landing.topic, offsets=self.offsets, spent=self.spent)
        is_bad = pc.is_valid(records.column(REASON))
        letters = records.filter(is_bad)
        self._refuse(letters)
        bad.add(Counter(letters.column(REASON).to_pylist()), records=records.num_rows)
        rows = records.filter(pc.invert(is_bad))
        merged = MergeResult()
        for bucket, file, part in self._divide(rows):
            found = BucketMerger(self.place, self.rules).merge(bucket, file, part)
            _add(merged, found)
            if found.refused is not None:
                refused = found.refused
                forgotten = pa.array([FORGOTTEN] * refused.num_rows, pa.string())
                refused = refused.set_column(refused.schema.get_field_index(REASON), REASON, forgotten)
                self._refuse(refused)
                bad.add({FORGOTTEN: refused.num_rows})
                letters = pa.concat_tables([letters, refused.select(letters.schema.names).cast(letters.schema)])
        bad.end()
        dead = self._write_letters(letters)
        receipt = build_merge_receipt(merged)
        receipt["files"] += [file.to_dict() for file in dead]
        receipt |= {"records": bad.records, "dead": bad.dead, "reasons": dict(bad.reasons)}
        if self.rules.keeps_time and rows.num_rows:
            bins = pc.divide(rows.column(RECORD_MILLIS), _find_bin(self.landing))
            receipt |= {"bins": pc.unique(bins).to_pylist(), "newest": pc.max(rows.column(RECORD_MILLIS)).as_py()}
        return receipt

    def _check_bound(self, records: pa.Table) -> None:
        if self.binding is None:
            return
        names = [PARTITION, OFFSET, KEY]
        for partition in pc.unique(records.column(PARTITION)).to_pylist():
            own = records.filter(pc.equal(records.column(PARTITION), partition)).select(names).combine_chunks()
            for _ in check_bound(iter(own.to_batches()), self.landing, self.binding, partition=partition):
                pass

    def _refuse(self, letters: pa.Table) -> None:
        """Raise the error of the first bad record, if none may be bad."""
        if letters.num_rows and self.landing.dead_letters is None:
            partition, offset = letters.column(PARTITION)[0], letters.column(OFFSET)[0]
            which = f"record {self.landing.topic}-{partition}@{offset}"
            raise build_refusal(self.landing, which, reason=letters.column(REASON)[0].as_py())

    def _divide(self, rows: pa.Table) -> Iterator[tuple[Bucket, BucketFile | None, pa.Table]]:
        """Divide rows by bucket."""
        wide = self.index.list_buckets(bits=self.bits)
        files = {file.bucket: file for file in self.index.files}
        numbers = {bucket: number for number, bucket in enumerate(dict.fromkeys(wide))}
        if not rows.num_rows:
            return
        places = pa.array([numbers[bucket] for bucket in wide], pa.int32())
        ends = pc.bit_wise_and(rows.column(HASH), pa.scalar(len(wide) - 1, pa.int32()))
        found = places.take(ends.combine_chunks())
        named = list(numbers)
        for number in pc.unique(found).to_pylist():
            bucket = named[number]
            yield bucket, files.get(bucket), rows.filter(pc.equal(found, number))

    def _write_letters(self, letters: pa.Table) -> list[DataFile]:
        if not letters.num_rows:
            return []
        schema = self.rules.schema
        writer = TableWriter(self.place, schema, prefix=DEAD_PREFIX)
        told = letters.column(_LETTER).combine_chunks()
        names = [told.type.field(place).name for place in range(told.type.num_fields)]
        fields = [pc.struct_field(told, name) for name in names]
        fields[names.index("reason")] = letters.column(REASON).combine_chunks()
        told = pa.StructArray.from_arrays(fields, names=names)
        columns = [told if one.name == DEAD_LETTER else pa.nulls(letters.num_rows, one.type) for one in schema]
        writer.write(pa.RecordBatch.from_arrays(columns, names=schema.names).cast(schema))
        return writer.close()


@dataclass(frozen=True, slots=True)
class ExpiryWriter:
    """Deletes the expired rows of buckets that a batch has no records of, on an executor: a bucket for each row."""

    place: TableLocation = field(repr=False)
    rules: MergeRules
    files: tuple[BucketFile, ...]

    def write(self, iterator: Iterator[pa.RecordBatch]) -> dict[str, Any] | None:
        """Delete the expired rows of the buckets of a task."""
        merged = MergeResult()
        none = pa.schema([*self.rules.physical, pa.field(DELETED, pa.bool_())]).empty_table()
        if not self.rules.is_ordered:
            none = none.append_column(OFFSET, pa.array([], pa.int64()))
        try:
            for batch in iterator:
                for number in batch.column(0).to_pylist():
                    file = self.files[number]
                    _add(merged, BucketMerger(self.place, self.rules).merge(file.bucket, file, none))
        except OSError as error:
            raise build_storage_error(self.place, error) from error
        return {**build_merge_receipt(merged), "records": 0, "dead": 0, "reasons": {}}


def _set_letters_aside(records: pa.Table) -> pa.Table:
    """Keep what a dead letter of each record would have in another column: that of a row is null."""
    place = records.schema.get_field_index(DEAD_LETTER)
    if place < 0:
        return records
    letters = records.column(place)
    return records.set_column(place, DEAD_LETTER, pa.nulls(records.num_rows, letters.type)).append_column(
        _LETTER, letters
    )


def _add(merged: MergeResult, found: MergeResult) -> None:
    merged.files += found.files
    merged.removed += found.removed
    merged.rows += found.rows
    merged.deleted += found.deleted
    merged.expired += found.expired


def build_merge_receipt(merged: MergeResult) -> dict[str, Any]:
    """Return what a task reports of its merges."""
    return {
        "files": [file.to_dict() for file in merged.files],
        "removed": [file.path for file in merged.removed],
        "rows": merged.rows,
        "deleted": merged.deleted,
        "expired": merged.expired,
    }


class UpsertLakeTarget(LakeTarget):
    """The table of one pipeline with a key, for the driver."""

    def __init__(self, landing: Landing, lake: TableLocation, *, rebuild: str = "") -> None:
        super().__init__(landing, lake, rebuild=rebuild)
        self._binding: Binding | None = None
        self._index: BucketIndex | None = None
        self._others: frozenset[str] = frozenset()

    def prepare(self, spark: SparkSession) -> None:
        """Check that the table fits and that its files are divided by key."""
        super().prepare(spark)
        self._read_index()
        if self._is_rebuild:
            # A kill may have come between the last batch and this. What was seen before may be out of date.
            self._seen = None
            self._expire_all(spark)

    def bind(self, binding: Binding) -> None:
        """Have every task check that the keys of its records belong in their partitions."""
        self._binding = binding

    def compact(self, spark: SparkSession) -> tuple[int, int]:
        """Merge small files of dead letters."""
        self._index = None
        return super().compact(spark)

    def land(self, rows: DataFrame, steps: Sequence[LedgerAdvance], *, number: int) -> BatchLanded:
        """Have tasks merge the records of a batch, and commit the new files with the offsets."""
        landed = self._merge_again(rows, steps, number=number)
        if self._is_rebuild:
            # A batch expires rows by the times of those before it, and its own may span years.
            self._expire_all(rows.sparkSession)
        return landed

    def _merge_again(self, rows: DataFrame, steps: Sequence[LedgerAdvance], *, number: int) -> BatchLanded:
        for _ in range(_ATTEMPTS - 1):
            try:
                return self._merge(rows, steps, number=number)
            except StaleFilesError:
                # The claim is still ours: merge into the files that are there now.
                self._index = None
        return self._merge(rows, steps, number=number)

    def _merge(self, rows: DataFrame, steps: Sequence[LedgerAdvance], *, number: int) -> BatchLanded:
        index = self._index or self._read_index()
        with self._committing:
            seen = self._seen or self._table.read_position()
        rules = self._build_rules(seen.vector.times)
        offsets = sum(step.end - step.entry.next_offset for step in steps)
        bits = index.plan_tasks(records=offsets)
        writer = UpsertWriter(
            self._landing,
            self._table.at,
            rules,
            index,
            bits=bits,
            offsets=offsets,
            spent=self._letters.written,
            binding=self._binding,
        )
        receipts = read_receipts(_divide_rows(rows, min(bits, _MOST_TASK_BITS)), writer)
        self._letters.add(receipts)
        if rules.expire_before is not None:
            receipts += self._expire(rows.sparkSession, index, rules, receipts)
            self._check_expired(index, sum(one["expired"] for one in receipts))
        files = [DataFile(**file) for one in receipts for file in one["files"]]
        removed = {path for one in receipts for path in one["removed"]}
        with self._committing:
            times = self._find_times(seen.vector.times, receipts)
            rewrite = self._build_rewrite(index, removed)
            entries = [step.after for step in steps]
            self._seen = self._table.commit(files, entries, seen=seen, rewrite=rewrite, times=times)
            self._index = self._update_index(index, files, removed)
        self._kept_letters = self._letters.written
        counts = {name: sum(one[name] for one in receipts) for name in ("rows", "deleted", "expired", "dead")}
        return BatchLanded(
            number, rows=counts["rows"], deleted=counts["deleted"] + counts["expired"], dead=counts["dead"]
        )

    def _expire_all(self, spark: SparkSession) -> None:
        """Delete the rows that have expired by the records so far, in a commit of its own."""
        index = self._index or self._read_index()
        with self._committing:
            seen = self._seen or self._table.read_position()
            rules = self._build_rules(seen.vector.times)
            receipts = [] if rules.expire_before is None else self._expire(spark, index, rules, [])
            removed = {path for one in receipts for path in one["removed"]}
            if not removed:
                return
            files = [DataFile(**file) for one in receipts for file in one["files"]]
            self._seen = self._table.commit(files, [], seen=seen, rewrite=self._build_rewrite(index, removed))
            self._index = self._update_index(index, files, removed)

    # --- which files there are

    def _read_index(self) -> BucketIndex:
        found = self._table.list_files()
        self._index = build_index(
            found.version, [(file.path, file.size) for file in found.files], table=self._landing.table
        )
        self._others = frozenset(file.path for file in found.files if file.path.startswith(DEAD_PREFIX))
        return self._index

    def _build_rewrite(self, index: BucketIndex, removed: Iterable[str]) -> Rewrite:
        known = {file.path: file for file in index.files}
        files = tuple(StoredFile(path, known[path].size, known[path].rows, {}) for path in sorted(removed))
        return Rewrite(index.version, files, known=frozenset(known) | self._others)

    def _update_index(self, index: BucketIndex, files: Iterable[DataFile], removed: set[str]) -> BucketIndex | None:
        """Return the index after our own commit; None where others have committed before it."""
        if self._seen is None or self._seen.commit is None:
            return None
        added = [(file.path, file.size) for file in files]
        self._others |= {path for path, _ in added if path.startswith(DEAD_PREFIX)}
        kept = [(file.path, file.size) for file in index.files if file.path not in removed]
        return build_index(self._seen.commit, [*kept, *added], table=self._landing.table)

    # --- what expires

    def _build_rules(self, times: RecordTimes | None) -> MergeRules:
        landing = self._landing
        terms = None
        if landing.order and landing.order != (KAFKA_OFFSET,):
            terms = tuple(term.column for term in landing.order_terms)
        expire_ms, expire_before = landing.expire_seconds * 1000, None
        if times is not None and expire_ms and times.newest - times.since > expire_ms:
            expire_before = times.newest - expire_ms
        return MergeRules(
            build_file_schema(landing),
            landing.key,
            terms,
            keeps_time=landing.mode is Mode.SNAPSHOT,
            now=int(time.time() * 1000),
            tombstone_seconds=landing.tombstone_seconds,
            expire_before=expire_before,
            bucket_bytes=buckets.BUCKET_BYTES,
        )

    def _expire(
        self, spark: SparkSession, index: BucketIndex, rules: MergeRules, receipts: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Expire rows of buckets that have none of the batch's records."""
        done = {path for one in receipts for path in one["removed"]}
        before = rules.expire_before or 0
        files = tuple(file for file in index.files if file.rows and file.oldest < before and file.path not in done)
        if not files:
            return []
        rows = spark.range(0, len(files), 1, min(len(files), 1 << _MOST_TASK_BITS))
        return read_receipts(rows, ExpiryWriter(self._table.at, rules, files))

    def _check_expired(self, index: BucketIndex, expired: int) -> None:
        landing = self._landing
        # A rebuild goes through years of the topic in a few batches, and its rows are confirmed before they are
        # swapped in.
        if not self._is_rebuild and expired > landing.max_delete_share * index.rows:
            raise RefusedError(
                f"{expired:,} of {index.rows:,} rows of {landing.table} would be deleted at once, more than "
                f"to.max_delete allows ({landing.max_delete}); no changes were made",
                cause=f"their source has not sent them for more than {landing.expire_seconds:,} s of the topic's time",
                hint="check that the source sends the whole table; if these rows are gone, raise to.max_delete and "
                "apply the spec",
            )

    def _find_times(self, times: RecordTimes | None, receipts: Iterable[Mapping[str, Any]]) -> RecordTimes | None:
        """Find the times of the records so far, with those of a batch.

        After a silence of more than `expire_after`, `since` begins again. It is measured by bins of time, and rounded
        up, so that rows rather stay for longer.
        """
        told = [one for one in receipts if "newest" in one]
        if not told:
            return times
        width, expire_ms = _find_bin(self._landing), self._landing.expire_seconds * 1000
        bins = sorted({number for one in told for number in one["bins"]})
        newest = max(one["newest"] for one in told)
        if times is None:
            last, since = bins[0], bins[0] * width
        else:
            last, since = times.newest // width, times.since
            newest = max(newest, times.newest)
        for number in bins:
            if (number - last + 1) * width > expire_ms:
                since = number * width
            last = max(last, number)
        return RecordTimes(since, newest)


def _find_bin(landing: Landing) -> int:
    return max(1, landing.expire_seconds * 1000 // _BINS)


def _divide_rows(rows: DataFrame, bits: int) -> DataFrame:
    """Divide rows among tasks so that all rows of a bucket are in the same one."""
    if not bits:
        return rows.coalesce(1)
    return rows.repartitionById(1 << bits, sf.col(HASH).bitwiseAND(sf.lit((1 << bits) - 1)))


def open_lake_target(landing: Landing, lake: TableLocation, *, rebuild: str = "") -> LakeTarget:
    """Return the table of one pipeline in a lake, for the driver; with the ID of a rebuild, that rebuild of it."""
    kind = UpsertLakeTarget if landing.mode.has_key else LakeTarget
    return kind(landing, lake, rebuild=rebuild)
