"""Every shape of copy, at some size: copied, verified in full, and fifty readers led to where they go on."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from dataclasses import dataclass
from uuid import uuid4

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from seamark.copies.cutover.translation import build_map, translate_all
from seamark.copies.run.spark_copy import run_copy
from seamark.copies.verify.report import Level
from seamark.copies.verify.spark_match import SparkRecounter
from seamark.copies.verify.spark_verify import verify_copy
from tests.spark.copy_side import build_ends, build_plan, fill
from tests.spark.kafka_side import OLD_MS, WAIT_SECONDS, KafkaSide

ROWS = 100_000
LIMIT = 60_000
READERS = 50
# Where the records of a source come in transactions, some of them taken back.
TRANSACTIONS = {6: 8, 12: 0, 8: 0}


@dataclass(frozen=True)
class Source:
    topic: str
    read: list


class Sources:
    """Filled topics, by their number of partitions: several shapes share one."""

    def __init__(self, kafka):
        self.kafka = kafka
        self._found = {}

    def take(self, partitions):
        if partitions not in self._found:
            topic = self.kafka.topic(partitions=partitions)
            fill(self.kafka, topic, rows=ROWS, partitions=partitions, transactions=TRANSACTIONS[partitions])
            self._found[partitions] = Source(topic, self.kafka.read(topic))
        return self._found[partitions]


@pytest.fixture(scope="module")
def sources(stack):
    with KafkaSide(stack.kafka.bootstrap_servers) as kafka:
        yield Sources(kafka)


@dataclass(frozen=True)
class Copied:
    plan: object
    progress: object
    ends: object
    # Of each target partition: offset, source partition and source offset of its records, in order.
    layout: dict


def copy_shape(spark, sources, shape):
    kafka, source = sources.kafka, sources.take(shape[0])
    assert len(source.read) == ROWS
    target = kafka.topic(partitions=shape[1])
    plan = build_plan(source.topic, target, found=source.read, shape=shape, limit=LIMIT)
    return run_whole(spark, kafka, plan, read=source.read)


def run_whole(spark, kafka, plan, *, read):
    progress = run_copy(spark, plan, build_ends(kafka))
    assert (progress.is_complete, progress.count) == (True, len(read))
    # Each has a timestamp of its own, which tells who it is without asking the copy.
    origins = {record.timestamp_ms: (record.partition, record.offset) for record in read}
    assert len(origins) == len(read)
    layout = defaultdict(list)
    for record in sorted(kafka.read(plan.target.topic), key=lambda one: one.offset):
        layout[record.partition].append((record.offset, *origins.pop(record.timestamp_ms)))
    assert not origins, f"{len(origins)} records are not in the target"
    return Copied(plan, progress, build_ends(kafka), layout=layout)


def draw_readers(plan, *, seed):
    """Positions of readers: mostly anywhere, some at the begin or the end of a partition."""
    chance = random.Random(seed)
    return {
        f"reader-{number}": {
            one.partition: chance.choice([one.begin, one.end])
            if chance.random() < 0.1
            else chance.randint(one.begin, one.end)
            for one in plan.ranges
        }
        for number in range(READERS)
    }


def count_really(layout, positions, offsets):
    """What a reader that goes on at these offsets skips, and what it reads again."""
    skipped = replayed = 0
    for target, records in layout.items():
        for offset, source, source_offset in records:
            if offset < offsets[target]:
                skipped += source_offset >= positions[source]
            else:
                replayed += source_offset < positions[source]
    return skipped, replayed


def check_readers(spark, copied, *, is_exact):
    """Fifty readers skip nothing, and read again what was said."""
    readers = draw_readers(copied.plan, seed=len(copied.layout))
    known = build_map(copied.progress, copied.plan.ranges, targets=copied.plan.target.partitions)
    recounter = SparkRecounter(spark, copied.plan, copied.ends)
    found = translate_all(known, readers, recount=recounter.recount)
    bounds = 0
    for name, translation in found.items():
        skipped, replayed = count_really(copied.layout, readers[name], translation.offsets)
        told = translation.replayed
        assert skipped == 0, f"{name} skips {skipped} records"
        assert told.least <= replayed <= told.most, f"{name} reads {replayed} again, and {told} was said"
        bounds += not told.is_exact
    assert len(found) == READERS
    assert is_exact == (bounds == 0), f"{bounds} of {READERS} replays are bounds"
    return found


@pytest.mark.parametrize("shape", [(12, 6), (12, 8), (6, 12), (6, 5), (6, 6)], ids=lambda one: f"{one[0]}-to-{one[1]}")
def test_copy_of_any_shape_is_proven_and_leads_its_readers(spark, sources, shape):
    copied = copy_shape(spark, sources, shape)
    report = verify_copy(spark, copied.plan, copied.ends, level=Level.FULL)
    assert (report.is_passed, report.findings, report.gone) == (True, (), ())
    assert (report.compared.source_records, report.compared.target_records) == (ROWS, ROWS)
    found = check_readers(spark, copied, is_exact=True)
    replays = [one.replayed.most for one in found.values()]
    # Where each target has one source nothing is read again.
    assert any(replays) == copied.plan.routing.needs_shuffle


def test_source_that_is_compacted_after_its_copy(spark, sources):
    shape = (8, 3)
    copied = copy_shape(spark, sources, shape)
    assert verify_copy(spark, copied.plan, copied.ends, level=Level.FULL).is_passed
    check_readers(spark, copied, is_exact=True)
    topic = sources.take(8).topic
    before = compact(sources.kafka, topic, copied.plan)
    report = verify_copy(spark, copied.plan, copied.ends, level=Level.FULL)
    # What is left is compared, and what is not is said.
    assert (report.is_passed, report.findings) == (True, ())
    assert report.compared.target_records == ROWS
    # The brokers may have gone on compacting.
    after = count_left(sources.kafka, topic, copied.plan)
    assert 0 < after <= report.compared.source_records <= before < ROWS
    assert sum(one.count for one in report.gone) == ROWS - report.compared.source_records
    # Replays are bounds now, and still nobody skips a record.
    check_readers(spark, copied, is_exact=False)


def compact(kafka, topic, plan):
    """Have the brokers compact a topic, and wait until they have begun. Gives the records left of the plan's."""
    admin = AdminClient({"bootstrap.servers": kafka.servers})
    configs = {
        "cleanup.policy": "compact",
        "segment.ms": "1000",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "0",
    }
    entries = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in configs.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(timeout=30)
    roll(kafka, topic, plan)
    deadline = time.monotonic() + WAIT_SECONDS
    while (left := count_left(kafka, topic, plan)) == ROWS:
        assert time.monotonic() < deadline, f"waited {WAIT_SECONDS} s for the brokers to compact {topic}"
        time.sleep(2)
    return left


