"""Cutting the offsets of a topic into slices, by time.

Within a slice the records of one source partition come after those of another, so the target's time order is disturbed
by as much time as a slice spans. That is why slices are cut at moments, and not at offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from seamark.errors import UsageError
from seamark.spark.slices import OffsetRange, Slice, check_cover

Vector = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TimeMark:
    """What the brokers answer for a moment: the first record with that timestamp or a later one is at `offset`.

    None: there is no such record.
    """

    time_ms: int
    offset: int | None


@dataclass(frozen=True, slots=True)
class Limits:
    """How large slices are to be. `offsets` is passed by fewer than there are partitions.

    A slice spans at most `widest_ms`, or one step between two marks where that is longer.
    """

    offsets: int
    widest_ms: int | None = None

    def __post_init__(self) -> None:
        """Refuse slices without any offset."""
        if self.offsets < 1:
            raise UsageError(f"a slice has at least one offset, not {self.offsets}")


@dataclass(frozen=True, slots=True)
class _Cut:
    """A moment, and how far it lies in each partition. The first and the last have no moment."""

    time_ms: int | None
    offsets: Vector


def choose_times(first_ms: int, last_ms: int, *, count: int) -> tuple[int, ...]:
    """So many moments at equal distances between two, to ask the brokers for: the steps that slices are made of."""
    if count < 1 or first_ms >= last_ms:
        return ()
    span = last_ms - first_ms
    return tuple(sorted({first_ms + span * step // (count + 1) for step in range(1, count + 1)} - {first_ms}))


def cut_slices(
    ranges: Sequence[OffsetRange],
    index: Mapping[int, Sequence[TimeMark]],
    *,
    limits: Limits,
    first_number: int = 0,
) -> tuple[Slice, ...]:
    """Cut ranges, one a partition, into slices. Each offset is in exactly one slice, whatever the timestamps are.

    `first_number` is for what came after: a later round goes on where the slices of the former ended.
    """
    known = {one.partition for one in ranges}
    if len(known) != len(ranges):
        raise UsageError("a partition has several ranges, and a copy takes one of each")
    ordered = sorted(ranges, key=lambda one: one.partition)
    pieces = _cut(_place_cuts(ordered, index), limits)
    slices: list[Slice] = []
    for before, after in pieces:
        taken = tuple(
            OffsetRange(one.partition, begin, end)
            for one, begin, end in zip(ordered, before.offsets, after.offsets, strict=True)
            if begin < end
        )
        if taken:
            number = first_number + len(slices)
            slices.append(Slice(number, taken, from_ms=before.time_ms, until_ms=after.time_ms))
    check_cover(ranges, slices)
    return tuple(slices)


def _place_cuts(ranges: Sequence[OffsetRange], index: Mapping[int, Sequence[TimeMark]]) -> list[_Cut]:
    """Every moment of the index as a vector of offsets, between the begin and the end of all."""
    times = sorted({mark.time_ms for one in ranges for mark in index.get(one.partition, ())})
    columns = [_place(one, index.get(one.partition, ()), times) for one in ranges]
    first = _Cut(None, tuple(one.begin for one in ranges))
    last = _Cut(None, tuple(one.end for one in ranges))
    inner = [_Cut(time, tuple(column[row] for column in columns)) for row, time in enumerate(times)]
    return [first, *inner, last]


def _place(whole: OffsetRange, marks: Sequence[TimeMark], times: Sequence[int]) -> list[int]:
    """How far each moment lies in one partition.

    A partition without a mark of its own there takes the one before: what lies before that is earlier still. Offsets
    never fall, even if the answers do, as those of a moving log may; so no offset is lost or taken twice.
    """
    answers: dict[int, int] = {}
    for mark in marks:
        offset = whole.end if mark.offset is None else mark.offset
        answers[mark.time_ms] = min(offset, answers.get(mark.time_ms, offset))
    reached = whole.begin
    column = []
    for time in times:
        reached = max(reached, min(answers.get(time, reached), whole.end))
        column.append(reached)
    return column


def _cut(cuts: Sequence[_Cut], limits: Limits) -> Iterator[tuple[_Cut, _Cut]]:
    """Join steps until a slice would be too large or too wide; a single step that is too large is split."""
    start = reached = cuts[0]
    for cut in cuts[1:]:
        if reached is not start and _is_beyond(start, cut, limits):
            yield from _split(start, reached, limits)
            start = reached
        reached = cut
    yield from _split(start, reached, limits)


def _is_beyond(start: _Cut, cut: _Cut, limits: Limits) -> bool:
    wide = limits.widest_ms is not None and (
        start.time_ms is None or cut.time_ms is None or cut.time_ms - start.time_ms > limits.widest_ms
    )
    return wide or _size(start, cut) > limits.offsets


def _split(start: _Cut, end: _Cut, limits: Limits) -> Iterator[tuple[_Cut, _Cut]]:
    """Equal shares of every partition, each with the same bounds in time."""
    parts = max(1, -(-_size(start, end) // limits.offsets))
    spans = [(begin, last - begin) for begin, last in zip(start.offsets, end.offsets, strict=True)]
    rows = [tuple(begin + span * part // parts for begin, span in spans) for part in range(parts + 1)]
    for before, after in pairwise(rows):
        yield _Cut(start.time_ms, before), _Cut(end.time_ms, after)


def _size(start: _Cut, end: _Cut) -> int:
    return sum(end.offsets) - sum(start.offsets)
