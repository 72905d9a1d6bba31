"""`land`: a topic in a table, each record once, against Spark's own JDBC sink and a bare COPY."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bench.harness.definition import Bench, Leg, Ratio
from bench.lands.legs import land_copy, land_delta, land_jdbc, land_lake, land_ours
from bench.lands.stage import Landed, Stage, check_table, open_stage
from seamark.pipelines.landing import Mode

RECORDS = 600_000


def _build_leg(name: str, run: Callable[[Stage], Landed]) -> Leg[Stage, Landed]:
    return Leg(name, run=run, prepare=lambda stage: stage.renew_table())


def _build_lake_leg(name: str, run: Callable[[Stage], Landed]) -> Leg[Stage, Landed]:
    return Leg(name, run=run, prepare=lambda stage: stage.renew_lake())


BENCH: Bench[Stage, Landed] = Bench(
    name="land",
    compares=(
        f"A topic of {RECORDS:,} JSON records in 6 partitions, landed in a table of PostgreSQL with a primary key, two "
        "tasks at a time. Ours is `run_landing`: rows and offsets in one transaction for each partition. Against it "
        "stand `df.write.jdbc` with reWriteBatchedInserts and batches of 10,000, and a COPY of the same rows from as "
        "many tasks, as CSV that Arrow writes; both read by the same settings, parse the same JSON, and would land "
        "rows twice after a failure. `lake` is `run_landing` into a table of Delta in a folder, `delta` Spark's own "
        "writer of the same rows. The figures are their seconds over ours, and those of append over upsert."
    ),
    setup=open_stage,
    check=check_table,
    legs=(
        _build_leg("jdbc", land_jdbc),
        _build_leg("copy", land_copy),
        _build_leg("append", partial(land_ours, mode=Mode.APPEND)),
        _build_leg("upsert", partial(land_ours, mode=Mode.UPSERT)),
        _build_lake_leg("delta", land_delta),
        _build_lake_leg("lake", land_lake),
    ),
    ratios=(
        Ratio("jdbc over append", over="jdbc", under="append", bar=1.0),
        Ratio("copy over append", over="copy", under="append", bar=0.8),
        Ratio("append over upsert", over="append", under="upsert", bar=0.6),
        Ratio("delta over lake", over="delta", under="lake", bar=0.9),
    ),
    sizes=(RECORDS,),
    quick_sizes=(60_000,),
    # The compilers of two JVMs are at it for the first runs.
    warmups=3,
)
