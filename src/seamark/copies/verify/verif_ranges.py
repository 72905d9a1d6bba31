"""Which offsets are read again: those of some runs, joined where they touch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from seamark.kafka_sink.copy_run import Run
from seamark.spark.slices import OffsetRange

# A task of its own costs more than reading so many records that nobody asked for.
_NEAR = 10_000


def list_source_ranges(runs: Iterable[Run]) -> list[OffsetRange]:
    """Where the records of runs come from."""
    return [OffsetRange(run.source, run.first_source, run.last_source + 1) for run in runs]


def list_target_ranges(runs: Iterable[Run]) -> list[OffsetRange]:
    """Where the records of runs lie."""
    return [OffsetRange(run.target, run.first_target, run.last_target + 1) for run in runs]


def join_ranges(ranges: Iterable[OffsetRange], *, near: int = _NEAR) -> tuple[OffsetRange, ...]:
    """The same offsets in few ranges, none twice; those that lie near each other become one."""
    joined: list[OffsetRange] = []
    for one in sorted(ranges, key=lambda item: (item.partition, item.begin)):
        if not one.size:
            continue
        if joined and joined[-1].partition == one.partition and one.begin <= joined[-1].end + near:
            joined[-1] = OffsetRange(one.partition, joined[-1].begin, max(joined[-1].end, one.end))
        else:
            joined.append(one)
    return tuple(joined)


def clip_ranges(ranges: Iterable[OffsetRange], begins: Mapping[int, int], ends: Mapping[int, int]) -> list[OffsetRange]:
    """What of the ranges a topic still has, by where its partitions begin and end."""
    kept = []
    for one in ranges:
        begin = max(one.begin, begins.get(one.partition, 0))
        end = min(one.end, ends.get(one.partition, one.end))
        if begin < end:
            kept.append(OffsetRange(one.partition, begin, end))
    return kept
