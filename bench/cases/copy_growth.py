"""`copy-growth`: what a copy takes as the topic grows, and as its partitions do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from bench.fixtures.copies.legs import copy_ours, prepare_ours
from bench.fixtures.copies.session import read_live_heap, reset_peak
from bench.fixtures.copies.stage import Copied, Shape, Stage, check_copy, open_stage
from bench.fixtures.fleets.child import read_peak_bytes
from bench.harness.definition import Bench, Direction, Growth, Leg, Prepared, Quantity, Ratio

SIZES = (500_000, 2_000_000, 8_000_000)
RECORD = 100
WHOLE = Shape(RECORD)
# The same records in one partition, in four, in sixteen. Nothing is shuffled: the partitions are what is measured.
COUNTS = (1, 4, 16)
PART = 2
# 15 % between the smallest and the largest topic, which is 16 times as large: 16 ** 0.05 is 1.15.
FLAT, FLAT_POWER = 1.15, 0.05
HELD = "MB held"
_MEGABYTE = 1 << 20


@contextmanager
def open_copies(size: int) -> Iterator[Prepared[Stage]]:
    """A topic of that size, and a part of it in each count of partitions; no worker."""
    records = {(RECORD, WHOLE.sources): size, **{(RECORD, count): size // PART for count in COUNTS}}
    with open_stage(records, workers=0) as prepared:
        yield prepared


def copy_whole(stage: Stage) -> Copied:
    """The topic of that size, and what the driver held of it: Python's most, and what the JVM had to keep."""
    reset_peak()
    copied = copy_ours(stage, WHOLE)
    most = read_peak_bytes()
    return replace(copied, read_gauges=lambda: {HELD: (most + read_live_heap(stage.spark)) / _MEGABYTE})


def read_gauges(copied: Copied) -> Mapping[str, float]:
    """What a leg measured of itself."""
    return copied.read_gauges()


def _build_leg(name: str, run: Callable[[Stage], Copied], shape: Shape) -> Leg[Stage, Copied]:
    return Leg(name, run=run, prepare=lambda stage: prepare_ours(stage, shape))


def _build_count_leg(count: int) -> Leg[Stage, Copied]:
    shape = Shape(RECORD, sources=count, targets=count)
    return _build_leg(_name(count), lambda stage: copy_ours(stage, shape), shape)


def _build_ratio(over: int, under: int) -> Ratio:
    return Ratio(
        f"CPU, {_name(over)} over {under}",
        over=_name(over),
        under=_name(under),
        bar=FLAT,
        direction=Direction.AT_MOST,
        quantity=Quantity.CPU_SECONDS,
    )


def _name(count: int) -> str:
    return f"{count} partition{'s' if count > 1 else ''}"


BENCH: Bench[Stage, Copied] = Bench(
    name="copy-growth",
    compares=(
        f"`run_copy` of topics of 0.5, 2 and 8 million records of {RECORD} B, 6 partitions to 6, in slices "
        "as the planner cuts them: the power of the size with which its seconds grow, and what the driver holds, which "
        "is the most of its Python process and what its JVM keeps after a collection, when Spark's pools of consumers "
        "are empty. Then half of the records in 1, 4 and 16 partitions, copied to as many: the CPU seconds of all "
        "processes against each other."
    ),
    setup=open_copies,
    check=check_copy,
    legs=(_build_leg("whole", copy_whole, WHOLE), *map(_build_count_leg, COUNTS)),
    ratios=(_build_ratio(4, 1), _build_ratio(16, 1), _build_ratio(16, 4)),
    growths=(
        Growth("growth of seconds", leg="whole", bar=1.1),
        Growth("growth of what the driver holds", leg="whole", bar=FLAT_POWER, gauge=HELD),
    ),
    read_gauges=read_gauges,
    sizes=SIZES,
    quick_sizes=(20_000, 80_000),
    # Spark compiles as it goes, and the first slice is the slowest.
    warmups=2,
)
