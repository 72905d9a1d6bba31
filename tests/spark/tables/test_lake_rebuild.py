"""A rebuild of a lake's table beside other pipelines, other rebuilds, and kills. No server is asked."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from seamark.context.context import LakeSettings
from seamark.errors import FencedError, NotFoundError, RefusedError, UnreachableError
from seamark.pipelines.rebuild import build_digest
from seamark.pipelines.spark_delta import LakeTarget
from seamark.tables.definition import LandColumn, Landing
from seamark.tables.delta.files import TableWriter
from seamark.tables.delta.location import TableLocation
from seamark.tables.delta.maintenance import enter_landing, open_rebuild, plan_vacuum
from seamark.tables.delta.table import LakeTable
from seamark.tables.delta.technology import DeltaTechnology
from seamark.tables.model import LedgerEntry

OWNER = "pipeline/orders"
SCHEMA = pa.schema([("id", pa.int64())])
LANDING = Landing(name="orders", topic="orders", table="orders", columns=(LandColumn("id", "bigint"),), store="delta")
TEXTS = replace(LANDING, columns=(LandColumn("id", "text"),))


class Orders:
    """The table of pipeline orders, at offset 2 with two rows."""

    def __init__(self, folder):
        self.lake = TableLocation(str(folder))
        self.place = self.lake.below("orders")
        self.settings = LakeSettings("lake", str(folder))
        enter_landing(self.lake, OWNER, table="orders")
        for number in range(2):
            self.land(self.open(), [number], offset=number + 1)

    def open(self):
        return LakeTable(self.place, owner=OWNER)

    def write(self, ids):
        writer = TableWriter(self.place, SCHEMA)
        writer.write(pa.record_batch([pa.array(ids, pa.int64())], schema=SCHEMA))
        return writer.close()

    def land(self, table, ids, *, offset):
        table.create(SCHEMA, partition_by=[])
        self.commit(table, ids, offset=offset, seen=table.read_position())

    def commit(self, table, ids, *, offset, seen):
        files = self.write(ids) if ids else []
        return table.commit(files, [LedgerEntry("orders", "t1", 0, next_offset=offset)], seen=seen)

    def rebuildable(self):
        return DeltaTechnology().open_rebuildable(self.settings, "orders", owner=OWNER)

    def ids(self):
        return sorted(DeltaTable(self.place.table_url).to_pyarrow_table().column("id").to_pylist())


@pytest.fixture
def orders(tmp_path):
    return Orders(tmp_path)


def test_table_of_two_pipelines_is_neither_rebuilt_nor_replaced(orders):
    rebuild = orders.rebuildable().begin_rebuild(LANDING, digest="d1")
    orders.land(open_rebuild(orders.open()), [7], offset=2)
    generation = orders.rebuildable().find_rebuild().contents.generation
    enter_landing(orders.lake, "pipeline/other", table="orders")
    for act in (
        lambda: orders.rebuildable().begin_rebuild(LANDING, digest="d1"),
        lambda: orders.rebuildable().swap_in(rebuild, generation=generation),
        lambda: orders.rebuildable().restore(2, generation=0),
    ):
        with pytest.raises(RefusedError, match="can't be rebuilt; no changes were made") as caught:
            act()
        assert "pipeline/other also writes to it" in caught.value.cause
    assert orders.ids() == [0, 1]


@pytest.mark.parametrize("batches", [0, 1, 3])
def test_process_whose_rebuild_was_discarded_adds_nothing_to_the_next_one(orders, batches):
    """Both logs are at the same version: the number of a commit doesn't tell them apart."""
    first = orders.rebuildable().begin_rebuild(LANDING, digest="d1")
    tables = [open_rebuild(orders.open(), rebuild=first)]
    seen = [tables[0].enter([LedgerEntry("orders", "t1", 0, next_offset=0)])]
    for number in range(batches):
        seen[0] = orders.commit(tables[0], [100 + number], offset=number, seen=seen[0])
    orders.rebuildable().discard_rebuild()
    second = orders.rebuildable().begin_rebuild(LANDING, digest="d2")
    assert second != first
    tables.append(open_rebuild(orders.open(), rebuild=second))
    seen.append(tables[1].enter([LedgerEntry("orders", "t1", 0, next_offset=0)]))
    for number in range(batches):
        seen[1] = orders.commit(tables[1], [200 + number], offset=number, seen=seen[1])
    assert seen[0].commit == seen[1].commit
    with pytest.raises(FencedError):
        orders.commit(tables[0], [999], offset=9, seen=seen[0])
    with pytest.raises(FencedError):
        tables[0].require(seen[0])
    # It asks anew, as after an outage.
    with pytest.raises(FencedError, match="was discarded, and another one begun"):
        open_rebuild(orders.open(), rebuild=first).read_position()
    orders.commit(tables[1], [300], offset=8, seen=seen[1])
    assert orders.rebuildable().find_rebuild().contents.rows == batches + 1


