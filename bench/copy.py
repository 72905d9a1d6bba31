"""`copy`: a topic copied exactly, against bare Spark, bare Spark with every setting, and MirrorMaker 2."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.copies.legs import copy_bare, copy_ours, copy_taught, copy_tuned
from bench.copies.mirror import build_mirror_leg
from bench.copies.stage import Copied, Shape, Stage, check_copy, open_stage
from bench.harness.definition import Bench, Leg, Prepared, Ratio

SMALL, LARGE = 100, 1024
RECORDS = 1_000_000
# A KiB each makes as many bytes of a quarter of the records, more or less.
SHARE = {SMALL: 1, LARGE: 4}
KEEPING = {size: Shape(size) for size in SHARE}
SHRINKING = {size: Shape(size, sources=12) for size in SHARE}


@contextmanager
def open_copies(size: int) -> Iterator[Prepared[Stage]]:
    """A source for each shape, on a broker and a worker."""
    shapes = (*KEEPING.values(), *SHRINKING.values())
    records = {(shape.size, shape.sources): size // SHARE[shape.size] for shape in shapes}
    with open_stage(records, workers=1) as prepared:
        yield prepared


def _build_leg(name: str, run: Callable[[Stage, Shape], Copied], shape: Shape) -> Leg[Stage, Copied]:
    def prepare(stage: Stage) -> None:
        stage.renew_target(shape)

    return Leg(f"{name} {shape}", run=lambda stage: run(stage, shape), prepare=prepare)


def _build_legs(size: int) -> tuple[Leg[Stage, Copied], ...]:
    keeping, shrinking = KEEPING[size], SHRINKING[size]
    return (
        _build_leg("bare", copy_bare, keeping),
        _build_leg("tuned", copy_tuned, keeping),
        _build_leg("taught", copy_taught, keeping),
        _build_leg("ours", copy_ours, keeping),
        build_mirror_leg(keeping),
        _build_leg("tuned", copy_tuned, shrinking),
        _build_leg("ours", copy_ours, shrinking),
    )


def _build_ratio(name: str, shape: Shape, bar: float) -> Ratio:
    return Ratio(f"{name} over ours, {shape}", over=f"{name} {shape}", under=f"ours {shape}", bar=bar)


BENCH: Bench[Stage, Copied] = Bench(
    name="copy",
    compares=(
        f"Topics of {RECORDS:,} records of {SMALL} B and of {RECORDS // SHARE[LARGE]:,} of 1 KiB, with keys and "
        "timestamps, copied by `run_copy` from 6 partitions to 6 and, with a shuffle, from 12 to 6: each record once, "
        "in order, with its timestamp and with control records. Against it stand Spark's own Kafka source and sink "
        "with their defaults (bare) and with the newer path, larger fetches and larger batches (tuned), which keep no "
        "timestamps and may write twice; tuned Spark once more, taught our own setting for the end of a log "
        "(fetch.max.wait.ms); and MirrorMaker 2 with exactly-once, two tasks, its clients set alike, from its first "
        "record to its last. Two slots of Spark in one JVM of 1 GiB, as large as the worker; lz4, acks=all. "
        "The figures are their seconds over ours. CPU seconds are those of one run: of a million records at 100 B."
    ),
    setup=open_copies,
    check=check_copy,
    legs=(*_build_legs(SMALL), *_build_legs(LARGE)),
    ratios=(
        _build_ratio("bare", KEEPING[SMALL], 1.3),
        _build_ratio("bare", KEEPING[LARGE], 2.0),
        _build_ratio("tuned", KEEPING[SMALL], 0.7),
        _build_ratio("tuned", KEEPING[LARGE], 0.8),
        _build_ratio("tuned", SHRINKING[SMALL], 0.5),
        _build_ratio("tuned", SHRINKING[LARGE], 0.5),
        _build_ratio("taught", KEEPING[SMALL], 0.7),
        _build_ratio("taught", KEEPING[LARGE], 0.8),
        _build_ratio("mirror", KEEPING[SMALL], 1.5),
        _build_ratio("mirror", KEEPING[LARGE], 1.0),
    ),
    sizes=(RECORDS,),
    quick_sizes=(40_000,),
    # The compilers of three JVMs are at it for the first runs.
    warmups=2,
)
