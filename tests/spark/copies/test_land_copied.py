"""A topic shrunk under landings: they go on with the copy, each record is landed, and again only as was predicted."""

from __future__ import annotations

import threading

import pytest

from seamark.copies.cutover.planner import CutoverOptions
from seamark.copies.run.runner import CopyRunOptions
from seamark.errors import FencedError, RefusedError
from seamark.spark.settings import SparkOptions
from seamark.tables.definition import LandColumn, Mode
from tests.spark.kafka_side import OLD_MS, WAIT_SECONDS
from tests.spark.land_fleet import open_land_fleet, produce_keyed
from tests.spark.land_stage import COLUMNS, open_land_stage
from tests.spark.pipelines.test_land import wait_for

FROM, TO = 6, 3
LANDED, WAITING, LATER, KEYS = 900, 900, 150, 70
TOTAL = LANDED + WAITING + LATER


class Enough(Exception):  # noqa: N818 - no error: the test has what it wants
    pass


class Yard:
    """A topic with two landings, one by append and one by upsert, and a fleet that knows their database."""

    def __init__(self, fleet, spark, kafka, append, upsert):
        self.fleet, self.session, self.kafka = fleet, spark, kafka
        self.append, self.upsert = append, upsert
        upsert.topic, self.topic, self.target = append.topic, append.topic, ""

    def produce(self, first, last, *, topic=None, partitions=FROM):
        numbers = range(first, last)
        produce_keyed(
            self.kafka, topic or self.topic, numbers, partitions=partitions, keys=KEYS, begin_ms=OLD_MS, step_ms=1000
        )

    def land(self, stage, **more):
        columns = COLUMNS
        if stage is self.upsert:
            columns = (*COLUMNS[2:], LandColumn("name", "int"))
            more = {"mode": Mode.UPSERT, "key": ("name",), "order": ("number",), **more}
        keys = ("mode", "key", "order", "topic")
        landing = stage.build(columns, **{key: more.pop(key) for key in keys if key in more})
        return stage.run(self.session, landing, **more)

    def land_some(self, stage, records):
        def end(_batch):
            raise Enough

        with pytest.raises(Enough):
            self.land(stage, records=records, on_batch=end)

    def prepare(self):
        """Both have landed a part, each another one, and the rest waits."""
        self.produce(0, LANDED)
        self.land(self.append)
        self.produce(LANDED, LANDED + WAITING)
        self.land_some(self.append, 350)
        self.land_some(self.upsert, 1100)

    def copy(self, **options):
        draft = self.fleet.copies.plan(self.topic, f"{FROM}:{TO}", slice_records=400, **options)
        assert not draft.plan.is_refused, draft.plan.refusals
        assert {reader.name for reader in draft.readers} == {self.append.build().owner, self.upsert.build().owner}
        spark = SparkOptions(session=self.session)
        self.fleet.copies.run(draft, options=CopyRunOptions(), spark=spark)
        self.fleet.copies.use_spark(spark)
        self.target = draft.plan.target.topic
        # What comes behind it is copied by the cut-over.
        self.produce(LANDED + WAITING, TOTAL)
        return draft.plan

    def turn(self):
        """What the owner of the landings does: the new topic in their files."""
        self.append.topic = self.upsert.topic = self.target

    def read_ledger(self, stage):
        rows = stage.read(
            "SELECT topic, partition_number, next_offset FROM seamark_ledger WHERE owner = %s", stage.build().owner
        )
        return {(topic, number): at for topic, number, at in rows}

    def count(self):
        return self.append.read("SELECT count(*), count(DISTINCT number) FROM {table}")[0]

    def read_upserted(self):
        return sorted(self.upsert.read("SELECT number, words FROM {table}"))


@pytest.fixture
def yard(stack, kafka, spark, tmp_path, monkeypatch):
    upserted = "name int PRIMARY KEY, number bigint, words text, _seamark_order numeric[]"
    with (
        open_land_fleet(stack, tmp_path, monkeypatch) as fleet,
        open_land_stage(stack, kafka, partitions=FROM) as append,
        open_land_stage(stack, kafka, partitions=FROM, table=upserted) as upsert,
    ):
        made = Yard(fleet, spark, kafka, append, upsert)
        try:
            yield made
        finally:
            fleet.copies.close()
            kafka.forget_later(made.target)


def newest(total):
    return [(number, f"w{number}") for number in range(total - KEYS, total)]


