"""Merge changed rows into the file of one bucket: on an executor, with Arrow alone.

The keys of the file are read first, and it is decided which of its rows stay. Then its rows are copied to a new file,
group by group, followed by the new ones. Memory holds the keys of one bucket and one group of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from seamark.tables.delta.buckets import (
    BUCKET_BYTES,
    HASH,
    Bucket,
    BucketFile,
    build_bucket_name,
    build_tombstone_path,
    count_split_bits,
)
from seamark.tables.delta.files import DataFile, FileWriter, conform
from seamark.tables.delta.location import TableLocation
from seamark.tables.model import DELETED, OFFSET, RECORD_MILLIS

PARTITION = "seamark_partition"
"""The partition of the record behind a row, where the order of rows is kept."""
DELETED_AT = "seamark_deleted_at"
"""When a tombstone was written, in milliseconds; null for the horizon, the greatest order of those that were purged."""
_KEY, _RANK, _PLACE = "seamark_row_key", "seamark_rank", "seamark_place"
_STORED, _CHANGED = 0, 1
_GROUP_ROWS = 64 * 1024
FORGOTTEN = "the record is older than the tombstones that are kept (to.tombstones), and its key has no row"


@dataclass(frozen=True, slots=True)
class MergeRules:
    """What a merge needs to know of a pipeline.

    Attributes:
        schema: The columns of the table.
        key: The columns of its key.
        terms: The columns that decide which record is newer, before partition and offset; None where rows don't keep
            an order, because the records of a key arrive in their order.
        keeps_time: Whether the time of each row's last record is kept.
        expire_before: Rows whose last record is older are deleted, in milliseconds; None: none.
        now: The driver's clock, in milliseconds.
        tombstone_seconds: How long the order of a delete is kept.
        bucket_bytes: A file above this size is split.
    """

    schema: pa.Schema
    key: tuple[str, ...]
    terms: tuple[str, ...] | None
    keeps_time: bool
    now: int
    tombstone_seconds: int
    expire_before: int | None = None
    bucket_bytes: int = BUCKET_BYTES

    @property
    def is_ordered(self) -> bool:
        """Whether a record may be older than the row of its key."""
        return self.terms is not None

    @property
    def order(self) -> tuple[str, ...]:
        """The columns by which records of one key are sorted."""
        if self.terms is None:
            return (OFFSET,)
        return tuple(dict.fromkeys((*self.terms, PARTITION, OFFSET)))

    @property
    def physical(self) -> pa.Schema:
        """The columns of the files: those of the table, and what only we read."""
        more = [pa.field(HASH, pa.int32())]
        if self.is_ordered:
            more += [pa.field(PARTITION, pa.int32()), pa.field(OFFSET, pa.int64())]
        if self.keeps_time or RECORD_MILLIS in (self.terms or ()):
            more.append(pa.field(RECORD_MILLIS, pa.int64()))
        return pa.schema([*self.schema, *more])

    @property
    def head(self) -> pa.Schema:
        """The columns that decide what becomes of a row."""
        names = {HASH, *self.key, *(self.order if self.is_ordered else ())}
        if self.keeps_time:
            names.add(RECORD_MILLIS)
        return pa.schema([one for one in self.physical if one.name in names])

    @property
    def stones(self) -> pa.Schema:
        """The columns of tombstones."""
        names = {*self.key, *self.order, HASH}
        return pa.schema([*(one for one in self.physical if one.name in names), pa.field(DELETED_AT, pa.int64())])


@dataclass(slots=True)
class MergeResult:
    """What a merge has done. `refused` are rows of the changes whose order can't be known."""

    files: list[DataFile] = field(default_factory=list)
    removed: list[BucketFile] = field(default_factory=list)
    rows: int = 0
    deleted: int = 0
    expired: int = 0
    refused: pa.Table | None = None


