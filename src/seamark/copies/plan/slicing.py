"""How large slices are, and the times at which they may be cut."""

from __future__ import annotations

from collections.abc import Sequence

from seamark.copies.plan.copy_planner import TimeIndex
from seamark.copies.plan.cutting import Limits, TimeMark, choose_times
from seamark.kafka.api import BrokersPort
from seamark.kafka.spot import Edge
from seamark.spark.slices import OffsetRange

# A task is one transaction: some seconds of work, which a retry repeats, and less than a task keeps in memory. It has a
# cost of its own, whatever its size: consumer, producer and transaction take as long as 20,000 small records.
_TASK_RECORDS = 400_000
_TASK_BYTES = 48 << 20
_LEAST_TASK_RECORDS = 500
# Each slice is a job of Spark, with a second of its own; and a plan has a range for each of its partitions.
_MOST_SLICES = 10_000
_MOST_RANGES = 2_000_000
# Each time is one request to every leader. Four to a slice cut it near enough.
_TIMES_A_SLICE = 4
_MOST_TIMES = 200
_MOST_MARKS = 100_000


def choose_limits(
    ranges: Sequence[OffsetRange], *, targets: int, size_bytes: int | None, slice_records: int | None
) -> Limits:
    """So large that the tasks of a slice are of a good size, and the slices not too many."""
    if slice_records is not None:
        return Limits(slice_records)
    offsets = sum(one.size for one in ranges)
    a_record = max(1, (size_bytes or 0) // max(1, offsets))
    a_task = max(_LEAST_TASK_RECORDS, min(_TASK_RECORDS, _TASK_BYTES // a_record))
    most_slices = min(_MOST_SLICES, max(1, _MOST_RANGES // max(1, len(ranges))))
    return Limits(max(a_task * targets, -(-offsets // most_slices), 1))


def read_time_index(
    kafka: BrokersPort, topic: str, ranges: Sequence[OffsetRange], *, limits: Limits, since_ms: int | None = None
) -> TimeIndex:
    """Where moments lie in each partition, for slices to be cut at. Nothing is asked where one slice does.

    `since_ms` is a time that nothing of the ranges was written before, where it is known.
    """
    spots = [(topic, one.partition) for one in ranges if one.size]
    slices = -(-sum(one.size for one in ranges) // limits.offsets)
    if slices < 2:
        return {}
    count = max(1, min(_MOST_TIMES, slices * _TIMES_A_SLICE, _MOST_MARKS // len(spots)))
    newest = _read_times(kafka, spots, at=Edge.NEWEST)
    oldest = [since_ms] if since_ms is not None else _read_times(kafka, spots, at=0)
    if not oldest or not newest:
        return {}
    index: dict[int, list[TimeMark]] = {one.partition: [] for one in ranges}
    for moment in choose_times(min(oldest), max(newest), count=count):
        found = kafka.read_log_offsets(spots, at=moment).found
        for (_, partition), stamp in found.items():
            index[partition].append(TimeMark(moment, None if stamp is None else stamp.offset))
    return index


def _read_times(kafka: BrokersPort, spots: Sequence[tuple[str, int]], *, at: Edge | int) -> list[int]:
    stamps = kafka.read_log_offsets(spots, at=at).found.values()
    return [stamp.timestamp_ms for stamp in stamps if stamp is not None and stamp.timestamp_ms is not None]
