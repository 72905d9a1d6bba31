"""A topic copied to another number of partitions, every record compared; and what its control records say of it."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import replace
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from seamark.copies.cutover.translation import build_map, translate
from seamark.copies.plan.endpoints import CopyEnds
from seamark.copies.plan.plan import CopyPlan, Limits, TopicEnd, cut_slices
from seamark.copies.run.spark_copy import run_copy
from seamark.kafka.partitioner import choose_partition
from seamark.kafka_sink.routing import Partitioner, Routing
from seamark.spark.slices import OffsetRange
from tests.spark.kafka_side import OLD_MS, WAIT_SECONDS

ROWS = 20_000
# Two slices.
LIMIT = 12_000


def fill(kafka, topic, *, partitions):
    """Keys where Java puts them, some records without; tombstones, headers, times that jump."""
    producer = Producer({"bootstrap.servers": kafka.servers, "linger.ms": 20})
    produce(producer, topic, range(ROWS), partitions=partitions)
    assert producer.flush(WAIT_SECONDS) == 0, f"waited {WAIT_SECONDS} s for the brokers to take the source's records"


def fill_in_transactions(kafka, topic, *, partitions):
    """The same in four transactions and one that is taken back: some offsets have no record that a reader gets."""
    producer = Producer({"bootstrap.servers": kafka.servers, "linger.ms": 20, "transactional.id": uuid4().hex})
    producer.init_transactions(WAIT_SECONDS)
    for begin in range(0, ROWS, ROWS // 4):
        producer.begin_transaction()
        produce(producer, topic, range(begin, begin + ROWS // 4), partitions=partitions)
        producer.commit_transaction(WAIT_SECONDS)
        if begin == 0:
            producer.begin_transaction()
            produce(producer, topic, range(300), partitions=partitions)
            assert producer.flush(WAIT_SECONDS) == 0
            producer.abort_transaction(WAIT_SECONDS)


def produce(producer, topic, numbers, *, partitions):
    for number in numbers:
        text = str(number).encode()
        key = None if number % 11 == 0 else f"key-{number % 3000}".encode()
        producer.produce(
            topic,
            key=key,
            value=None if key is not None and number % 7 == 0 else text,
            headers=[("n", text), ("n", b""), ("null", None)] if number % 3 == 0 else None,
            partition=number % partitions if key is None else choose_partition(key, partitions=partitions),
            timestamp=OLD_MS + (number * 7919) % 100_000,
        )
        if number % 1000 == 0:
            producer.poll(0)


def build_plan(source, target, *, found, shape, rule=Partitioner.MURMUR2):
    by_partition = defaultdict(int)
    for record in found:
        by_partition[record.partition] = max(by_partition[record.partition], record.offset + 1)
    ranges = tuple(OffsetRange(partition, 0, by_partition[partition]) for partition in range(shape[0]))
    return CopyPlan(
        id=uuid4().hex,
        made_at="2026-11-15T00:00:00Z",
        source=TopicEnd("c", source, "", partitions=shape[0], replication_factor=1),
        target=TopicEnd("c", target, "", partitions=shape[1], replication_factor=1),
        routing=Routing(rule, *shape),
        evidence="a test",
        ranges=ranges,
        slices=cut_slices(ranges, {}, limits=Limits(LIMIT)),
        configs=(),
    )


def ends(kafka):
    servers = {"kafka.bootstrap.servers": kafka.servers}
    return CopyEnds(servers, target=servers, control_topic=kafka.control)


def what(record):
    return (record.key, record.value, record.headers, record.timestamp_ms)


@pytest.mark.parametrize(
    ("shape", "write"),
    [((12, 6), fill), ((6, 12), fill), ((12, 8), fill_in_transactions), ((6, 5), fill), ((6, 6), fill_in_transactions)],
)
def test_copy_has_every_record_in_order_and_says_where_it_is(spark, kafka, shape, write):
    source, target = kafka.topic(partitions=shape[0]), kafka.topic(partitions=shape[1])
    write(kafka, source, partitions=shape[0])
    read = kafka.read(source)
    plan = build_plan(source, target, found=read, shape=shape)
    progress = run_copy(spark, plan, ends(kafka))
    assert len(plan.slices) == 2
    assert plan.routing.needs_shuffle == (shape in {(12, 6), (12, 8), (6, 5)})
    assert (progress.is_complete, progress.count, progress.repeats) == (True, ROWS, 0)
    written = kafka.read(target)
    assert len(written) == ROWS
    compare(plan, read, written, progress)
    # A second run finds everything done; nothing more is in the target, not even something taken back.
    assert run_copy(spark, plan, ends(kafka)) == progress
    assert len(kafka.read(target, committed=False)) == ROWS


def compare(plan, read, written, progress):
    """By the runs, each record of the source is at its own offset of the target; there is nothing else."""
    by_source = {(record.partition, record.offset): record for record in read}
    by_target = {(record.partition, record.offset): record for record in written}
    seen = set()
    for run in progress.runs():
        origins = [
            record
            for offset in range(run.first_source, run.last_source + 1)
            if (record := by_source.get((run.source, offset)))
            and plan.routing.choose(record.key, source=run.source) == run.target
        ]
        places = [(run.target, offset) for offset in range(run.first_target, run.last_target + 1)]
        assert [what(record) for record in origins] == [what(by_target[place]) for place in places]
        assert not seen.intersection(places)
        seen.update(places)
    assert seen == set(by_target)
    # Of one source partition, what comes later there comes later here.
    for target, runs in itertools.groupby(sorted(progress.runs(), key=lambda run: run.target), lambda run: run.target):
        for _, own in itertools.groupby(sorted(runs, key=lambda run: run.source), lambda run: run.source):
            offsets = [(run.first_source, run.first_target) for run in own]
            assert offsets == sorted(offsets), f"target {target} is out of order"
    translate_back(plan, by_target, progress)


def translate_back(plan, by_target, progress):
    """A reader that has had everything goes on at the ends, and one that has had nothing at the first record."""
    copied = build_map(progress, plan.ranges, targets=plan.target.partitions)
    drained = translate(copied, {one.partition: one.end for one in plan.ranges})
    fresh = translate(copied, {one.partition: one.begin for one in plan.ranges})
    assert (drained.to_read, drained.replayed.most) == (0, 0)
    assert (fresh.to_read, fresh.replayed.most) == (len(by_target), 0)
    firsts = {target: min(o for t, o in by_target if t == target) for target in {t for t, _ in by_target}}
    assert fresh.offsets == firsts


def test_record_that_lies_elsewhere_than_its_key_says_stops_the_copy(spark, kafka):
    source, target = kafka.topic(partitions=2), kafka.topic(partitions=4)
    key = next(key for key in map(str.encode, map(str, range(9))) if choose_partition(key, partitions=2) == 0)
    producer = Producer({"bootstrap.servers": kafka.servers})
    producer.produce(source, key=key, value=b"astray", partition=1)
    assert producer.flush(WAIT_SECONDS) == 0
    plan = build_plan(source, target, found=kafka.read(source), shape=(2, 4))
    with pytest.raises(Exception, match="misplaced record at offset 0 of partition 1: its key belongs to"):
        run_copy(spark, plan, ends(kafka))
    assert kafka.read(target) == []
    # By its partition alone it may go.
    free = replace(plan, id=uuid4().hex, routing=Routing(Partitioner.PARTITION, 2, 4))
    assert run_copy(spark, free, ends(kafka)).count == 1
    assert [(record.partition, record.value) for record in kafka.read(target)] == [(1, b"astray")]
