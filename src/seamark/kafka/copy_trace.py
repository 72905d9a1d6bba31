"""Where the records of a task came to lie: from delivery reports to the runs of its control record."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import groupby
from operator import xor
from typing import Any, NamedTuple

from seamark.errors import RefusedError
from seamark.model.control import Copied
from seamark.model.copy_run import Checksum, Run

_MASK = (1 << 64) - 1


class Stretch(NamedTuple):
    """Records of one source for one target, as they are written: the offset of each in the source, and its hash.

    Arrays of numbers, not objects: a task may hold millions.
    """

    target: int
    source: int
    offsets: array[int]
    hashes: array[int]


class CopyTrace:
    """What one transaction writes, and what the brokers answered.

    Reports of one partition come in the order in which its records were produced, so the nth report belongs to the nth
    record.
    """

    def __init__(self, tasks: int) -> None:
        self._tasks = tasks
        self.begin()

    def begin(self) -> None:
        """A new transaction: whatever was written before is not in it."""
        self._stretches: dict[int, list[Stretch]] = defaultdict(list)
        self._written: dict[int, array[int]] = defaultdict(_build_longs)

    def add(self, piece: Any) -> None:
        """Rows that are about to be produced, in this order."""
        stretches: Iterable[Stretch] = piece.stretches()
        for stretch in stretches:
            self._stretches[stretch.target].append(stretch)

    def note(self, partition: int, offset: int) -> None:
        """The brokers have a record."""
        self._written[partition].append(offset)

    def build(self) -> Copied:
        """What goes into the control record, when all reports are in."""
        found = {target: len(offsets) for target, offsets in self._written.items()}
        wanted = {target: sum(len(one.offsets) for one in own) for target, own in self._stretches.items()}
        if found != wanted:
            raise RefusedError(
                "the brokers have other records than were sent",
                cause=f"records by target partition: {wanted} were sent, {found} acknowledged",
                hint="nothing of this transaction is committed; run the copy again",
            )
        runs = (run for target in wanted for run in self._build_runs(target))
        return Copied(self._tasks, runs=tuple(sorted(runs, key=lambda run: (run.source, run.target, run.first_source))))

    def _build_runs(self, target: int) -> Iterator[Run]:
        written = self._written[target]
        begin = 0
        for source, stretches in groupby(self._stretches[target], key=lambda one: one.source):
            offsets, hashes = _build_longs(), _build_longs()
            for one in stretches:
                offsets += one.offsets
                hashes += one.hashes
            places = written[begin : begin + len(offsets)]
            begin += len(offsets)
            for first, last in _cut(places):
                yield Run(
                    source,
                    target,
                    last - first + 1,
                    first_source=offsets[first],
                    last_source=offsets[last],
                    first_target=places[first],
                    last_target=places[last],
                    checksum=_sum(hashes[first : last + 1]),
                )


def _build_longs() -> array[int]:
    return array("q")


def _cut(places: array[int]) -> Iterator[tuple[int, int]]:
    """The first and the last index of what lies side by side.

    Something else in between, such as the late marker of another transaction, cuts a run in two.
    """
    if places == array("q", range(places[0], places[0] + len(places))):
        yield 0, len(places) - 1
        return
    begin = 0
    for place in range(1, len(places) + 1):
        if place == len(places) or places[place] != places[place - 1] + 1:
            yield begin, place - 1
            begin = place


def _sum(hashes: array[int]) -> Checksum:
    return Checksum(sum(hashes) & _MASK, reduce(xor, hashes, 0) & _MASK)
