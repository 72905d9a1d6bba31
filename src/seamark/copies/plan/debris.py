"""Debris: what lies in a target and is no record of the copy.

An attempt that was aborted leaves its records behind. Readers of committed records never see them. All others do, and
Connect's sinks are among those unless they are told otherwise; so a cut-over asks what lies ahead of each reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from seamark.kafka_sink.control import ControlRecord


@dataclass(frozen=True, slots=True)
class Debris:
    """Offsets of a target, both ends among them. Some may be markers of transactions: they are records at most."""

    target: int
    first: int
    last: int

    @property
    def size(self) -> int:
        """How many offsets it has."""
        return self.last - self.first + 1


def find_debris(records: Iterable[ControlRecord], *, ends: Mapping[int, int]) -> tuple[Debris, ...]:
    """Every stretch below the ends of the targets that is neither a record of the copy nor the marker of its commit.

    It takes the control records of `Progress`, in their order.
    """
    reached = dict.fromkeys(ends, 0)
    found: list[Debris] = []
    for record in records:
        last: dict[int, int] = {}
        for run in record.runs:
            before = reached.get(run.target, 0)
            if run.first_target > before:
                found.append(Debris(run.target, before, run.first_target - 1))
            last[run.target] = reached[run.target] = run.last_target + 1
        # The marker of the commit takes the offset behind the last record of the transaction.
        reached |= {target: offset + 1 for target, offset in last.items()}
    found += [Debris(target, reached[target], end - 1) for target, end in ends.items() if end > reached[target]]
    return tuple(sorted(found, key=lambda one: (one.target, one.first)))


def list_ahead(debris: Sequence[Debris], offsets: Mapping[int, int]) -> tuple[Debris, ...]:
    """What a reader of uncommitted records would come upon from these positions on."""
    ahead = (Debris(one.target, max(one.first, offsets[one.target]), one.last) for one in debris)
    return tuple(one for one in ahead if one.size > 0)
