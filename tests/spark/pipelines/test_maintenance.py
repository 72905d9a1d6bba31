"""Housekeeping of a lake's tables: fewer files, the same rows, whatever else happens to the table meanwhile."""

from __future__ import annotations

import os
import random
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from seamark.errors import FencedError, RefusedError, SeamarkError, StaleFilesError, UnreachableError
from seamark.pipelines.spark_delta import run_in_tasks
from seamark.pipelines.spark_delta_upsert import open_lake_target
from seamark.tables.definition import DeadLetters, LandColumn, Mode
from seamark.tables.delta import maintenance
from tests.spark.lake_stage import COLUMNS, LAKES, open_lake_stage

HOUR = 3600


@pytest.fixture
def open_stage(stack, kafka):
    return lambda **more: open_lake_stage(stack, kafka, **more)


def rows(first, last):
    return [{"number": number, "words": f"w{number}"} for number in range(first, last)]


def land_in_pieces(spark, stage, landing, count, *, size=100):
    for first in range(0, count, size):
        stage.produce(rows(first, first + size))
        stage.run(spark, landing)


@pytest.mark.parametrize("kind", LAKES)
def test_small_files_of_a_date_become_one(spark, open_stage, kind):
    columns = (*COLUMNS, LandColumn("at", "timestamp", "kafka.timestamp"))
    with open_stage(kind=kind, partitions=1) as stage:
        landing = stage.build(columns, date_from="at", dead_letters=DeadLetters())
        land_in_pieces(spark, stage, landing, 500)
        stage.produce([b"nothing"])
        stage.run(spark, landing)
        before, ledger = stage.table(), stage.read_ledger()
        # A column that older files don't have.
        more = replace(landing, columns=(*columns, LandColumn("extra", "text")))
        stage.produce([{"number": 500, "words": "w500", "extra": "e"}])
        stage.run(spark, more)
        found = sorted(stage.table().to_pyarrow_table().to_pylist(), key=str)
        # The dead letter has no date.
        assert maintenance.compact_files(stage.open(), run_in_tasks(spark)) == (6, 1)
        assert len(stage.table().file_uris()) == 2
        assert sorted(stage.table().to_pyarrow_table().to_pylist(), key=str) == found
        assert len(found) == 502
        assert stage.read_ledger() == {0: ledger[0] + 1}
        # Nothing is left to do, and whoever reads an earlier version still can.
        assert maintenance.compact_files(stage.open(), run_in_tasks(spark)) == (0, 0)
        assert before.to_pyarrow_table().num_rows == 501


def test_of_two_compactions_one_is_committed(spark, open_stage, monkeypatch):
    with open_stage(partitions=1) as stage:
        landing = stage.build()
        land_in_pieces(spark, stage, landing, 300)
        first, plan = stage.open(), maintenance.plan_compaction
        slow = stage.open()
        found = slow.list_files()
        assert maintenance.compact_files(first, run_in_tasks(spark)) == (3, 1)
        monkeypatch.setattr(slow, "list_files", lambda: found)
        with pytest.raises(StaleFilesError, match="another process changed 3 files"):
            maintenance.compact_files(slow, run_in_tasks(spark))
        assert plan(stage.open().list_files().files) == []
        assert stage.read("number") == [(number,) for number in range(300)]


def test_vacuum_deletes_what_no_recent_version_has(spark, open_stage, monkeypatch):
    with open_stage(partitions=1) as stage:
        landing = stage.build()
        land_in_pieces(spark, stage, landing, 300)
        folder = Path(stage.lake.path) / landing.table
        stray, fresh = folder / f"part-{'0' * 32}.parquet", folder / f"part-{'1' * 32}.parquet"
        stray.write_bytes(b"left by a failed task")
        fresh.write_bytes(b"written by a running batch")
        os.utime(stray, (time.time() - 2 * HOUR,) * 2)
        maintenance.compact_files(stage.open(), run_in_tasks(spark))
        # The compacted files were replaced just now, though they may have been written long ago.
        for file in folder.glob("part-*.parquet"):
            if file != fresh:
                os.utime(file, (time.time() - 2 * HOUR,) * 2)
        assert maintenance.vacuum_files(stage.open(), run_in_tasks(spark), keep_seconds=HOUR) == 1
        assert not stray.exists()
        assert fresh.exists()
        assert DeltaTable(str(folder), version=stage.table().version() - 1).to_pyarrow_table().num_rows == 300
        with pytest.raises(RefusedError, match="at least 1 h"):
            maintenance.vacuum_files(stage.open(), run_in_tasks(spark), keep_seconds=60)
        monkeypatch.setattr(maintenance, "LEAST_KEEP_SECONDS", 0)
        assert maintenance.vacuum_files(stage.open(), run_in_tasks(spark), keep_seconds=0) == 4
        assert stage.read("number") == [(number,) for number in range(300)]


def test_races_of_upsert_compaction_and_vacuum_lose_nothing(spark, open_stage):
    """Fifty rounds: two runs of the pipeline, a compaction and a vacuum at once."""
    columns = (LandColumn("id", "bigint"), LandColumn("version", "bigint"), LandColumn("words", "text"))
    dice, expected = random.Random(11), {}
    with open_stage(partitions=2) as stage:
        landing = stage.make(
            stage.build(columns, mode=Mode.UPSERT, key=("id",), order=("version",), dead_letters=DeadLetters())
        )
        target = open_lake_target(landing, stage.lake)
        failures = []

        def attempt(work):
            try:
                work()
            except SeamarkError as error:
                failures.append(error)

        for number in range(50):
            values = []
            for place in range(40):
                id_ = dice.randrange(60)
                values.append({"id": id_, "version": number * 40 + place, "words": f"{number}/{place}"})
                expected[id_] = values[-1]["words"]
            stage.produce([*values, b"bad"])
            works = [
                lambda: stage.run(spark, landing),
                lambda: stage.run(spark, landing),
                lambda: target.compact(spark),
                # A batch that runs for longer than files are kept is outside of what vacuum allows: an hour.
                lambda: maintenance.vacuum_files(stage.open(landing), run_in_tasks(spark), keep_seconds=HOUR),
            ]
            threads = [threading.Thread(target=attempt, args=[work]) for work in works]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(120)
        stage.run(spark, landing)
        found = stage.table().to_pyarrow_table().to_pylist()
        alive = {one["id"]: one["words"] for one in found if one["seamark_dead_letter"] is None}
        assert alive == expected
        assert len([one for one in found if one["seamark_dead_letter"] is None]) == len(expected)
        letters = [one["seamark_dead_letter"]["offset"] for one in found if one["seamark_dead_letter"] is not None]
        assert len(letters) == 50
        assert stage.read_ledger() == stage.read_ends()
        # A folder's listing may meet a file that another one has just renamed: an outage, which a run waits out.
        expected_errors = FencedError | StaleFilesError | UnreachableError
        assert [f"{error}: {error.cause}" for error in failures if not isinstance(error, expected_errors)] == []
        assert failures
