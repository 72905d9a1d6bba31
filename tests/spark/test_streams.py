"""Streams into Kafka: a batch that Spark runs again writes nothing twice, and a new checkpoint is a new stream."""

from __future__ import annotations

from collections import Counter

import pytest

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
    write = frame.select("key", "value", "headers", "timestamp").writeStream.format("seamark.kafka")
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
    assert {record.claim.batch for record in kafka.records_of_tasks()} == set(batches(tmp_path))


def test_batch_that_runs_again_writes_nothing(spark, kafka, source, tmp_path):
    """A driver that dies between the sink's commit and its own note runs the batch again."""
    target = kafka.topic(partitions=3)
    run(spark, kafka, source, target, checkpoint=tmp_path, job="pipe")
    done = batches(tmp_path)
    written = len(kafka.records_of_tasks())
    forget(tmp_path, "commits", done[-1])
    run(spark, kafka, source, target, checkpoint=tmp_path, job="pipe")
    assert batches(tmp_path) == done
    assert len(kafka.records_of_tasks()) == written
    assert kafka.count(target, committed=False) == numbers(ROWS)


def test_stream_that_is_set_back_is_refused(spark, kafka, source, tmp_path):
    target = kafka.topic(partitions=3)
    run(spark, kafka, source, target, checkpoint=tmp_path, job="pipe")
    for batch in batches(tmp_path)[1:]:
        forget(tmp_path, "commits", batch)
        forget(tmp_path, "offsets", batch)
    with pytest.raises(Exception, match=r"comes too late: batch \d+ is written"):
        run(spark, kafka, source, target, checkpoint=tmp_path, job="pipe")
    assert kafka.count(target, committed=False) == numbers(ROWS)


def test_new_checkpoint_is_a_new_stream(spark, kafka, source, tmp_path):
    target = kafka.topic(partitions=3)
    for name in ("one", "two"):
        run(spark, kafka, source, target, checkpoint=tmp_path / name, job="pipe")
    assert kafka.count(target) == numbers(ROWS) + numbers(ROWS)
