"""Upserts by Spark: the newest record of a key is its row, or the run is refused."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from seamark.errors import RefusedError, RejectedError
from seamark.kafka_sink.routing import Partitioner, hash_key
from seamark.pipelines.spark_topic import LandTopic
from seamark.tables.definition import Format, LandColumn, Mode
from tests.spark.driver_stage import wait_for
from tests.spark.land_stage import open_land_stage

BY_VALUE = (LandColumn("id", "bigint"), LandColumn("version", "bigint"), LandColumn("words", "text"))
BY_KEY = (LandColumn("id", "bigint", "key"), *BY_VALUE[1:])
TABLE = "id bigint PRIMARY KEY, version bigint, words text"
ORDERED = f"{TABLE}, _seamark_order numeric[]"
UPSERT = {"mode": Mode.UPSERT, "key": ("id",)}


@pytest.fixture
def ordered(stack, kafka):
    with open_land_stage(stack, kafka, partitions=6, table=ORDERED) as made:
        yield made


@pytest.fixture
def unordered(stack, kafka):
    with open_land_stage(stack, kafka, partitions=6, table=TABLE) as made:
        yield made


def read_rows(stage):
    return {id_: (version, words) for id_, version, words in stage.read("SELECT id, version, words FROM {table}")}


def grow(stage, partitions):
    admin = AdminClient({"bootstrap.servers": stage.kafka.servers})
    admin.create_partitions([NewPartitions(stage.topic, partitions)])[stage.topic].result(30)
    wait_for(
        lambda: len(admin.list_topics(stage.topic, timeout=10).topics[stage.topic].partitions) == partitions,
        "the topic had grown",
    )
    stage.partitions = partitions


def produce_placed(stage, records, *, among):
    """Produce records where murmur2 puts their keys among so many partitions."""
    by_partition = {}
    for id_, version, words in records:
        key = str(id_).encode()
        value = None if words is None else {"version": version, "words": words}
        by_partition.setdefault(hash_key(key, rule=Partitioner.MURMUR2) % among, []).append((key, value))
    for partition, pairs in by_partition.items():
        stage.produce([value for _, value in pairs], keys=[key for key, _ in pairs], partition=partition)


def test_newest_record_wins_whatever_its_partition(spark, ordered):
    dice = random.Random(3)
    newest, offsets, values = {}, [0] * 6, {number: [] for number in range(6)}
    for number in range(6_000):
        id_, version, partition = dice.randrange(300), dice.randrange(20), dice.randrange(6)
        order = (version, partition, offsets[partition])
        offsets[partition] += 1
        row = {"id": id_, "version": version, "words": str(number)}
        is_delete = dice.random() < 0.1
        values[partition].append({"op": "d", "before": row} if is_delete else {"op": "c", "after": row})
        if id_ not in newest or newest[id_][0] < order:
            newest[id_] = (order, None if is_delete else (version, str(number)))
    for partition, some in values.items():
        ordered.produce(some, partition=partition)
    landing = ordered.build(BY_VALUE, order=("version",), format=Format.DEBEZIUM, **UPSERT)
    # Many batches, so that tasks of different partitions meet.
    ordered.run(spark, landing, records=600)
    assert read_rows(ordered) == {id_: row for id_, (_, row) in newest.items() if row is not None}


def test_record_timestamp_can_be_the_order(spark, ordered):
    landing = ordered.build(BY_KEY, order=("kafka.timestamp",), **UPSERT)
    ordered.produce([{"version": 1, "words": "first"}], keys=[7], partition=5)
    ordered.run(spark, landing)
    ordered.produce([None], keys=[7], partition=0)
    ordered.run(spark, landing)
    assert read_rows(ordered) == {}
    ordered.produce([{"version": 2, "words": "second"}], keys=[7], partition=3)
    ordered.run(spark, landing)
    assert read_rows(ordered) == {7: (2, "second")}


def test_record_without_an_order_is_a_bad_record(spark, ordered):
    ordered.produce([{"id": 1, "words": "a"}])
    with pytest.raises(RejectedError, match="can't be a row of") as error:
        ordered.run(spark, ordered.build(BY_VALUE, order=("version",), **UPSERT))
    assert "column version of to.order is null" in error.value.cause


def test_key_of_the_value_needs_an_order(spark, unordered):
    unordered.produce([{"id": 1, "version": 1, "words": "a"}])
    with pytest.raises(RefusedError, match=r"has no to\.order, and records of one key may be in several partitions"):
        unordered.run(spark, unordered.build(BY_VALUE, **UPSERT))
    assert read_rows(unordered) == {}


def test_table_without_the_order_column_is_refused(spark, unordered):
    with pytest.raises(RefusedError, match=r"does not match pipeline") as error:
        unordered.run(spark, unordered.build(BY_VALUE, order=("version",), **UPSERT))
    assert '"_seamark_order" numeric[]' in error.value.cause


def test_key_that_is_in_another_partition_is_refused_before_its_batch_is_landed(spark, unordered, monkeypatch):
    landing = unordered.build(BY_KEY, **UPSERT)
    produce_placed(unordered, [(id_, 1, "a") for id_ in range(60)], among=6)
    seen, probe = [], LandTopic.probe
    monkeypatch.setattr(LandTopic, "probe", lambda *given: seen.append(probe(*given)) or seen[-1])
    unordered.run(spark, landing)
    # Samples need not show the one record among millions; here they would.
    monkeypatch.setattr(LandTopic, "probe", lambda *_: seen[0])
    assert len(read_rows(unordered)) == 60
    key = str(7).encode()
    wrong = (hash_key(key, rule=Partitioner.MURMUR2) + 1) % 6
    unordered.produce([{"version": 2, "words": "b"}], keys=[key], partition=wrong)
    with pytest.raises(
        Exception, match=rf"misplaced record {unordered.topic}-{wrong}@\d+: its key belongs to another of 6 partitions"
    ):
        unordered.run(spark, landing)
    monkeypatch.undo()
    with pytest.raises(RefusedError, match="records of one key may be in several partitions"):
        unordered.run(spark, landing)
    assert read_rows(unordered)[7] == (1, "a")


def test_topic_that_grows_to_a_multiple_lands_its_former_partitions_first(spark, unordered):
    landing = unordered.build(BY_KEY, **UPSERT)
    produce_placed(unordered, [(id_, 1, "a") for id_ in range(200)], among=6)
    unordered.run(spark, landing)
    # Half of what is landed next was there before the topic grew.
    produce_placed(unordered, [(id_, 2, "b") for id_ in range(200)], among=6)
    grow(unordered, 12)
    produce_placed(unordered, [(id_, 3, "c") if id_ % 5 else (id_, 3, None) for id_ in range(200)], among=12)
    seen = []
    unordered.run(spark, landing, on_batch=seen.append, records=60)
    assert read_rows(unordered) == {id_: (3, "c") for id_ in range(200) if id_ % 5}
    assert unordered.read_ledger() == unordered.read_ends()
    assert len(seen) > 4


def test_topic_that_grows_to_no_multiple_is_refused(spark, unordered):
    landing = unordered.build(BY_KEY, **UPSERT)
    produce_placed(unordered, [(id_, 1, "a") for id_ in range(60)], among=6)
    unordered.run(spark, landing)
    grow(unordered, 8)
    with pytest.raises(RefusedError) as error:
        unordered.run(spark, landing)
    assert "were increased from 6 to 8" in error.value.cause


def test_offset_as_order_does_not_compare_two_topics(spark, ordered, kafka):
    landing = ordered.build(BY_KEY, order=("kafka.offset",), **UPSERT)
    produce_placed(ordered, [(id_, 1, "a") for id_ in range(60)], among=6)
    ordered.run(spark, landing)
    other = kafka.topic(partitions=6)
    with pytest.raises(RefusedError, match=r"orders rows by kafka\.offset, but its topic was recreated"):
        ordered.run(spark, replace(landing, topic=other))
