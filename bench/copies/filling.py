"""Fills the source of a copy: `python -m bench.copies.filling SERVERS TOPIC PARTITIONS RECORDS BYTES`.

A program of its own, so that the memory of the bench is not that of its filling. A value begins with the number of its
source partition and of its record, both in digits: whoever reads the copy can tell whether the order was kept.
"""

from __future__ import annotations

import random
import sys
import time

from confluent_kafka import Producer

from seamark.kafka.partitioner import choose_partition

# More than there are in a batch of a task, so that none has the same key twice.
KEYS = 100_000
SOURCE_DIGITS, NUMBER_DIGITS = 3, 11
# In the past, and each record its own: a copy that stamps records anew is seen.
FIRST_MS = 1_700_000_000_000
# Letters of sixteen kinds: lz4 makes some of it smaller, as of real records, and not all.
_STOCK = 1 << 20
_SECONDS = 900.0


def build_value(number: int, *, source: int, size: int, stock: bytes) -> bytes:
    """So many bytes, which begin with where the record is."""
    head = b"%0*d%0*d" % (SOURCE_DIGITS, source, NUMBER_DIGITS, number)
    begin = number * 7919 % (len(stock) - size)
    return head + stock[begin : begin + size - len(head)]


def fill_topic(servers: str, topic: str, *, partitions: int, records: int, size: int) -> None:
    """Write records with key, value and timestamp, each where Java's producers would put it."""
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "acks": "all",
            "linger.ms": 50,
            "batch.size": 1 << 20,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 200_000,
            "delivery.report.only.error": True,
            "on_delivery": _expect_written,
        }
    )
    stock = random.Random(7).randbytes(_STOCK // 2).hex().encode()
    keys = [b"key-%06d" % number for number in range(min(KEYS, records))]
    homes = [choose_partition(key, partitions=partitions) for key in keys]
    deadline = time.monotonic() + _SECONDS
    for number in range(records):
        place = number % len(keys)
        value = build_value(number, source=homes[place], size=size, stock=stock)
        while True:
            try:
                producer.produce(
                    topic, key=keys[place], value=value, partition=homes[place], timestamp=FIRST_MS + number
                )
                break
            except BufferError:
                producer.poll(0.1)
                _expect_time(deadline)
        if number % 10_000 == 0:
            producer.poll(0)
    while producer.flush(1.0):
        _expect_time(deadline)


def _expect_time(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise SystemExit(f"the topic was not filled within {_SECONDS:g} s")


def _expect_written(error: object, _: object) -> None:
    if error is not None:
        raise SystemExit(f"the brokers refused a record: {error}")


if __name__ == "__main__":
    fill_topic(sys.argv[1], sys.argv[2], partitions=int(sys.argv[3]), records=int(sys.argv[4]), size=int(sys.argv[5]))
