"""A job for spark-submit: writes numbers to a topic, and prints where the executors found seamark.

spark-submit … packed_job.py SERVERS CONTROL TOPIC ROWS
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession


def find_homes(_rows):
    import confluent_kafka  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415

    import seamark  # noqa: PLC0415

    yield [module.__file__ for module in (seamark, confluent_kafka, pa)] + [sys.executable]


def main(servers, control, topic, rows):
    # A session of the user's own, that nobody told of the sink: Spark finds it by itself.
    spark = SparkSession.builder.getOrCreate()
    homes = spark.sparkContext.parallelize(range(2), 2).mapPartitions(find_homes).collect()
    frame = spark.range(int(rows), numPartitions=2).selectExpr("string(id) AS value")
    writer = frame.write.format("seamark.kafka").mode("append").option("kafka.bootstrap.servers", servers)
    writer.option("control.topic", control).option("topic", topic).save()
    print("HOMES", json.dumps(homes))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
