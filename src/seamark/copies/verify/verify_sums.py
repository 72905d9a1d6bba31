"""One scan of a side of a copy: count and checksums of every run, and nothing that grows with the records."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from seamark.copies.verify.verif_sums import Scan, Sums
from seamark.copies.verify.verify_places import AT, HASH, RUN, TARGET, RunTable
from seamark.kafka_sink.copy_run import Checksum
from seamark.spark.source import build_hash

_ORDERED, _TIME = "ordered", "time"
_MASK = (1 << 64) - 1
_LOW = (1 << 32) - 1


def scan_source(frame: DataFrame, table: RunTable) -> Scan:
    """What is left of the source, by the runs that its records must be in."""
    return _sum(table.locate_source(_shorten(frame)), is_target=False)


def scan_target(frame: DataFrame, table: RunTable) -> Scan:
    """What is in the target, by the runs that lie there."""
    return _sum(table.locate_target(_shorten(frame)), is_target=True)


def _shorten(frame: DataFrame) -> DataFrame:
    """Values and headers stay in the JVM: only their hash goes on."""
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
    """The sum in two halves, as a sum of whole hashes overflows; and the xor."""
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
