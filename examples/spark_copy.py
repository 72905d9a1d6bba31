"""A topic into another one, record by record, each once: keys, values, headers and timestamps as they were.

    python examples/spark_copy.py SERVERS FROM TO JOB

Run it again under the same JOB after a crash: what is written is passed over. Where the source ends is asked for once
and kept in a file, as a second run must read the same records. So FROM must not be compacted meanwhile. Spark's Kafka
source needs its jars: SEAMARK_SPARK_JARS.
"""

import json
import sys
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from seamark.spark import open_session


def main(servers: str, source: str, target: str, job: str) -> None:
    """Copy from the first record to where the source ends now, or ended at the first run of the job."""
    bounds = read_bounds(servers, source, Path(f"{job}.json"))
    spark = open_session(app=job)
    read = spark.read.format("kafka").option("kafka.bootstrap.servers", servers)
    read = read.option("kafka.isolation.level", "read_committed").option("includeHeaders", "true")
    # One task for each partition of the source, with its records in their order.
    frame = read.option("subscribe", source).options(**bounds).load()
    # The repeat of a job must know whose rows these are, whatever order Spark lists the partitions in.
    chosen = frame.selectExpr("key", "value", "headers", "timestamp", "partition AS task")
    write = chosen.write.format("seamark.kafka").mode("append")
    write = write.option("kafka.bootstrap.servers", servers).option("topic", target)
    write.option("job", job).option("ordered", "true").save()
    spark.stop()


def read_bounds(servers: str, topic: str, file: Path) -> dict[str, str]:
    """Where each partition begins and ends, as Spark's options want it; from the file where there is one."""
    if not file.exists():
        consumer = Consumer(
            {"bootstrap.servers": servers, "group.id": "spark-copy", "isolation.level": "read_committed"}
        )
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        marks = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=30) for p in partitions}
        consumer.close()
        file.write_text(
            json.dumps(
                {
                    "startingOffsets": json.dumps({topic: {str(p): low for p, (low, _) in marks.items()}}),
                    "endingOffsets": json.dumps({topic: {str(p): high for p, (_, high) in marks.items()}}),
                }
            )
        )
    return json.loads(file.read_text())


if __name__ == "__main__":
    main(*sys.argv[1:])
