"""Code tables in a lake: rows are replaced, deleted and expired, in one commit with the offsets."""

from __future__ import annotations

import random
import threading
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from seamark.errors import FencedError, RefusedError, RejectedError
from seamark.kafka_sink.routing import Partitioner, hash_key
from seamark.tables.definition import DeadLetters, Format, LandColumn, Mode
from seamark.tables.delta import buckets
from tests.spark.lake_stage import LAKES, open_lake_stage
from tests.spark.land_stage import encode

BY_VALUE = (LandColumn("id", "bigint"), LandColumn("version", "bigint"), LandColumn("words", "text"))
BY_KEY = (LandColumn("id", "bigint", "key"), *BY_VALUE[1:])
UPSERT = {"mode": Mode.UPSERT, "key": ("id",)}
SNAPSHOT = {"mode": Mode.SNAPSHOT, "key": ("id",), "expire_seconds": 100}
NAMES = ("id", "version", "words")
DAY = 86_400_000


@pytest.fixture
def open_stage(stack, kafka):
    return lambda **more: open_lake_stage(stack, kafka, **more)


def produce_placed(stage, records):
    """Produce records where murmur2 puts their keys."""
    for partition in range(stage.partitions):
        pairs = [
            (key, None if words is None else {"version": version, "words": words})
            for id_, version, words in records
            if hash_key(key := str(id_).encode(), rule=Partitioner.MURMUR2) % stage.partitions == partition
        ]
        stage.produce([value for _, value in pairs], keys=[key for key, _ in pairs], partition=partition)


def produce_at(stage, ids, *, at, words="w", partition=0):
    """Produce rows as a bulk source does: without a key, at a time."""
    producer = Producer({"bootstrap.servers": stage.kafka.servers})
    for id_ in ids:
        value = encode({"id": id_, "version": 1, "words": words})
        producer.produce(stage.topic, value=value, partition=partition, timestamp=at)
    assert producer.flush(60) == 0


@pytest.mark.parametrize("kind", LAKES)
def test_newest_record_of_a_key_is_its_row(spark, open_stage, kind, monkeypatch):
    # So small that buckets are split.
    monkeypatch.setattr(buckets, "BUCKET_BYTES", 20_000)
    dice, expected, seen = random.Random(5), {}, []
    with open_stage(kind=kind) as stage:
        landing = stage.build(BY_KEY, **UPSERT)
        for round_ in range(3):
            records = []
            for number in range(4_000):
                id_ = dice.randrange(3_000)
                words = None if dice.random() < 0.1 else f"{round_}/{number}"
                records.append((id_, number, words))
                expected[id_] = None if words is None else (number, words)
            produce_placed(stage, records)
            stage.run(spark, landing, records=2_500, on_batch=seen.append)
            rows = sorted((id_, *row) for id_, row in expected.items() if row is not None)
            assert stage.read(*NAMES) == rows
            assert stage.read_ledger() == stage.read_ends()
        files = stage.open(landing).list_files().files
        assert len(files) > 2
        assert sum(file.rows for file in files) == len(rows)
        assert sum(batch.deleted for batch in seen) > 100
        # Readers see the columns of the table, and nothing of ours.
        assert [one.name for one in stage.table().schema().fields] == list(NAMES)


def test_newest_record_wins_whatever_its_partition(spark, open_stage):
    dice = random.Random(3)
    with open_stage(partitions=6) as stage:
        newest, offsets, values = {}, [0] * 6, {number: [] for number in range(6)}
        for number in range(4_000):
            id_, version, partition = dice.randrange(300), dice.randrange(20), dice.randrange(6)
            order = (version, partition, offsets[partition])
            offsets[partition] += 1
            row = {"id": id_, "version": version, "words": str(number)}
            is_delete = dice.random() < 0.1
            values[partition].append({"op": "d", "before": row} if is_delete else {"op": "c", "after": row})
            if id_ not in newest or newest[id_][0] < order:
                newest[id_] = (order, None if is_delete else (version, str(number)))
        for partition, some in values.items():
            stage.produce(some, partition=partition)
        landing = stage.build(BY_VALUE, order=("version",), format=Format.DEBEZIUM, **UPSERT)
        stage.run(spark, landing, records=600)
        assert stage.read(*NAMES) == sorted((id_, *row) for id_, (_, row) in newest.items() if row is not None)
        # From the beginning once more: no older record replaces a newer row.
        before = stage.read(*NAMES)
        table = stage.open(landing)
        table.place([replace(entry, next_offset=0) for entry in table.read().values()])
        stage.run(spark, landing, records=1_000)
        assert stage.read(*NAMES) == before


