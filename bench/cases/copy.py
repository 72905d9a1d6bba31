"""`copy`: a topic copied exactly, against Spark's own Kafka source and sink, and against MirrorMaker 2."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bench.fixtures.copies.legs import copy_ours, copy_taught, prepare_ours
from bench.fixtures.copies.mirror import build_mirror_leg
from bench.fixtures.copies.stage import Copied, Shape, Stage, check_copy, open_stage
from bench.harness.definition import Bench, Leg, Prepared, Ratio, WrongResultError

SMALL, LARGE = 100, 1024
# The fastest leg copied a million records of 100 B in 1.4 s, and of 1 KiB in 7.6 s, without its start: 25 and 27 s.
RECORDS = 18_000_000
SHARE = {SMALL: 1, LARGE: 5}
LEAST_SECONDS = 20.0
KEEPING = {size: Shape(size) for size in SHARE}
SHRINKING = {size: Shape(size, sources=12) for size in SHARE}
REPLICATED = Shape(LARGE, replication_factor=3)
SHAPES = (*KEEPING.values(), *SHRINKING.values(), REPLICATED)


@contextmanager
def open_copies(size: int) -> Iterator[Prepared[Stage]]:
    """Fill a source for each shape, on as many brokers as there are replicas, and start a worker."""
    records = {(shape.size, shape.sources): size // SHARE[shape.size] for shape in SHAPES}
    brokers = max(shape.replication_factor for shape in SHAPES)
    with open_stage(records, workers=1, brokers=brokers) as prepared:
        yield prepared


def check_sliced_copy(stage: Stage, copied: Copied) -> None:
    """Check the copy, and that our leg paid for more than one slice."""
    if copied.slices == 1:
        raise WrongResultError(f"the plan of {copied.shape} has one slice: give the bench a larger size")
    check_copy(stage, copied)


def _build_legs(shape: Shape) -> tuple[Leg[Stage, Copied], Leg[Stage, Copied]]:
    def renew(stage: Stage) -> None:
        stage.renew_target(shape)

    def plan(stage: Stage) -> None:
        prepare_ours(stage, shape)

    return (
        Leg(f"taught {shape}", run=lambda stage: copy_taught(stage, shape), prepare=renew),
        Leg(f"ours {shape}", run=lambda stage: copy_ours(stage, shape), prepare=plan),
    )


def _build_ratio(name: str, shape: Shape, bar: float) -> Ratio:
    return Ratio(f"{name} over ours, {shape}", over=f"{name} {shape}", under=f"ours {shape}", bar=bar)


BENCH: Bench[Stage, Copied] = Bench(
    name="copy",
    compares=(
        f"Topics of {RECORDS:,} records of {SMALL} B and of {RECORDS // SHARE[LARGE]:,} of 1 KiB, with keys and "
        "timestamps, copied by `run_copy` in the slices of the planner: from 6 partitions to 6, from 12 to 6 with a "
        "shuffle, and from 6 to 6 with replication factor 3 (RF 3; all others 1), on three brokers. Each record "
        "arrives once, in order, with its timestamp and with control records. The rival `taught` is Spark's own Kafka "
        "source and sink with large fetches and batches and with our own setting for the end of a log "
        "(fetch.max.wait.ms); it keeps no timestamps and may write records twice. `mirror` is MirrorMaker 2 with "
        "exactly-once, two tasks and the same client settings, from its first record to its last. Two slots of Spark "
        "in one JVM of 1 GiB, as large as the worker; lz4, acks=all. Each run of a leg lasts at least "
        f"{LEAST_SECONDS:g} s. The figures are the rivals' seconds over ours."
    ),
    setup=open_copies,
    check=check_sliced_copy,
    legs=(
        *(leg for shape in KEEPING.values() for leg in (*_build_legs(shape), build_mirror_leg(shape))),
        *(leg for shape in (*SHRINKING.values(), REPLICATED) for leg in _build_legs(shape)),
    ),
    ratios=(
        _build_ratio("taught", KEEPING[SMALL], 0.7),
        _build_ratio("taught", KEEPING[LARGE], 0.8),
        _build_ratio("taught", SHRINKING[SMALL], 0.5),
        _build_ratio("taught", SHRINKING[LARGE], 0.5),
        _build_ratio("taught", REPLICATED, 0.8),
        _build_ratio("mirror", KEEPING[SMALL], 1.5),
        _build_ratio("mirror", KEEPING[LARGE], 1.0),
    ),
    sizes=(RECORDS,),
    # The least with several slices: one has up to 2.4 million small records.
    quick_sizes=(3_000_000,),
    least_seconds=LEAST_SECONDS,
    # Legs are long enough that the compilers of the JVMs are done with them after one.
    warmups=1,
)
