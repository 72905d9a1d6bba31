"""Translate the offsets of a consumer from the source of a copy to its target.

The translation never skips a record, and counts the records that the consumer reprocesses. In each target partition it
returns the offset of the first record that the consumer has not processed. Processed records after that offset are
reprocessed: they came from other source partitions, in which the consumer was further ahead.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate
from typing import Any

from seamark.copies.plan.progress import (
    Answers,
    BoundedCount,
    CopyProgress,
    Question,
    Recounter,
    check_ends,
    count_inside,
)
from seamark.errors import RefusedError, UsageError
from seamark.kafka_sink.control import Run
from seamark.spark.slices import OffsetRange


@dataclass(frozen=True, slots=True)
class OffsetPlacement:
    """The place of a source offset among the records from its partition to one target.

    `before` counts the records before it. The first record that is not before it is at `position` in the target, or
    later if the count is only a bound; `position` is None if there is no such record.
    """

    before: BoundedCount
    position: int | None
    question: Question | None = None


@dataclass(frozen=True, slots=True)
class _Track:
    """The runs of one pair of partitions, in order, and the number of records before each run."""

    runs: tuple[Run, ...]
    before: tuple[int, ...]
    lasts: tuple[int, ...]

    def locate(self, source_offset: int, answers: Answers) -> OffsetPlacement:
        place = bisect_left(self.lasts, source_offset)
        if place == len(self.runs):
            return OffsetPlacement(BoundedCount(self.before[-1], self.before[-1]), None)
        run, before = self.runs[place], self.before[place]
        if source_offset <= run.first_source:
            return OffsetPlacement(BoundedCount(before, before), run.first_target)
        inside = count_inside(run, source_offset, answers)
        question = None if inside.is_exact else Question(run, source_offset)
        return OffsetPlacement(inside.shift(before), run.first_target + inside.least, question)

    def count_below(self, position: int) -> int:
        """Return the number of records before a target offset. It is exact, because runs have no gaps in the target."""
        place = bisect_left(self.runs, position, key=lambda run: run.last_target)
        if place == len(self.runs):
            return self.before[-1]
        return self.before[place] + max(0, position - self.runs[place].first_target)


@dataclass(frozen=True, slots=True)
class CopyMap:
    """What was copied of each source partition, and where its records are in each target.

    `ends` are the offsets after the last record of each target.
    """

    covered: Mapping[int, OffsetRange]
    ends: Mapping[int, int]
    _tracks: Mapping[int, Mapping[int, _Track]] = field(repr=False)

    def locate(self, target: int, positions: Mapping[int, int], *, answers: Answers) -> dict[int, OffsetPlacement]:
        """Return the place of each source offset in one target, by source partition, for the sources of that target."""
        tracks = self._tracks.get(target, {})
        return {source: track.locate(positions[source], answers) for source, track in tracks.items()}

    def count_below(self, target: int, *, position: int) -> int:
        """Return how many records of the copy are before an offset of a target."""
        return sum(track.count_below(position) for track in self._tracks.get(target, {}).values())

    def count(self, target: int) -> int:
        """Return how many records of the copy are in a target."""
        return sum(track.before[-1] for track in self._tracks.get(target, {}).values())


def build_map(
    progress: CopyProgress, ranges: Sequence[OffsetRange], *, targets: int, ends: Mapping[int, int] | None = None
) -> CopyMap:
    """Build the map of what a copy has done so far. `ranges` are those of its plan, one per source partition.

    `ends` are the end offsets of the targets, read while no producer wrote. They come after the marker of the last
    transaction, so a consumer that had read everything shows no lag. Without `ends` the map uses the offset after the
    last record, which is equally safe.
    """
    if ends is not None and not progress.is_complete:
        raise UsageError("the end offsets of the target can't be used before the copy is finished")
    by_pair: dict[int, dict[int, list[Run]]] = {}
    behind = dict.fromkeys(range(targets), 0)
    for run in progress.runs():
        by_pair.setdefault(run.target, {}).setdefault(run.source, []).append(run)
        behind[run.target] = run.last_target + 1
    tracks = {
        target: {source: _build_track(runs) for source, runs in sources.items()} for target, sources in by_pair.items()
    }
    covered = {one.partition: one for one in progress.cover(ranges)}
    return CopyMap(covered, _take_ends(behind, ends), tracks)


def _take_ends(behind: Mapping[int, int], ends: Mapping[int, int] | None) -> dict[int, int]:
    found = {target: (ends or {}).get(target, least) for target, least in behind.items()}
    check_ends(behind, found)
    return found


def _build_track(runs: Iterable[Run]) -> _Track:
    found = tuple(runs)
    before = tuple(accumulate((run.count for run in found), initial=0))
    return _Track(found, before, tuple(run.last_source for run in found))


@dataclass(frozen=True, slots=True)
class TranslatedGroup:
    """The offsets of one group in the target of a copy, by partition.

    From there on it reads `to_read` copied records. It has processed between `replayed_least` and `replayed_most` of
    them before; both are equal if the number is exact. `aborted` counts the offsets of aborted records ahead of the
    group: only consumers with `read_committed` skip them.
    """

    offsets: Mapping[int, int]
    to_read: int = 0
    replayed_least: int = 0
    replayed_most: int = 0
    aborted: int = 0

    @property
    def replay_words(self) -> str:
        """The number of reprocessed records, in words."""
        if self.replayed_least == self.replayed_most:
            return "no records" if not self.replayed_most else f"{self.replayed_most:,} records"
        return f"{self.replayed_least:,} to {self.replayed_most:,} records"

    def to_dict(self) -> dict[str, Any]:
        """Return the group as JSON has it, without the offsets."""
        return {"to_read": self.to_read, "replayed": [self.replayed_least, self.replayed_most], "aborted": self.aborted}


Positions = Mapping[int, int]
"""The next offset to read, by source partition."""


class Missing(StrEnum):
    """Where a consumer starts in a partition for which it has no offset."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class TargetPosition:
    """The offset in one target partition.

    From that offset on there are `to_read` copied records, of which `replayed` are reprocessed.
    """

    target: int
    offset: int
    to_read: int
    replayed: BoundedCount


