"""`land`: a topic in a table, each record once, against what Spark and PostgreSQL do without seamark."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bench.fixtures.lands.changes import VERSIONS
from bench.fixtures.lands.legs import land_copy, land_delta, land_jdbc, land_lake, land_ours
from bench.fixtures.lands.stage import Landed, Stage, check_table, open_stage
from bench.fixtures.lands.streams import (
    BATCHES,
    P50,
    P99,
    OpenPipeline,
    land_changes,
    land_changes_barely,
    land_fresh,
    open_bare,
    open_ours,
)
from bench.harness.definition import Bench, Leg, Ratio
from seamark.tables.definition import Mode

RECORDS = 600_000


def _build_leg(name: str, run: Callable[[Stage], Landed]) -> Leg[Stage, Landed]:
    return Leg(name, run=run, prepare=lambda stage: stage.renew_table())


def _build_lake_leg(name: str, run: Callable[[Stage], Landed]) -> Leg[Stage, Landed]:
    return Leg(name, run=run, prepare=lambda stage: stage.renew_lake())


def _build_fresh_leg(name: str, open_pipeline: OpenPipeline) -> Leg[Stage, Landed]:
    return Leg(name, run=lambda stage: land_fresh(stage, open_pipeline), prepare=lambda stage: stage.renew_fresh())


BENCH: Bench[Stage, Landed] = Bench(
    name="land",
    compares=(
        f"A topic of {RECORDS:,} JSON records in 6 partitions, landed in a table of PostgreSQL with a primary key, two "
        "tasks at a time. Ours is `run_landing`: rows and offsets in one transaction for each partition. Against it "
        "stand `df.write.jdbc` with reWriteBatchedInserts and batches of 10,000, and a COPY of the same rows from as "
        "many tasks, as CSV that Arrow writes; both read by the same settings, parse the same JSON, and would land "
        "rows twice after a failure. `lake` is `run_landing` into a table of Delta in a folder, `delta` Spark's own "
        "writer of the same rows. "
        f"`changes` is an upsert, ordered by timestamp, of as many records in {BATCHES} batches: 45 % inserts, 50 % "
        f"updates and 5 % deletes; updated rows have {VERSIONS} versions, of which some arrive late. `bare changes` is "
        "the same by Spark's own stream: in each task a temporary table, a COPY, and one statement that deletes and "
        "upserts where the order is newer; it doesn't remember deletes. The figures are their seconds over ours, and "
        "those of append over upsert. "
        "`fresh` and `bare fresh` are those two streams without a pause between batches while 500 records a second are "
        "produced for 20 s: the figures compare the seconds from producing a record to reading its row (p50 and p99)."
    ),
    setup=open_stage,
    check=check_table,
    legs=(
        _build_leg("jdbc", land_jdbc),
        _build_leg("copy", land_copy),
        _build_leg("append", partial(land_ours, mode=Mode.APPEND)),
        _build_leg("upsert", partial(land_ours, mode=Mode.UPSERT)),
        _build_leg("bare changes", land_changes_barely),
        _build_leg("changes", land_changes),
        _build_fresh_leg("bare fresh", open_bare),
        _build_fresh_leg("fresh", open_ours),
        _build_lake_leg("delta", land_delta),
        _build_lake_leg("lake", land_lake),
    ),
    ratios=(
        Ratio("jdbc over append", over="jdbc", under="append", bar=1.0),
        Ratio("copy over append", over="copy", under="append", bar=0.8),
        Ratio("append over upsert", over="append", under="upsert", bar=0.6),
        Ratio("bare changes over changes", over="bare changes", under="changes", bar=0.7),
        Ratio("freshness p50, bare over ours", over="bare fresh", under="fresh", bar=0.7, gauge=P50),
        Ratio("freshness p99, bare over ours", over="bare fresh", under="fresh", bar=0.7, gauge=P99),
        Ratio("delta over lake", over="delta", under="lake", bar=0.9),
    ),
    read_gauges=lambda landed: landed.gauges,
    sizes=(RECORDS,),
    quick_sizes=(60_000,),
    # The compilers of two JVMs are at it for the first runs.
    warmups=3,
)
