"""Streams into Kafka: a batch that Spark runs again writes nothing twice, and a new checkpoint is a new stream."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql import functions as sf

from tests.spark.kafka_side import numbers

ROWS = 6_000
WAIT_SECONDS = 300


@pytest.fixture
def source(spark, kafka, save):
    """A topic with numbers in it, by the sink itself."""
    topic = kafka.topic(partitions=2)
    number = sf.col("id").cast("string")
    header = sf.array(sf.struct(sf.lit("from").alias("key"), number.cast("binary").alias("value")))
    stamp = sf.timestamp_millis(sf.lit(1_000_000_000_000) + sf.col("id")).alias("timestamp")
    rows = spark.range(ROWS).select(number.alias("key"), number.alias("value"), header.alias("headers"), stamp)
    save(rows, topic)
    return topic


def run(spark, kafka, source, target, *, checkpoint, **options):
    """Bring the target up to the source's end, in batches of 2,000."""
    read = spark.readStream.format("kafka").option("subscribe", source).option("startingOffsets", "earliest")
    read = read.option("kafka.bootstrap.servers", kafka.servers).option("kafka.isolation.level", "read_committed")
    frame = read.option("includeHeaders", "true").option("maxOffsetsPerTrigger", "2000").load()
    write = frame.select("key", "value", "headers", "timestamp").writeStream.format("seamark.kafka")
    given = {"topic": target, "control.topic": kafka.control, "kafka.bootstrap.servers": kafka.servers, **options}
    for key, value in given.items():
        write = write.option(key, value)
    query = write.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(WAIT_SECONDS), f"waited {WAIT_SECONDS} s for the stream"
    return query


def test_stream_writes_each_record_once_with_all_that_is_in_it(spark, kafka, source, tmp_path):
    target = kafka.topic(partitions=3)
    run(spark, kafka, source, target, checkpoint=tmp_path)
    found = kafka.read(target)
    assert Counter(record.value for record in found) == numbers(ROWS)
    assert all(record.headers == (("from", record.value),) for record in found)
    assert all(record.timestamp_ms == 1_000_000_000_000 + int(record.value) for record in found)
    batches = {record.claim.batch for record in kafka.records_of_tasks() if record.claim.query}
    assert batches == {0, 1, 2}


def test_batch_that_runs_again_writes_nothing(spark, kafka, source, tmp_path):
    """A driver that dies between the sink's commit and its own note runs the batch again."""
    target = kafka.topic(partitions=3)
    run(spark, kafka, source, target, checkpoint=tmp_path, job="pipe")
    for name in ("2", ".2.crc"):
        (tmp_path / "commits" / name).unlink()
    run(spark, kafka, source, target, checkpoint=tmp_path, job="pipe")
    assert (tmp_path / "commits" / "2").exists()
    assert kafka.count(target, committed=False) == numbers(ROWS)


def test_stream_that_is_set_back_is_refused(spark, kafka, source, tmp_path):
    target = kafka.topic(partitions=3)
    run(spark, kafka, source, target, checkpoint=tmp_path, job="pipe")
    for name in ("1", "2", ".1.crc", ".2.crc"):
        (tmp_path / "commits" / name).unlink()
        (tmp_path / "offsets" / name).unlink()
    with pytest.raises(Exception, match="comes too late: batch 2 is written"):
        run(spark, kafka, source, target, checkpoint=tmp_path, job="pipe")
    assert kafka.count(target, committed=False) == numbers(ROWS)


def test_new_checkpoint_is_a_new_stream(spark, kafka, source, tmp_path):
    target = kafka.topic(partitions=3)
    for name in ("one", "two"):
        run(spark, kafka, source, target, checkpoint=tmp_path / name, job="pipe")
    assert kafka.count(target) == numbers(ROWS) + numbers(ROWS)
