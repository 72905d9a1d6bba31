"""How large the records of a topic are: a quick look at the next ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from seamark.kafka.opening import open_client
from seamark.kafka.reading import build_reader_config
from seamark.kafka.wait import ConnectionEvents

_SIZES_GROUP = "seamark-record-sizes"
_MOST_RECORDS = 500
_MOST_PARTITIONS = 8
_LOOK_SECONDS = 2.0


def read_record_bytes(
    config: Mapping[str, str],
    topic: str,
    *,
    begins: Mapping[int, int],
    build_consumer: Callable[[dict[str, Any]], Any] | None = None,
) -> int:
    """The average bytes of key and value of some hundred records from these offsets on; 0 where none came in time."""
    from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415

    ours = build_reader_config(_SIZES_GROUP, fetch_wait_ms=10, isolation="read_committed")
    ours |= {"auto.offset.reset": "earliest", "fetch.message.max.bytes": 64 << 10}
    consumer = open_client(config, ours, build=build_consumer or Consumer, on_error=ConnectionEvents().record)
    some = sorted(begins.items())[:_MOST_PARTITIONS]
    records = total = 0
    deadline = time.monotonic() + _LOOK_SECONDS
    try:
        consumer.assign([TopicPartition(topic, partition, begin) for partition, begin in some])
        while records < _MOST_RECORDS and time.monotonic() < deadline:
            for message in consumer.consume(_MOST_RECORDS, 0.1):
                if message.error() is None:
                    records += 1
                    total += len(message.key() or b"") + len(message.value() or b"")
            if records and records < _MOST_RECORDS:
                # There are no more, or they come slowly: these will do.
                break
    finally:
        consumer.close()
    return -(-total // records) if records else 0
