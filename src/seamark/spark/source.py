"""Records of a topic by explicit offsets, as Spark's own Kafka source reads them, and their hashes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from seamark.spark.slices import OffsetRange
from seamark.spark.source_options import build_source_options


def read_ranges(
    spark: SparkSession,
    topic: str,
    ranges: Sequence[OffsetRange],
    *,
    options: Mapping[str, str],
    may_be_gone: bool = False,
) -> DataFrame:
    """The committed records of these offsets, with headers. A partition may have several ranges.

    Each range is read by one task, in order. Offsets that the topic no longer has are an error, unless `may_be_gone`.
    """
    rounds = _deal(ranges)
    frames = [_read(spark, topic, part, options=options, may_be_gone=may_be_gone) for part in rounds]
    return reduce(DataFrame.unionAll, frames)


def build_hash() -> Column:
    """The hash of a record, `xxhash64` in control records. Spark passes over nulls, so it is told of each."""
    return sf.xxhash64(
        sf.col("key").isNull(),
        "key",
        sf.col("value").isNull(),
        "value",
        build_plain_headers(),
        sf.unix_micros("timestamp"),
    )


def build_plain_headers() -> Column:
    """The headers of a record, so that a hash tells a null from nothing."""
    return sf.transform("headers", lambda one: sf.struct(one["key"], one["value"].isNull(), one["value"]))


def _deal(ranges: Sequence[OffsetRange]) -> list[list[OffsetRange]]:
    """One range of each partition a round: that is as much as one frame of the source takes."""
    rounds: list[list[OffsetRange]] = [[]]
    dealt: dict[int, int] = {}
    for one in ranges:
        place = dealt.get(one.partition, 0)
        dealt[one.partition] = place + 1
        if place == len(rounds):
            rounds.append([])
        rounds[place].append(one)
    return rounds


def _read(
    spark: SparkSession,
    topic: str,
    ranges: Sequence[OffsetRange],
    *,
    options: Mapping[str, str],
    may_be_gone: bool,
) -> DataFrame:
    begins = {str(one.partition): one.begin for one in ranges}
    limits = {str(one.partition): one.end for one in ranges}
    reader = spark.read.format("kafka").options(**build_source_options(options))
    if may_be_gone:
        reader = reader.option("failOnDataLoss", "false")
    reader = reader.option("assign", json.dumps({topic: [one.partition for one in ranges]}))
    reader = reader.option("startingOffsets", json.dumps({topic: begins}))
    return reader.option("endingOffsets", json.dumps({topic: limits})).load()
