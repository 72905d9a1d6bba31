"""Records of suspected runs, compared one by one: paired by their hashes, and what has no equal told apart.

Both sides are shuffled by hash, but only the runs whose checksums differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from seamark.copies.verify.match import Lying, Parts, UnmatchedRecord
from seamark.copies.verify.verif_sums import NO_RUN, Suspect
from seamark.copies.verify.verification import Coordinates, Finding, Kind
from seamark.copies.verify.verify_places import AT, RUN, TARGET, RunTable
from seamark.spark.source import build_hash, build_plain_headers

_PARTS = ("key_hash", "value_hash", "headers_hash", "time")
_PLACES = ("partition", "offset", RUN, AT)
_WAYS = ("late", "early")
TOLD = 10_000
"""Of so many records without an equal it is told what became of them. The rest is only counted."""


@dataclass(frozen=True, slots=True)
class Unpaired:
    """Records that have no equal on the other side: how many, and the first of them."""

    wanted_count: int
    lying_count: int
    wanted: tuple[UnmatchedRecord, ...]
    lying: tuple[Lying, ...]


@dataclass(frozen=True, slots=True)
class Matched:
    """What a comparison record by record found."""

    findings: tuple[Finding, ...]
    unpaired: Unpaired


def match_records(
    source: DataFrame, target: DataFrame, table: RunTable, *, suspects: Sequence[Suspect], examples: int
) -> Matched:
    """Compare the records of suspected runs, and those of no run, on both sides."""
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
    """Where records with these hashes stand in the source."""
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
    """Records that are the same, numbered in order: the nth of one side is the nth of the other."""
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


def _compare_order(paired: DataFrame, suspects: Sequence[Suspect], *, examples: int) -> Iterator[Finding]:
    """Records that are there, but not in their order, or not at their offset."""
    ranked = _rank(paired, [one.number for one in suspects if one.is_gone])
    counted = ranked.groupBy("lane").agg(
        *(sf.count_if(way).alias(way) for way in _WAYS),
        *(_first_moved(way).alias(f"moved_{way}") for way in _WAYS),
        *(sf.count_if(sf.col("moved") & ~sf.col(way)).alias(f"count_{way}") for way in _WAYS),
    )
    # One record that came too early makes all it passed look late, and the other way round: the fewer are to blame.
    rows = sorted(counted.collect())
    ways = {row["lane"]: min(_WAYS, key=lambda way: row[way]) for row in rows}
    wrong = {row["lane"]: row[ways[row["lane"]]] for row in rows}
    if any(wrong.values()):
        yield from _list_reordered(ranked, ways, count=sum(wrong.values()), examples=examples)
    for row in rows:
        way = ways[row["lane"]]
        if count := row[f"count_{way}"]:
            place, source, offset, at = row[f"moved_{way}"]
            words = f"the first of them belongs to {row['lane']}@{at}; their order is kept"
            target = Coordinates(row["lane"], place)
            yield Finding(Kind.MOVED, Coordinates(source, offset), target, count=count, words=words)


def _rank(paired: DataFrame, vague: Sequence[int]) -> DataFrame:
    """Pairs with whether they come too late or too early, and whether they lie elsewhere than the runs say.

    The places in runs of which the source has lost records are `vague`: only their order is known.
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


def _list_reordered(ranked: DataFrame, ways: Mapping[int, str], *, count: int, examples: int) -> Iterator[Finding]:
    of_way = {way: [lane for lane, chosen in ways.items() if chosen == way] or [-1] for way in _WAYS}
    is_wrong = reduce(or_, (sf.col(way) & sf.col("lane").isin(of_way[way]) for way in _WAYS))
    shown = ranked.where(is_wrong).orderBy("lane", "theirs.offset").limit(examples).collect()
    for row in shown:
        words = f"it belongs to {row['lane']}@{row['ours'][AT]}"
        yield Finding(Kind.REORDERED, _find_source(row), _find_target(row), words=words)
    if count > len(shown):
        yield Finding(Kind.REORDERED, count=count - len(shown), words="more records")


def _read_unpaired(paired: DataFrame, suspects: Sequence[Suspect]) -> Unpaired:
    # What compaction took from the source has no equal there, and is as it was written.
    excused = [one.number for one in suspects if one.is_gone and one.is_told]
    lost = paired.where("theirs is null")
    extra = paired.where("ours is null")
    if excused:
        extra = extra.where(~sf.col(f"theirs.{RUN}").isin(excused))
    wanted = [_read_wanted(row) for row in _take(lost, "ours")]
    lying = [Lying(_find_target(row), row["hash"], parts=_read_parts(row["theirs"])) for row in _take(extra, "theirs")]
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
