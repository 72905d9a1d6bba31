"""A rebuild of a table is swapped in and out by changes, and refused where rows would be lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seamark.context.context import LakeSettings
from seamark.errors import NotFoundError, RefusedError, StaleFilesError, UsageError
from seamark.kafka.model import OffsetSpec
from seamark.pipelines.rebuild import build_digest
from seamark.pipelines.spark_topic import LandTopic
from seamark.tables.delta.technology import DeltaTechnology
from seamark.tables.model import LedgerEntry, TableRebuild, TableVersion, check_ahead
from tests.fakes.tables.rebuildable import FakeRebuildable
from tests.unit.changes.brokers import FakeBrokers
from tests.unit.fleet.living import LivingConnect, open_living_fleet
from tests.unit.scenarios.specs import SHOP

PIPELINE = """\
pipelines:
  orders:
    kind: land
    from: {topic: orders}
    to: {lake: lake, table: raw/orders}
    columns: {id: bigint}
"""


class Desk:
    """One pipeline whose table is at offset 40 of 45, and a rebuild of it."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.brokers = folder, FakeBrokers()
        self.brokers.add_topic("orders", partitions=2, records=45)
        self.table = FakeRebuildable([TableVersion(0, 0, 4, 80, self.entries(40), {"id": "string"})])
        monkeypatch.setattr(DeltaTechnology, "open_rebuildable", lambda *_, **__: self.table)
        self.fleet = open_living_fleet(folder, LivingConnect(), brokers=self.brokers)
        object.__setattr__(self.fleet.context, "lakes", {"lake": LakeSettings("lake", "s3://lake")})
        self.write(PIPELINE)

    def write(self, text):
        path = self.folder / "pipelines.yaml"
        path.write_text(text)
        (self.spec,) = self.fleet.pipelines.declared([path])

    def entries(self, offset, *, topic_id=None):
        (topic,) = self.brokers.read_topics(["orders"]).items
        found = [LedgerEntry("orders", topic_id or topic.topic_id, one, next_offset=offset) for one in range(2)]
        return {entry.key: entry for entry in found}

    def fill(self, offset=45):
        contents = TableVersion(3, 77, 1, 2 * offset, self.entries(offset), {"id": "bigint"})
        self.table.rebuild = TableRebuild("r77", build_digest(self.spec.landing), contents)

    def swap(self):
        return self.fleet.apply(self.fleet.pipelines.plan_swap(self.spec))


@pytest.fixture
def desk(tmp_path, monkeypatch):
    return Desk(tmp_path, monkeypatch)


def test_swap_is_undone_and_done_again_with_the_rows_that_came_since(desk):
    desk.fill()
    done = desk.swap()
    assert done.is_done
    assert desk.table.rebuild is None
    desk.table.commit(rows=95, entries=desk.entries(47))
    undone = desk.fleet.apply(desk.fleet.undo(done))
    assert undone.is_done
    current = desk.table.read_current()
    assert (current.generation, current.rows, current.columns) == (0, 80, {"id": "string"})
    assert current.entries == desk.entries(40)
    assert desk.fleet.apply(desk.fleet.undo(undone)).is_done
    assert desk.table.read_current().rows == 95
    assert desk.table.read_current().entries == desk.entries(47)


def test_table_that_is_ahead_stays_as_it_is(desk):
    desk.fill(39)
    done = desk.swap()
    assert not done.is_done
    assert "records that its rebuild has not" in str(done.failures)
    assert desk.table.read_current().rows == 80


@pytest.mark.parametrize(
    ("current", "rebuilt", "is_ahead"),
    [
        ({0: 40, 1: 40}, {0: 40, 1: 41}, False),
        ({0: 40, 1: 42}, {0: 50, 1: 41}, True),
        # The table has got a partition that the rebuild doesn't know.
        ({0: 40, 1: 40, 2: 1}, {0: 40, 1: 40}, True),
        ({0: 40, 1: 40, 2: 0}, {0: 40, 1: 40}, False),
        ({0: 1}, {}, True),
        ({}, {}, False),
    ],
)
def test_rebuild_must_have_all_that_the_table_has(current, rebuilt, is_ahead):
    sides = [
        {("t1", number): LedgerEntry("orders", "t1", number, next_offset=offset) for number, offset in one.items()}
        for one in (current, rebuilt)
    ]
    if is_ahead:
        with pytest.raises(StaleFilesError, match="has processed"):
            check_ahead("pipeline/orders", *sides)
    else:
        check_ahead("pipeline/orders", *sides)


