"""`seamark.consumer` on real brokers and PostgreSQL: where it begins, what it saves, and what becomes of mistakes."""

from __future__ import annotations

import contextlib
import time
from uuid import uuid4

import psycopg
import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from psycopg.rows import dict_row
from sqlalchemy import create_engine

from seamark.consumer import ExactConsumer
from seamark.errors import FencedError, RejectedError, UsageError
from tests.integration.waits import DEADLINE_SECONDS, commit_offsets

PROTOCOLS = (
    {"partition.assignment.strategy": "range"},
    {"partition.assignment.strategy": "cooperative-sticky"},
    {"group.protocol": "consumer"},
)


class Stage:
    """A topic, a table for its records, and consumers that take one over into the other."""

    def __init__(self, stack):
        self.servers, self.dsn = stack.kafka.bootstrap_servers, stack.postgres.dsn
        self.name = f"c_{uuid4().hex[:8]}"
        self.admin = AdminClient({"bootstrap.servers": self.servers})
        self.admin.create_topics([NewTopic(self.name, 3, 1)])[self.name].result(30)
        self.producer, self.made = Producer({"bootstrap.servers": self.servers}), 0
        self.database = psycopg.connect(self.dsn)
        with self.database.transaction():
            self.database.execute(f"CREATE TABLE {self.name} (place text)")
        self.consumers = []

    def add(self, count):
        for number in range(self.made, self.made + count):
            self.producer.produce(self.name, value=b"v", partition=number % 3)
        assert self.producer.flush(30) == 0
        self.made += count

    def open(self, connect=None, build_consumer=None, **config):
        settings = {"bootstrap.servers": self.servers, "group.id": self.name, "auto.offset.reset": "earliest", **config}
        connect = connect or (lambda: psycopg.connect(self.dsn))
        consumer = ExactConsumer(settings, connect=connect, build_consumer=build_consumer)
        self.consumers.append(consumer)
        return consumer

    def write(self, records):
        for one in records:
            self.database.execute(f"INSERT INTO {self.name} VALUES (%s)", [f"{one.partition()}@{one.offset()}"])

    def take(self, consumer, *, count=100, timeout=1.0):
        """One batch, saved."""
        records = consumer.consume(count, timeout)
        if records:
            with self.database.transaction():
                self.write(records)
                consumer.save(self.database)
        return records

    def take_all(self, *consumers):
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(self.read_rows()) < self.made:
            assert time.monotonic() < deadline, f"{len(self.read_rows())} of {self.made} rows"
            for consumer in consumers:
                self.take(consumer, timeout=0.3)

    def read_rows(self):
        with self.database.transaction():
            return sorted(row[0] for row in self.database.execute(f"SELECT place FROM {self.name}"))

    def expect_all(self):
        assert self.read_rows() == sorted(f"{number % 3}@{number // 3}" for number in range(self.made))

    def close(self):
        for consumer in self.consumers:
            consumer.close()
        self.database.close()
        self.admin.delete_topics([self.name])[self.name].result(30)