def test_bad_records_are_rows_beside_the_others(spark, open_stage):
    with open_stage(partitions=1) as stage:
        landing = stage.build(BY_VALUE, order=("version",), dead_letters=DeadLetters(), **UPSERT)
        stage.produce([{"id": 1, "version": 1, "words": "a"}, b"nothing", {"version": 2}, {"id": 2, "version": 1}])
        stage.run(spark, landing)
        stage.produce([{"id": 1, "version": 2, "words": "b"}])
        stage.run(spark, landing)
        found = stage.table().to_pyarrow_table().to_pylist()
        rows = sorted((one["id"], one["words"]) for one in found if one["seamark_dead_letter"] is None)
        letters = [one["seamark_dead_letter"] for one in found if one["seamark_dead_letter"] is not None]
        assert rows == [(1, "b"), (2, None)]
        assert min((one["offset"], one["value"]) for one in letters) == (1, b"nothing")
        assert len(letters) == 2


def test_without_dead_letters_a_bad_record_stops_the_run(spark, open_stage):
    with open_stage(partitions=1) as stage:
        stage.produce([{"id": 1, "version": 1}, {"version": 2}])
        with pytest.raises(RejectedError, match=r"record .*-0@1 can't be a row"):
            stage.run(spark, stage.build(BY_VALUE, order=("version",), **UPSERT))
        assert stage.read("id") == []


def test_where_deletes_rows_that_are_not_wanted_any_longer(spark, open_stage):
    with open_stage(partitions=1) as stage:
        landing = stage.build(BY_VALUE, order=("version",), where="words <> 'gone'", **UPSERT)
        stage.produce([{"id": id_, "version": 1, "words": "here"} for id_ in range(3)])
        stage.run(spark, landing)
        stage.produce([{"id": 1, "version": 2, "words": "gone"}])
        stage.run(spark, landing)
        assert stage.read("id") == [(0,), (2,)]


def test_table_of_appended_rows_is_refused(spark, open_stage):
    with open_stage(partitions=1) as stage:
        stage.produce([{"id": 1, "version": 1, "words": "a"}])
        stage.run(spark, stage.build(BY_VALUE))
        with pytest.raises(RefusedError, match="not divided by key"):
            stage.run(spark, stage.build(BY_VALUE, order=("version",), **UPSERT))


def test_of_two_runs_one_has_each_batch(spark, open_stage):
    with open_stage(partitions=3) as stage:
        landing = stage.make(stage.build(BY_KEY, **UPSERT))
        records = [(id_ % 500, id_, f"w{id_}") for id_ in range(6_000)]
        produce_placed(stage, records)
        errors, stop = [], threading.Event()

        def run():
            while not stop.is_set():
                try:
                    stage.run(spark, landing, records=700)
                    return
                except FencedError as error:
                    errors.append(error)

        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(240)
        stop.set()
        assert stage.read(*NAMES) == sorted(records[-500:])
        assert stage.read_ledger() == stage.read_ends()


def test_rows_that_the_source_no_longer_sends_expire(spark, open_stage):
    with open_stage(partitions=2) as stage:
        landing = stage.build(BY_VALUE, **SNAPSHOT)
        seen = []
        for number in range(8):
            # From the fourth load on, the source has lost row 9. Loads are 30 s apart.
            for partition in range(2):
                ids = [id_ for id_ in range(partition, 20, 2) if id_ != 9 or number < 3]
                produce_at(stage, ids, at=DAY + number * 30_000, partition=partition, words=f"load {number}")
            stage.run(spark, landing, on_batch=seen.append)
            expected = [id_ for id_ in range(20) if id_ != 9 or number < 7]
            assert stage.read("id") == [(id_,) for id_ in expected], number
        assert set(stage.read("words")) == {("load 7",)}
        assert sum(batch.deleted for batch in seen) == 1


def test_nothing_expires_after_a_silence(spark, open_stage):
    with open_stage(partitions=1) as stage:
        landing = stage.build(BY_VALUE, **SNAPSHOT)
        for number in range(8):
            produce_at(stage, range(20), at=DAY + number * 30_000)
        stage.run(spark, landing)
        # Three times `expire_after` later the source begins again, row by row, in batches of their own.
        later = DAY + 7 * 30_000 + 300_000
        for id_ in range(20):
            produce_at(stage, [id_], at=later + id_ * 1000)
            stage.run(spark, landing)
            assert len(stage.read("id")) == 20
        # The same within one batch.
        for id_ in range(20):
            produce_at(stage, [id_], at=later + 500_000 + id_ * 1000)
        stage.run(spark, landing)
        assert len(stage.read("id")) == 20


def test_too_many_expired_rows_suspend_the_pipeline(spark, open_stage):
    with open_stage(partitions=1) as stage:
        landing = stage.build(BY_VALUE, **SNAPSHOT)
        for number in range(8):
            produce_at(stage, range(20 if number < 2 else 10), at=DAY + number * 30_000)
            if number < 5:
                stage.run(spark, landing)
        with pytest.raises(RefusedError, match=r"10 of 20 rows .* more than to\.max_delete allows"):
            stage.run(spark, landing, records=10)
        assert len(stage.read("id")) == 20
        stage.run(spark, replace(landing, max_delete="50%"))
        assert len(stage.read("id")) == 10
