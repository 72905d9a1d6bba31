"""A lake in a folder: two that change its table at once, and folders of odd names. No server is asked."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.table import TableAlterer

from seamark.errors import ConfigurationError, StalePlanError
from seamark.tables.delta.files import TableWriter
from seamark.tables.delta.location import TableLocation
from seamark.tables.delta.maintenance import CompactionWriter, list_files
from seamark.tables.delta.table import LakeTable
from seamark.tables.model import LedgerEntry
from tests.spark.lake_stage import compact_here

SCHEMA = pa.schema([("id", pa.int64())])
ENTRY = LedgerEntry("orders", "t1", 0, next_offset=1)


def open_table(lake):
    return LakeTable(lake.below("orders"), owner="pipeline/orders")


def land(lake, ids):
    writer = TableWriter(lake.below("orders"), SCHEMA)
    writer.write(pa.record_batch([pa.array(ids, pa.int64())], schema=SCHEMA))
    table = open_table(lake)
    table.create(SCHEMA, partition_by=[])
    table.commit(writer.close(), [ENTRY], seen=table.read_position())
    return table


def do_before(monkeypatch, owner, name, *, act):
    """Have another do something before the first call, behind the back of who makes it."""
    call, calls = getattr(owner, name), []

    def late(self, *given, **more):
        calls.append(1)
        if len(calls) == 1:
            act()
        return call(self, *given, **more)

    monkeypatch.setattr(owner, name, late)
    return calls


@pytest.mark.parametrize("theirs", ["extra", "other"])
def test_two_that_add_columns_at_once_add_each_one_once(tmp_path, monkeypatch, theirs):
    lake = TableLocation(str(tmp_path))
    table, other = land(lake, [1]), open_table(lake)
    act = lambda: other.add_columns(pa.schema([(theirs, pa.string())]))  # noqa: E731 - as short as it is
    do_before(monkeypatch, TableAlterer, "add_columns", act=act)
    table.add_columns(pa.schema([("extra", pa.string())]))
    assert set(open_table(lake).read_layout().columns) == {"id", "extra", theirs}


def read_ids(lake):
    return sorted(DeltaTable(lake.below("orders").table_url).to_pyarrow_table().column("id").to_pylist())


def test_of_two_that_write_files_together_one_is_told_in_our_words_and_no_row_is_there_twice(tmp_path, monkeypatch):
    lake = TableLocation(str(tmp_path))
    for number in range(4):
        table = land(lake, [number])
    do_before(monkeypatch, CompactionWriter, "write", act=lambda: compact_here(open_table(lake)))
    with pytest.raises(StalePlanError, match="another process changed"):
        compact_here(table)
    assert [part.files for part in list_files(table)] == [1]
    assert read_ids(lake) == [0, 1, 2, 3]


def test_files_are_written_together_by_many_at_once_while_rows_are_landed(tmp_path):
    lake = TableLocation(str(tmp_path))
    for number in range(6):
        land(lake, [number])

    def compact(_):
        try:
            return compact_here(open_table(lake))
        except StalePlanError:
            return None

    with ThreadPoolExecutor(5) as pool:
        ends = pool.map(compact, range(4))
        landed = pool.submit(lambda: [land(lake, [number]) for number in range(6, 12)])
        assert any(ends)
        landed.result()
    assert read_ids(lake) == list(range(12))
    assert {entry.next_offset for entry in open_table(lake).read().values()} == {1}


@pytest.mark.parametrize("name", ["a#b", "a?b", "a b", "a?b#c?", "é"])
def test_folder_may_have_any_sign(tmp_path, name):
    for url in (f"{tmp_path}/{name}", f"file://{tmp_path}/{name}/"):
        lake = TableLocation(url)
        assert lake.path == f"{tmp_path}/{name}"
        table = land(lake, [1])
        assert {entry.next_offset for entry in table.read().values()} == {1}
    assert DeltaTable(lake.below("orders").table_url).to_pyarrow_table().num_rows == 2
    assert [one.name for one in Path(tmp_path).iterdir()] == [name]


def test_lake_is_a_folder_from_its_root_or_a_bucket():
    for url in ("/", "file:/x", "s3://bucket", "s3a://bucket/"):
        assert TableLocation(url).is_s3 == url.startswith("s3")
    for url in ("//host/x", "file://host/x", "s3://bucket/x?y", "s3://bucket/x#y", "s3:///x", ""):
        with pytest.raises(ConfigurationError, match="invalid url"):
            TableLocation(url)
