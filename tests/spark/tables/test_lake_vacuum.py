"""A vacuum deletes nothing that a commit beside it needs: files that it replaces, swaps in, or puts back."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from seamark.errors import RefusedError, StaleFilesError
from seamark.tables.delta import maintenance
from seamark.tables.delta import table as table_module
from seamark.tables.delta.files import TableWriter
from seamark.tables.delta.location import TableLocation
from seamark.tables.delta.maintenance import VacuumWriter, open_rebuild, vacuum_files
from seamark.tables.delta.rebuild import DeltaRebuild
from seamark.tables.delta.table import GENERATION, LakeTable
from seamark.tables.model import LedgerEntry
from tests.spark.lake_stage import compact_here, run_here

OWNER = "pipeline/orders"
SCHEMA = pa.schema([("id", pa.int64())])
HOUR = 3600


class Orders:
    """A table of three files, which look as if they were written two hours ago."""

    def __init__(self, folder, *, name="orders"):
        self.folder = folder / name
        self.place = TableLocation(str(folder)).below(name)
        for number in range(3):
            self.land(self.open(), number, offset=number + 1)
        self.age()

    def open(self):
        return LakeTable(self.place, owner=OWNER)

    def land(self, table, number, *, offset):
        writer = TableWriter(self.place, SCHEMA)
        writer.write(pa.record_batch([pa.array([number], pa.int64())], schema=SCHEMA))
        table.create(SCHEMA, partition_by=[])
        entry = LedgerEntry("orders", "t1", 0, next_offset=offset)
        table.commit(writer.close(), [entry], seen=table.read_position())

    def age(self, *, hours=2):
        for path in self.folder.rglob("*.parquet"):
            os.utime(path, (time.time() - hours * HOUR,) * 2)

    def begin_rebuild(self):
        """Write a rebuild that has all records. Returns its ID and its generation."""
        rebuild = open_rebuild(self.open())
        self.land(rebuild, 7, offset=3)
        self.age()
        found = DeltaRebuild(self.place, owner=OWNER).find_rebuild()
        return found.id, found.contents.generation

    def swap(self, rebuild):
        table = DeltaRebuild(self.place, owner=OWNER)
        table.swap_in(rebuild[0], generation=rebuild[1])
        table.discard_rebuild()

    def ids(self):
        return sorted(DeltaTable(self.place.table_url).to_pyarrow_table().column("id").to_pylist())


def act_after(monkeypatch, name, act):
    """Let another process act right after the first call of a function of the vacuum."""
    call, calls = getattr(maintenance, name), []

    def late(*given, **more):
        found = call(*given, **more)
        if isinstance(found, Iterator):
            found = list(found)
        calls.append(name)
        if len(calls) == 1:
            act()
        return found

    monkeypatch.setattr(maintenance, name, late)
    return calls


@pytest.mark.parametrize("name", ["list_stored", "_list_replaced", "_list_unneeded"])
def test_files_that_are_replaced_while_a_vacuum_plans_stay_for_readers(tmp_path, monkeypatch, name):
    orders = Orders(tmp_path)
    reader = DeltaTable(orders.place.table_url)
    calls = act_after(monkeypatch, name, lambda: compact_here(orders.open()))
    assert vacuum_files(orders.open(), run_here, keep_seconds=HOUR) == 0
    assert calls
    assert sorted(reader.to_pyarrow_table().column("id").to_pylist()) == [0, 1, 2]
    assert orders.ids() == [0, 1, 2]


@pytest.mark.parametrize("name", ["list_rebuilt_files", "list_stored", "_list_replaced"])
def test_rebuild_that_is_swapped_in_while_a_vacuum_plans_keeps_its_files(tmp_path, monkeypatch, name):
    orders = Orders(tmp_path)
    rebuild = orders.begin_rebuild()
    calls = act_after(monkeypatch, name, lambda: orders.swap(rebuild))
    vacuum_files(orders.open(), run_here, keep_seconds=HOUR)
    assert calls
    assert orders.ids() == [7]


@pytest.mark.parametrize("is_continued", [False, True])
def test_swap_is_refused_if_its_rebuild_was_discarded_and_a_vacuum_has_begun(tmp_path, monkeypatch, is_continued):
    """The files are there when the swap looks for them, and deleted before its commit."""
    orders = Orders(tmp_path)
    rebuild = orders.begin_rebuild()
    replace_all = LakeTable.replace_all

    def late(self, *given, **more):
        if is_continued:
            orders.land(open_rebuild(orders.open()), 8, offset=4)
        else:
            DeltaRebuild(orders.place, owner=OWNER).discard_rebuild()
        assert vacuum_files(orders.open(), run_here, keep_seconds=HOUR) == (0 if is_continued else 1)
        return replace_all(self, *given, **more)

    monkeypatch.setattr(LakeTable, "replace_all", late)
    with pytest.raises(StaleFilesError, match="another process continued or discarded the rebuild"):
        orders.swap(rebuild)
    assert orders.ids() == [0, 1, 2]


@pytest.fixture
def replaced(tmp_path, monkeypatch):
    """A table whose rebuild was swapped in, and whose former files a vacuum may delete."""
    monkeypatch.setattr(maintenance, "LEAST_KEEP_SECONDS", 0)
    orders = Orders(tmp_path)
    orders.swap(orders.begin_rebuild())
    return orders


def restore(orders):
    rebuild = DeltaRebuild(orders.place, owner=OWNER)
    rebuild.restore(3, generation=0)


def test_undo_is_refused_while_a_vacuum_deletes_and_the_table_stays_whole(replaced, monkeypatch):
    delete, refused = VacuumWriter.write, []

    def late(self, rows):
        with pytest.raises(RefusedError, match="a vacuum is deleting old files") as caught:
            restore(replaced)
        refused.append(caught.value.hint)
        return delete(self, rows)

    monkeypatch.setattr(VacuumWriter, "write", late)
    assert vacuum_files(replaced.open(), run_here, keep_seconds=0) == 3
    assert refused
    assert "30 min at the latest" in refused[0]
    assert replaced.ids() == [7]
    with pytest.raises(RefusedError, match=r"3 of 3 files of version 3 .* were deleted"):
        restore(replaced)


def test_undo_that_commits_while_a_vacuum_plans_takes_its_files_out_of_the_plan(replaced, monkeypatch):
    act_after(monkeypatch, "_list_unneeded", lambda: restore(replaced))
    vacuum_files(replaced.open(), run_here, keep_seconds=0)
    assert replaced.ids() == [0, 1, 2]


def test_undo_waits_for_a_killed_vacuum_no_longer_than_it_could_delete(replaced, monkeypatch):
    def die(_count, _writer):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        vacuum_files(replaced.open(), die, keep_seconds=0)
    with pytest.raises(RefusedError, match="a vacuum is deleting"):
        restore(replaced)
    later = time.time() + maintenance.DELETION_SECONDS + 1
    monkeypatch.setattr(table_module, "_read_clock_ms", lambda: int(later * 1000))
    restore(replaced)
    assert replaced.ids() == [0, 1, 2]
    assert DeltaTable(replaced.place.table_url).transaction_version(GENERATION) == 0


@pytest.mark.parametrize("ends", ["first", "failed"])
def test_second_vacuum_waits_for_the_first_one_and_an_undo_for_the_one_that_deletes(replaced, ends):
    """A vacuum that ends must not open the door for an undo while another one deletes."""

    def run_beside(count, writer):
        with pytest.raises(RefusedError, match="a vacuum is deleting"):
            vacuum_files(replaced.open(), run_here, keep_seconds=HOUR)
        with pytest.raises(RefusedError, match="a vacuum is deleting"):
            restore(replaced)
        if ends == "failed":
            raise OSError("an executor was lost")
        return run_here(count, writer)

    if ends == "failed":
        with pytest.raises(OSError, match="executor"):
            vacuum_files(replaced.open(), run_beside, keep_seconds=0)
        # Another task of it may still be deleting.
        with pytest.raises(RefusedError, match="a vacuum is deleting"):
            restore(replaced)
    else:
        assert vacuum_files(replaced.open(), run_beside, keep_seconds=0) == 3
        assert vacuum_files(replaced.open(), run_here, keep_seconds=0) == 0
    assert replaced.ids() == [7]


def test_task_of_a_vacuum_deletes_nothing_after_its_time(replaced):
    name = next(path.name for path in replaced.folder.glob("*.parquet"))
    numbers = pa.record_batch([pa.array([0], pa.int64())], names=["number"])
    writer = VacuumWriter(replaced.place, (name,), until=time.time() - 1)
    assert writer.write(iter([numbers])) == {"deleted": 0}
    assert (replaced.folder / name).exists()


def age_log(orders, change):
    """Change the commits of a table's log, as if they were made earlier."""
    for path in sorted((orders.folder / "_delta_log").glob("*.json")):
        found = [json.loads(line) for line in path.read_text().splitlines()]
        at = change(int(path.stem), found)
        path.write_text("".join(json.dumps(line) + "\n" for line in found))
        os.utime(path, (at, at))


