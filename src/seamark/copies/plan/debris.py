"""Records of aborted transactions in the target of a copy.

Consumers with `isolation.level=read_committed` skip them. Sink connectors read them unless that is set for them, so a
cutover counts the aborted records after the offset of each group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from seamark.kafka_sink.control import ControlRecord


@dataclass(frozen=True, slots=True)
class AbortedRecords:
    """Offsets of a target, both ends among them. Some may be markers of transactions: they are records at most."""

    target: int
    first: int
    last: int

    @property
    def size(self) -> int:
        """How many offsets it has."""
        return self.last - self.first + 1


def find_debris(records: Iterable[ControlRecord], *, ends: Mapping[int, int]) -> tuple[AbortedRecords, ...]:
    """Every stretch below the ends of the targets that is neither a record of the copy nor the marker of its commit.

    It takes the control records of `Progress`, in their order.
    """
    reached = dict.fromkeys(ends, 0)
    found: list[AbortedRecords] = []
    for record in records:
        last: dict[int, int] = {}
        for run in record.runs:
            before = reached.get(run.target, 0)
            if run.first_target > before:
                found.append(AbortedRecords(run.target, before, run.first_target - 1))
            last[run.target] = reached[run.target] = run.last_target + 1
        # The marker of the commit takes the offset behind the last record of the transaction.
        reached |= {target: offset + 1 for target, offset in last.items()}
    found += [AbortedRecords(target, reached[target], end - 1) for target, end in ends.items() if end > reached[target]]
    return tuple(sorted(found, key=lambda one: (one.target, one.first)))


def list_ahead(debris: Sequence[AbortedRecords], offsets: Mapping[int, int]) -> tuple[AbortedRecords, ...]:
    """What a reader of uncommitted records would come upon from these positions on."""
    ahead = (AbortedRecords(one.target, max(one.first, offsets[one.target]), one.last) for one in debris)
    return tuple(one for one in ahead if one.size > 0)
