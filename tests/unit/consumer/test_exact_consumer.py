"""The consumer without brokers: what it tells its client, whatever its database and its group do."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from seamark.consumer import ExactConsumer, exact_consumer
from seamark.consumer import exact_consumer as kafka_side
from seamark.core.readings import Reading
from seamark.errors import FencedError, RejectedError, UsageError
from seamark.kafka.model import TopicStatus

CONFIG = {"bootstrap.servers": "nowhere:1", "group.id": "billing", "auto.offset.reset": "earliest"}


def record(partition, offset):
    return SimpleNamespace(
        topic=lambda: "orders", partition=lambda: partition, offset=lambda: offset, error=lambda: None
    )


def failure(name, partition=0):
    error = KafkaError(getattr(KafkaError, name))
    return SimpleNamespace(topic=lambda: "orders", partition=lambda: partition, error=lambda: error)


class Client:
    """Hands out what it is told to, and notes what it is asked for. `acts` are done within calls of consume.

    As librdkafka does, it reads what it was assigned (here up to `ends`), goes on behind what it handed out, whatever
    became of that, and refuses to seek, to take or to give up what it must not.
    """

    def __init__(self, settings):
        self.settings, self.acts, self.calls, self.given = settings, [], [], []
        self.places, self.ends, self.refused = {}, {}, []
        self.stuck = False

    def subscribe(self, topics, **callbacks):
        self.callbacks = callbacks

    def consume(self, count, timeout):
        found, self.given = self.given[:count], self.given[count:]
        for partition, place in self.places.items():
            last = min(self.ends.get(partition, 0), place + count - len(found))
            found += [record(partition, offset) for offset in range(place, last)]
            self.places[partition] = max(place, last)
        if self.acts:
            self.acts.pop(0)()
        return found

    def assignment(self):
        return [TopicPartition("orders", partition) for partition in self.places]

    def assign(self, spots):
        self.note("assign", spots)
        self.places = {spot.partition: spot.offset for spot in spots}

    def unassign(self):
        self.note("unassign", [])
        self.places = {}

    def incremental_assign(self, spots):
        self.refuse("_CONFLICT", any(spot.partition in self.places for spot in spots))
        self.note("incremental_assign", spots)
        self.places |= {spot.partition: spot.offset for spot in spots}

    def incremental_unassign(self, spots):
        self.refuse("_INVALID_ARG", any(spot.partition not in self.places for spot in spots))
        self.note("incremental_unassign", spots)
        for spot in spots:
            del self.places[spot.partition]

    def commit(self, offsets, asynchronous):
        self.note("commit", offsets)
        return None if asynchronous else offsets

    def refuse(self, name, is_refused):
        if self.refused:
            name, is_refused = self.refused.pop(0), True
        if is_refused:
            raise KafkaException(KafkaError(getattr(KafkaError, name)))

    def rebalance(self, name, *partitions):
        spots = [TopicPartition("orders", number) for number in partitions]
        self.acts.append(lambda: self.callbacks[name](self, spots))

    def committed(self, spots, timeout):
        return [TopicPartition("orders", spots[0].partition, -1001)]

    def get_watermark_offsets(self, spot, timeout):
        return 100 * spot.partition, 1000

    def seek(self, spot):
        self.refuse("_STATE", self.stuck or spot.partition not in self.places)
        self.note("seek", [spot])
        self.places[spot.partition] = spot.offset

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
    # The first has no answer yet.
    assert client.calls == [("commit", {0: 7}), ("commit", {0: 7}), ("unassign", {})]


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
    with pytest.raises(RejectedError, match="the ledger has no entry for orders-0 any more"):
        consumer.consume(10, 0.0)


def start_reading(consumer, client, *partitions):
    client.rebalance("on_assign", *partitions)
    consumer.consume(10, 0.0)
    client.calls.clear()


def list_places(records):
    return [(one.partition(), one.offset()) for one in records]


def save(consumer, database):
    with closing(sqlite3.connect(database)) as rows:
        consumer.save(rows)
        rows.commit()


PROTOCOLS = pytest.mark.parametrize("protocol", [{}, COOPERATIVE], ids=["eager", "cooperative"])
BESIDE = [record(1, 100), record(1, 101)]


@PROTOCOLS
@pytest.mark.parametrize("is_first", [True, False])
def test_records_that_came_along_with_an_error_come_again(open_consumer, database, protocol, is_first):
    consumer, client = open_consumer(**protocol)
    start_reading(consumer, client, 0, 1)
    error = failure("_AUTO_OFFSET_RESET")
    client.given = [error, *BESIDE] if is_first else [*BESIDE, error]
    client.places[1], client.ends[1] = 102, 104
    with pytest.raises(RejectedError, match="deleted from the topic"):
        consumer.consume(10, 0.0)
    # The caller has got nothing, and has nothing to save.
    save(consumer, database)
    assert (consumer.position(("orders", 1)), consumer.saved(("orders", 1))) == (100, 100)
    consumer.seek_to_beginning(("orders", 0))
    assert list_places(consumer.consume(10, 0.0)) == [(1, offset) for offset in range(100, 104)]


def interrupt():
    raise KeyboardInterrupt


def test_records_that_an_interrupted_client_threw_away_come_again(open_consumer, database):
    consumer, client = open_consumer()
    start_reading(consumer, client, 0)
    client.ends[0] = 3
    client.acts.append(interrupt)
    with pytest.raises(KeyboardInterrupt):
        consumer.consume(2, 0.0)
    save(consumer, database)
    assert list_places(consumer.consume(10, 0.0)) == [(0, 0), (0, 1), (0, 2)]


def test_interrupt_leaves_alone_what_was_saved_before_and_where_the_caller_has_sought(open_consumer, database):
    consumer, client = open_consumer()
    start_reading(consumer, client, 0, 1)
    client.ends = {0: 4, 1: 105}
    assert len(consumer.consume(2, 0.0)) == 2
    save(consumer, database)
    consumer.seek(("orders", 1), 103)
    client.acts.append(interrupt)
    with pytest.raises(KeyboardInterrupt):
        consumer.consume(10, 0.0)
    assert list_places(consumer.consume(10, 0.0)) == [(0, 2), (0, 3), (1, 103), (1, 104)]
    save(consumer, database)
    assert [consumer.saved(("orders", number)) for number in (0, 1)] == [4, 105]


def test_client_that_failed_to_seek_is_asked_again(open_consumer):
    consumer, client = open_consumer()
    start_reading(consumer, client, 0)
    client.ends[0] = 2
    assert len(consumer.consume(10, 0.0)) == 2
    client.refused = ["_TIMED_OUT"]
    with pytest.raises(KafkaException, match="TIMED_OUT"):
        consumer.consume(10, 0.0)
    assert list_places(consumer.consume(10, 0.0)) == [(0, 0), (0, 1)]
    client.refused = ["_TIMED_OUT"]
    with pytest.raises(KafkaException, match="TIMED_OUT"):
        consumer.seek(("orders", 0), 1)
    assert list_places(consumer.consume(10, 0.0)) == [(0, 1)]


@PROTOCOLS
def test_partition_that_the_client_did_not_take_is_given_to_it_again(open_consumer, protocol):
    consumer, client = open_consumer(**protocol)
    client.rebalance("on_assign", 0)
    client.ends[0] = 1
    place = consumer._place

    def fail(spots):
        consumer._place = place
        raise KafkaException(KafkaError(KafkaError._FAIL))

    consumer._place = fail
    with pytest.raises(KafkaException):
        consumer.consume(10, 0.0)
    assert list_places(consumer.consume(10, 0.0)) == [(0, 0)]


def test_error_that_only_the_caller_can_mend_is_told_at_each_call(open_consumer):
    consumer, client = open_consumer(**COOPERATIVE)
    start_reading(consumer, client, 0)
    client.given = [failure("_AUTO_OFFSET_RESET")]
    # It has stopped to read there, and says so again only if it is given the partition again.
    client.stuck = True
    give = client.incremental_assign
    client.incremental_assign = lambda spots: (give(spots), client.given.append(failure("_AUTO_OFFSET_RESET")))
    for _ in range(3):
        with pytest.raises(RejectedError, match="deleted from the topic"):
            consumer.consume(10, 0.0)
    consumer.seek_to_end(("orders", 0))
    client.given.clear()
    assert consumer.consume(10, 0.0) == []


def test_offset_that_can_not_be_is_refused(open_consumer):
    consumer, client = open_consumer()
    start_reading(consumer, client, 0)
    with pytest.raises(UsageError, match="invalid offset -1"):
        consumer.seek(("orders", 0), -1)
    assert consumer.position(("orders", 0)) == 0


def lose_to_another(open_consumer, database, consumer, client, **config):
    """Another process claims partition 0, and saves two records of it."""
    client.ends[0] = 4
    assert len(consumer.consume(10, 0.0)) == 4
    other, its_client = open_consumer(**config)
    start_reading(other, its_client, 0)
    its_client.ends[0] = 2
    other.consume(10, 0.0)
    save(other, database)
    with pytest.raises(FencedError):
        save(consumer, database)


@PROTOCOLS
def test_partition_that_the_group_gives_back_is_read(open_consumer, database, protocol):
    consumer, client = open_consumer(**protocol)
    start_reading(consumer, client, 0)
    lose_to_another(open_consumer, database, consumer, client, **protocol)
    client.rebalance("on_revoke", 0)
    assert consumer.consume(10, 0.0) == []
    assert client.places == {}
    client.rebalance("on_assign", 0)
    assert list_places(consumer.consume(10, 0.0)) == [(0, 2), (0, 3)]
    # A client keeps a pause for as long as it lives.
    assert "pause" not in dict(client.calls)


@PROTOCOLS
def test_partition_is_claimed_again_if_the_group_still_says_that_it_is_ours(
    open_consumer, database, protocol, monkeypatch
):
    consumer, client = open_consumer(**protocol)
    start_reading(consumer, client, 0, 1)
    lose_to_another(open_consumer, database, consumer, client, **protocol)
    # Not at once: who is no longer a member hears of it first.
    assert consumer.consume(10, 0.0) == []
    assert list(client.places) == [1]
    now = time.monotonic()
    monkeypatch.setattr(exact_consumer, "time", SimpleNamespace(monotonic=lambda: now + 6))
    assert list_places(consumer.consume(10, 0.0)) == [(0, 2), (0, 3)]
    save(consumer, database)
    assert consumer.saved(("orders", 0)) == 4


@PROTOCOLS
@pytest.mark.parametrize("event", ["on_revoke", "on_lost"])
def test_partition_that_is_another_s_is_not_claimed_again(open_consumer, database, protocol, event, monkeypatch):
    consumer, client = open_consumer(**protocol)
    start_reading(consumer, client, 0)
    lose_to_another(open_consumer, database, consumer, client, **protocol)
    monkeypatch.setattr(exact_consumer, "_AGAIN_SECONDS", 0.0)
    client.rebalance(event, 0)
    assert consumer.consume(10, 0.0) == []
    assert consumer.consume(10, 0.0) == []
    assert client.places == {}


def test_partition_that_no_group_shares_out_is_its_last_claimant_s(open_consumer, database, monkeypatch):
    monkeypatch.setattr(exact_consumer, "_AGAIN_SECONDS", 0.0)
    consumer, client = open_consumer()
    consumer.assign([("orders", 0)])
    lose_to_another(open_consumer, database, consumer, client)
    assert [consumer.consume(10, 0.0) for _ in range(2)] == [[], []]


def test_partition_that_is_given_and_taken_within_one_call_is_let_go(open_consumer):
    consumer, client = open_consumer(**COOPERATIVE)
    start_reading(consumer, client, 0)
    spots = [TopicPartition("orders", number) for number in (0, 1)]

    def rebalance():
        client.callbacks["on_assign"](client, spots[1:])
        client.callbacks["on_revoke"](client, spots)

    client.acts.append(rebalance)
    assert consumer.consume(10, 0.0) == []
    assert client.places == {}


def test_place_that_was_sought_after_a_save_is_kept(open_consumer, database):
    consumer, client = open_consumer()
    start_reading(consumer, client, 0)
    client.ends[0] = 4
    consumer.consume(10, 0.0)
    save(consumer, database)
    consumer.seek(("orders", 0), 1)
    for _ in range(2):
        assert list_places(consumer.consume(10, 0.0)) == [(0, 1), (0, 2), (0, 3)]


def test_save_that_is_refused_without_records_is_looked_at(open_consumer, database):
    """The COMMIT of a place that was sought was in doubt, and is seen late."""
    consumer, client = open_consumer()
    start_reading(consumer, client, 0)
    consumer.seek(("orders", 0), 7)
    held = consumer._holdings.find(("orders", 0))
    before = held.entry
    save(consumer, database)
    consumer._holdings.settle(("orders", 0), before)
    held.is_placed = True
    with pytest.raises(FencedError):
        save(consumer, database)
    consumer.consume(10, 0.0)
    save(consumer, database)
    assert (held.sought, consumer.saved(("orders", 0))) == (None, 7)


@pytest.mark.parametrize("is_lost", [True, False], ids=["no answer", "refused"])
def test_group_is_told_again_what_it_did_not_take(open_consumer, database, is_lost):
    consumer, client = open_consumer()
    save_two(consumer, client, database).commit()
    consumer.consume(10, 0.0)
    assert client.calls[-1] == ("commit", {0: 2})
    if not is_lost:
        spot = TopicPartition("orders", 0, 2)
        client.acts.append(lambda: client.settings["on_commit"](KafkaError(KafkaError.NOT_COORDINATOR), [spot]))
        consumer.consume(10, 0.0)
        client.calls.clear()
        consumer.consume(10, 0.0)
        assert client.calls == [("commit", {0: 2})]
    client.calls.clear()
    consumer.close()
    assert client.calls == [("commit", {0: 2}), ("close", {})]


def test_group_is_told_once_what_it_took(open_consumer, database):
    consumer, client = open_consumer()
    save_two(consumer, client, database).commit()
    spot = TopicPartition("orders", 0, 2)
    client.acts.append(lambda: client.settings["on_commit"](None, [spot]))
    consumer.consume(10, 0.0)
    client.calls.clear()
    consumer.consume(10, 0.0)
    consumer.close()
    assert client.calls == [("close", {})]


def test_connection_that_commits_by_itself_is_refused_for_claims(open_consumer, database):
    consumer, client = open_consumer(connect=lambda: sqlite3.connect(database, isolation_level=None))
    client.rebalance("on_assign", 0)
    with pytest.raises(UsageError, match="a connection in autocommit mode"):
        consumer.consume(10, 0.0)


def spell_dict(cursor, row):
    return dict(zip([column[0] for column in cursor.description], row, strict=True))


def test_rows_of_the_ledger_may_be_dicts(open_consumer, database):
    def connect():
        connection = sqlite3.connect(database)
        connection.row_factory = spell_dict
        return connection

    consumer, client = open_consumer(connect=connect)
    start_reading(consumer, client, 1)
    assert consumer.saved(("orders", 1)) == 100


def test_rows_of_a_kind_of_its_own_are_refused(open_consumer, database):
    def connect():
        connection = sqlite3.connect(database)
        connection.row_factory = lambda cursor, row: row[0]
        return connection

    consumer, client = open_consumer(connect=connect)
    client.rebalance("on_assign", 0)
    with pytest.raises(UsageError, match="unsupported row type str"):
        consumer.consume(10, 0.0)
