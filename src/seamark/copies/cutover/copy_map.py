"""From source offsets to target offsets, as the control records of a copy tell it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from seamark.copies.plan.progress import Progress, check_ends
from seamark.copies.plan.recount import Answers, BoundedCount, Question, count_inside
from seamark.errors import UsageError
from seamark.kafka_sink.copy_run import Run
from seamark.spark.slices import OffsetRange


@dataclass(frozen=True, slots=True)
class OffsetPlacement:
    """Where a source offset lies among the records from its partition to one target.

    So many come `before` it. The first that does not is at `position` in the target, or behind it where the count is
    only a bound; None if there is none.
    """

    before: BoundedCount
    position: int | None
    question: Question | None = None


@dataclass(frozen=True, slots=True)
class _Track:
    """The runs of one pair of partitions, in order, and how many records the ones before each have."""

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
        """How many records lie before a target offset: exactly, as runs have no gaps in the target."""
        place = bisect_left(self.runs, position, key=lambda run: run.last_target)
        if place == len(self.runs):
            return self.before[-1]
        return self.before[place] + max(0, position - self.runs[place].first_target)


@dataclass(frozen=True, slots=True)
class CopyMap:
    """What was copied of each source partition, and the way of its records into each target.

    `ends` are the positions behind the last record of each target.
    """

    covered: Mapping[int, OffsetRange]
    ends: Mapping[int, int]
    _tracks: Mapping[int, Mapping[int, _Track]] = field(repr=False)

    def locate(self, target: int, positions: Mapping[int, int], *, answers: Answers) -> dict[int, OffsetPlacement]:
        """Where each source position lies in one target, by source partition, for those that feed it."""
        tracks = self._tracks.get(target, {})
        return {source: track.locate(positions[source], answers) for source, track in tracks.items()}

    def count_below(self, target: int, *, position: int) -> int:
        """How many records of the copy lie before an offset of a target."""
        return sum(track.count_below(position) for track in self._tracks.get(target, {}).values())

    def count(self, target: int) -> int:
        """How many records of the copy lie in a target."""
        return sum(track.before[-1] for track in self._tracks.get(target, {}).values())


def build_map(
    progress: Progress, ranges: Sequence[OffsetRange], *, targets: int, ends: Mapping[int, int] | None = None
) -> CopyMap:
    """The map of what a copy has done so far. `ranges` are those of its plan, one for each source partition.

    `ends` are the targets' own ends, read while nobody wrote; they lie behind the last transaction's marker, so a
    reader that was at its end shows no lag. Without them it is the position behind the last record, which is as safe.
    """
    if ends is not None and not progress.is_complete:
        raise UsageError(
            "the ends of the targets can't be used while the copy goes on: there may be records before them"
        )
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
