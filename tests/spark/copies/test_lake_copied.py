"""A topic shrunk under a landing in a lake: it goes on with the copy, and lands again only what was predicted."""

from __future__ import annotations

import threading

import pytest

from seamark.copies.cutover.planner import CutoverOptions
from seamark.copies.run.runner import CopyRunOptions
from seamark.errors import FencedError
from seamark.spark.settings import SparkOptions
from tests.spark.copies.test_land_copied import Enough, read_replay
from tests.spark.kafka_side import OLD_MS, WAIT_SECONDS
from tests.spark.lake_stage import build_lake, open_lake_stage
from tests.spark.land_fleet import open_land_fleet, produce_keyed
from tests.spark.pipelines.test_land import wait_for

FROM, TO, KEYS = 6, 3, 70
LANDED, TOTAL = 600, 1500


@pytest.fixture
def yard(stack, kafka, tmp_path, monkeypatch):
    lake = build_lake(stack, "s3")
    with (
        open_land_fleet(stack, tmp_path, monkeypatch, lake=lake) as fleet,
        open_lake_stage(stack, kafka, lake=lake, partitions=FROM) as stage,
    ):
        targets = []
        try:
            yield fleet, stage, targets
        finally:
            fleet.copies.close()
            for target in targets:
                kafka.forget_later(target)


def produce(stage, first, last):
    produce_keyed(stage.kafka, stage.topic, range(first, last), partitions=FROM, keys=KEYS, begin_ms=OLD_MS)


def read_places(stage, topic):
    return {entry.partition: entry.next_offset for entry in stage.open().read().values() if entry.topic == topic}


def land_some(stage, spark, records):
    def end(_batch):
        raise Enough

    with pytest.raises(Enough):
        stage.run(spark, records=records, on_batch=end)


def copy(fleet, stage, spark):
    draft = fleet.copies.plan(stage.topic, f"{FROM}:{TO}", slice_records=400)
    assert not draft.plan.is_refused, draft.plan.refusals
    assert {reader.name for reader in draft.readers} == {stage.build().owner}
    options = SparkOptions(session=spark)
    fleet.copies.run(draft, options=CopyRunOptions(), spark=options)
    fleet.copies.use_spark(options)
    return draft.plan


def test_landing_in_a_lake_goes_on_with_fewer_partitions_and_back(spark, yard):
    fleet, stage, targets = yard
    source = stage.topic
    produce(stage, 0, LANDED)
    stage.run(spark)
    produce(stage, LANDED, TOTAL)
    land_some(stage, spark, 350)
    plan = copy(fleet, stage, spark)
    target = plan.target.topic
    targets.append(target)
    held = read_places(stage, source)
    assert LANDED < sum(held.values()) < TOTAL
    planned = fleet.copies.cutover(plan.id, CutoverOptions(level="full"))
    assert any(f"set from.topic to {target}" in note for note in planned.plan.notes)
    result = fleet.apply(planned)
    assert result.is_done, [step.error for step in result.steps if step.error]
    assert read_places(stage, source) == held
    again = read_replay(result, stage.build().owner)
    assert again > 0
    stage.topic = target
    stage.run(spark)
    numbers = [number for (number,) in stage.read("number")]
    assert (len(numbers), len(set(numbers))) == (TOTAL + again, TOTAL)
    undo = fleet.undo(result)
    assert any(f"set from.topic to {source}" in note for note in undo.plan.notes)
    assert fleet.apply(undo).is_done
    assert (read_places(stage, source), read_places(stage, target)) == (held, {})
    # It goes on where it stood in the source: what it has landed from the target it lands again.
    stage.topic = source
    stage.run(spark)
    numbers = [number for (number,) in stage.read("number")]
    assert (len(numbers), len(set(numbers))) == (TOTAL + again + TOTAL - sum(held.values()), TOTAL)


def test_run_that_is_under_way_is_shut_out(spark, yard):
    fleet, stage, targets = yard
    produce(stage, 0, LANDED)
    stage.run(spark)
    produce(stage, LANDED, TOTAL)
    plan = copy(fleet, stage, spark)
    targets.append(plan.target.topic)
    stop, failures = threading.Event(), []

    def run():
        try:
            stage.run(spark, every_seconds=0.5, stop=stop)
        except BaseException as error:  # noqa: BLE001 - told below
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        wait_for(lambda: sum(read_places(stage, stage.topic).values()) == TOTAL, thread)
        result = fleet.apply(fleet.copies.cutover(plan.id, CutoverOptions()))
        assert result.is_done, [step.error for step in result.steps if step.error]
        # It had nothing to land any more, and ends all the same.
        thread.join(WAIT_SECONDS)
        assert not thread.is_alive()
    finally:
        stop.set()
        thread.join(60)
    assert [type(error) for error in failures] == [FencedError]
    assert read_replay(result, stage.build().owner) == 0
    stage.topic = plan.target.topic
    stage.run(spark)
    assert stage.read("number") == [(number,) for number in range(TOTAL)]