@pytest.fixture
def stage(stack):
    made = Stage(stack)
    yield made
    made.close()


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=["eager", "cooperative", "consumer"])
def test_consumers_share_a_topic_and_the_ledger_follows(stage, protocol):
    stage.add(300)
    first = stage.open(**protocol)
    first.subscribe([stage.name])
    stage.take_all(first)
    second = stage.open(**protocol)
    second.subscribe([stage.name])
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not list(second._holdings):
        assert time.monotonic() < deadline, "the second got no partition"
        stage.add(30)
        stage.take_all(first, second)
    second.close()
    stage.consumers.remove(second)
    stage.add(300)
    stage.take_all(first)
    stage.expect_all()
    assert [first.saved((stage.name, number)) for number in range(3)] == [stage.made // 3] * 3
    # Those who watch lag see it too.
    first.close()
    stage.consumers.remove(first)
    found = stage.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(stage.name)])[stage.name].result(30)
    assert {spot.offset for spot in found.topic_partitions} == {stage.made // 3}


class Counter:
    """A program that counts records by partition in memory, and writes the counts only when a partition is revoked."""

    def __init__(self, stage, name, events, **protocol):
        self.stage, self.name, self.events, self.counts = stage, name, events, {}
        self.consumer = stage.open(**protocol)
        self.consumer.subscribe(
            [stage.name], on_assign=self.restore, on_revoke=self.flush, on_lost=self.discard, keeps_state=True
        )

    def restore(self, consumer, partitions):
        for spot in partitions:
            with self.stage.database.transaction():
                sql = f"SELECT count(*) FROM {self.stage.name} WHERE place LIKE %s"
                (found,) = self.stage.database.execute(sql, [f"{spot[1]}@%"]).fetchone()
            self.events.append(("on_assign", self.name, spot[1], found, consumer.position(spot)))
            self.counts[spot] = []

    def flush(self, consumer, partitions):
        with self.stage.database.transaction():
            for spot in partitions:
                self.stage.write(self.counts[spot])
            consumer.save(self.stage.database, partitions)
        for spot in partitions:
            self.events.append(("on_revoke", self.name, spot[1], consumer.position(spot)))
            del self.counts[spot]

    def discard(self, consumer, partitions):
        self.events += [("on_lost", self.name, number) for _, number in partitions]
        for spot in partitions:
            del self.counts[spot]

    def consume(self):
        for one in self.consumer.consume(100, 0.3):
            self.counts[one.topic(), one.partition()].append(one)

    @property
    def unsaved(self):
        return sum(len(records) for records in self.counts.values())


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=["eager", "cooperative", "consumer"])
def test_state_is_flushed_by_the_old_owner_before_the_new_one_restores_it(stage, protocol):
    stage.add(300)
    events = []
    first = Counter(stage, "first", events, **protocol)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while first.unsaved < 300:
        assert time.monotonic() < deadline, f"{first.unsaved} of 300 records"
        first.consume()
    # Nothing was saved, and nothing was returned twice.
    assert (first.unsaved, stage.read_rows()) == (300, [])
    second = Counter(stage, "second", events, **protocol)
    while not second.counts:
        assert time.monotonic() < deadline, events
        first.consume()
        second.consume()
    stage.add(30)
    while len(stage.read_rows()) + first.unsaved + second.unsaved < 330:
        assert time.monotonic() < deadline, events
        first.consume()
        second.consume()
    for counter in (second, first):
        counter.consumer.close()
        stage.consumers.remove(counter.consumer)
    stage.expect_all()
    for event in (one for one in events if one[:2] == ("on_assign", "second")):
        _, _, number, found, position = event
        # The state is that of all records before its position, and it was flushed before.
        assert found == position == 100
        assert ("on_revoke", "first", number, 100) in events[: events.index(event)]
    revoked = {one[2] for one in events[: events.index(event)] if one[:2] == ("on_revoke", "first")}
    moved = {one[2] for one in events if one[:2] == ("on_assign", "second")}
    assert revoked == ({0, 1, 2} if "range" in protocol.values() else moved)
    assert not [one for one in events if one[0] == "on_lost"]


def test_connections_of_sqlalchemy_will_do(stage):
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(stage.dsn))
    stage.add(90)
    consumer = stage.open(connect=engine.connect)
    consumer.assign([(stage.name, number) for number in range(3)])
    is_first, deadline = True, time.monotonic() + DEADLINE_SECONDS
    while len(stage.read_rows()) < stage.made:
        assert time.monotonic() < deadline
        records = consumer.consume(20, 1.0)
        with engine.connect() as connection, connection.begin() as transaction:
            for one in records:
                place = f"{one.partition()}@{one.offset()}"
                connection.exec_driver_sql(f"INSERT INTO {stage.name} VALUES (%s)", (place,))
            consumer.save(connection)
            if records and is_first:
                transaction.rollback()
                is_first = False
    stage.expect_all()
    consumer.close()
    stage.consumers.remove(consumer)
    engine.dispose()


def test_what_was_not_committed_comes_again(stage):
    stage.add(90)
    consumer = stage.open()
    consumer.assign([(stage.name, 0)])
    seen = []
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(seen) < 3:
        assert time.monotonic() < deadline
        records = consumer.consume(10, 1.0)
        if records:
            seen.append([(one.partition(), one.offset()) for one in records])
            with stage.database.transaction():
                stage.write(records)
                if len(seen) == 2:
                    consumer.save(stage.database)
                raise psycopg.Rollback
    assert [places[0] for places in seen] == [(0, 0)] * 3
    consumer.assign([(stage.name, number) for number in range(3)])
    stage.take_all(consumer)
    stage.expect_all()


