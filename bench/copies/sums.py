"""What is in a topic, as a few numbers: how many records, sums of their hashes, and how many are out of order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.copies.filling import NUMBER_DIGITS, SOURCE_DIGITS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Sums of whole hashes would run over the long that Spark adds in.
_LOW = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Sums:
    """Of all records that a reader of committed ones gets. `stamped` also sums timestamps."""

    records: int
    plain: tuple[int, int]
    stamped: tuple[int, int]


def read_sums(spark: SparkSession, servers: str, topic: str) -> Sums:
    """Read a topic once, and sum it up. Neither sum depends on the order."""
    from pyspark.sql import functions as sf  # noqa: PLC0415 - the list of benches needs no Spark

    plain = sf.xxhash64("key", "value")
    stamped = sf.xxhash64("key", "value", sf.unix_micros("timestamp"))
    row = (
        _read(spark, servers, topic)
        .select(plain.alias("plain"), stamped.alias("stamped"))
        .agg(
            sf.count(sf.lit(1)),
            *(
                made
                for name in ("plain", "stamped")
                for made in (sf.bit_xor(name), sf.sum(sf.col(name).bitwiseAND(_LOW)))
            ),
        )
        .first()
    )
    if row is None:
        raise AssertionError
    return Sums(row[0], plain=(row[1] or 0, row[2] or 0), stamped=(row[3] or 0, row[4] or 0))


def count_disorder(spark: SparkSession, servers: str, topic: str) -> int:
    """How many records come after a later one of the same source partition."""
    from pyspark.sql import Window  # noqa: PLC0415
    from pyspark.sql import functions as sf  # noqa: PLC0415

    head = sf.col("value").cast("string")
    source = sf.substring(head, 1, SOURCE_DIGITS).cast("int")
    number = sf.substring(head, SOURCE_DIGITS + 1, NUMBER_DIGITS).cast("long")
    lane = Window.partitionBy("partition", "source").orderBy("offset")
    frame = _read(spark, servers, topic).select("partition", "offset", source.alias("source"), number.alias("number"))
    marked = frame.select((sf.lag("number").over(lane) >= sf.col("number")).alias("is_late"))
    return int(marked.where("is_late").count())


def _read(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    options = {
        "kafka.bootstrap.servers": servers,
        "subscribe": topic,
        "kafka.isolation.level": "read_committed",
        "kafka.max.poll.records": "20000",
        "startingOffsets": "earliest",
        "endingOffsets": "latest",
    }
    return spark.read.format("kafka").options(**options).load()