def test_entries_of_a_deleted_topic_count_no_longer():
    former = {("t0", 0): LedgerEntry("orders", "t0", 0, next_offset=99)}
    new = {("t1", 0): LedgerEntry("orders", "t1", 0, next_offset=1)}
    check_ahead("pipeline/orders", {**former, **new}, new)


def test_undo_is_refused_if_records_since_the_swap_are_gone(desk):
    desk.fill()
    done = desk.swap()
    desk.brokers.topics["orders"].starts[0] = 41
    with pytest.raises(RefusedError, match="no longer has all records since then") as caught:
        desk.fleet.undo(done)
    assert "orders-0 starts at offset 41, and the files end at 40" in caught.value.cause
    assert desk.table.read_current().generation == 77


def test_undo_is_refused_if_vacuum_has_deleted_the_files(desk):
    desk.fill()
    done = desk.swap()
    desk.table.lost.add(0)
    with pytest.raises(NotFoundError, match="no longer has that version"):
        desk.fleet.undo(done)


def test_plan_of_a_swap_is_out_of_date_after_another_swap(desk):
    desk.fill()
    planned = desk.fleet.pipelines.plan_swap(desk.spec)
    desk.table.commit(generation=78)
    with pytest.raises(Exception, match="out of date"):
        desk.fleet.apply(planned)
    assert desk.table.calls == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda desk: desk.brokers.topics["orders"].configs.update({"cleanup.policy": "compact"}), "is compacted"),
        (
            lambda desk: desk.table.commit(entries=desk.entries(40, topic_id="of-the-deleted")),
            "records of a deleted topic orders",
        ),
    ],
)
def test_rows_that_the_topic_can_not_give_again_are_a_refusal(desk, change, text):
    change(desk)
    plan = desk.fleet.pipelines.plan_rebuild(desk.spec)
    assert text in " ".join(plan.find_losses())
    with pytest.raises(RefusedError, match="may lose rows") as caught:
        plan.check_losses(allow_row_loss=False)
    assert "--allow-row-loss" in caught.value.hint
    plan.check_losses(allow_row_loss=True)


def test_rebuild_of_another_definition_is_not_continued(desk):
    desk.fill(20)
    assert desk.fleet.pipelines.plan_rebuild(desk.spec).left == 50
    desk.write(PIPELINE.replace("bigint", "text"))
    with pytest.raises(RefusedError, match="another definition") as caught:
        desk.fleet.pipelines.plan_rebuild(desk.spec)
    assert "--discard" in caught.value.hint
    assert desk.fleet.pipelines.discard_rebuild(desk.spec)
    assert desk.fleet.pipelines.plan_rebuild(desk.spec).existing is None


def test_table_in_a_database_can_not_be_rebuilt(desk):
    object.__setattr__(desk.fleet.context, "databases", {"shop": SHOP})
    desk.write(PIPELINE.replace("lake: lake, table: raw/orders", "database: shop, table: public.orders"))
    with pytest.raises(UsageError, match="table of a database can't be rebuilt"):
        desk.fleet.pipelines.plan_rebuild(desk.spec)


def recreate(desk, **changes):
    desk.brokers.topics.pop("orders")
    desk.brokers.add_topic("orders", records=100, **{"partitions": 2, **changes})


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        # The new topic has records at these offsets, but others.
        (recreate, "topic orders was deleted or recreated since"),
        (lambda desk: recreate(desk, partitions=1), "topic orders was deleted or recreated since"),
        (lambda desk: desk.brokers.topics.pop("orders"), "topic orders was deleted or recreated since"),
        (
            lambda desk: desk.brokers.topics["orders"].configs.update({"cleanup.policy": "compact,delete"}),
            "topic orders is compacted",
        ),
    ],
)
def test_undo_is_refused_if_the_topic_has_other_records_now(desk, change, cause):
    desk.fill()
    done = desk.swap()
    change(desk)
    with pytest.raises(RefusedError, match="no longer has all records since then") as caught:
        desk.fleet.undo(done)
    assert cause in caught.value.cause


