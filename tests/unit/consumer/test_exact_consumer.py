"""The consumer without brokers: what it tells its client, whatever its database and its group do."""

from __future__ import annotations

import sqlite3
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from seamark.consumer import ExactConsumer, kafka_side
from seamark.errors import FencedError, RejectedError
from seamark.model.reading import Reading
from seamark.model.topic import TopicStatus

CONFIG = {"bootstrap.servers": "nowhere:1", "group.id": "billing", "auto.offset.reset": "earliest"}


def record(partition, offset):
    return SimpleNamespace(
        topic=lambda: "orders", partition=lambda: partition, offset=lambda: offset, error=lambda: None
    )


class Client:
    """Hands out what it is told to, and notes what it is asked for. `acts` are done within calls of consume."""

    def __init__(self, settings):
        self.settings, self.acts, self.calls, self.given = settings, [], [], []
        self.stuck = False

    def subscribe(self, topics, **callbacks):
        self.callbacks = callbacks

    def consume(self, count, timeout):
        found, self.given = self.given[:count], self.given[count:]
        if self.acts:
            self.acts.pop(0)()
        return found

    def rebalance(self, name, *partitions):
        spots = [TopicPartition("orders", number) for number in partitions]
        self.acts.append(lambda: self.callbacks[name](self, spots))

    def committed(self, spots, timeout):
        return [TopicPartition("orders", spots[0].partition, -1001)]

    def get_watermark_offsets(self, spot, timeout):
        return 100 * spot.partition, 1000

    def seek(self, spot):
        if self.stuck:
            raise KafkaException(KafkaError(KafkaError._STATE))
        self.note("seek", [spot])

    def note(self, name, spots):
        self.calls.append((name, {spot.partition: spot.offset for spot in spots}))

    def __getattr__(self, name):
        def call(spots=(), offsets=(), **_):
            self.note(name, [*spots, *offsets])

        return call


@pytest.fixture
def database(tmp_path, monkeypatch):
    topics = Reading(items=(TopicStatus("orders", "id", ()),))

    class Admin:
        def __init__(self, config):
            assert "group.id" not in config

        def __enter__(self):
            return SimpleNamespace(read_topics=lambda names: topics)

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(kafka_side, "TopicAdmin", Admin)
    return tmp_path / "rows.db"


@pytest.fixture
def open_consumer(database):
    def start(connect=None, **config):
        made = []

        def build(settings):
            made.append(Client(settings))
            return made[0]

        consumer = ExactConsumer(
            {**CONFIG, **config}, connect=connect or (lambda: sqlite3.connect(database)), build_consumer=build
        )
        consumer.subscribe(["orders"])
        return consumer, made[0]

    return start


COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky"}


def test_partitions_are_read_from_where_the_ledger_stands(open_consumer, database):
    consumer, client = open_consumer()
    client.rebalance("on_assign", 0, 1)
    assert consumer.consume(10, 0.0) == []
    assert client.calls == [("assign", {}), ("assign", {0: 0, 1: 100})]
    client.given = [record(1, 100), record(1, 101), record(2, 0)]
    assert len(consumer.consume(10, 0.0)) == 2
    rows = sqlite3.connect(database)
    consumer.save(rows)
    rows.commit()
    # Another process begins there.
    heir, its_client = open_consumer(**COOPERATIVE)
    its_client.rebalance("on_assign", 1)
    heir.consume(10, 0.0)
    assert its_client.calls == [("incremental_assign", {}), ("incremental_assign", {1: 102})]
    assert consumer.saved(("orders", 1)) == 102


def test_eager_group_goes_on_where_it_is_when_it_gets_more(open_consumer):
    consumer, client = open_consumer()
    client.rebalance("on_assign", 0)
    consumer.consume(10, 0.0)
    client.given = [record(0, 0), record(0, 1)]
    client.rebalance("on_assign", 2)
    assert len(consumer.consume(10, 0.0)) == 2
    consumer.consume(10, 0.0)
    # Those two were not saved.
    assert client.calls[-1] == ("assign", {0: 0, 2: 200})