def read_replay(result, owner, kind="translate-group"):
    """What the step of a landing said that it lands again."""
    (step,) = [one for one in result.steps if one.subject == owner and one.kind == kind]
    again = step.note.partition(", ")[2]
    return 0 if again == "no records to reprocess" else int(again.split()[0])


def test_landings_go_on_with_fewer_partitions(yard):
    yard.prepare()
    before, _ = yard.count()
    assert LANDED < before < LANDED + WAITING
    plan = yard.copy()
    planned = yard.fleet.copies.cutover(plan.id, CutoverOptions(level="full"))
    name = yard.append.name
    assert any(
        f"pipeline {name} reads {yard.topic}: set from.topic to {yard.target}" in note for note in planned.plan.notes
    )
    with pytest.raises(RefusedError, match="is still needed"):
        yard.fleet.copies.cleanup(plan.id)
    result = yard.fleet.apply(planned)
    assert result.is_done, [step.error for step in result.steps if step.error]
    again = read_replay(result, yard.append.build().owner)
    assert again > 0
    yard.turn()
    yard.land(yard.append)
    yard.land(yard.upsert)
    assert yard.count() == (TOTAL + again, TOTAL)
    assert yard.read_upserted() == newest(TOTAL)
    # What comes to the new topic is landed, and the old one is needed by nobody.
    yard.produce(TOTAL, TOTAL + 100, topic=yard.target, partitions=TO)
    yard.land(yard.append)
    yard.land(yard.upsert)
    assert yard.count() == (TOTAL + again + 100, TOTAL + 100)
    assert yard.read_upserted() == newest(TOTAL + 100)
    assert yard.fleet.apply(yard.fleet.copies.cleanup(plan.id)).is_done


def test_run_that_is_under_way_is_shut_out_and_the_way_back_leads_to_where_it_stood(yard):
    yard.prepare()
    plan = yard.copy()
    failures, stop = [], threading.Event()

    def run():
        try:
            yard.land(yard.upsert, every_seconds=0.5, stop=stop)
        except BaseException as error:  # noqa: BLE001 - told below
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        wait_for(lambda: yard.read_upserted() == newest(TOTAL), thread)
        held = yard.read_ledger(yard.append)
        result = yard.fleet.apply(yard.fleet.copies.cutover(plan.id, CutoverOptions()))
        assert result.is_done, [step.error for step in result.steps if step.error]
        # It had nothing to land any more, and ends all the same.
        thread.join(WAIT_SECONDS)
        assert not thread.is_alive()
    finally:
        stop.set()
        thread.join(60)
    assert [type(error) for error in failures] == [FencedError]
    assert read_replay(result, yard.upsert.build().owner) == 0
    assert {spot: at for spot, at in yard.read_ledger(yard.append).items() if spot[0] == yard.topic} == held
    yard.turn()
    yard.land(yard.append)
    from_target = yard.count()[0]
    undo = yard.fleet.undo(result)
    assert any(f"set from.topic to {yard.topic}" in note for note in undo.plan.notes)
    assert yard.fleet.apply(undo).is_done
    assert yard.read_ledger(yard.append) == held
    yard.append.topic = yard.upsert.topic = yard.topic
    # It goes on where it stood in the source: what it has landed from the target it lands again.
    yard.land(yard.append)
    yard.land(yard.upsert)
    waiting = TOTAL - sum(held.values())
    assert yard.count() == (from_target + waiting, TOTAL)
    assert yard.read_upserted() == newest(TOTAL)


def test_topic_keeps_its_name_and_the_landings_their_files(yard):
    yard.prepare()
    plan = yard.copy(to=f"{yard.topic}-tmp")
    former = yard.kafka.topic_id(yard.topic)
    result = yard.fleet.apply(yard.fleet.copies.cutover(plan.id, CutoverOptions(in_place=True)))
    assert result.is_done, [step.error for step in result.steps if step.error]
    assert yard.kafka.topic_id(yard.topic) != former
    owner = yard.append.build().owner
    again = read_replay(result, owner)
    assert again > 0
    yard.land(yard.append)
    yard.land(yard.upsert)
    assert yard.count() == (TOTAL + again, TOTAL)
    assert yard.read_upserted() == newest(TOTAL)
    assert yard.fleet.apply(yard.fleet.copies.cleanup(plan.id)).is_done
