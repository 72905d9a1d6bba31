"""Which run of a copy each record belongs to, on either side, while Spark reads it."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from seamark.copies.verify.verif_sums import NO_RUN, NOT_YET
from seamark.kafka_sink.copy_run import Run
from seamark.kafka_sink.placing import build_placer
from seamark.kafka_sink.routing import Routing

HASH = "hash"
"""The column with the hash of a record, which frames must have beside key, partition and offset."""

TARGET, RUN, AT = "target", "run", "at"
"""The columns that are added: the partition that a record belongs to, its run, and its offset in the target."""

_Known = Sequence[tuple[int, int, int, int]]
_TYPE = f"struct<{TARGET}: int, {RUN}: int, {AT}: long>"
Columns = tuple[pa.Array, ...]
Place = Callable[[list[bytes | None], list[int], list[int]], tuple[list[int], list[int], list[int | None]]]
"""From keys, partitions and offsets to targets, runs and offsets in the target. It must see a task's rows in order."""


@dataclass(frozen=True, slots=True)
class RunTable:
    """The runs of a copy, by number, for tasks. `covered` is how far each source partition was copied for sure."""

    routing: Routing
    runs: tuple[tuple[int, Run], ...]
    covered: Mapping[int, int]

    def locate_source(self, frame: DataFrame) -> DataFrame:
        """Records of the source, in order within each task: where each of them must be in the target."""
        return _add(frame, self.open_source)

    def open_source(self) -> Place:
        """The same for one task, batch by batch."""
        return _SourceSide(self).place

    def open_target(self) -> Place:
        """The same for one task of the target."""
        return _TargetSide(self).place

    def locate_target(self, frame: DataFrame) -> DataFrame:
        """Records of the target: which run each of them is of, and the partition that its key says."""
        return _add(frame, self.open_target)


def _add(frame: DataFrame, open_place: Callable[[], Place]) -> DataFrame:
    """The frame with our columns instead of the key."""

    def locate(batches: Iterator[Columns]) -> Iterator[pa.Array]:
        place = open_place()
        for keys, partitions, offsets, _ in batches:
            found = place(keys, partitions.to_pylist(), offsets.to_pylist())
            types = (pa.int32(), pa.int32(), pa.int64())
            columns = [pa.array(values, kind) for values, kind in zip(found, types, strict=True)]
            yield pa.StructArray.from_arrays(columns, names=[TARGET, RUN, AT])

    # It counts as it goes: Spark must not call it twice for a row, nor for fewer rows.
    locating = sf.arrow_udf(locate, _TYPE).asNondeterministic()
    # The hash is asked for so that Spark makes it before, and values stay behind.
    located = frame.withColumn("placed", locating("key", "partition", "offset", HASH))
    return located.select(*(name for name in frame.columns if name != "key"), "placed.*")


class _Cursor:
    """The runs of one pair of partitions, or of one target; offsets mostly rise, so the last one is tried first."""

    __slots__ = ("_first", "_known", "_last", "_lasts", "_next", "_number")

    def __init__(self, known: _Known) -> None:
        # First and last offset, number, and first offset in the target.
        self._known = sorted(known)
        self._lasts = [last for _, last, _, _ in self._known]
        self._first, self._last, self._number, self._next = 0, -1, NO_RUN, 0

    def step(self, offset: int) -> tuple[int, int]:
        """The run of an offset, and how far in the target its records would be by now."""
        if not self._first <= offset <= self._last:
            place = bisect_left(self._lasts, offset)
            if place == len(self._known) or self._known[place][0] > offset:
                return NO_RUN, 0
            self._first, self._last, self._number, self._next = self._known[place]
        at = self._next
        self._next = at + 1
        return self._number, at


class _SourceSide:
    def __init__(self, table: RunTable) -> None:
        pairs: dict[tuple[int, int], list[tuple[int, int, int, int]]] = defaultdict(list)
        for number, run in table.runs:
            pairs[run.source, run.target].append((run.first_source, run.last_source, number, run.first_target))
        self._cursors = {pair: _Cursor(known) for pair, known in pairs.items()}
        self._placer = build_placer(table.routing)
        self._covered = table.covered

    def place(
        self, keys: pa.Array, partitions: list[int], offsets: list[int]
    ) -> tuple[list[int], list[int], list[int | None]]:
        targets = self._placer(keys, pa.array(partitions, pa.int32())).to_pylist()
        runs: list[int] = []
        places: list[int | None] = []
        for pair, offset in zip(zip(partitions, targets, strict=True), offsets, strict=True):
            cursor = self._cursors.get(pair)
            number, at = cursor.step(offset) if cursor is not None else (NO_RUN, 0)
            if number == NO_RUN and offset >= self._covered.get(pair[0], 0):
                number = NOT_YET
            runs.append(number)
            places.append(at if number >= 0 else None)
        return targets, runs, places


class _TargetSide:
    def __init__(self, table: RunTable) -> None:
        by_target: dict[int, list[tuple[int, int, int, int]]] = defaultdict(list)
        for number, run in table.runs:
            by_target[run.target].append((run.first_target, run.last_target, number, run.source))
        self._cursors = {target: _Cursor(known) for target, known in by_target.items()}
        self._sources = {number: run.source for number, run in table.runs}
        self._placer = build_placer(table.routing)

    def place(
        self, keys: pa.Array, partitions: list[int], offsets: list[int]
    ) -> tuple[list[int], list[int], list[int | None]]:
        runs = [
            cursor.step(offset)[0] if (cursor := self._cursors.get(partition)) is not None else NO_RUN
            for partition, offset in zip(partitions, offsets, strict=True)
        ]
        # Where a record without a key belongs, its source says. Of a stranger nobody knows: it may stay.
        sources = [self._sources.get(run, own) for run, own in zip(runs, partitions, strict=True)]
        return self._placer(keys, pa.array(sources, pa.int32())).to_pylist(), runs, list(offsets)