def test_undo_needs_no_record_of_a_topic_if_nothing_was_processed_since(desk):
    desk.fill(40)
    done = desk.swap()
    desk.brokers.topics.pop("orders")
    assert desk.fleet.apply(desk.fleet.undo(done)).is_done


def test_undo_needs_the_records_of_a_partition_that_is_new_since(desk):
    desk.fill()
    done = desk.swap()
    desk.brokers.grow_topic("orders", partitions=3)
    (topic,) = desk.brokers.read_topics(["orders"]).items
    new = LedgerEntry("orders", topic.topic_id, 2, next_offset=7)
    desk.table.commit(entries={**desk.entries(45), new.key: new})
    desk.brokers.topics["orders"].starts[2] = 3
    with pytest.raises(RefusedError) as caught:
        desk.fleet.undo(done)
    assert "orders-2 starts at offset 3, and the files end at 0" in caught.value.cause


def test_swap_is_refused_with_a_rebuild_or_a_pipeline_of_another_definition(desk):
    desk.fill()
    other = PIPELINE.replace("bigint", "text")
    desk.write(other)
    with pytest.raises(RefusedError, match="was begun with another definition"):
        desk.fleet.pipelines.plan_swap(desk.spec)
    desk.write(PIPELINE)
    with pytest.raises(NotFoundError, match="no rebuild to swap in"):
        desk.fleet.pipelines.plan_swap(desk.spec, rebuild="another")
    # What the journal has is what a running pipeline continues with.
    (desk.folder / "other.yaml").write_text(other)
    assert desk.fleet.apply(desk.fleet.plan(desk.folder / "other.yaml")).is_done
    for act in (desk.fleet.pipelines.plan_swap, desk.fleet.pipelines.plan_rebuild):
        with pytest.raises(RefusedError, match="the journal has another definition of pipeline orders") as caught:
            act(desk.spec)
        assert "seamark apply" in caught.value.hint
    assert desk.table.calls == []


def test_rows_without_offsets_may_be_of_records_that_were_deleted(desk):
    desk.table.commit(entries={})
    assert desk.fleet.pipelines.plan_rebuild(desk.spec).find_losses() == ()
    desk.brokers.topics["orders"].starts[1] = 5
    assert "orders-1 starts at offset 5" in " ".join(desk.fleet.pipelines.plan_rebuild(desk.spec).find_losses())
    desk.table.commit(rows=0)
    assert desk.fleet.pipelines.plan_rebuild(desk.spec).find_losses() == ()


def test_pipeline_that_was_moved_back_to_the_first_record_may_have_rows_of_it(desk):
    """After the move, retention deleted records that the table has rows of, and the pipeline has not run again."""
    desk.table.commit(entries=desk.entries(0))
    assert desk.fleet.pipelines.plan_rebuild(desk.spec).find_losses() == ()
    desk.brokers.topics["orders"].starts[0] = 5
    assert "orders-0 starts at offset 5" in " ".join(desk.fleet.pipelines.plan_rebuild(desk.spec).find_losses())
    desk.table.commit(rows=0)
    assert desk.fleet.pipelines.plan_rebuild(desk.spec).find_losses() == ()


KEYED = """\
pipelines:
  orders:
    kind: land
    from: {topic: orders}
    to: {lake: lake, table: raw/orders, mode: upsert, key: [id]%s}
    columns: {id: {type: bigint%s}, version: bigint}
"""
DEAD_LETTERS = "    on_error: {dead_letter: {}}\n"


