"""Reading a whole topic, with a consumer that says what it is told to."""

from __future__ import annotations

import time
import tracemalloc
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError

from seamark.core.readings import Reading
from seamark.errors import AuthorizationError, DeadlineError, NotFoundError
from seamark.kafka.model import LogOffsets, PartitionReading
from seamark.kafka.topic_scan import TopicScan

END = KafkaError._PARTITION_EOF


def record(partition, offset, key=b"k", value=b"v"):
    return SimpleNamespace(
        error=lambda: None,
        partition=lambda: partition,
        offset=lambda: offset,
        key=lambda: key,
        value=lambda: value,
        timestamp=lambda: (1, 1000 + offset),
    )


def event(code, partition=0, offset=-1001):
    return SimpleNamespace(
        error=lambda: KafkaError(code), partition=lambda: partition, offset=lambda: offset, key=lambda: None
    )


class FakeConsumer:
    """Hands out batches, then nothing. Its position is behind what it handed out."""

    def __init__(self, *batches):
        self.batches = list(batches)
        self.settings, self.assigned, self.positions = {}, {}, {}
        self.closed = 0

    def build(self, settings):
        self.settings = settings
        return self

    def assign(self, spots):
        self.assigned = {spot.partition: spot.offset for spot in spots}

    def consume(self, count, timeout):
        if not self.batches:
            time.sleep(0.01)
            return []
        batch = self.batches.pop(0)
        for message in batch:
            if message.error() is None:
                self.positions[message.partition()] = message.offset() + 1
        return batch

    def position(self, spots):
        return [
            SimpleNamespace(partition=spot.partition, offset=self.positions.get(spot.partition, -1001))
            for spot in spots
        ]

    def close(self):
        self.closed += 1


def open_scan(consumer, bounds, *, failure=None, **options):
    class FakeAdmin:
        def __init__(self, config):
            assert config["bootstrap.servers"]

        def read_topics(self, names):
            if failure:
                return Reading(failures={names[0]: failure})
            return Reading((SimpleNamespace(partitions=[SimpleNamespace(id=number) for number in bounds]),))

        def read_bounds(self, spots):
            return PartitionReading({spot: LogOffsets(*bounds[spot[1]]) for spot in spots})

    @contextmanager
    def build_admin(config):
        yield FakeAdmin(config)

    return TopicScan(
        {"bootstrap.servers": "127.0.0.1:1"}, "o", build_consumer=consumer.build, build_admin=build_admin, **options
    )


def test_of_each_key_and_partition_the_newest_is_kept():
    consumer = FakeConsumer(
        [record(0, 0), record(1, 5, b"k", b"stray"), record(0, 1, b"x")], [record(0, 2, b"k", b"new")]
    )
    result = open_scan(consumer, {0: (0, 3), 1: (5, 6), 2: (4, 4)}).read_newest()
    assert sorted(result.records) == [
        (0, 1, 1001, b"x", b"v"),
        (0, 2, 1002, b"k", b"new"),
        (1, 5, 1005, b"k", b"stray"),
    ]
    assert (result.partitions, result.scanned, result.held_back) == (3, 4, {})
    assert consumer.assigned == {0: 0, 1: 5}
    assert consumer.closed == 1
    assert consumer.settings["isolation.level"] == "read_uncommitted"


def test_memory_grows_with_the_keys_and_not_with_the_records():
    def make(count):
        batches = ([record(0, n * 100 + at, b"%d" % at, b"v" * 1000) for at in range(100)] for n in range(count))
        consumer = FakeConsumer()
        consumer.consume = lambda *_: next(batches, [event(END, 0, count * 100)])
        tracemalloc.start()
        result = open_scan(consumer, {0: (0, count * 100)}).read_newest()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert (result.scanned, len(result.records)) == (count * 100, 100)
        return peak

    make(1)
    assert make(100) < 2 * make(4)


def test_keys_that_are_not_wanted_are_not_kept():
    consumer = FakeConsumer([record(0, 0, b"a"), record(0, 1, b"b"), record(0, 2, None)])
    result = open_scan(consumer, {0: (0, 3)}).read_newest(lambda key: key == b"a")
    assert [found.key for found in result.records] == [b"a", None]
    assert result.scanned == 3


def test_the_end_behind_a_marker_is_seen_by_the_clients_word():
    consumer = FakeConsumer([record(0, 0), event(END, 0, 2)])
    assert len(open_scan(consumer, {0: (0, 2)}).read_newest().records) == 1


def test_an_empty_topic_opens_no_consumer():
    consumer = FakeConsumer()
    assert open_scan(consumer, {0: (7, 7)}).read_newest().records == ()
    assert consumer.closed == 0


def test_every_record_can_be_had():
    consumer = FakeConsumer([record(0, 0, b"a"), record(0, 1, b"a"), record(0, 2, b"b")])
    found = list(open_scan(consumer, {0: (0, 3)}).read_all(lambda key: key == b"a"))
    assert [one.offset for one in found] == [0, 1]


def test_an_open_transaction_is_told_and_not_waited_for():
    consumer = FakeConsumer([record(0, 0), event(END, 0, 1)])
    result = open_scan(consumer, {0: (0, 4)}, committed=True, patience_seconds=0.1).read_newest()
    assert consumer.settings["isolation.level"] == "read_committed"
    assert (len(result.records), result.held_back) == (1, {0: (1, 4)})


def test_brokers_that_are_silent_are_an_error():
    consumer = FakeConsumer([record(0, 0)])
    with pytest.raises(DeadlineError, match="no records arrived"):
        open_scan(consumer, {0: (0, 4)}, committed=True, patience_seconds=0.1).read_newest()
    assert consumer.closed == 1


def test_a_denied_topic_is_an_error_and_a_denied_group_is_not():
    consumer = FakeConsumer([event(KafkaError.GROUP_AUTHORIZATION_FAILED), record(0, 0)])
    assert len(open_scan(consumer, {0: (0, 1)}).read_newest().records) == 1
    with pytest.raises(AuthorizationError):
        open_scan(FakeConsumer([event(KafkaError.TOPIC_AUTHORIZATION_FAILED)]), {0: (0, 1)}).read_newest()


def test_a_topic_that_is_not_there_is_said():
    with pytest.raises(NotFoundError):
        open_scan(FakeConsumer(), {}, failure=NotFoundError("no topic")).read_newest()
