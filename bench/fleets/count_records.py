"""A program that reads a topic to its end and only counts: the least that anybody has to do."""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, TopicPartition

_BATCH = 10_000
_SECONDS = 60.0


def count_records(bootstrap: str, topic: str, partitions: int) -> int:
    """The records from the beginning to the ends of now."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False})
    left = 0
    starts = []
    for number in range(partitions):
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=_SECONDS)
        left += high - low
        starts.append(TopicPartition(topic, number, low))
    consumer.assign(starts)
    counted = 0
    while counted < left:
        messages = consumer.consume(_BATCH, timeout=_SECONDS)
        if not messages:
            break
        counted += len(messages)
    consumer.close()
    return counted


if __name__ == "__main__":
    print(count_records(sys.argv[1], sys.argv[2], int(sys.argv[3])))
