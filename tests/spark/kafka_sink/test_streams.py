"""Streams into Kafka: a batch that Spark runs again writes nothing twice, and a new checkpoint is a new stream."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql import functions as sf

from tests.spark.kafka_side import OLD_MS, numbers

ROWS = 6_000
WAIT_SECONDS = 600


@pytest.fixture
def source(kafka):
    """A topic with numbers in it."""
    topic = kafka.topic(partitions=2)
    kafka.fill(topic, ROWS)
    return topic


def run(spark, kafka, source, target, *, checkpoint, **options):
    """Bring the target up to the source's end, in batches of 2,000."""
    read = spark.readStream.format("kafka").option("subscribe", source).option("startingOffsets", "earliest")
    read = read.option("kafka.bootstrap.servers", kafka.servers).option("kafka.isolation.level", "read_committed")
    frame = read.option("includeHeaders", "true").option("maxOffsetsPerTrigger", "2000").load()
    columns = ("key", "value", "headers", "timestamp", sf.col("partition").alias("task"))
    write = frame.select(*columns).writeStream.format("seamark.kafka")
    given = {"topic": target, "control.topic": kafka.control, "kafka.bootstrap.servers": kafka.servers, **options}
    for key, value in given.items():
        write = write.option(key, value)
    query = write.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(WAIT_SECONDS), f"waited {WAIT_SECONDS} s for the stream"
    return query


def batches(checkpoint):
    """The batches that Spark has noted as done."""
    return sorted(int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdigit())


def forget(checkpoint, kind, batch):
    """Take away what Spark noted of a batch."""
    for name in (str(batch), f".{batch}.crc"):
        (checkpoint / kind / name).unlink()


def test_stream_writes_each_record_once_with_all_that_is_in_it(spark, kafka, source, tmp_path):
    target = kafka.topic(partitions=3)
    run(spark, kafka, source, target, checkpoint=tmp_path)
    found = kafka.read(target)
    assert Counter(record.value for record in found) == numbers(ROWS)
    assert all(record.headers == (("from", record.value),) for record in found)
    assert all(record.timestamp_ms == OLD_MS + int(record.value) for record in found)
    assert len(batches(tmp_path)) >= 3
    records = [record for record in kafka.records_of_tasks() if record.claim.query]
    assert {record.claim.batch for record in records} == set(batches(tmp_path))
    assert len(kafka.records_of_tasks()) == len(records) + 1, "no record says that the stream has begun"


def test_batch_that_runs_again_writes_nothing(spark, kafka, source, tmp_path):
    """A driver that dies between the sink's commit and its own note runs the batch again."""
    target = kafka.topic(partitions=3)
    run(spark, kafka, source, target, checkpoint=tmp_path)
    done = batches(tmp_path)
    written = len(kafka.records_of_tasks())
    forget(tmp_path, "commits", done[-1])
    run(spark, kafka, source, target, checkpoint=tmp_path)
    assert batches(tmp_path) == done
    assert len(kafka.records_of_tasks()) == written
    assert kafka.count(target, committed=False) == numbers(ROWS)


def test_stream_that_is_set_back_is_refused(spark, kafka, source, tmp_path):
    target = kafka.topic(partitions=3)
    run(spark, kafka, source, target, checkpoint=tmp_path)
    for batch in batches(tmp_path)[1:]:
        forget(tmp_path, "commits", batch)
        forget(tmp_path, "offsets", batch)
    with pytest.raises(Exception, match=r"is out of date: batch \d+ is already written"):
        run(spark, kafka, source, target, checkpoint=tmp_path)
    assert kafka.count(target, committed=False) == numbers(ROWS)


def test_new_checkpoint_is_a_new_stream(spark, kafka, source, tmp_path):
    target = kafka.topic(partitions=3)
    for name in ("one", "two"):
        run(spark, kafka, source, target, checkpoint=tmp_path / name)
    assert kafka.count(target) == numbers(ROWS) + numbers(ROWS)


def test_stream_that_goes_on_with_another_control_topic_is_refused(spark, kafka, source, tmp_path):
    """What it has written of a batch that was broken off stands in the first one."""
    target, other = kafka.topic(partitions=3), kafka.topic(partitions=8, cleanup_policy="compact")
    run(spark, kafka, source, target, checkpoint=tmp_path)
    forget(tmp_path, "commits", batches(tmp_path)[-1])
    with pytest.raises(Exception, match="has no records of the stream"):
        run(spark, kafka, source, target, checkpoint=tmp_path, **{"control.topic": other})
    with pytest.raises(Exception, match="option job is not supported for a stream"):
        run(spark, kafka, source, target, checkpoint=tmp_path, job="pipe")
    assert kafka.count(target, committed=False) == numbers(ROWS)
