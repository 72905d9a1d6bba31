"""Where a reader of the old topic goes on in the new one.

It never skips a record, and says how many it will read again. In each target it is the first place with a record that
the reader has not had. Records behind it that it has had are read again: they came from other source partitions, in
which the reader was further.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from seamark.copies.cutover.copy_map import CopyMap
from seamark.copies.plan.recount import Answers, BoundedCount, Question, Recounter
from seamark.errors import RefusedError

Positions = Mapping[int, int]
"""The next offset to read, by source partition."""


class Missing(StrEnum):
    """Where a reader starts in a partition that it has no position in."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class TargetPosition:
    """Where to go on in one target partition.

    `to_read` copied records lie there and behind, `replayed` of them again.
    """

    target: int
    offset: int
    to_read: int
    replayed: BoundedCount


@dataclass(frozen=True, slots=True)
class Translation:
    """The positions of a reader in the new topic. No record is skipped.

    `assumed` are the source partitions without a position, `behind` those whose position lies before what was copied:
    what was there is gone from the source, or was left out by the plan.
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
        """How many records are read again, in all targets together."""
        return sum((one.replayed for one in self.positions), BoundedCount(0, 0))

    @property
    def to_read(self) -> int:
        """How many copied records the reader will read, those again among them."""
        return sum(one.to_read for one in self.positions)


@dataclass(frozen=True, slots=True)
class _Vector:
    """A position for every source partition, as given or settled."""

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
    """The positions of one reader in the new topic.

    Without `answers` to its questions the replay is a bound, and the position may lie before the best; never behind it.
    """
    vector = _settle(copied, positions, missing=missing, allow_behind=allow_behind)
    found = tuple(_find_position(copied, target, vector, answers or {}) for target in sorted(copied.ends))
    return Translation(found, assumed=vector.assumed, behind=vector.behind)


def list_questions(
    copied: CopyMap, positions: Positions, *, missing: Missing | None = None, allow_behind: bool = False
) -> tuple[Question, ...]:
    """What the source must be read again for, so that the translation of one reader is exact."""
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
    """The positions of many readers, with one recount for all of them."""
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
    # Every record before the position has been had, else the position would be there. The rest of them is replayed.
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
            f"the reader has positions in partitions that were not copied: {_name(unknown)}",
            hint="the source has grown since the plan was made, or it is another topic; make the plan anew",
        )
    if absent and missing is None:
        raise RefusedError(
            f"the reader has no position in {_name(absent)}",
            cause="where it would start there is decided by its own auto.offset.reset, which nobody can see",
            hint="say which it is: --missing earliest (read all of it) or --missing latest (skip it)",
        )
    settled: dict[int, int] = {}
    for partition, whole in copied.covered.items():
        assumed = whole.begin if missing is Missing.EARLIEST else whole.end
        settled[partition] = positions.get(partition, assumed)
        if settled[partition] > whole.end:
            raise RefusedError(
                f"the reader is at {settled[partition]} in partition {partition}, and the copy is at {whole.end}",
                hint="let the copy catch up first",
            )
    behind = tuple(partition for partition, offset in settled.items() if offset < copied.covered[partition].begin)
    if behind and not allow_behind:
        raise RefusedError(
            f"the reader has not read up to where the copy begins in {_name(behind)}",
            cause="; ".join(
                f"{one}: {settled[one]}, and the copy begins at {copied.covered[one].begin}" for one in behind
            ),
            hint="records before that are not in the target; allow it if they are gone from the source too",
        )
    return _Vector(settled, tuple(absent), behind)


def _name(partitions: list[int] | tuple[int, ...]) -> str:
    return "partition " + ", ".join(map(str, partitions))
