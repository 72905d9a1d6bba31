"""`lake-fleet-once`: fifty tables in one application, against fifty runs one after the other."""

from __future__ import annotations

from bench.fixtures.lands.fleets import (
    CPU,
    ROWS,
    FleetLanded,
    FleetStage,
    check_fleet,
    open_fleet_stage,
    run_application,
    run_sequence,
)
from bench.harness.definition import Bench, Leg, Ratio

TABLES = 50

BENCH: Bench[FleetStage, FleetLanded] = Bench(
    name="lake-fleet-once",
    compares=(
        f"{TABLES} topics of {ROWS:,} JSON records each, landed in {TABLES} Delta tables in a folder. `application` is "
        "one driver of ours with all pipelines; `sequence` is one driver of ours for each, one after the other, as a "
        "scheduler starts them. Each driver is a process with two slots and 1 GB; its start counts. The figure "
        "compares the CPU seconds of all processes."
    ),
    setup=open_fleet_stage,
    check=check_fleet,
    legs=(
        Leg("application", run=run_application, prepare=lambda stage: stage.renew()),
        Leg("sequence", run=run_sequence, prepare=lambda stage: stage.renew()),
    ),
    ratios=(Ratio("sequence over application", over="sequence", under="application", bar=5.0, gauge=CPU),),
    read_gauges=lambda landed: landed.gauges,
    sizes=(TABLES,),
    quick_sizes=(3,),
    pairs=5,
    warmups=1,
)
