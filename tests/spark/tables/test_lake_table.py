"""Commits to a table of Delta, in a folder and on S3: of those who commit at once one has it, and the others know."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from seamark.errors import ConfigurationError, FencedError, RefusedError, UnreachableError
from seamark.tables.delta.files import TableWriter
from seamark.tables.delta.location import TableLocation
from seamark.tables.delta.maintenance import (
    enter_landing,
    find_table,
    list_files,
    list_owners,
    open_landing,
)
from seamark.tables.delta.table import LakeTable
from seamark.tables.model import LedgerEntry
from tests.spark.lake_stage import LAKES, build_lake, compact_here

SCHEMA = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("note", pa.string())])
TABLE_SCHEMA = pa.schema([*SCHEMA, ("event_date", pa.date32())])
FIRST = LedgerEntry("orders", "t1", 0, next_offset=10)
OWNER = "pipeline/orders"


@pytest.fixture(params=LAKES)
def lake(stack, request):
    return build_lake(stack, request.param)


@pytest.fixture
def make(lake):
    def open_table(owner=OWNER):
        table = LakeTable(lake.below("orders"), owner=owner)
        table.create(TABLE_SCHEMA, partition_by=["event_date"])
        return table

    return open_table


def write(lake, ids):
    """A file of these rows, which no commit names yet."""
    writer = TableWriter(lake.below("orders"), SCHEMA, partition="event_date")
    writer.write(
        pa.record_batch(
            [
                pa.array(ids, pa.int64()),
                pa.array([1_794_000_000_123_456] * len(ids), SCHEMA.field("at").type),
                pa.array([None] * len(ids), pa.string()),
                pa.array([20_770] * len(ids), pa.int32()).cast(pa.date32()),
            ],
            schema=TABLE_SCHEMA,
        )
    )
    return writer.close()


def read_ids(lake):
    place = lake.below("orders")
    found = DeltaTable(place.table_url, storage_options=place.build_options()).to_pyarrow_table()
    return sorted(found.column("id").to_pylist())


def read_places(table):
    return {key: entry.next_offset for key, entry in table.read().items()}


def test_rows_and_offsets_come_together_or_not_at_all(lake, make):
    first, second = make(), make()
    seen = second.read_position()
    assert (seen.commit, seen.entries) == (None, {})
    first.commit(write(lake, [1, 2]), [FIRST], seen=first.read_position())
    with pytest.raises(FencedError, match="changed during the batch"):
        second.commit(write(lake, [3]), [replace(FIRST, next_offset=11)], seen=seen)
    assert read_ids(lake) == [1, 2]
    assert read_places(make()) == {("t1", 0): 10}
    position = second.read_position()
    second.commit(write(lake, [3]), [replace(FIRST, partition=1)], seen=position)
    assert read_ids(lake) == [1, 2, 3]
    assert {number: entry.next_offset for (_, number), entry in make().read().items()} == {0: 10, 1: 10}


def test_of_eight_that_commit_at_once_one_has_it(lake, make):
    tables = [make() for _ in range(8)]
    for turn in range(5):
        seen = [table.read_position() for table in tables]
        files = [write(lake, [turn * 10 + number]) for number in range(8)]
        entry = replace(FIRST, next_offset=turn)

        def commit(number, files=files, seen=seen, entry=entry):
            try:
                return tables[number].commit(files[number], [entry], seen=seen[number])
            except FencedError:
                return None

        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(commit, range(8)))
        assert sum(one is not None for one in found) == 1
        assert len(read_ids(lake)) == turn + 1


def test_those_of_other_landings_do_not_keep_a_commit_back(lake, make):
    ours, theirs = make(), make("pipeline/others")
    seen = ours.read_position()
    for number in range(3):
        theirs.commit(write(lake, [number]), [FIRST], seen=theirs.read_position())
    found = ours.commit(write(lake, [7]), [FIRST], seen=seen)
    assert found == ours.read_position()
    assert read_ids(lake) == [0, 1, 2, 7]


def test_lost_answer_to_a_commit_is_asked_for(lake, make, monkeypatch):
    table = make()
    commit, calls = DeltaTable.create_write_transaction, []

    def lose(self, *given, **more):
        calls.append(1)
        commit(self, *given, **more)
        raise OSError("the connection was cut")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", lose)
    found = table.commit(write(lake, [1]), [FIRST], seen=table.read_position())
    monkeypatch.undo()
    assert (len(calls), read_ids(lake)) == (1, [1])
    assert make().read_position() == found


def test_store_that_is_away_comes_back(lake, make, monkeypatch):
    table = make()
    commit, calls = DeltaTable.create_write_transaction, []

    def fail(self, *given, **more):
        calls.append(1)
        if len(calls) < 3:
            raise OSError("nobody there")
        commit(self, *given, **more)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", fail)
    table.commit(write(lake, [1]), [FIRST], seen=table.read_position())
    assert (len(calls), read_ids(lake)) == (3, [1])


def test_offsets_are_placed_and_taken_away_and_fence_who_is_under_way(lake, make):
    table, other = make(), make()
    table.commit(write(lake, [1]), [FIRST, replace(FIRST, partition=1)], seen=table.read_position())
    seen = table.read_position()
    other.place([replace(FIRST, next_offset=3)], gone=[replace(FIRST, partition=1)])
    assert read_places(other) == {("t1", 0): 3}
    with pytest.raises(FencedError):
        table.commit(write(lake, [2]), [FIRST], seen=seen)
    assert read_ids(lake) == [1]


def test_offsets_outlive_a_checkpoint_of_the_log_and_are_missed_when_it_is_cleaned(stack):
    lake = build_lake(stack, "folder")
    table = LakeTable(lake.below("orders"), owner=OWNER)
    table.create(TABLE_SCHEMA, partition_by=["event_date"])
    found = table.commit([], [FIRST], seen=table.read_position())
    others = LakeTable(lake.below("orders"), owner="pipeline/others")
    for _ in range(2):
        others.commit([], [FIRST], seen=others.read_position())
    DeltaTable(lake.below("orders").table_url).create_checkpoint()
    assert read_places(LakeTable(lake.below("orders"), owner=OWNER)) == {("t1", 0): 10}
    # As Delta cleans up: what is older than a checkpoint.
    for number in range(found.commit + 1):
        Path(lake.path, "orders", "_delta_log", f"{number:020}.json").unlink()
    lost = LakeTable(lake.below("orders"), owner=OWNER)
    with pytest.raises(RefusedError, match="the log of the table no longer has the offsets") as error:
        lost.read_position()
    assert error.value.hint.endswith("seamark offsets copy group/seamark-pipeline-orders pipeline/orders")
    # Who sets them anew finds none, and may.
    assert lost.read() == {}
    lost.place([replace(FIRST, next_offset=7)])
    assert read_places(lost) == {("t1", 0): 7}
    assert lost.read_position().commit > found.commit


def test_offsets_are_set_though_a_run_commits_meanwhile(lake, make, monkeypatch):
    run, operator = make(), make()
    run.commit(write(lake, [1]), [FIRST], seen=run.read_position())
    look, calls = LakeTable.read_position, []

    def look_late(self, **more):
        found = look(self, **more)
        if self is operator and len(calls) < 2:
            calls.append(1)
            run.commit([], [replace(FIRST, partition=len(calls))], seen=look(run))
        return found

    monkeypatch.setattr(LakeTable, "read_position", look_late)
    operator.place([replace(FIRST, next_offset=3)])
    monkeypatch.undo()
    assert len(calls) == 2
    assert read_places(make()) == {("t1", 0): 3, ("t1", 1): 10, ("t1", 2): 10}


def test_rows_are_parted_by_date_and_files_tell_of_them(lake, make):
    table = make()
    days = [20_000, 20_001, None] * 4
    batch = pa.record_batch(
        [
            pa.array(range(12), pa.int64()),
            pa.array([1_000_000 * number + 123_456 for number in range(12)], SCHEMA.field("at").type),
            pa.array(["a", None] * 6, pa.string()),
            pa.array(days, pa.int32()).cast(pa.date32()),
        ],
        schema=TABLE_SCHEMA,
    )
    writer = TableWriter(lake.below("orders"), SCHEMA, partition="event_date")
    writer.write(batch)
    writer.write(batch.slice(0, 1))
    files = writer.close()
    assert sorted(file.rows for file in files) == [4, 4, 5]
    table.commit(files, [FIRST], seen=table.read_position())
    place = lake.below("orders")
    opened = DeltaTable(place.table_url, storage_options=place.build_options())
    assert opened.to_pyarrow_table().num_rows == 13
    chosen = opened.to_pyarrow_dataset().to_table(filter=pc.field("id") >= 11)
    assert chosen.column("event_date").to_pylist() == [None]
    days = {file.partition["event_date"] for file in files}
    assert days == {"2024-10-04", "2024-10-05", None}
    told = pa.table(opened.get_add_actions(flatten=True))
    assert sum(told.column("num_records").to_pylist()) == 13
    assert sorted(told.column("null_count.note").to_pylist()) == [2, 2, 2]
    # The most is rounded up: a reader must not pass over the row with it.
    assert max(told.column("max.at").to_pylist()).microsecond == 124_000


def test_small_files_are_written_together_and_offsets_stay(lake, make):
    table, landing = make(), make()
    table.commit(write(lake, [1]), [FIRST], seen=table.read_position())
    for number in range(2, 5):
        table.commit(write(lake, [number]), [FIRST], seen=table.read_position())
    seen = landing.read_position()
    assert [(part.date, part.files, part.fewest) for part in list_files(table)] == [("2026-11-13", 4, 1)]
    assert compact_here(table) == (4, 1)
    assert [part.files for part in list_files(table)] == [1]
    landing.commit(write(lake, [5]), [FIRST], seen=seen)
    assert read_ids(lake) == [1, 2, 3, 4, 5]
    assert read_places(table) == {("t1", 0): 10}


def test_offsets_are_said_anew_before_their_commit_is_cleaned_away(lake, make, monkeypatch):
    table = make()
    first = table.commit([], [FIRST], seen=table.read_position())
    assert table.renew(first) is first
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 8 * 24 * 3600)
    assert table.renew(table.read_position()).commit == table.read_position().commit
    assert table.read_position().commit > first.commit
    assert read_places(table) == {("t1", 0): 10}


def test_columns_are_added_and_never_taken_away(lake, make):
    table = make()
    table.add_columns(pa.schema([("id", pa.int64()), ("extra", pa.string())]))
    assert tuple(make().read_layout().columns) == ("id", "at", "note", "event_date", "extra")


def test_lake_knows_its_landings(lake, make):
    assert find_table(lake, OWNER) is None
    assert open_landing(lake, OWNER) is None
    assert list_owners(lake) == []
    assert find_table(lake, "pipeline/../../orders") is None
    enter_landing(lake, OWNER, table="orders")
    assert list_owners(lake) == [OWNER]
    make().place([FIRST])
    assert read_places(open_landing(lake, OWNER)) == {("t1", 0): 10}
    with pytest.raises(RefusedError, match="has its offsets in table orders"):
        enter_landing(lake, OWNER, table="other")
    make().place([], gone=[FIRST])
    enter_landing(lake, OWNER, table="other")
    assert find_table(lake, OWNER) == "other"


def test_what_is_no_lake_is_refused():
    for url in ("lake", "gs://bucket/x", "s3://", "file://host/x"):
        with pytest.raises(ConfigurationError, match="invalid url"):
            TableLocation(url)
    place = TableLocation("s3a://bucket/x/", access_key="ak", secret_key="hidden")
    assert (place.path, place.below("t").table_url) == ("bucket/x", "s3://bucket/x/t")
    assert "hidden" not in repr(place)
    assert TableLocation.from_json(place.to_json()) == place


def test_store_that_does_not_answer_is_named(tmp_path):
    lake = TableLocation("s3://lake/x", endpoint="http://127.0.0.1:1", access_key="a", secret_key="b")
    with pytest.raises(UnreachableError, match="s3://lake/x"):
        LakeTable(lake, owner=OWNER).read()
    with pytest.raises(UnreachableError, match="s3://lake/x"):
        find_table(lake, OWNER)