def test_of_two_definitions_that_begin_at_once_one_is_refused(orders, monkeypatch):
    other, create = orders.rebuildable(), LakeTable.create

    def create_late(self, schema, **more):
        monkeypatch.setattr(LakeTable, "create", create)
        other.begin_rebuild(LANDING, digest="d2")
        create(self, schema, **more)

    monkeypatch.setattr(LakeTable, "create", create_late)
    with pytest.raises(RefusedError, match="was begun in the same moment"):
        orders.rebuildable().begin_rebuild(LANDING, digest="d1")
    assert orders.rebuildable().find_rebuild().digest == "d2"


@pytest.mark.parametrize("left", range(5))
def test_discard_that_is_killed_leaves_an_earlier_rebuild_or_none(orders, monkeypatch, left):
    rebuild = orders.rebuildable()
    rebuild.begin_rebuild(LANDING, digest="d1")
    for number in range(3):
        orders.land(open_rebuild(orders.open()), [number], offset=number)
    deleted = []

    class Dying:
        """A store whose process is killed after so many deletions."""

        def __init__(self, inner):
            self._inner = inner

        def __getattr__(self, name):
            return getattr(self._inner, name)

        def delete_file(self, path):
            if len(deleted) == left:
                raise KeyboardInterrupt
            deleted.append(path)
            self._inner.delete_file(path)

    opened = TableLocation.open_files
    with monkeypatch.context() as patch:
        patch.setattr(TableLocation, "open_files", lambda self: Dying(opened(self)))
        if left < 4:
            with pytest.raises(KeyboardInterrupt):
                rebuild.discard_rebuild()
        else:
            assert rebuild.discard_rebuild()
    found = orders.rebuildable().find_rebuild()
    assert (found is None) == (left == 4)
    if found is not None:
        assert found.contents.rows == 3 - left
    plan_vacuum(orders.open(), keep_seconds=3600)
    assert orders.rebuildable().discard_rebuild() == (left < 4)
    assert orders.rebuildable().find_rebuild() is None
    assert orders.ids() == [0, 1]


def test_damaged_log_names_the_command_that_discards_it_and_stops_vacuum(orders, tmp_path):
    orders.rebuildable().begin_rebuild(LANDING, digest="d1")
    orders.land(open_rebuild(orders.open()), [7], offset=2)
    (tmp_path / "orders/_seamark_rebuild/_delta_log/00000000000000000000.json").unlink()
    for act in (orders.rebuildable().find_rebuild, lambda: plan_vacuum(orders.open(), keep_seconds=3600)):
        with pytest.raises(RefusedError, match=r"the log of the rebuild of .* is damaged") as caught:
            act()
        assert caught.value.hint == "discard the rebuild: seamark pipelines rebuild orders --discard"
    assert orders.rebuildable().discard_rebuild()
    assert orders.rebuildable().find_rebuild() is None


def test_rebuild_without_rows_that_was_swapped_in_is_not_swapped_in_again(orders):
    rebuild = orders.rebuildable().begin_rebuild(LANDING, digest="d1")
    orders.commit(open_rebuild(orders.open()), [], offset=2, seen=open_rebuild(orders.open()).read_position())
    found = orders.rebuildable().find_rebuild()
    assert not found.is_swapped
    orders.rebuildable().swap_in(rebuild, generation=found.contents.generation)
    # Its process was killed before it discarded the log.
    assert orders.ids() == []
    assert orders.rebuildable().find_rebuild().is_swapped


