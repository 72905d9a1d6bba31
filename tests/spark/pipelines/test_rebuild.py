"""A table of a lake is written again from its topic, swapped in by a change, and back, while its pipeline runs."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Spot
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable

from seamark.errors import NotFoundError, RefusedError, StaleFilesError, UnreachableError
from seamark.pipelines import service
from seamark.pipelines.spark_delta import run_in_tasks
from seamark.spark.settings import SparkOptions
from seamark.tables.delta import maintenance
from seamark.tables.delta import table as table_module
from seamark.tables.delta.rebuild import DeltaRebuild
from seamark.tables.delta.table import LakeTable
from tests.spark.lake_stage import build_lake
from tests.spark.land_fleet import open_land_fleet

ROOT = Path(__file__).parents[3]
WAIT_SECONDS = 180
TEXT = {"columns": {"number": "text", "words": "text"}}
NUMBER = {"columns": {"number": "bigint", "words": "text", "half": {"type": "double", "sql": "number / 2"}}}


class RebuildStage:
    """One pipeline into a lake on S3, its spec file, and everything that was produced."""

    def __init__(self, stack, kafka, folder, fleet, lake):
        self.kafka, self.folder, self.fleet, self.lake = kafka, folder, fleet, lake
        self.name = f"r{uuid4().hex[:6]}"
        self.topic = kafka.topic(2)
        self.place = lake.below("raw/events")
        self.count = 0

    def apply(self, **more):
        to = {"lake": "lake", "table": "raw/events", **more.pop("to", {})}
        body = {"kind": "land", "from": {"topic": self.topic}, "every": "1s", **TEXT, **more, "to": to}
        (self.folder / "lake.yaml").write_text(json.dumps({"pipelines": {self.name: body}}))
        done = self.fleet.apply(self.fleet.plan(self.folder / "lake.yaml"))
        assert done.is_done, done.failures

    @property
    def spec(self):
        (found,) = self.fleet.pipelines.declared(names=[self.name])
        return found

    @property
    def owner(self):
        return f"pipeline/{self.name}"

    def produce(self, values):
        producer = Producer({"bootstrap.servers": self.kafka.servers, "linger.ms": 20})
        for value in values:
            number = value.get("id", value.get("number"))
            producer.produce(self.topic, key=b"%d" % number, value=json.dumps(value).encode(), partition=number % 2)
        assert producer.flush(60) == 0

    def produce_numbers(self, count):
        self.produce([{"number": self.count + one, "words": f"w{self.count + one}"} for one in range(count)])
        self.count += count

    def run(self, spark):
        pipelines = self.fleet.pipelines
        pipelines.run(pipelines.plan(self.spec), spark=SparkOptions(session=spark), is_endless=False)

    def rebuild(self, spark, *, before_swap=lambda: None, **more):
        """Rebuild the table and apply the swap, as the command does. Returns the result of the change."""
        pipelines, spec = self.fleet.pipelines, self.spec

        def swap(rebuild, catch_up):
            catch_up()
            before_swap()
            return self.fleet.apply(pipelines.plan_swap(spec, rebuild=rebuild))

        return pipelines.rebuild(pipelines.plan_rebuild(spec), swap, spark=SparkOptions(session=spark), **more)

    def undo(self, done):
        result = self.fleet.apply(self.fleet.undo(done))
        assert result.is_done, result.failures
        return result

    def table(self):
        return DeltaTable(self.place.table_url, storage_options=self.place.build_options())

    def rows(self, *columns):
        found = self.table().to_pyarrow_table(columns=list(columns))
        return sorted(zip(*(found.column(name).to_pylist() for name in columns), strict=True))

    def offsets(self):
        entries = LakeTable(self.place, owner=self.owner).read()
        return {number: entry.next_offset for (_, number), entry in sorted(entries.items())}

    def vacuum(self, spark, seconds):
        table = LakeTable(self.place, owner=self.owner)
        return maintenance.vacuum_files(table, run_in_tasks(spark), keep_seconds=seconds)

    @contextmanager
    def running(self, spark):
        stop, errors, pipelines = threading.Event(), [], self.fleet.pipelines

        def run():
            try:
                choose = pipelines.choose
                pipelines.run_all(choose(), spark=SparkOptions(session=spark), follow=choose, stop=stop)
            except Exception as error:  # noqa: BLE001 - told by the test
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(WAIT_SECONDS)
        assert not thread.is_alive()
        assert errors == []


def await_for(check, what):
    deadline = time.monotonic() + WAIT_SECONDS
    while not check():
        assert time.monotonic() < deadline, f"waited {WAIT_SECONDS} s for {what}"
        time.sleep(0.3)


@pytest.fixture
def stage(stack, kafka, tmp_path, monkeypatch):
    lake = build_lake(stack, "s3")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{ROOT / 'src'}")
    with open_land_fleet(stack, tmp_path, monkeypatch, lake=lake) as opened:
        yield RebuildStage(stack, kafka, tmp_path, opened, lake)


def test_types_change_in_one_commit_and_the_undo_restores_rows_and_offsets(spark, stage):
    stage.apply()
    for _ in range(2):
        stage.produce_numbers(500)
        stage.run(spark)
    before, offsets = stage.rows("number", "words", "_offset"), stage.offsets()
    stage.apply(**NUMBER)
    with pytest.raises(RefusedError, match="column number is string") as caught:
        stage.run(spark)
    assert f"seamark pipelines rebuild {stage.name}" in caught.value.hint
    stage.produce_numbers(300)
    seen = []
    done = stage.rebuild(spark, before_swap=lambda: seen.append(stage.rows("number", "words", "_offset")))
    assert done.is_done, done.failures
    # Until the swap, queries see the table as it was.
    assert seen == [before]
    whole = [(number, f"w{number}", number / 2) for number in range(1300)]
    assert stage.rows("number", "words", "half") == whole
    assert stage.offsets() == {0: 650, 1: 650}
    # Statistics are kept: a reader can skip files by them.
    assert sum(file.rows for file in LakeTable(stage.place, owner=stage.owner).list_files().files) == 1300
    minima = stage.table().get_add_actions(flatten=True)
    assert min(minima.column("min.number").to_pylist()) == 0
    stage.produce_numbers(100)
    stage.run(spark)
    assert stage.rows("number") == [(number,) for number in range(1400)]
    undone = stage.undo(done)
    assert stage.rows("number", "words", "_offset") == before
    assert stage.offsets() == offsets
    # The undo can be undone, with the rows that came after the swap.
    stage.undo(undone)
    assert stage.rows("number") == [(number,) for number in range(1400)]
    assert stage.offsets() == {0: 700, 1: 700}


def test_running_application_loses_and_repeats_nothing(spark, stage):
    stage.apply()
    stop = threading.Event()

    def feed():
        while not stop.wait(0.1):
            stage.produce_numbers(20)

    stage.produce_numbers(2000)
    feeder = threading.Thread(target=feed)
    with stage.running(spark):
        feeder.start()
        try:
            await_for(lambda: sum(stage.offsets().values()) > 2000, "the first batches")
            done = stage.rebuild(spark)
            assert done.is_done, done.failures
            swapped = stage.table().version()
            await_for(lambda: stage.table().version() > swapped + 2, "batches after the swap")
            stage.undo(done)
        finally:
            stop.set()
            feeder.join()
        await_for(lambda: sum(stage.offsets().values()) >= stage.count, "the last batch")
    assert Counter(stage.rows("number")) == Counter((str(number),) for number in range(stage.count))


def test_table_with_keys_keeps_orders_and_deletes(spark, stage):
    stage.apply(
        **{"from": {"topic": stage.topic, "format": "debezium"}},
        to={"mode": "upsert", "key": ["id"], "order": ["version"]},
        columns={"id": "bigint", "version": "bigint", "words": "text"},
    )

    def change(keys, version, words, *, operation="c"):
        side = "before" if operation == "d" else "after"
        rows = [{"id": key, "version": version, "words": words} for key in keys]
        stage.produce([{"op": operation, side: row, "id": row["id"]} for row in rows])

    for version in range(3):
        change(range(200), version, f"v{version}")
        stage.run(spark)
    change(range(0, 200, 5), 5, "", operation="d")
    stage.run(spark)
    before = stage.rows("id", "version", "words")
    assert before == [(key, 2, "v2") for key in range(200) if key % 5]
    done = stage.rebuild(spark)
    assert done.is_done, done.failures
    assert stage.rows("id", "version", "words") == before
    # After the swap too, a record that is older than a row or a delete changes nothing.
    change(range(0, 200, 5), 4, "older than its delete")
    change(range(1, 200, 5), 1, "older than its row")
    change([1, 5], 9, "newest")
    stage.run(spark)
    changed = sorted({**{row[0]: row for row in before}, **{key: (key, 9, "newest") for key in (1, 5)}}.values())
    assert stage.rows("id", "version", "words") == changed
    stage.undo(done)
    assert stage.rows("id", "version", "words") == before
    stage.run(spark)
    assert stage.rows("id", "version", "words") == changed


def test_vacuum_spares_a_rebuild_and_ends_its_undo(spark, stage, monkeypatch):
    monkeypatch.setattr(maintenance, "LEAST_KEEP_SECONDS", 0)
    stage.apply()
    stage.produce_numbers(400)
    stage.run(spark)
    found = stage.table().file_uris()
    done = stage.rebuild(spark, before_swap=lambda: stage.vacuum(spark, 0))
    assert done.is_done, done.failures
    assert stage.rows("number") == sorted((str(number),) for number in range(400))
    assert stage.vacuum(spark, 0) == len(found)
    with pytest.raises(RefusedError, match=r"files of version \d+ of .* were deleted"):
        stage.fleet.undo(done)
    assert stage.rows("number") == sorted((str(number),) for number in range(400))


def test_swap_whose_answer_is_lost_is_found_done(spark, stage, monkeypatch):
    stage.apply()
    stage.produce_numbers(200)
    stage.run(spark)
    write = LakeTable._write_commit

    def lose(self, *args, schema=None, **more):
        write(self, *args, schema=schema, **more)
        if schema is not None:
            raise OSError("the connection was reset")

    versions = []
    with monkeypatch.context() as patch:
        patch.setattr(LakeTable, "_write_commit", lose)
        patch.setattr(table_module, "_TRIES", 1)
        done = stage.rebuild(spark, before_swap=lambda: versions.append(stage.table().version()))
    assert stage.rows("number") == sorted((str(number),) for number in range(200))
    assert [stage.table().version() - version for version in versions] == [1]
    assert done.is_done, done.failures
    # The log of the rebuild was left: a next rebuild doesn't take it for one that was interrupted.
    assert DeltaRebuild(stage.place, owner=stage.owner).find_rebuild().is_swapped
    assert stage.fleet.pipelines.plan_rebuild(stage.spec).existing is None


def test_table_that_is_ahead_is_not_replaced_and_the_rebuild_continues(spark, stage, monkeypatch):
    stage.apply()
    stage.produce_numbers(200)
    stage.run(spark)
    # A run waits for the swap. Here the swap comes too late.
    with pytest.raises(UnreachableError, match="about to be replaced by a rebuild") as caught:
        stage.rebuild(spark, before_swap=lambda: stage.run(spark))
    assert "run it again in" in caught.value.hint
    monkeypatch.setattr(service, "HOLD_SECONDS", 0.0)

    def go_ahead():
        stage.produce_numbers(50)
        stage.run(spark)

    done = stage.rebuild(spark, before_swap=go_ahead)
    assert not done.is_done
    assert stage.rows("number") == sorted((str(number),) for number in range(250))
    plan = stage.fleet.pipelines.plan_rebuild(stage.spec)
    assert plan.existing is not None
    assert plan.left == 50
    table = DeltaRebuild(stage.place, owner=stage.owner)
    with pytest.raises(StaleFilesError, match="has processed 50 records that its rebuild has not"):
        table.swap_in(plan.existing.id, generation=plan.existing.contents.generation)
    with pytest.raises(NotFoundError, match="no rebuild"):
        table.swap_in("another", generation=1)
    stage.apply(**NUMBER)
    with pytest.raises(RefusedError, match="another definition"):
        stage.fleet.pipelines.plan_rebuild(stage.spec)
    stage.apply()
    assert stage.rebuild(spark).is_done
    assert stage.rows("number") == sorted((str(number),) for number in range(250))


def test_rows_whose_records_are_gone_are_lost_only_if_allowed(spark, stage):
    stage.apply()
    stage.produce_numbers(200)
    stage.run(spark)
    before = stage.rows("number")
    admin = AdminClient({"bootstrap.servers": stage.kafka.servers})
    for found in admin.delete_records([Spot(stage.topic, 0, 30)]).values():
        found.result(30)
    with pytest.raises(RefusedError, match="may lose rows") as caught:
        stage.rebuild(spark)
    assert f"{stage.topic}-0 starts at offset 30" in caught.value.cause
    assert stage.rows("number") == before
    done = stage.rebuild(spark, allow_row_loss=True)
    assert done.is_done, done.failures
    assert len(stage.rows("number")) == 170
    stage.undo(done)
    assert stage.rows("number") == before