class BucketMerger:
    """Merges changes into the files of a table, bucket by bucket."""

    def __init__(self, place: TableLocation, rules: MergeRules) -> None:
        self._place = place
        self._files = place.open_files()
        self._rules = rules

    def merge(self, bucket: Bucket, file: BucketFile | None, changes: pa.Table) -> MergeResult:
        """Merge changes into a bucket.

        Args:
            bucket: The bucket.
            file: Its file; None where it has none.
            changes: The physical columns, `DELETED`, and whatever else a refused row is to have; records of one key in
                any order.

        Returns:
            What was done. Without a difference nothing is written.
        """
        rules, merged = self._rules, MergeResult()
        stored = self._read_stored(file)
        stones, horizon = self._read_tombstones(file)
        changes = _add_key(_cast_columns(changes, rules.physical), rules.key)
        if rules.keeps_time:
            changes = _keep_latest_time(changes, stored)
        is_winner, refused = self._choose(changes, stored, stones, horizon)
        if refused is not None:
            merged.refused = changes.filter(refused).drop_columns([_KEY])
        is_deleted = changes.column(DELETED).combine_chunks()
        rows = changes.filter(pc.and_(is_winner, pc.invert(is_deleted)))
        gone = changes.filter(pc.and_(is_winner, is_deleted))
        is_replaced = pc.is_in(stored.column(_KEY), value_set=_join_values(rows.column(_KEY), gone.column(_KEY)))
        keep = pc.invert(is_replaced).combine_chunks()
        merged.deleted = _count(pc.is_in(stored.column(_KEY), value_set=gone.column(_KEY).combine_chunks()))
        if file is not None and rules.expire_before is not None:
            is_old = pc.less(stored.column(RECORD_MILLIS), rules.expire_before).combine_chunks()
            merged.expired = _count(pc.and_(keep, is_old))
            keep = pc.and_not(keep, is_old)
        kept_stones, next_horizon = self._update_tombstones(stones, horizon, rows=rows, gone=gone)
        merged.rows = rows.num_rows
        if not rows.num_rows and (file is None or _count(keep) == len(keep)) and kept_stones.equals(stones):
            merged.deleted = 0
            return merged
        self._write(merged, bucket, _Source(file, stored, keep), rows, _Stones(kept_stones, next_horizon))
        if file is not None:
            merged.removed.append(file)
        return merged

    # --- reading

    def _read_stored(self, file: BucketFile | None) -> pa.Table:
        head = self._rules.head
        if file is None:
            return _add_key(head.empty_table(), self._rules.key)
        parts = list(self._read_file(file, head))
        return _add_key(pa.Table.from_batches(parts, head), self._rules.key)

    def _read_file(self, file: BucketFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        with self._files.open_input_file(f"{self._place.path}/{file.path}") as source:
            opened = pq.ParquetFile(source)
            names = [name for name in schema.names if name in opened.schema_arrow.names]
            for batch in opened.iter_batches(batch_size=_GROUP_ROWS, columns=names):
                yield conform(batch, schema)

    def _read_tombstones(self, file: BucketFile | None) -> tuple[pa.Table, pa.Table]:
        """Read the tombstones of a bucket, and its horizon: a table of one row, or none."""
        schema = self._rules.stones
        if file is None or not file.has_tombstones or not self._rules.is_ordered:
            return schema.empty_table(), schema.empty_table()
        with self._files.open_input_file(f"{self._place.path}/{file.tombstones}") as source:
            found = pq.read_table(source).select(schema.names).cast(schema)
        is_horizon = pc.is_null(found.column(DELETED_AT))
        return found.filter(pc.invert(is_horizon)), found.filter(is_horizon)

    # --- deciding

    def _choose(
        self, changes: pa.Table, stored: pa.Table, stones: pa.Table, horizon: pa.Table
    ) -> tuple[pa.Array, pa.Array | None]:
        """Choose the newest record of each key, unless the row or its delete is newer; and refuse what can't be known.

        Returns:
            Which changes are taken, and which are refused; None where none is.
        """
        rules = self._rules
        names = [_KEY, *rules.order]
        parts = [_rank(changes.select(names), _CHANGED)]
        refused: pa.Array | None = None
        if rules.is_ordered:
            keys = changes.column(_KEY).combine_chunks().unique()
            known = [stored.select(names), _add_key(stones, rules.key).select(names)]
            parts = [_rank(one.filter(pc.is_in(one.column(_KEY), value_set=keys)), _STORED) for one in known] + parts
            if horizon.num_rows:
                refused = _find_forgotten(changes, parts[:-1], horizon, rules.order)
        candidates = pa.concat_tables(parts, promote_options="permissive")
        if refused is not None:
            none = pa.repeat(pa.scalar(False), candidates.num_rows - changes.num_rows)
            is_out = pa.concat_arrays([none, refused])
            places = pc.indices_nonzero(pc.invert(is_out))
            candidates = candidates.append_column(_PLACE, pa.array(range(candidates.num_rows))).take(places)
        else:
            candidates = candidates.append_column(_PLACE, pa.array(range(candidates.num_rows)))
        newest = _find_newest(candidates, [*names, _RANK])
        first = sum(one.num_rows for one in parts[:-1])
        chosen = pa.array([place - first for place in newest if place >= first], pa.int64())
        is_chosen = pc.is_in(pa.array(range(changes.num_rows), pa.int64()), value_set=chosen)
        return is_chosen, refused if refused is not None and _count(refused) else None

    def _update_tombstones(
        self, stones: pa.Table, horizon: pa.Table, *, rows: pa.Table, gone: pa.Table
    ) -> tuple[pa.Table, pa.Table]:
        """Add deletes, take away those whose key has a row again, and purge old ones to the horizon."""
        rules = self._rules
        if not rules.is_ordered:
            return stones, horizon
        kept = stones
        if stones.num_rows:
            changed = _join_values(rows.column(_KEY), gone.column(_KEY))
            kept = stones.filter(pc.invert(pc.is_in(_add_key(stones, rules.key).column(_KEY), value_set=changed)))
        if gone.num_rows:
            at = pa.array([rules.now] * gone.num_rows, pa.int64())
            names = [name for name in rules.stones.names if name != DELETED_AT]
            added = gone.select(names).append_column(DELETED_AT, at)
            kept = pa.concat_tables([kept, added.cast(rules.stones)])
        is_late = pc.less(kept.column(DELETED_AT), rules.now - rules.tombstone_seconds * 1000)
        late = kept.filter(is_late)
        if not late.num_rows:
            return kept, horizon
        return kept.filter(pc.invert(is_late)), _find_greatest(pa.concat_tables([late, horizon]), rules)

    # --- writing

    def _write(self, merged: MergeResult, bucket: Bucket, source: _Source, rows: pa.Table, stones: _Stones) -> None:
        """Write the rows that stay and the new ones: in several files, if the one before was too large."""
        rules, file = self._rules, source.file
        parts = bucket.split(
            count_split_bits(file.size, bucket, most_bytes=rules.bucket_bytes) if file is not None else 0
        )
        names = [name for name in (HASH, RECORD_MILLIS) if name in rules.physical.names]
        heads = pa.concat_tables([source.stored.filter(source.keep).select(names), rows.select(names)])
        writers = [one for part in parts if (one := self._open_part(part, heads, stones)) is not None]
        place = 0
        for batch in self._read_file(file, rules.physical) if file is not None and writers else ():
            chosen = batch.filter(source.keep.slice(place, batch.num_rows))
            place += batch.num_rows
            for writer in writers:
                writer.append(chosen)
        for batch in rows.select(rules.physical.names).cast(rules.physical).to_batches():
            for writer in writers:
                writer.append(batch)
        merged.files += [writer.close() for writer in writers]

    def _open_part(self, bucket: Bucket, heads: pa.Table, stones: _Stones) -> _PartWriter | None:
        """Begin the file of a bucket. One without rows and tombstones has none."""
        own = heads.filter(_is_in_bucket(heads.column(HASH), bucket))
        kept = stones.tombstones.filter(_is_in_bucket(stones.tombstones.column(HASH), bucket))
        kept = pa.concat_tables([kept, stones.horizon])
        if not own.num_rows and not kept.num_rows:
            return None
        oldest = pc.min(own.column(RECORD_MILLIS)).as_py() if self._rules.keeps_time else 0
        name = build_bucket_name(
            bucket, rows=own.num_rows, oldest=max(0, oldest or 0), has_tombstones=bool(kept.num_rows)
        )
        if kept.num_rows:
            writer = FileWriter(self._place, build_tombstone_path(name), self._rules.stones, files=self._files)
            for batch in kept.to_batches():
                writer.append(batch)
            writer.close({})
        rules = self._rules
        return _PartWriter(bucket, FileWriter(self._place, name, rules.physical, stats=rules.schema, files=self._files))


@dataclass(frozen=True, slots=True)
class _Source:
    """The file before the merge: its head, and which of its rows stay."""

    file: BucketFile | None
    stored: pa.Table
    keep: pa.Array


@dataclass(frozen=True, slots=True)
class _Stones:
    tombstones: pa.Table
    horizon: pa.Table


@dataclass(frozen=True, slots=True)
class _PartWriter:
    """Writes the rows of one bucket."""

    bucket: Bucket
    writer: FileWriter

    def append(self, rows: pa.RecordBatch) -> None:
        if self.bucket.bits:
            rows = rows.filter(_is_in_bucket(rows.column(HASH), self.bucket))
        if rows.num_rows:
            self.writer.append(rows)

    def close(self) -> DataFile:
        return self.writer.close({})


def _is_in_bucket(hashes: pa.Array | pa.ChunkedArray, bucket: Bucket) -> pa.Array:
    mask = pa.scalar((1 << bucket.bits) - 1, pa.int32())
    return pc.equal(pc.bit_wise_and(hashes, mask), pa.scalar(bucket.number, pa.int32()))


def _cast_columns(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Give the columns of a table that a schema has their types of the schema."""
    for one in schema:
        place = table.schema.get_field_index(one.name)
        table = table.set_column(place, one, table.column(place).cast(one.type))
    return table


def _add_key(table: pa.Table, key: Sequence[str]) -> pa.Table:
    """Add a column by which keys are compared: the key itself, or its columns as one text."""
    if len(key) == 1:
        return table.append_column(_KEY, table.column(key[0]))
    parts: list[Any] = []
    for name in key:
        text = pc.cast(table.column(name), pa.string())
        # With its length before it: "a" and "bc" are not "ab" and "c".
        parts += [pc.cast(pc.binary_length(text), pa.string()), text]
    return table.append_column(_KEY, pc.binary_join_element_wise(*parts, ":"))


def _rank(table: pa.Table, rank: int) -> pa.Table:
    return table.append_column(_RANK, pa.repeat(pa.scalar(rank, pa.int8()), table.num_rows))


def _find_newest(candidates: pa.Table, names: Sequence[str]) -> list[int]:
    """Find the places of the last candidate of each key, in the order of these columns; the first one is the key."""
    if not candidates.num_rows:
        return []
    order = pc.sort_indices(candidates, sort_keys=[(name, "ascending") for name in names])
    keys = candidates.column(names[0]).take(order).combine_chunks()
    is_last = pa.concat_arrays([pc.not_equal(keys[:-1], keys[1:]), pa.array([True])])
    found: list[int] = candidates.column(_PLACE).take(order).filter(is_last).to_pylist()
    return found


def _find_forgotten(changes: pa.Table, known: Sequence[pa.Table], horizon: pa.Table, order: Sequence[str]) -> pa.Array:
    """Find the records that may be older than a delete whose order is no longer kept: their keys aren't known."""
    keys = _join_values(*(one.column(_KEY) for one in known))
    is_unknown = pc.invert(pc.is_in(changes.column(_KEY), value_set=keys)).combine_chunks()
    bound = [horizon.column(name)[0].as_py() for name in order]
    rows = zip(*(changes.column(name).to_pylist() for name in order), strict=True)
    is_older = pa.array([list(row) < bound for row in rows], pa.bool_())
    return pc.and_(pc.and_not(is_unknown, changes.column(DELETED).combine_chunks()), is_older)


def _find_greatest(stones: pa.Table, rules: MergeRules) -> pa.Table:
    """Find the greatest order among tombstones, as a horizon: without a key."""
    last = stones.take(pc.sort_indices(stones, sort_keys=[(name, "ascending") for name in rules.order])[-1:])
    columns = [last.column(one.name) if one.name in rules.order else pa.nulls(1, one.type) for one in rules.stones]
    return pa.table(columns, schema=rules.stones)


def _keep_latest_time(changes: pa.Table, stored: pa.Table) -> pa.Table:
    """Let no row be older than it was: records that are processed again have earlier times."""
    if not stored.num_rows:
        return changes
    found = pc.index_in(changes.column(_KEY), value_set=stored.column(_KEY).combine_chunks())
    former = stored.column(RECORD_MILLIS).take(found.combine_chunks())
    times = pc.max_element_wise(changes.column(RECORD_MILLIS), former)
    return changes.set_column(changes.schema.get_field_index(RECORD_MILLIS), RECORD_MILLIS, times)


def _join_values(*columns: pa.ChunkedArray) -> pa.Array:
    return pa.chunked_array([chunk for one in columns for chunk in one.chunks], columns[0].type).combine_chunks()


def _count(mask: pa.Array | pa.ChunkedArray) -> int:
    return int(pc.sum(mask).as_py() or 0)
