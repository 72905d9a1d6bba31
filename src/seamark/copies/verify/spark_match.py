"""Compare the records of suspect runs one by one: pair them by hash, and classify those without an equal.

Both sides are shuffled by hash, but only for the runs whose checksums differ.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from seamark.copies.plan.endpoints import CopyEnds
from seamark.copies.plan.plan import CopyPlan
from seamark.copies.plan.progress import Answers, Question, Recount
from seamark.copies.verify.match import ExtraRecord, Parts, UnmatchedRecord
from seamark.copies.verify.report import Coordinates, CopyFinding, Kind
from seamark.copies.verify.sums import NO_RUN, NOT_YET, Scan, Sums, Suspect, join_ranges, list_source_ranges
from seamark.kafka_sink.control import Checksum, Run
from seamark.kafka_sink.hashing import build_placer
from seamark.kafka_sink.routing import Routing
from seamark.spark.sessions import build_hash, build_plain_headers, read_ranges

HASH = "hash"
"""The column with the hash of a record. Frames must have it beside key, partition and offset."""

TARGET, RUN, AT = "target", "run", "at"
"""The added columns: the expected target partition of a record, its run, and its offset in the target."""

_Known = Sequence[tuple[int, int, int, int]]
_TYPE = f"struct<{TARGET}: int, {RUN}: int, {AT}: long>"
Columns = tuple[pa.Array, ...]
Place = Callable[[list[bytes | None], list[int], list[int]], tuple[list[int], list[int], list[int | None]]]
"""Maps keys, partitions and offsets to targets, runs and target offsets. It must see a task's rows in order."""


@dataclass(frozen=True, slots=True)
class RunTable:
    """The runs of a copy, by number, for tasks. `covered` is the proven end of the copy in each source partition."""

    routing: Routing
    runs: tuple[tuple[int, Run], ...]
    covered: Mapping[int, int]

    def locate_source(self, frame: DataFrame) -> DataFrame:
        """Return records of the source, in order within each task, with their expected position in the target."""
        return _add(frame, self.open_source)

    def open_source(self) -> Place:
        """Return the same function for one task, which is called batch by batch."""
        return _SourceSide(self).place

    def open_target(self) -> Place:
        """Return the same function for one task of the target."""
        return _TargetSide(self).place

    def locate_target(self, frame: DataFrame) -> DataFrame:
        """Return records of the target with their run, and with the partition of their key."""
        return _add(frame, self.open_target)


def _add(frame: DataFrame, open_place: Callable[[], Place]) -> DataFrame:
    """Return the frame with the added columns instead of the key."""

    def locate(batches: Iterator[Columns]) -> Iterator[pa.Array]:
        place = open_place()
        for keys, partitions, offsets, _ in batches:
            found = place(keys, partitions.to_pylist(), offsets.to_pylist())
            types = (pa.int32(), pa.int32(), pa.int64())
            columns = [pa.array(values, kind) for values, kind in zip(found, types, strict=True)]
            yield pa.StructArray.from_arrays(columns, names=[TARGET, RUN, AT])

    # It keeps a count: Spark must not call it twice for a row, nor for fewer rows.
    locating = sf.arrow_udf(locate, _TYPE).asNondeterministic()
    # The hash is an argument so that Spark computes it before, and values stay in the JVM.
    located = frame.withColumn("placed", locating("key", "partition", "offset", HASH))
    return located.select(*(name for name in frame.columns if name != "key"), "placed.*")


class _Cursor:
    """The runs of one pair of partitions, or of one target. Offsets mostly increase, so the last run is tried first."""

    __slots__ = ("_first", "_known", "_last", "_lasts", "_next", "_number")

    def __init__(self, known: _Known) -> None:
        # First and last offset, number, and first offset in the target.
        self._known = sorted(known)
        self._lasts = [last for _, last, _, _ in self._known]
        self._first, self._last, self._number, self._next = 0, -1, NO_RUN, 0

    def step(self, offset: int) -> tuple[int, int]:
        """Return the run of an offset, and the target offset of its next record."""
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
        # The source determines the partition of a record without a key. A foreign record has none, and counts as
        # correct.
        sources = [self._sources.get(run, own) for run, own in zip(runs, partitions, strict=True)]
        return self._placer(keys, pa.array(sources, pa.int32())).to_pylist(), runs, list(offsets)