def set_times(found, at):
    for line in found:
        if "remove" in line:
            line["remove"]["deletionTimestamp"] = int(at * 1000)
        if "commitInfo" in line:
            line["commitInfo"]["timestamp"] = int(at * 1000)
    return at


@pytest.mark.parametrize("is_late", [False, True])
def test_files_that_the_log_forgot_stay_as_long_as_a_version_of_the_time_has_them(tmp_path, is_late):
    """A checkpoint of Delta leaves out what was replaced more than a week ago."""
    orders = Orders(tmp_path)
    compact_here(orders.open())
    now = time.time()
    days = dict.fromkeys(range(4), 40) | {4: 31 if is_late else 8}
    age_log(orders, lambda number, found: set_times(found, now - days[number] * 24 * HOUR))
    orders.age(hours=40 * 24)
    DeltaTable(orders.place.table_url).create_checkpoint()
    assert DeltaTable(orders.place.table_url).vacuum(0, enforce_retention_duration=False, full=False) == []
    assert vacuum_files(orders.open(), run_here, keep_seconds=30 * 24 * HOUR) == (3 if is_late else 0)
    assert orders.ids() == [0, 1, 2]
    if not is_late:
        assert DeltaTable(orders.place.table_url, version=3).to_pyarrow_table().num_rows == 3


