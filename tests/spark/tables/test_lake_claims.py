"""How a run and a cut-over take the partitions of a landing in a lake. A folder will do: no server is asked."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from seamark.errors import FencedError, RefusedError
from seamark.pipelines.spark_delta import LakeTarget
from seamark.tables.definition import LandColumn, Landing
from seamark.tables.delta.files import make_fit
from seamark.tables.delta.location import TableLocation
from seamark.tables.delta.table import LakeTable
from seamark.tables.model import LedgerEntry

LANDING = Landing("orders", topic="orders", table="orders", columns=(LandColumn("id", "bigint"),), store="delta")
FIRST = LedgerEntry("orders", "t1", 0, next_offset=500)
SECOND = replace(FIRST, partition=1)
OLD_SECONDS = 8 * 24 * 3600


@pytest.fixture
def lake(tmp_path):
    return TableLocation(str(tmp_path))


@pytest.fixture
def table(lake):
    found = open_table(lake)
    make_fit(found, LANDING)
    return found


def open_table(lake):
    return LakeTable(lake.below("orders"), owner=LANDING.owner)


def read_places(table):
    return {number: entry.next_offset for (_, number), entry in table.read().items()}


def find_places(entries):
    return {entry.partition: entry.next_offset for entry in entries}


@pytest.fixture
def meanwhile(monkeypatch):
    """Have something done by another between the look of a table and its commit, so many times."""
    look, calls = LakeTable.read_position, []

    def plant(table, act, times):
        def look_late(self, **more):
            found = look(self, **more)
            if self is table and len(calls) < times:
                calls.append(1)
                act(look)
            return found

        monkeypatch.setattr(LakeTable, "read_position", look_late)
        return calls

    return plant


def test_run_that_lands_nothing_leaves_its_first_offsets(lake, table):
    assert find_places(LakeTarget(LANDING, lake).claim([FIRST, SECOND])) == {0: 500, 1: 500}
    # Ten records later the end of the topic is elsewhere, and the next run begins where the first one did.
    later = [replace(one, next_offset=510) for one in (FIRST, SECOND)]
    assert find_places(LakeTarget(LANDING, lake).claim(later)) == {0: 500, 1: 500}
    assert read_places(table) == {0: 500, 1: 500}


def test_partitions_that_are_known_are_not_entered_again(lake, table):
    table.place([FIRST, SECOND])
    before = table.read_position()
    LakeTarget(LANDING, lake).claim([FIRST, SECOND])
    assert table.read_position() == before
    LakeTarget(LANDING, lake).claim([FIRST, SECOND, replace(FIRST, partition=2, next_offset=7)])
    assert read_places(table) == {0: 500, 1: 500, 2: 7}


def test_two_runs_that_begin_at_once_begin_at_the_same_offsets(lake, table, meanwhile):
    target = LakeTarget(LANDING, lake)
    calls = meanwhile(target._table, lambda look: table.commit([], [SECOND], seen=look(table)), 2)
    later = [replace(one, next_offset=510) for one in (FIRST, SECOND)]
    assert find_places(target.claim(later)) == {0: 510, 1: 500}
    assert len(calls) == 2


def test_fence_keeps_what_a_run_has_landed_meanwhile(lake, table, meanwhile):
    operator = open_table(lake)
    table.place([FIRST, SECOND])
    calls, landed = None, []

    def land(look):
        landed.append(600 + len(calls))
        table.commit([], [replace(FIRST, next_offset=landed[-1])], seen=look(table))

    calls = meanwhile(operator, land, 2)
    claimed = operator.claim([FIRST, SECOND])
    assert find_places(claimed) == read_places(table) == {0: landed[-1], 1: 500}
    # The epochs are those of this claim.
    assert {entry.epoch for entry in claimed} == {table.read_position().commit}


def test_fence_is_a_commit_also_where_all_is_known(lake, table):
    table.place([FIRST])
    seen = table.read_position()
    open_table(lake).claim([FIRST])
    with pytest.raises(FencedError):
        table.commit([], [replace(FIRST, next_offset=501)], seen=seen)
    assert read_places(table) == {0: 500}


def test_offsets_that_are_lost_are_not_claimed_as_none(lake, table):
    table.place([FIRST])
    number = table.read_position().commit
    others = LakeTable(lake.below("orders"), owner="pipeline/others")
    others.place([FIRST])
    others.refresh().create_checkpoint()
    for one in range(number + 1):
        Path(lake.path, "orders", "_delta_log", f"{one:020}.json").unlink()
    with pytest.raises(RefusedError, match="the log of the table no longer has the offsets"):
        open_table(lake).claim([])
    with pytest.raises(RefusedError, match="the log of the table no longer has the offsets"):
        open_table(lake).read_position()


def test_run_on_a_still_topic_says_its_offsets_anew(lake, table, monkeypatch):
    target = LakeTarget(LANDING, lake)
    held = target.claim([FIRST])
    first = table.read_position()
    target.watch(held)
    assert table.read_position() == first
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + OLD_SECONDS)
    target.watch(held)
    second = table.read_position()
    assert second.commit > first.commit
    assert read_places(table) == {0: 500}
    # It knows the commit for its own.
    target.watch(held)
    monkeypatch.setattr(time, "time", lambda: now + 2 * OLD_SECONDS)
    LakeTarget(LANDING, lake).claim([FIRST])
    assert table.read_position().commit > second.commit
    with pytest.raises(FencedError):
        target.watch(held)


def test_new_table_has_no_offsets_to_say_anew(lake):
    table = open_table(lake)
    table.create(pa.schema([("id", pa.int64())]), partition_by=[])
    seen = table.read_position()
    assert table.renew(seen) is seen