class SparkRecounter:
    """Counts with Spark. It reads the offsets of the requested runs, and no others."""

    def __init__(self, spark: SparkSession, plan: CopyPlan, ends: CopyEnds) -> None:
        self._spark = spark
        self._plan = plan
        self._options = ends.source
        self._routing = plan.require_accepted()

    def recount(self, questions: Sequence[Question]) -> Answers:
        """Answer all questions. The counts of a run that was deleted from the source are zero, which is an answer."""
        cuts = list_cuts(questions)
        if not cuts:
            return {}
        numbers = {run: number for number, run in enumerate(cuts)}
        table = RunTable(self._routing, tuple(enumerate(cuts)), covered={})
        ranges = join_ranges(list_source_ranges(cuts))
        frame = read_ranges(self._spark, self._plan.source.topic, ranges, options=self._options, may_be_gone=True)
        step = _build_step(table, {numbers[run]: offsets for run, offsets in cuts.items()})
        stepped = frame.select(step("key", "partition", "offset").alias("placed")).select("placed.*")
        found = stepped.where("run >= 0").groupBy("run", "step").agg(sf.count("*").alias("total")).collect()
        steps: dict[int, dict[int, int]] = {}
        for row in found:
            steps.setdefault(row["run"], {})[row["step"]] = row["total"]
        return {
            one: build_answer(bisect_left(cuts[one.run], one.source_offset), steps.get(numbers[one.run], {}))
            for one in questions
        }


def list_cuts(questions: Iterable[Question]) -> dict[Run, list[int]]:
    """Return the requested offsets of each run, in order."""
    asked: dict[Run, set[int]] = {}
    for one in questions:
        asked.setdefault(one.run, set()).add(one.source_offset)
    return {run: sorted(offsets) for run, offsets in asked.items()}


def _build_step(table: RunTable, cuts: Mapping[int, Sequence[int]]) -> Callable[..., Column]:
    """Return the run of each record, and the number of requested offsets at or before it."""

    def locate(batches: Iterator[Columns]) -> Iterator[pa.Array]:
        place = table.open_source()
        for keys, partitions, column in batches:
            offsets = column.to_pylist()
            _, runs, _ = place(keys, partitions.to_pylist(), offsets)
            steps = [
                bisect_right(cuts[run], offset) if run >= 0 else 0 for run, offset in zip(runs, offsets, strict=True)
            ]
            yield pa.StructArray.from_arrays([pa.array(runs, pa.int32()), pa.array(steps, pa.int32())], ["run", "step"])

    return sf.arrow_udf(locate, "struct<run: int, step: int>").asNondeterministic()  # type: ignore[no-any-return]


def build_answer(place: int, steps: Mapping[int, int]) -> Recount:
    """Return the records before the nth requested offset of a run, and the others."""
    before = sum(total for step, total in steps.items() if step <= place)
    return Recount(before=before, after=sum(steps.values()) - before)


_PARTS = ("key_hash", "value_hash", "headers_hash", "time")
_PLACES = ("partition", "offset", RUN, AT)
_WAYS = ("late", "early")
TOLD = 10_000
"""How many records without an equal are classified. The rest is only counted."""


@dataclass(frozen=True, slots=True)
class Unpaired:
    """Records that have no equal on the other side: how many, and the first of them."""

    wanted_count: int
    lying_count: int
    wanted: tuple[UnmatchedRecord, ...]
    lying: tuple[ExtraRecord, ...]


@dataclass(frozen=True, slots=True)
class Matched:
    """The result of a comparison record by record."""

    findings: tuple[CopyFinding, ...]
    unpaired: Unpaired


def match_records(
    source: DataFrame, target: DataFrame, table: RunTable, *, suspects: Sequence[Suspect], examples: int
) -> Matched:
    """Compare the records of suspect runs, and those without a run, on both sides."""
    numbers = [one.number for one in suspects]
    ours = _number(table.locate_source(_hash(source)), numbers, by=TARGET, order=AT)
    theirs = _number(table.locate_target(_hash(target)), numbers, by="partition", order="offset")
    paired = _pair(ours, theirs).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        order = _compare_order(paired, suspects, examples=examples)
        return Matched(tuple(order), _read_unpaired(paired, suspects))
    finally:
        paired.unpersist()


def find_hashes(source: DataFrame, hashes: Iterable[int]) -> list[tuple[int, Coordinates]]:
    """Find the records with these hashes in the source."""
    session = source.sparkSession
    asked = session.createDataFrame([(one,) for one in sorted(set(hashes))], "hash long")
    short = source.select("partition", "offset", build_hash().alias("hash"))
    found = short.join(sf.broadcast(asked), "hash").groupBy("hash").agg(sf.min(sf.struct("partition", "offset")))
    return [(row[0], Coordinates(row[1]["partition"], row[1]["offset"])) for row in found.collect()]


