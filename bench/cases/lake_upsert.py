"""`lake-upsert`: one row in a hundred of a large code table is changed, against Delta's own MERGE."""

from __future__ import annotations

from bench.fixtures.lands.code_tables import (
    CHANGED,
    CodeStage,
    check_merged,
    merge_delta,
    merge_ours,
    open_code_stage,
)
from bench.harness.definition import Bench, Direction, Leg, Ratio

ROWS = 5_000_000

BENCH: Bench[CodeStage, str] = Bench(
    name="lake-upsert",
    compares=(
        f"A Delta table of {ROWS:,} rows in a folder, and a topic in which one of {CHANGED} rows, in random order, is "
        "changed. `ours` is `run_landing` with `mode: upsert` and an order: rows, order and offsets in one commit. "
        "`merge` is Delta's MERGE on Spark of the newest record of each key, which keeps no offsets; it reads the same "
        "records with the same settings. Both run in the same session with two cores and 1 GB. Every run changes the "
        "same rows; the figure is the seconds of ours over those of MERGE."
    ),
    setup=open_code_stage,
    check=check_merged,
    legs=(
        Leg("merge", run=merge_delta),
        Leg("ours", run=merge_ours, prepare=lambda stage: stage.set_back()),
    ),
    ratios=(Ratio("ours over merge", over="ours", under="merge", bar=1.5, direction=Direction.AT_MOST),),
    sizes=(ROWS,),
    quick_sizes=(200_000,),
    warmups=1,
)
