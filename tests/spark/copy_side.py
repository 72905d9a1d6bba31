"""Topics to be copied, and copies with faults in them. Every record has a timestamp of its own, to know it by."""

from __future__ import annotations

from uuid import uuid4

from confluent_kafka import Producer

from seamark.copies.plan.endpoints import CopyEnds
from seamark.copies.plan.plan import CopyPlan, Limits, TopicEnd, cut_slices
from seamark.kafka.partitioner import build_partitioner
from seamark.kafka_sink.routing import Partitioner, Routing
from seamark.spark.slices import OffsetRange
from tests.spark.kafka_side import OLD_MS, WAIT_SECONDS

# A prime above every count of rows here, so that times jump and none comes twice.
_JUMPS = 1_000_003


def build_ends(kafka):
    """Both ends in one cluster."""
    servers = {"kafka.bootstrap.servers": kafka.servers}
    return CopyEnds(servers, target=servers, control_topic=kafka.control)


def fill(kafka, topic, *, rows, partitions, transactions=0, keyless=True):
    """Keys where Java puts them, some records without; tombstones, headers, old times that jump.

    With transactions every second one is followed by one that is taken back.
    """
    settings = {"bootstrap.servers": kafka.servers, "linger.ms": 50, "batch.num.messages": 10_000}
    if transactions:
        settings["transactional.id"] = uuid4().hex
    producer = Producer(settings)
    choose = build_partitioner(partitions)
    if not transactions:
        _produce(producer, topic, range(rows), choose=choose, partitions=partitions, keyless=keyless)
        assert producer.flush(WAIT_SECONDS) == 0, f"waited {WAIT_SECONDS} s for the brokers to take the records"
        return
    producer.init_transactions(WAIT_SECONDS)
    size = rows // transactions
    for place in range(transactions):
        producer.begin_transaction()
        numbers = range(place * size, (place + 1) * size)
        _produce(producer, topic, numbers, choose=choose, partitions=partitions, keyless=keyless)
        producer.commit_transaction(WAIT_SECONDS)
        if place % 2 == 0:
            producer.begin_transaction()
            _produce(producer, topic, range(500), choose=choose, partitions=partitions, keyless=keyless)
            assert producer.flush(WAIT_SECONDS) == 0
            producer.abort_transaction(WAIT_SECONDS)


def _produce(producer, topic, numbers, *, choose, partitions, keyless):
    for number in numbers:
        text = str(number).encode()
        key = None if keyless and number % 11 == 0 else b"key-%d" % (number % 5000)
        producer.produce(
            topic,
            key=key,
            value=None if key is not None and number % 7 == 0 else text,
            headers=[("n", text), ("n", b""), ("null", None)] if number % 3 == 0 else None,
            partition=number % partitions if key is None else choose(key),
            timestamp=OLD_MS + (number * 7919) % _JUMPS,
        )
        if number % 10_000 == 0:
            producer.poll(0)


def build_plan(source, target, *, found, shape, limit):
    """A plan for what was found in a source, in slices of so many offsets."""
    tops = dict.fromkeys(range(shape[0]), 0)
    for record in found:
        tops[record.partition] = max(tops[record.partition], record.offset + 1)
    ranges = tuple(OffsetRange(partition, 0, top) for partition, top in tops.items())
    return CopyPlan(
        id=uuid4().hex,
        made_at="2026-11-16T00:00:00Z",
        source=TopicEnd("c", source, "", partitions=shape[0], replication_factor=1),
        target=TopicEnd("c", target, "", partitions=shape[1], replication_factor=1),
        routing=Routing(Partitioner.MURMUR2, *shape),
        evidence="a test",
        ranges=ranges,
        slices=cut_slices(ranges, {}, limits=Limits(limit)),
        configs=(),
    )


def rewrite(kafka, by_partition):
    """A topic with these records, in their order from offset 0 on: a target as it should not be."""
    topic = kafka.topic(partitions=len(by_partition))
    producer = Producer({"bootstrap.servers": kafka.servers, "linger.ms": 20, "enable.idempotence": True})
    for partition, records in by_partition.items():
        for record in records:
            producer.produce(
                topic,
                key=record.key,
                value=record.value,
                headers=list(record.headers) or None,
                partition=partition,
                timestamp=record.timestamp_ms,
            )
    assert producer.flush(WAIT_SECONDS) == 0, f"waited {WAIT_SECONDS} s for the brokers to take the target's records"
    return topic