def _hash(frame: DataFrame) -> DataFrame:
    return frame.select(
        "partition",
        "offset",
        "key",
        build_hash().alias("hash"),
        sf.xxhash64(sf.col("key").isNull(), "key").alias("key_hash"),
        sf.xxhash64(sf.col("value").isNull(), "value").alias("value_hash"),
        sf.xxhash64(build_plain_headers()).alias("headers_hash"),
        sf.unix_micros("timestamp").alias("time"),
    )


def _number(located: DataFrame, runs: Sequence[int], *, by: str, order: str) -> DataFrame:
    """Number equal records in order: the nth of one side corresponds to the nth of the other."""
    session = located.sparkSession
    asked = session.createDataFrame([(one,) for one in (*runs, NO_RUN)], f"{RUN} int")
    kept = located.join(sf.broadcast(asked), RUN)
    lane = sf.col(by).alias("lane")
    place = Window.partitionBy("lane", "hash").orderBy(sf.col(order).asc_nulls_last(), "partition", "offset")
    named = kept.select("hash", lane, sf.struct(*_PLACES, TARGET, *_PARTS).alias("record"), order, *_extra(order))
    return named.withColumn("nth", sf.row_number().over(place)).select("lane", "hash", "nth", "record")


def _extra(order: str) -> list[str]:
    return [name for name in ("partition", "offset") if name != order]


def _pair(ours: DataFrame, theirs: DataFrame) -> DataFrame:
    names = ["lane", "hash", "nth"]
    return (
        ours.withColumnRenamed("record", "ours")
        .join(theirs.withColumnRenamed("record", "theirs"), names, "full_outer")
        .select("lane", "hash", "ours", "theirs")
    )


def _compare_order(paired: DataFrame, suspects: Sequence[Suspect], *, examples: int) -> Iterator[CopyFinding]:
    """Find records that exist, but in another order, or at another offset."""
    ranked = _rank(paired, [one.number for one in suspects if one.is_gone])
    counted = ranked.groupBy("lane").agg(
        *(sf.count_if(way).alias(way) for way in _WAYS),
        *(_first_moved(way).alias(f"moved_{way}") for way in _WAYS),
        *(sf.count_if(sf.col("moved") & ~sf.col(way)).alias(f"count_{way}") for way in _WAYS),
    )
    # One record that is too early makes all records it passed look late, and vice versa: the smaller set is reported.
    rows = sorted(counted.collect())
    ways = {row["lane"]: min(_WAYS, key=lambda way: row[way]) for row in rows}
    wrong = {row["lane"]: row[ways[row["lane"]]] for row in rows}
    if any(wrong.values()):
        yield from _list_reordered(ranked, ways, count=sum(wrong.values()), examples=examples)
    for row in rows:
        way = ways[row["lane"]]
        if count := row[f"count_{way}"]:
            place, source, offset, at = row[f"moved_{way}"]
            words = f"the first one belongs to {row['lane']}@{at}; their order is correct"
            target = Coordinates(row["lane"], place)
            yield CopyFinding(Kind.MOVED, Coordinates(source, offset), target, count=count, words=words)


def _rank(paired: DataFrame, vague: Sequence[int]) -> DataFrame:
    """Return pairs with whether they are too late or too early, and whether their offset differs from that of the runs.

    `vague` are runs of which the source has lost records: only the order of their records is known.
    """
    both = paired.where("ours is not null and theirs is not null and ours.at is not null")
    lane = Window.partitionBy("lane").orderBy("theirs.offset")
    before = lane.rowsBetween(Window.unboundedPreceding, -1)
    behind = lane.rowsBetween(1, Window.unboundedFollowing)
    at = sf.col(f"ours.{AT}")
    return both.select(
        "lane",
        "ours",
        "theirs",
        sf.coalesce(sf.max(at).over(before) > at, sf.expr("false")).alias("late"),
        sf.coalesce(sf.min(at).over(behind) < at, sf.expr("false")).alias("early"),
        ((at != sf.col("theirs.offset")) & ~sf.col(f"ours.{RUN}").isin(vague or [NO_RUN])).alias("moved"),
    )


def _first_moved(way: str) -> Column:
    found = sf.struct("theirs.offset", "ours.partition", sf.col("ours.offset").alias("source_offset"), f"ours.{AT}")
    return sf.min(sf.when(sf.col("moved") & ~sf.col(way), found))


def _list_reordered(ranked: DataFrame, ways: Mapping[int, str], *, count: int, examples: int) -> Iterator[CopyFinding]:
    of_way = {way: [lane for lane, chosen in ways.items() if chosen == way] or [-1] for way in _WAYS}
    is_wrong = reduce(or_, (sf.col(way) & sf.col("lane").isin(of_way[way]) for way in _WAYS))
    shown = ranked.where(is_wrong).orderBy("lane", "theirs.offset").limit(examples).collect()
    for row in shown:
        words = f"it belongs to {row['lane']}@{row['ours'][AT]}"
        yield CopyFinding(Kind.REORDERED, _find_source(row), _find_target(row), words=words)
    if count > len(shown):
        yield CopyFinding(Kind.REORDERED, count=count - len(shown), words="more records")