def fill_texts(orders):
    """Begin a rebuild with texts instead of numbers, and fill it. Returns its ID and its generation."""
    rebuild = orders.rebuildable().begin_rebuild(TEXTS, digest="d2")
    schema = pa.schema([("id", pa.string())])
    writer, table = TableWriter(orders.place, schema), open_rebuild(orders.open(), rebuild=rebuild)
    writer.write(pa.record_batch([pa.array(["0", "1"])], schema=schema))
    table.commit(writer.close(), [LedgerEntry("orders", "t1", 0, next_offset=2)], seen=table.read_position())
    return rebuild, orders.rebuildable().find_rebuild().contents.generation


@pytest.mark.parametrize("step", ["prepare", "claim"])
def test_run_that_began_before_a_swap_writes_no_files_of_the_previous_types(orders, step):
    """Between its two looks at the table, a run samples keys: the swap fits in."""
    target, first = LakeTarget(LANDING, orders.lake), LedgerEntry("orders", "t1", 0, next_offset=0)
    target.prepare(None)
    if step == "claim":
        target.claim([first])
    rebuild, generation = fill_texts(orders)
    orders.rebuildable().swap_in(rebuild, generation=generation)
    if step == "claim":
        with pytest.raises(FencedError):
            target.watch([first])
    with pytest.raises(RefusedError, match="column id is string, and the pipeline has bigint"):
        target.claim([first])


def test_undo_says_that_the_log_no_longer_has_the_commits_of_the_previous_files(orders, tmp_path):
    version = orders.rebuildable().read_current().version
    rebuild, generation = fill_texts(orders)
    orders.rebuildable().swap_in(rebuild, generation=generation)
    DeltaTable(orders.place.table_url).create_checkpoint()
    for number in range(version + 2):
        (tmp_path / f"orders/_delta_log/{number:020}.json").unlink()
    with pytest.raises(NotFoundError, match=f"no longer has version {version + 1}") as caught:
        orders.rebuildable().find_version(0, since=version)
    assert "delta.logRetentionDuration" in caught.value.hint


def test_process_whose_rebuild_was_discarded_says_so_and_leaves_no_log(orders, tmp_path):
    first = orders.rebuildable().begin_rebuild(LANDING, digest="d1")
    table = open_rebuild(orders.open(), rebuild=first)
    seen = table.enter([LedgerEntry("orders", "t1", 0, next_offset=0)])
    orders.rebuildable().discard_rebuild()
    with pytest.raises(FencedError, match="was discarded or swapped in"):
        orders.commit(table, [999], offset=9, seen=seen)
    assert not (tmp_path / "orders/_seamark_rebuild").exists()
    assert plan_vacuum(orders.open(), keep_seconds=3600) == []


def begin_again(orders, first):
    """Discard a rebuild and begin another one, with texts, whose log is as long. Returns its table."""
    length = first.refresh().version()
    orders.rebuildable().discard_rebuild()
    second = open_rebuild(orders.open(), rebuild=orders.rebuildable().begin_rebuild(TEXTS, digest="d2"))
    while second.refresh().version() < length:
        second.commit([], [LedgerEntry("orders", "t1", 0, next_offset=0)], seen=second.read_position())
    return second


def test_process_that_has_read_its_rebuild_does_not_continue_in_the_next_one(orders):
    """After an outage a process has the state of the log that it has read, and the log is another one."""
    table = open_rebuild(orders.open(), rebuild=orders.rebuildable().begin_rebuild(LANDING, digest="d1"))
    first = LedgerEntry("orders", "t1", 0, next_offset=0)
    seen = table.enter([first])
    second = begin_again(orders, table)
    for act in (
        lambda: table.enter([first]),
        lambda: orders.commit(table, [999], offset=9, seen=seen),
        lambda: orders.commit(table, [999], offset=9, seen=second.read_position()),
    ):
        with pytest.raises(FencedError, match="was discarded, and another one begun"):
            act()
    found = orders.rebuildable().find_rebuild()
    assert (found.digest, found.contents.rows, [one.next_offset for one in found.contents.entries.values()]) == (
        "d2",
        0,
        [0],
    )


