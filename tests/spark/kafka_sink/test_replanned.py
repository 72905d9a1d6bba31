"""Streams whose batch runs again after a restart: exact with the column `task`, else refused before any duplicate."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql import functions as sf

from tests.spark.kafka_side import numbers
from tests.spark.kafka_sink.test_streams import WAIT_SECONDS, batches, forget

ROWS, FILES = 400, 8


@pytest.fixture(params=["json", "delta"])
def source(request, spark, tmp_path):
    """A function that adds rows to a table of files, and one that reads it as a stream."""
    folder = str(tmp_path / "in")

    def add(first, last):
        frame = spark.range(first, last).select(sf.col("id").cast("string").alias("value")).repartition(FILES)
        frame.write.format(request.param).mode("append").save(folder)

    def read():
        reader = spark.readStream.format(request.param)
        return (reader.schema("value string") if request.param == "json" else reader).load(folder)

    add(0, ROWS)
    return add, read


@pytest.fixture
def target(kafka):
    return kafka.topic(partitions=2)


def run(kafka, frame, target, checkpoint, **options):
    write = frame.writeStream.format("seamark.kafka")
    given = {"topic": target, "control.topic": kafka.control, "kafka.bootstrap.servers": kafka.servers, **options}
    for key, value in given.items():
        write = write.option(key, value)
    query = write.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(WAIT_SECONDS), f"waited {WAIT_SECONDS} s for the stream"


def test_batch_of_another_run_is_refused_and_continues_where_that_is_accepted(kafka, source, target, tmp_path):
    add, read = source
    checkpoint = tmp_path / "checkpoint"
    run(kafka, read(), target, checkpoint)
    assert kafka.count(target) == numbers(ROWS)
    # As after a crash before Spark has noted the batch as done.
    last = batches(checkpoint)[-1]
    forget(checkpoint, "commits", last)
    # Other tasks than before: rows of one that is done are in others now.
    with pytest.raises(Exception, match=rf"batch {last} of the stream was started by another run") as error:
        run(kafka, read().coalesce(1), target, checkpoint)
    assert f'option("repeat.batch", "{last}")' in str(error.value)
    assert kafka.count(target, committed=False) == numbers(ROWS)
    run(kafka, read(), target, checkpoint, **{"repeat.batch": str(last)})
    add(ROWS, 2 * ROWS)
    # The option names one batch, so it does no harm to later ones.
    run(kafka, read(), target, checkpoint, **{"repeat.batch": str(last)})
    found = kafka.count(target)
    assert found.keys() == numbers(2 * ROWS).keys()
    assert all(found[value] == 1 for value in numbers(2 * ROWS).keys() - numbers(ROWS).keys())


def test_batch_with_the_column_task_is_exact_however_it_is_planned(spark, kafka, source, target, tmp_path):
    add, read = source
    checkpoint = tmp_path / "checkpoint"

    def build(tasks):
        frame = read().withColumn("task", sf.pmod(sf.xxhash64("value"), sf.lit(4)).cast("int"))
        return frame.repartitionById(tasks, "task")

    spark.conf.set("spark.sql.adaptive.enabled", "true")
    try:
        run(kafka, build(4), target, checkpoint)
        for tasks in (4, 8, 5):
            forget(checkpoint, "commits", batches(checkpoint)[-1])
            run(kafka, build(tasks), target, checkpoint)
        add(ROWS, 2 * ROWS)
        run(kafka, build(6), target, checkpoint)
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", "false")
    assert Counter(kafka.count(target, committed=False)) == numbers(2 * ROWS)