def test_partition_that_is_lost_meanwhile_gives_nothing(open_consumer):
    consumer, client = open_consumer()
    client.rebalance("on_assign", 0, 1)
    consumer.consume(10, 0.0)
    client.given = [record(0, 0), record(1, 100)]
    client.rebalance("on_lost", 0)
    assert [one.partition() for one in consumer.consume(10, 0.0)] == [1]


def test_failure_of_a_claim_is_told_and_those_before_it_are_read(open_consumer, database):
    opened = []

    def connect():
        opened.append(sqlite3.connect(database))
        if len(opened) == 2:
            raise sqlite3.OperationalError("away")
        return opened[-1]

    consumer, client = open_consumer(connect=connect, **COOPERATIVE)
    client.rebalance("on_assign", 0, 1)

    def find_start(spot):
        if spot[1] == 1 and len(opened) == 1:
            raise sqlite3.OperationalError("away")
        return 100 * spot[1]

    consumer._kafka.find_start = find_start
    with pytest.raises(sqlite3.OperationalError):
        consumer.consume(10, 0.0)
    assert client.calls[-1] == ("incremental_assign", {0: 0})
    opened.append(None)
    consumer.consume(10, 0.0)
    assert client.calls[-1] == ("incremental_assign", {1: 100})


@pytest.mark.parametrize(
    ("protocol", "calls"),
    [
        ({}, [("assign", {0: 0})]),
        (COOPERATIVE, [("incremental_unassign", {0: 0}), ("incremental_assign", {0: 0})]),
    ],
)
def test_client_that_can_not_seek_is_given_the_partition_anew(open_consumer, protocol, calls):
    consumer, client = open_consumer(**protocol)
    client.rebalance("on_assign", 0)
    consumer.consume(10, 0.0)
    client.given = [record(0, 0)]
    consumer.consume(10, 0.0)
    client.stuck = True
    client.calls.clear()
    consumer.consume(10, 0.0)
    assert client.calls[: len(calls)] == calls


def test_group_is_told_how_far_the_ledger_is(open_consumer, database):
    consumer, client = open_consumer()
    client.rebalance("on_assign", 0)
    consumer.consume(10, 0.0)
    client.given = [record(0, 6)]
    consumer.consume(10, 0.0)
    rows = sqlite3.connect(database)
    consumer.save(rows)
    rows.commit()
    client.rebalance("on_revoke", 0)
    client.calls.clear()
    consumer.consume(10, 0.0)
    assert client.calls == [("commit", {0: 7}), ("unassign", {})]


def save_two(consumer, client, database):
    client.rebalance("on_assign", 0)
    consumer.consume(10, 0.0)
    client.given = [record(0, 0), record(0, 1)]
    consumer.consume(10, 0.0)
    rows = sqlite3.connect(database)
    consumer.save(rows)
    return rows


def test_group_is_told_at_the_end_what_the_last_transaction_saved(open_consumer, database):
    consumer, client = open_consumer()
    save_two(consumer, client, database).commit()
    consumer.close()
    assert client.calls[-2:] == [("commit", {0: 2}), ("close", {})]


def test_what_another_has_saved_is_not_told_as_ours(open_consumer, database):
    consumer, client = open_consumer()
    save_two(consumer, client, database).rollback()
    heir, its_client = open_consumer()
    save_two(heir, its_client, database).commit()
    client.calls.clear()
    consumer.close()
    assert ("commit", {0: 2}) not in client.calls
    # And its next save is refused: the epoch that it holds is its own.
    with pytest.raises(FencedError):
        consumer.save(sqlite3.connect(database))


def test_entry_that_was_deleted_is_an_error(open_consumer, database):
    consumer, client = open_consumer()
    rows = save_two(consumer, client, database)
    rows.execute("DELETE FROM seamark_ledger")
    rows.commit()
    with pytest.raises(RejectedError, match="the ledger's entry of orders-0 is gone"):
        consumer.consume(10, 0.0)