def test_commit_whose_answer_was_lost_is_not_done_again(stage):
    stage.add(30)
    consumer = stage.open()
    consumer.assign([(stage.name, 0)])
    records = consumer.consume(100, 10.0)
    stage.database.autocommit = False
    stage.write(records)
    consumer.save(stage.database)
    stage.database.commit()
    # Nobody told the consumer; the ledger does.
    assert consumer.consume(100, 1.0) == []
    assert (consumer.position((stage.name, 0)), consumer.saved((stage.name, 0))) == (10, 10)


def test_manual_assignment_seeks_and_saves(stage):
    stage.add(60)
    consumer, spot = stage.open(), (stage.name, 1)
    consumer.assign([spot])
    assert [one.offset() for one in stage.take(consumer, timeout=10.0)] == list(range(20))
    consumer.seek(spot, 15)
    assert (consumer.position(spot), consumer.saved(spot)) == (15, 20)
    assert [one.offset() for one in stage.take(consumer, timeout=10.0)] == list(range(15, 20))
    consumer.seek_to_beginning(spot)
    assert [one.offset() for one in stage.take(consumer, count=3, timeout=10.0)] == [0, 1, 2]
    consumer.consume(0, 0.1)
    assert consumer.saved(spot) == 3
    consumer.seek_to_end(spot)
    assert consumer.position(spot) == 20


def test_zombie_writes_nothing(stage):
    stage.add(30)
    spot = (stage.name, 2)
    zombie, heir = stage.open(), stage.open()
    zombie.assign([spot])
    records = zombie.consume(100, 10.0)
    heir.assign([spot])
    assert stage.take(heir, timeout=10.0)
    with stage.database.transaction():
        stage.write(records)
        with pytest.raises(FencedError, match="no longer at 0"):
            zombie.save(stage.database)
        raise psycopg.Rollback
    assert len(stage.read_rows()) == 10
    assert zombie.consume(100, 1.0) == []


def test_group_with_offsets_begins_there(stage):
    stage.add(30)
    commit_offsets(stage.admin, stage.name, [TopicPartition(stage.name, 0, 7)])
    consumer = stage.open()
    consumer.assign([(stage.name, 0)])
    assert [one.offset() for one in consumer.consume(100, 10.0)] == [7, 8, 9]


def test_errors_of_the_database_reach_the_caller_and_pass(stage):
    stage.add(30)
    failures = [psycopg.OperationalError("the database is away")] * 2

    def connect():
        if failures:
            raise failures.pop()
        return psycopg.connect(stage.dsn)

    consumer = stage.open(connect=connect)
    consumer.subscribe([stage.name])
    for _ in range(2):
        with pytest.raises(psycopg.OperationalError, match="away"):
            consumer.consume(10, DEADLINE_SECONDS)
    stage.take_all(consumer)
    stage.expect_all()


def test_records_that_are_gone_are_an_error(stage):
    stage.add(30)
    consumer, spot = stage.open(), (stage.name, 0)
    consumer.assign([spot])
    stage.take(consumer, count=2, timeout=10.0)
    consumer.close()
    stage.consumers.remove(consumer)
    stage.admin.delete_records([TopicPartition(stage.name, 0, 6)])
    again = stage.open()
    again.assign([spot])
    with pytest.raises(RejectedError, match="were deleted from the topic"):
        again.consume(10, DEADLINE_SECONDS)
    again.seek_to_beginning(spot)
    assert again.consume(1, 10.0)[0].offset() == 6


def test_records_beside_those_that_are_gone_are_not_skipped(stage):
    """The error of one partition comes among the records of others."""
    stage.add(300)
    consumer = stage.open()
    consumer.assign([(stage.name, number) for number in range(3)])
    while not list(consumer._holdings):
        consumer.consume(0, 0.5)
    consumer.close()
    stage.consumers.remove(consumer)
    stage.admin.delete_records([TopicPartition(stage.name, 0, 6)])[TopicPartition(stage.name, 0)].result(30)
    again = stage.open()
    again.assign([(stage.name, number) for number in range(3)])
    deadline, failures = time.monotonic() + DEADLINE_SECONDS, 0
    while failures < 3:
        assert time.monotonic() < deadline, "the error was told once, and no more"
        try:
            stage.take(again, count=7)
        except RejectedError:
            failures += 1
    again.seek_to_beginning((stage.name, 0))
    while len(stage.read_rows()) < stage.made - 6:
        assert time.monotonic() < deadline, f"{len(stage.read_rows())} rows"
        stage.take(again)
    gone = {f"0@{number}" for number in range(6)}
    assert stage.read_rows() == sorted({f"{number % 3}@{number // 3}" for number in range(stage.made)} - gone)