def test_files_of_the_first_checkpoint_stay_if_the_log_before_it_was_cleaned_away(tmp_path):
    orders = Orders(tmp_path)
    DeltaTable(orders.place.table_url).create_checkpoint()
    compact_here(orders.open())
    now = time.time()
    age_log(orders, lambda _, found: set_times(found, now - 8 * 24 * HOUR))
    orders.age(hours=40 * 24)
    DeltaTable(orders.place.table_url).create_checkpoint()
    (orders.folder / f"_delta_log/{0:020}.json").unlink()
    assert vacuum_files(orders.open(), run_here, keep_seconds=30 * 24 * HOUR) == 0
    assert DeltaTable(orders.place.table_url, version=3).to_pyarrow_table().num_rows == 3


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_files_that_were_restored_and_replaced_again_stay_since_the_last_time(tmp_path, has_checkpoint):
    orders = Orders(tmp_path)
    rebuild = orders.begin_rebuild()
    orders.swap(rebuild)
    age_log(orders, lambda _, found: set_times(found, time.time() - 3 * 24 * HOUR))
    if has_checkpoint:
        DeltaTable(orders.place.table_url).create_checkpoint()
    restore(orders)
    compact_here(orders.open())
    orders.age(hours=4 * 24)
    assert vacuum_files(orders.open(), run_here, keep_seconds=24 * HOUR) == 0
    assert DeltaTable(orders.place.table_url, version=5).to_pyarrow_table().num_rows == 3


def test_vacuum_leaves_a_table_below_as_it_is(tmp_path):
    orders = Orders(tmp_path)
    below = Orders(tmp_path / "orders", name="europe/orders")
    (below.folder / "_seamark_tombstones").mkdir()
    (below.folder / "_seamark_tombstones/part-0.parquet").write_bytes(b"")
    (orders.folder / "europe/part-of-none.parquet").write_bytes(b"")
    orders.age()
    assert vacuum_files(orders.open(), run_here, keep_seconds=HOUR) == 1
    assert not (orders.folder / "europe/part-of-none.parquet").exists()
    assert below.ids() == [0, 1, 2]
    assert (below.folder / "_seamark_tombstones/part-0.parquet").exists()
