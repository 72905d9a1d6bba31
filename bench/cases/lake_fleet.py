"""`lake-fleet`: eight tables in one application, against a driver for each, and against Spark's own means."""

from __future__ import annotations

from bench.fixtures.lands.fleets import (
    CPU,
    ROWS,
    FleetLanded,
    FleetStage,
    check_fleet,
    open_fleet_stage,
    run_application,
    run_bare,
    run_declarative,
    run_drivers,
)
from bench.harness.definition import Bench, Leg, Ratio

TABLES = 8

BENCH: Bench[FleetStage, FleetLanded] = Bench(
    name="lake-fleet",
    compares=(
        f"{TABLES} topics of {ROWS:,} JSON records each, landed in {TABLES} Delta tables in a folder. `application` is "
        "one driver of ours with all pipelines; `drivers` is one driver of ours for each, all at once; `bare` is one "
        "driver with Spark's Kafka source and Delta's own writer, four tables at a time, which keeps no offsets and "
        "would write rows twice after a failure; `declarative` is Spark Declarative Pipelines with a streaming table "
        "for each topic, run once, exact by checkpoints. Each driver is a process with two slots and 1 GB; its start "
        "counts. "
        "The figures compare the CPU seconds of all processes."
    ),
    setup=open_fleet_stage,
    check=check_fleet,
    legs=(
        Leg("application", run=run_application, prepare=lambda stage: stage.renew()),
        Leg("drivers", run=run_drivers, prepare=lambda stage: stage.renew()),
        Leg("bare", run=run_bare, prepare=lambda stage: stage.renew()),
        Leg("declarative", run=run_declarative, prepare=lambda stage: stage.renew()),
    ),
    ratios=(
        Ratio("drivers over application", over="drivers", under="application", bar=5.0, gauge=CPU),
        Ratio("bare over application", over="bare", under="application", bar=0.8, gauge=CPU),
        Ratio("declarative over application", over="declarative", under="application", bar=1.0, gauge=CPU),
    ),
    read_gauges=lambda landed: landed.gauges,
    sizes=(TABLES,),
    quick_sizes=(3,),
    pairs=5,
    warmups=1,
)
