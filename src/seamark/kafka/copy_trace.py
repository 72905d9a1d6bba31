"""Where the records of a task came to lie: from delivery reports to the runs of its control record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from seamark.errors import RefusedError
from seamark.model.control import Copied
from seamark.model.copy_run import Checksum, Run

_MASK = (1 << 64) - 1

Origin = tuple[int, int, int, int]
"""Of one record: the target partition, the source partition, the source offset, and the record's hash."""


class CopyTrace:
    """What one transaction writes, and what the brokers answered.

    Reports of one partition come in the order in which its records were produced, so the nth report belongs to the nth
    record.
    """

    def __init__(self, tasks: int) -> None:
        self._tasks = tasks
        self._origins: dict[int, list[tuple[int, int, int]]] = {}
        self._offsets: dict[int, list[int]] = {}

    def begin(self) -> None:
        """A new transaction: whatever was written before is not in it."""
        self._origins = {}
        self._offsets = {}

    def add(self, piece: Any) -> None:
        """Rows that are about to be produced, in this order."""
        origins: Iterable[Origin] = piece.origins()
        for target, source, offset, hashed in origins:
            self._origins.setdefault(target, []).append((source, offset, hashed))

    def note(self, partition: int, offset: int) -> None:
        """The brokers have a record."""
        self._offsets.setdefault(partition, []).append(offset)

    def build(self) -> Copied:
        """What goes into the control record, when all reports are in."""
        found = {target: len(offsets) for target, offsets in self._offsets.items()}
        wanted = {target: len(origins) for target, origins in self._origins.items()}
        if found != wanted:
            raise RefusedError(
                "the brokers have other records than were sent",
                cause=f"records by target partition: {wanted} were sent, {found} acknowledged",
                hint="nothing of this transaction is committed; run the copy again",
            )
        runs = (run for target in wanted for run in self._build_runs(target))
        return Copied(self._tasks, runs=tuple(sorted(runs, key=lambda run: (run.source, run.target, run.first_source))))

    def _build_runs(self, target: int) -> Iterator[Run]:
        origins, offsets = self._origins[target], self._offsets[target]
        begin = 0
        for place in range(1, len(origins) + 1):
            # Something else in between, such as the late marker of another transaction, cuts a run in two.
            is_end = place == len(origins) or (
                origins[place][0] != origins[begin][0] or offsets[place] != offsets[place - 1] + 1
            )
            if is_end:
                yield _build_run(target, origins[begin:place], offsets[begin:place])
                begin = place


def _build_run(target: int, origins: list[tuple[int, int, int]], offsets: list[int]) -> Run:
    total = xor = 0
    for _, _, hashed in origins:
        bits = hashed & _MASK
        total += bits
        xor ^= bits
    return Run(
        origins[0][0],
        target,
        len(origins),
        first_source=origins[0][1],
        last_source=origins[-1][1],
        first_target=offsets[0],
        last_target=offsets[-1],
        checksum=Checksum(total & _MASK, xor),
    )
