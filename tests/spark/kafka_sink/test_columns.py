"""What of a row is in its record, and what the sink says of frames and options it can't take."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import functions as sf

from seamark.kafka.partitioner import choose_partition

SCHEMA = (
    "key binary, value binary, headers array<struct<key: string, value: binary>>, partition int, timestamp timestamp"
)
OLD = datetime(2001, 2, 3, 4, 5, 6, 789_000, tzinfo=UTC)
OLD_MS = 981173106789


def test_everything_of_a_row_is_in_its_record(spark, kafka, save):
    topic = kafka.topic(partitions=4)
    rows = [
        (b"k", b"v", [("a", b"1"), ("b", None), ("a", b"")], 2, OLD),
        (None, b"no key", None, 2, OLD),
        (b"", b"empty key", [], 2, OLD),
        (b"k", None, None, 2, OLD),
        (b"k", b"", None, 2, OLD),
    ]
    save(spark.createDataFrame(rows, SCHEMA).coalesce(1), topic)
    found = kafka.read(topic)
    assert {record.partition for record in found} == {2}
    assert {record.timestamp_ms for record in found} == {OLD_MS}
    assert [(record.key, record.value) for record in found] == [(row[0], row[1]) for row in rows]
    assert [record.headers for record in found] == [(("a", b"1"), ("b", None), ("a", b"")), (), (), (), ()]


def test_without_partition_the_key_decides_as_in_java_and_without_time_it_is_now(spark, kafka, save):
    topic = kafka.topic(partitions=7)
    before = datetime.now(UTC).timestamp() * 1000 - 2000
    save(spark.range(300).select(sf.col("id").cast("string").alias("key"), sf.lit("v").alias("value")), topic)
    found = kafka.read(topic)
    assert len(found) == 300
    assert all(record.partition == choose_partition(record.key, partitions=7) for record in found)
    assert all(before < record.timestamp_ms for record in found)


def test_topics_come_from_a_column(spark, kafka, save):
    one, two = kafka.topic(), kafka.topic()
    which = sf.when(sf.col("id") % 3 == 0, one).otherwise(two).alias("topic")
    save(spark.range(30).select(which, sf.col("id").cast("string").alias("value")), None)
    assert (len(kafka.read(one)), len(kafka.read(two))) == (10, 20)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("id AS key, 'v' AS value", "key is bigint and must be binary or string: cast(key as binary)"),
        ("id AS value", "value is bigint and must be binary or string"),
        ("'v' AS value, id AS timestamp", "timestamp is bigint and must be timestamp: timestamp_millis(timestamp)"),
        ("'v' AS value, id AS partition", "partition is bigint and must be int: cast(partition as int)"),
        (
            "'v' AS value, map('a', 'b') AS headers",
            "headers is map<string,string> and must be array<struct<key: string",
        ),
        ("'v' AS value, 1 AS extra", "unknown column extra"),
        ("'k' AS key", "column value is missing"),
    ],
)
def test_wrong_columns_are_told_before_anything_is_written(spark, kafka, save, columns, said):
    topic = kafka.topic()
    with pytest.raises(Exception, match="can't be written to Kafka") as caught:
        save(spark.range(3).selectExpr(*[columns] if "," not in columns else split(columns)), topic)
    assert said in str(caught.value)
    assert "select only these columns" in str(caught.value)
    assert kafka.read(topic, committed=False) == []


def split(columns):
    """At commas outside of parentheses."""
    return columns.replace("('a', 'b')", "('a'; 'b')").replace(", ", "|").replace("; ", ", ").split("|")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tpoic": "x"}, "unknown option tpoic"),
        ({"kafka.acks": "1"}, "kafka.acks is controlled by the sink"),
        ({"kafka.no.such.key": "1"}, "no.such.key"),
        ({"job": "a/b"}, "invalid value 'a/b' for option job"),
        ({"ordered": "maybe"}, "invalid value 'maybe' for option ordered"),
        ({"transaction.records": "0"}, "invalid value '0' for option transaction.records"),
        ({"topic": "no-such-topic"}, "topic no-such-topic does not exist"),
        ({"topic": None}, "neither column topic nor option topic"),
        ({"mode": "overwrite"}, "can't be overwritten"),
        ({"kafka.sasl.password": "secret://env/NO_SUCH_NAME"}, "NO_SUCH_NAME is not set"),
    ],
)
def test_wrong_options_are_told(spark, kafka, save, options, said):
    topic = kafka.topic()
    with pytest.raises(Exception, match="hint: ") as caught:
        save(spark.range(3).selectExpr("'v' AS value"), **{"topic": topic, **options})
    assert said in str(caught.value)
    assert kafka.read(topic, committed=False) == []


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (["'v' AS value", "timestamp_millis(0) AS timestamp"], "1970-01-01 00:00:00 UTC or earlier"),
        (["'v' AS value", "9 AS partition"], "check the partition column"),
        (["'v' AS value", "array(struct(string(null) AS key, binary('x') AS value)) AS headers"], "without a name"),
        (["repeat('v', 3000000) AS value"], "max.message.bytes"),
    ],
)
def test_wrong_rows_are_told_and_leave_nothing(spark, kafka, save, columns, said):
    topic = kafka.topic()
    with pytest.raises(Exception, match="hint: ") as caught:
        save(spark.range(1).selectExpr(*columns), topic)
    assert said in str(caught.value)
    assert kafka.read(topic) == []


def test_no_secret_is_in_plan_or_event_log(spark, kafka, save, tmp_path):
    topic = kafka.topic()
    password = "hunter2-and-more"
    save(
        spark.range(3).selectExpr("'v' AS value"),
        topic,
        kafka__sasl__password=password,
        kafka__ssl__key__password=password,
        job="secrets",
    )
    assert len(kafka.read(topic)) == 3
    folder = spark.conf.get("spark.eventLog.dir").removeprefix("file://")
    (log,) = Path(folder).iterdir()
    text = log.read_text()
    assert "SparkListenerSQLExecutionStart" in text
    assert "AppendData" in text
    assert password not in text