def _read_unpaired(paired: DataFrame, suspects: Sequence[Suspect]) -> Unpaired:
    # Records that compaction deleted from the source have no equal there, and are as they were written.
    excused = [one.number for one in suspects if one.is_gone and one.is_described]
    lost = paired.where("theirs is null")
    extra = paired.where("ours is null")
    if excused:
        extra = extra.where(~sf.col(f"theirs.{RUN}").isin(excused))
    wanted = [_read_wanted(row) for row in _take(lost, "ours")]
    lying = [
        ExtraRecord(_find_target(row), row["hash"], parts=_read_parts(row["theirs"])) for row in _take(extra, "theirs")
    ]
    return Unpaired(
        len(wanted) if len(wanted) < TOLD else lost.count(),
        len(lying) if len(lying) < TOLD else extra.count(),
        wanted=tuple(wanted),
        lying=tuple(lying),
    )


def _take(frame: DataFrame, side: str) -> Sequence[Any]:
    ordered = frame.orderBy(f"{side}.partition", f"{side}.offset")
    return ordered.limit(TOLD).collect()  # type: ignore[no-any-return]


def _read_wanted(row: Any) -> UnmatchedRecord:
    ours = row["ours"]
    return UnmatchedRecord(_find_source(row), ours[TARGET], at=ours[AT], hash=row["hash"], parts=_read_parts(ours))


def _find_source(row: Any) -> Coordinates:
    return Coordinates(row["ours"]["partition"], row["ours"]["offset"])


def _find_target(row: Any) -> Coordinates:
    return Coordinates(row["theirs"]["partition"], row["theirs"]["offset"])


def _read_parts(record: Any) -> Parts:
    return Parts(*(record[name] for name in _PARTS))


_ORDERED, _TIME = "ordered", "time"
_MASK = (1 << 64) - 1
_LOW = (1 << 32) - 1


def scan_source(frame: DataFrame, table: RunTable) -> Scan:
    """Scan the rest of the source, by the expected runs of its records."""
    return _sum(table.locate_source(_shorten(frame)), is_target=False)


def scan_target(frame: DataFrame, table: RunTable) -> Scan:
    """Scan the target, by the runs at its offsets."""
    return _sum(table.locate_target(_shorten(frame)), is_target=True)


def _shorten(frame: DataFrame) -> DataFrame:
    """Keep values and headers in the JVM: only their hash is passed to Python."""
    return frame.select(
        "partition", "offset", "key", build_hash().alias(HASH), sf.unix_micros("timestamp").alias(_TIME)
    )


def _sum(located: DataFrame, *, is_target: bool) -> Scan:
    is_wrong = (sf.col(TARGET) != sf.col("partition")) & sf.lit(is_target)
    found = (
        located.withColumn(_ORDERED, sf.xxhash64(HASH, AT))
        .groupBy("partition", RUN)
        .agg(
            sf.count("*").alias("count"),
            sf.min("offset").alias("first"),
            sf.max("offset").alias("last"),
            *_build_sums(HASH),
            *_build_sums(_ORDERED),
            sf.min(_TIME).alias("earliest"),
            sf.max(_TIME).alias("latest"),
            sf.count_if(is_wrong).alias("misplaced"),
            sf.min(sf.when(is_wrong, sf.col("offset"))).alias("misplaced_at"),
        )
    )
    return {(row["partition"], row[RUN]): _read_sums(row) for row in found.collect()}


def _build_sums(name: str) -> tuple[Column, ...]:
    """Return the sum in two halves, because a sum of whole hashes overflows, and the xor."""
    return (
        sf.sum(sf.col(name).bitwiseAND(sf.lit(_LOW))).alias(f"{name}_low"),
        sf.sum(sf.shiftrightunsigned(name, 32)).alias(f"{name}_high"),
        sf.bit_xor(name).alias(f"{name}_xor"),
    )


def _read_sums(row: Any) -> Sums:
    return Sums(
        count=row["count"],
        first=row["first"],
        last=row["last"],
        checksum=_read_checksum(row, HASH),
        ordered=_read_checksum(row, _ORDERED),
        times=(row["earliest"], row["latest"]),
        misplaced=row["misplaced"],
        misplaced_at=row["misplaced_at"],
    )


def _read_checksum(row: Any, name: str) -> Checksum:
    total = (row[f"{name}_high"] << 32) + row[f"{name}_low"]
    return Checksum(total & _MASK, row[f"{name}_xor"] & _MASK)
