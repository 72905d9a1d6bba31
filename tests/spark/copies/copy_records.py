"""The records of a copy under faults: numbered ones go to a source, and every one is looked for in the target."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from confluent_kafka import Producer

from seamark.kafka.partitioner import choose_partition
from tests.spark.kafka_side import OLD_MS, WAIT_SECONDS

_BODY = b"x" * 80


def fill(servers, topic, *, rows, partitions):
    """Numbers from 0 on, in a header: keys where Java puts them, some without; tombstones, times that jump."""
    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 20, "enable.idempotence": True, "compression.type": "lz4"}
    )
    for number in range(rows):
        key = None if number % 11 == 0 else f"key-{number % 5003}".encode()
        text = f"{number}".encode()
        producer.produce(
            topic,
            key=key,
            value=None if key is not None and number % 13 == 0 else text + _BODY,
            headers=[("n", text), ("n", b""), ("null", None)] if number % 3 == 0 else [("n", text)],
            partition=number % partitions if key is None else choose_partition(key, partitions=partitions),
            timestamp=OLD_MS + (number * 7919) % 100_000,
        )
        if number % 20_000 == 0:
            # The client keeps 100,000 at most, and a quiet machine is faster than its broker.
            assert producer.flush(WAIT_SECONDS) == 0
    assert producer.flush(WAIT_SECONDS) == 0, f"waited {WAIT_SECONDS} s for the brokers to take the source's records"


def digest(record):
    """All that a copy keeps of a record, as one number. The same within this process alone."""
    return hash((record.key, record.value, record.headers, record.timestamp_ms))


def number_of(record):
    return int(record.headers[0][1])


@dataclass
class Source:
    """Where each number lies in the source, and what it is."""

    partitions: array = field(default_factory=lambda: array("i"))
    offsets: array = field(default_factory=lambda: array("q"))
    digests: array = field(default_factory=lambda: array("q"))

    @classmethod
    def read(cls, records, *, rows):
        found = cls(array("i", [-1]) * rows, array("q", [-1]) * rows, array("q", [0]) * rows)
        for record in records:
            number = number_of(record)
            assert found.partitions[number] < 0, f"{number} stands twice in the source"
            found.partitions[number] = record.partition
            found.offsets[number], found.digests[number] = record.offset, digest(record)
        assert min(found.partitions) >= 0, "a number is missing in the source"
        return found


def compare(source, records, *, routing):
    """What a reader of committed records gets, against the source: how many are wrong, and in which way."""
    wrong = Counter(lost=0, doubled=0, changed=0, misplaced=0, reordered=0)
    seen = bytearray(len(source.partitions))
    reached = defaultdict(lambda: -1)
    for record in records:
        number = number_of(record)
        origin = source.partitions[number]
        wrong["doubled"] += seen[number]
        seen[number] = 1
        wrong["changed"] += source.digests[number] != digest(record)
        wrong["misplaced"] += routing.choose(record.key, source=origin) != record.partition
        pair = (origin, record.partition)
        wrong["reordered"] += source.offsets[number] <= reached[pair]
        reached[pair] = max(reached[pair], source.offsets[number])
    wrong["lost"] = seen.count(0)
    return wrong


def compare_debris(debris, committed, uncommitted):
    """Whether the list of debris is what a reader of uncommitted records sees beyond the committed ones.

    Gives how many such records there are, and how many are wrongly listed or not listed.
    """
    spans = defaultdict(list)
    for one in debris:
        spans[one.target].append((one.first, one.last))
    starts = {target: [first for first, _ in found] for target, found in spans.items()}

    def is_listed(record):
        place = bisect_right(starts.get(record.partition, []), record.offset) - 1
        return place >= 0 and record.offset <= spans[record.partition][place][1]

    listed_wrongly = sum(map(is_listed, committed))
    found = Counter(map(is_listed, uncommitted))
    return found[True], listed_wrongly + abs(found[False] - sum(1 for _ in committed))