@pytest.mark.parametrize(
    ("order", "more", "is_enough"),
    [
        (", order: [kafka.offset]", "", True),
        # A late record with an older version is the last of its key.
        (", order: [version]", "", False),
        # A bad record is the last of its key, and the row is that of an earlier one.
        (", order: [kafka.offset]", DEAD_LETTERS, False),
    ],
)
def test_compacted_topic_is_enough_only_if_its_last_record_of_a_key_counts(desk, order, more, is_enough):
    desk.write(KEYED % (order, ", from: key") + more)
    desk.brokers.topics["orders"].configs["cleanup.policy"] = "compact"
    losses = desk.fleet.pipelines.plan_rebuild(desk.spec).find_losses()
    assert ("compacted" not in " ".join(losses)) == is_enough


def test_rebuild_does_not_begin_after_records_that_were_deleted_since_they_were_checked(desk):
    begins = {one.partition: one.begin for one in desk.fleet.pipelines.plan_rebuild(desk.spec).partitions}
    desk.brokers.topics["orders"].starts[1] = 3
    topic = LandTopic(desk.spec.landing, desk.brokers, is_rebuild=True, begins=begins)
    with pytest.raises(RefusedError, match="orders-1 starts at offset 3, and the rebuild of pipeline/orders is at 0"):
        topic.read_firsts({}, start=OffsetSpec.EARLIEST)
    # Rows may be lost, says the user.
    firsts = LandTopic(desk.spec.landing, desk.brokers, is_rebuild=True).read_firsts({}, start=OffsetSpec.EARLIEST)
    assert [one.next_offset for one in firsts] == [0, 3]


def test_rebuild_that_can_not_continue_says_to_discard_it_and_not_to_move_the_pipeline(desk):
    """Moved to the first record, the pipeline would append all of its rows again."""
    desk.brokers.topics["orders"].starts[0] = 30
    topic = LandTopic(desk.spec.landing, desk.brokers, is_rebuild=True)
    with pytest.raises(RefusedError) as caught:
        topic.read_firsts(desk.entries(20), start=OffsetSpec.EARLIEST)
    assert caught.value.hint.endswith("seamark pipelines rebuild orders --discard")
    topic.read_firsts(desk.entries(40), start=OffsetSpec.EARLIEST)
    recreate(desk)
    with pytest.raises(RefusedError, match="was recreated") as caught:
        topic.count_partitions()
    assert caught.value.hint.endswith("seamark pipelines rebuild orders --discard")


def test_undo_of_a_keyed_table_is_refused_if_its_topic_is_compacted(desk):
    """The row of a key may come from a record that isn't the last one, and a delete is gone after a time."""
    desk.write(KEYED % ("", ", from: key"))
    desk.fill()
    done = desk.swap()
    desk.brokers.topics["orders"].configs["cleanup.policy"] = "compact"
    with pytest.raises(RefusedError, match="no longer has all records since then") as caught:
        desk.fleet.undo(done)
    assert "is compacted" in caught.value.cause


def test_rebuild_does_not_begin_with_another_topic_than_the_one_that_was_checked(desk):
    """It would have only the rows of the new topic; and after a copy in place all rows of the former one twice."""
    checked = desk.fleet.pipelines.plan_rebuild(desk.spec).topic_id
    topic = LandTopic(desk.spec.landing, desk.brokers, is_rebuild=True, topic_id=checked)
    topic.read_firsts({}, start=OffsetSpec.EARLIEST)
    recreate(desk)
    with pytest.raises(RefusedError, match="was recreated") as caught:
        topic.read_firsts({}, start=OffsetSpec.EARLIEST)
    assert caught.value.hint.endswith("seamark pipelines rebuild orders --discard")


def test_topic_whose_configs_can_not_be_read_may_be_compacted(desk, monkeypatch):
    desk.fill()
    done = desk.swap()
    build = type(desk.brokers)._build_topic
    monkeypatch.setattr(
        type(desk.brokers),
        "_build_topic",
        lambda self, name: replace(build(self, name), configs={}, configs_error="access to topic orders denied"),
    )
    text = "it isn't known whether topic orders is compacted: access to topic orders denied"
    with pytest.raises(RefusedError, match="may lose rows") as caught:
        desk.fleet.pipelines.plan_rebuild(desk.spec).check_losses(allow_row_loss=False)
    assert text in caught.value.cause
    with pytest.raises(RefusedError) as caught:
        desk.fleet.undo(done)
    assert text in caught.value.cause