def test_rebuild_that_has_a_commit_of_a_discarded_one_can_only_be_discarded(orders, monkeypatch):
    """A request that was under way when the rebuild was discarded reaches the log of the next one."""
    table = open_rebuild(orders.open(), rebuild=orders.rebuildable().begin_rebuild(LANDING, digest="d1"))
    seen, write, second = table.enter([LedgerEntry("orders", "t1", 0, next_offset=0)]), LakeTable._write_commit, None

    def write_late(self, opened, changes, properties, **more):
        nonlocal second
        if second is None:
            second = begin_again(orders, table)
        write(self, opened, changes, properties, **more)

    with monkeypatch.context() as patch:
        patch.setattr(table, "_write_commit", write_late.__get__(table))
        orders.commit(table, [999], offset=9, seen=seen)
    for act in (
        second.read_position,
        orders.rebuildable().find_rebuild,
        lambda: orders.rebuildable().swap_in(str(second.refresh().metadata().id), generation=1),
    ):
        with pytest.raises(RefusedError, match="has rows of another one") as caught:
            act()
        assert caught.value.hint == "discard it: seamark pipelines rebuild orders --discard"
    assert orders.rebuildable().discard_rebuild()
    orders.rebuildable().begin_rebuild(LANDING, digest="d3")
    assert orders.ids() == [0, 1]


def test_rebuild_begins_after_a_swap_whose_process_was_killed_before_it_discarded_the_log(orders):
    rebuild = orders.rebuildable().begin_rebuild(LANDING, digest="d1")
    orders.land(open_rebuild(orders.open(), rebuild=rebuild), [7], offset=2)
    table = orders.rebuildable()
    table.swap_in(rebuild, generation=table.find_rebuild().contents.generation)
    again = orders.rebuildable()
    assert again.find_rebuild().is_swapped
    again.discard_rebuild()
    again.begin_rebuild(LANDING, digest="d1")
    assert not again.find_rebuild().is_swapped


@pytest.mark.parametrize("is_same", [True, False])
def test_run_with_another_definition_than_a_rebuild_does_not_continue_after_it(orders, is_same):
    """The columns of both definitions are the same, and an expression may be another one."""
    target, first = LakeTarget(LANDING, orders.lake), LedgerEntry("orders", "t1", 0, next_offset=0)
    target.prepare(None)
    target.claim([first])
    digest = build_digest(LANDING) if is_same else "that of another definition"
    rebuild = orders.rebuildable().begin_rebuild(LANDING, digest=digest)
    orders.land(open_rebuild(orders.open(), rebuild=rebuild), [7], offset=2)
    version, generation = orders.open().refresh().version(), orders.rebuildable().find_rebuild().contents.generation
    orders.rebuildable().swap_in(rebuild, generation=generation)
    if is_same:
        target.claim([first])
    else:
        with pytest.raises(RefusedError, match="was rebuilt by another definition") as caught:
            target.claim([first])
        assert "start the run or the application again" in caught.value.hint
        LakeTarget(LANDING, orders.lake).claim([first])
    # Nobody knows the definition of the first files.
    orders.rebuildable().restore(version, generation=0)
    target.claim([first])


def test_offsets_are_set_once_if_the_answer_is_lost_and_a_run_has_committed_since(orders, monkeypatch):
    """Set again, they would have the run append its batch a second time."""
    table, write, asked = orders.open(), LakeTable._write_commit, []

    def write_and_lose(self, opened, changes, properties, **more):
        write(self, opened, changes, properties, **more)
        asked.append(opened.version())
        other = orders.open()
        orders.commit(other, [10], offset=1, seen=other.read_position())
        raise UnreachableError("no answer")

    monkeypatch.setattr(table, "_write_commit", write_and_lose.__get__(table))
    table.place([LedgerEntry("orders", "t1", 0, next_offset=0)])
    assert len(asked) == 1
    assert [one.next_offset for one in orders.open().read().values()] == [1]
    assert orders.ids() == [0, 1, 10]