@dataclass(frozen=True, slots=True)
class Translation:
    """The offsets of a consumer in the target. No record is skipped.

    `assumed` are the source partitions without an offset. `behind` are those whose offset is before the copied range:
    these records are deleted from the source, or were excluded by the plan.
    """

    positions: tuple[TargetPosition, ...]
    assumed: tuple[int, ...] = ()
    behind: tuple[int, ...] = ()

    @property
    def offsets(self) -> dict[int, int]:
        """The next offset to read, by target partition."""
        return {one.target: one.offset for one in self.positions}

    @property
    def replayed(self) -> BoundedCount:
        """How many records are reprocessed, in all target partitions together."""
        return sum((one.replayed for one in self.positions), BoundedCount(0, 0))

    @property
    def to_read(self) -> int:
        """How many copied records the consumer will read, including the reprocessed ones."""
        return sum(one.to_read for one in self.positions)


@dataclass(frozen=True, slots=True)
class _Vector:
    """An offset for every source partition, as given or assumed."""

    offsets: Mapping[int, int]
    assumed: tuple[int, ...]
    behind: tuple[int, ...]


def translate(
    copied: CopyMap,
    positions: Positions,
    *,
    missing: Missing | None = None,
    allow_behind: bool = False,
    answers: Answers | None = None,
) -> Translation:
    """Translate the offsets of one consumer.

    Without `answers` to its questions, the replay is a bound, and the offset may be before the best one, but never
    after it.
    """
    vector = _settle(copied, positions, missing=missing, allow_behind=allow_behind)
    found = tuple(_find_position(copied, target, vector, answers or {}) for target in sorted(copied.ends))
    return Translation(found, assumed=vector.assumed, behind=vector.behind)


def list_questions(
    copied: CopyMap, positions: Positions, *, missing: Missing | None = None, allow_behind: bool = False
) -> tuple[Question, ...]:
    """Return the parts of the source that a recount must read for an exact translation of one consumer."""
    vector = _settle(copied, positions, missing=missing, allow_behind=allow_behind)
    places = (
        place for target in sorted(copied.ends) for place in copied.locate(target, vector.offsets, answers={}).values()
    )
    return tuple(place.question for place in places if place.question)


def translate_all(
    copied: CopyMap,
    readers: Mapping[str, Positions],
    *,
    recount: Recounter | None = None,
    missing: Missing | None = None,
    allow_behind: bool = False,
) -> dict[str, Translation]:
    """Translate the offsets of many consumers, with one recount for all of them."""
    answers: Answers = {}
    if recount is not None:
        asked = dict.fromkeys(
            question
            for positions in readers.values()
            for question in list_questions(copied, positions, missing=missing, allow_behind=allow_behind)
        )
        answers = recount(tuple(asked)) if asked else {}
    return {
        name: translate(copied, positions, missing=missing, allow_behind=allow_behind, answers=answers)
        for name, positions in readers.items()
    }


def _find_position(copied: CopyMap, target: int, vector: _Vector, answers: Answers) -> TargetPosition:
    places = copied.locate(target, vector.offsets, answers=answers)
    had = sum((place.before for place in places.values()), BoundedCount(0, 0))
    offset = min(
        (place.position for place in places.values() if place.position is not None), default=copied.ends[target]
    )
    # The consumer has processed every record before the offset, else the offset would be lower. It reprocesses the
    # others.
    below = copied.count_below(target, position=offset)
    return TargetPosition(
        target,
        offset,
        to_read=copied.count(target) - below,
        replayed=had.shift(-below),
    )


def _settle(copied: CopyMap, positions: Positions, *, missing: Missing | None, allow_behind: bool) -> _Vector:
    unknown = sorted(set(positions) - set(copied.covered))
    absent = sorted(set(copied.covered) - set(positions))
    if unknown:
        raise RefusedError(
            f"the consumer has offsets in partitions that were not copied: {_name(unknown)}",
            hint="create a new plan: partitions were added to the source, or it was recreated",
        )
    if absent and missing is None:
        raise RefusedError(
            f"the consumer has no committed offset in {_name(absent)}",
            cause="its auto.offset.reset decides where it starts there, and seamark can't read that setting",
            hint="pass --default-offset earliest (read all of it) or --default-offset latest (skip it)",
        )
    settled: dict[int, int] = {}
    for partition, whole in copied.covered.items():
        assumed = whole.begin if missing is Missing.EARLIEST else whole.end
        settled[partition] = positions.get(partition, assumed)
        if settled[partition] > whole.end:
            raise RefusedError(
                f"the consumer is at offset {settled[partition]} of partition {partition}, and the copy ends at "
                f"{whole.end}",
                hint="copy the rest first: seamark copies run PLAN --follow",
            )
    behind = tuple(partition for partition, offset in settled.items() if offset < copied.covered[partition].begin)
    if behind and not allow_behind:
        raise RefusedError(
            f"the consumer has not processed all records before the start of the copy in {_name(behind)}",
            cause="; ".join(
                f"{one}: at {settled[one]}, and the copy starts at {copied.covered[one].begin}" for one in behind
            ),
            hint="wait until it has processed them: records before the start of the copy are not in the target",
        )
    return _Vector(settled, tuple(absent), behind)


def _name(partitions: list[int] | tuple[int, ...]) -> str:
    return "partition " + ", ".join(map(str, partitions))