class Interrupted(Consumer):
    """As when a signal's handler raises: what the client has in its hands it throws away, and goes on behind it."""

    calls = 0

    def consume(self, *given):
        found = super().consume(*given)
        self.calls += bool(found)
        if found and self.calls % 3 == 1:
            raise InterruptedError
        return found


def test_interrupts_within_consume_skip_nothing(stage):
    stage.add(300)
    consumer = stage.open(build_consumer=Interrupted)
    consumer.assign([(stage.name, number) for number in range(3)])
    deadline, interrupts = time.monotonic() + DEADLINE_SECONDS, 0
    while len(stage.read_rows()) < stage.made:
        assert time.monotonic() < deadline, f"{len(stage.read_rows())} of {stage.made} rows"
        try:
            stage.take(consumer, count=20)
        except InterruptedError:
            interrupts += 1
    assert interrupts > 3
    stage.expect_all()


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=["eager", "cooperative", "consumer"])
def test_partition_that_was_claimed_by_who_no_longer_has_it_is_claimed_again(stage, protocol):
    stage.add(30)
    owner = stage.open(**protocol)
    owner.subscribe([stage.name])
    stage.take_all(owner)
    # It is none of the group's, and only claims.
    late = stage.open()
    late.assign([(stage.name, 0)])
    late.consume(1, 1.0)
    stage.add(30)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(stage.read_rows()) < stage.made:
        assert time.monotonic() < deadline, f"{len(stage.read_rows())} of {stage.made} rows"
        with contextlib.suppress(FencedError):
            stage.take(owner, timeout=0.3)
    # The group goes on to share out.
    heir = stage.open(**protocol)
    heir.subscribe([stage.name])
    while not list(heir._holdings):
        assert time.monotonic() < deadline, "the second got no partition"
        stage.add(30)
        stage.take_all(owner, heir)
    stage.expect_all()


def test_place_is_given_back_to_the_group_while_another_process_has_it(stage):
    """A partition that is claimed by another, and not yet again by us, is none of the client's when it is revoked."""
    stage.add(30)
    protocol = {"partition.assignment.strategy": "cooperative-sticky"}
    owner = stage.open(**protocol)
    owner.subscribe([stage.name])
    stage.take_all(owner)
    late = stage.open()
    late.assign([(stage.name, number) for number in range(3)])
    late.consume(1, 1.0)
    stage.add(30)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not owner._taken:
        assert time.monotonic() < deadline, "nothing was taken"
        with contextlib.suppress(FencedError):
            stage.take(owner, timeout=0.3)
    owner._taken = dict.fromkeys(owner._taken, deadline)
    heir = stage.open(**protocol)
    heir.subscribe([stage.name])
    while not list(heir._holdings):
        assert time.monotonic() < deadline, "the second got no partition"
        for consumer in (heir, owner):
            with contextlib.suppress(FencedError):
                stage.take(consumer, timeout=0.3)
    owner.close()
    stage.consumers.remove(owner)
    stage.take_all(heir)
    stage.expect_all()


def test_rows_of_the_ledger_may_be_dicts(stage):
    stage.add(3)
    consumer = stage.open(connect=lambda: psycopg.connect(stage.dsn, row_factory=dict_row))
    consumer.assign([(stage.name, 0)])
    assert len(stage.take(consumer, timeout=10.0)) == 1
    assert consumer.saved((stage.name, 0)) == 1


def test_mistakes_are_refused(stage):
    with pytest.raises(UsageError, match=r"setting enable\.auto\.commit is controlled"):
        stage.open(**{"enable.auto.commit": True})
    with pytest.raises(UsageError, match=r"group\.id is missing"):
        stage.open(**{"group.id": ""})
    consumer = stage.open()
    stage.database.autocommit = True
    with pytest.raises(UsageError, match="outside of a transaction"):
        consumer.save(stage.database)
    consumer = stage.open(connect=lambda: psycopg.connect(stage.dsn, autocommit=True))
    consumer.assign([(stage.name, 0)])
    with pytest.raises(UsageError, match="a connection in autocommit mode"):
        consumer.consume(1, 0.0)
