"""A landing moved back by an hour: what is landed again is what the preview said, and the move is undone."""

from __future__ import annotations

import io
import time

import pytest

from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.errors import StalePlanError
from seamark.kafka.partitioner import choose_partition
from seamark.tables.definition import Mode
from tests.spark.land_fleet import open_land_fleet, produce_keyed
from tests.spark.land_stage import COLUMNS, open_land_stage

HOUR_MS = 3_600_000
# One each ten seconds, for three hours up to now.
RECORDS, STEP_MS, KEYS = 1080, 10_000, 90


@pytest.fixture
def fleet(stack, tmp_path, monkeypatch):
    with open_land_fleet(stack, tmp_path, monkeypatch) as opened:
        yield opened


@pytest.fixture
def stage(stack, kafka, request):
    """A topic, and a landing of it: by append, or by upsert on a key that comes twelve times."""
    is_upsert = request.param is Mode.UPSERT
    upserted = "name int PRIMARY KEY, number bigint, words text, _seamark_order numeric[]"
    table = upserted if is_upsert else "number bigint, words text"
    with open_land_stage(stack, kafka, table=table) as made:
        made.begin_ms = int(time.time() * 1000) - 3 * HOUR_MS
        produce_keyed(
            kafka, made.topic, range(RECORDS), partitions=3, keys=KEYS, begin_ms=made.begin_ms, step_ms=STEP_MS
        )
        more = {"mode": Mode.UPSERT, "key": ("name",), "order": ("number",)} if is_upsert else {}
        columns = (*COLUMNS[2:], type(COLUMNS[0])("name", "int")) if is_upsert else COLUMNS[2:]
        made.landing = made.build(columns, **more)
        made.owner = made.landing.owner
        yield made


def find_last_hour():
    """The numbers of records of the last hour before the newest record of their partition."""
    by_partition = {}
    for number in range(RECORDS):
        by_partition.setdefault(choose_partition(b"key-%d" % (number % KEYS), partitions=3), []).append(number)
    return {one for numbers in by_partition.values() for one in numbers if one >= numbers[-1] - HOUR_MS // STEP_MS}


def plan_back(fleet, stage):
    """The plan. `--back` counts from the record at the committed offset, partition by partition, not from now."""
    planned = fleet.offsets.move(stage.owner, back="1h")
    (effect,) = planned.effects
    words, _, rest = effect.words.partition(" records reprocessed, ")
    assert int(words.rpartition(" ")[2].replace(",", "")) == len(find_last_hour())
    assert rest == "0 records skipped"
    return planned


def read_rows(stage):
    return sorted(stage.read("SELECT number, words FROM {table}"))


def expect(mode, again):
    """How often each number is in the table after these were landed again."""
    if mode is Mode.UPSERT:
        return dict.fromkeys(range(RECORDS - KEYS, RECORDS), 1)
    return {number: 2 if number in again else 1 for number in range(RECORDS)}


@pytest.mark.parametrize("stage", [Mode.APPEND, Mode.UPSERT], indirect=True)
def test_hour_is_landed_again_as_the_preview_said(spark, fleet, stage):
    mode = stage.landing.mode
    stage.run(spark, stage.landing)
    before, ends = read_rows(stage), stage.read_ledger()
    assert dict(stage.read("SELECT number, count(*) FROM {table} GROUP BY 1")) == expect(mode, set())

    # Undone before a run: it stands where it stood, and nothing is landed.
    done = fleet.apply(plan_back(fleet, stage))
    assert done.is_done
    assert stage.read_ledger() != ends
    assert fleet.apply(fleet.undo(done)).is_done
    assert stage.read_ledger() == ends
    stage.run(spark, stage.landing)
    assert (read_rows(stage), stage.read_ledger()) == (before, ends)

    done = fleet.apply(plan_back(fleet, stage))
    again = find_last_hour()
    assert sum(ends.values()) - sum(stage.read_ledger().values()) == len(again)
    stage.run(spark, stage.landing)
    assert dict(stage.read("SELECT number, count(*) FROM {table} GROUP BY 1")) == expect(mode, again)
    if mode is Mode.UPSERT:
        assert read_rows(stage) == before
    assert stage.read_ledger() == ends

    # Undone after a run: an undo moves offsets, and takes no row away. The run has come to where it stood before the
    # move, so there is nothing left to do.
    undo = fleet.undo(done)
    assert undo.is_empty
    assert undo.plan.notes == (f"{stage.owner} is already in its previous state and is not changed",)
    assert stage.read_ledger() == ends
    # Where it has landed more since, it stands where nobody left it: to set it back would land that again.
    produce_keyed(stage.kafka, stage.topic, range(RECORDS, RECORDS + 30), partitions=3, keys=KEYS, begin_ms=0)
    stage.run(spark, stage.landing)
    with pytest.raises(StalePlanError, match="the plan is out of date"):
        fleet.undo(done)
    assert stage.read_ledger() == stage.read_ends()


@pytest.mark.parametrize("stage", [Mode.APPEND], indirect=True)
def test_hour_is_moved_and_undone_from_the_command_line(spark, fleet, stage):
    stage.run(spark, stage.landing)
    ends = stage.read_ledger()
    code, out, err = run("offsets", "move", stage.owner, "--back", "1h", "--yes")
    assert code == 0, out + err
    assert "records reprocessed" in out + err
    assert stage.read_ledger() != ends
    code, out, err = run("journal", "undo", fleet.journal.list(limit=1)[0].change, "--yes")
    assert code == 0, out + err
    assert stage.read_ledger() == ends


def run(*argv):
    out, err = io.StringIO(), io.StringIO()
    code = execute(argv, session=Session(out=out, err=err, stdin=io.StringIO()))
    return code, out.getvalue(), err.getvalue()