def count_left(kafka, topic, plan):
    """How many records of a plan its source still has."""
    tops = {one.partition: one.end for one in plan.ranges}
    return sum(record.offset < tops[record.partition] for record in kafka.read(topic))


def roll(kafka, topic, plan):
    """End the segments that the plan's records lie in: the active one is never compacted."""
    producer = Producer({"bootstrap.servers": kafka.servers})
    for later in (OLD_MS + 10_000_000, OLD_MS + 20_000_000):
        for one in plan.ranges:
            producer.produce(topic, key=uuid4().bytes, value=b"", partition=one.partition, timestamp=later)
        assert producer.flush(WAIT_SECONDS) == 0


def test_source_whose_oldest_records_were_deleted_after_its_copy(spark, sources):
    kafka = sources.kafka
    source, target = kafka.topic(partitions=4), kafka.topic(partitions=3)
    fill(kafka, source, rows=5000, partitions=4)
    read = kafka.read(source)
    plan = build_plan(source, target, found=read, shape=(4, 3), limit=5000)
    copied = run_whole(spark, kafka, plan, read=read)
    admin = AdminClient({"bootstrap.servers": kafka.servers})
    cut = TopicPartition(source, 0, plan.ranges[0].end // 2)
    admin.delete_records([cut])[cut].result(timeout=30)
    left = len(kafka.read(source))
    assert left < 5000
    report = verify_copy(spark, plan, copied.ends, level=Level.FULL, progress=copied.progress)
    assert (report.is_passed, report.findings) == (True, ())
    assert sum(one.count for one in report.gone) == 5000 - left
    assert {one.source.partition for one in report.gone} == {0}
    check_readers(spark, copied, is_exact=False)
