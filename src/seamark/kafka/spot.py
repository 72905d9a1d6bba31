"""Places in a log: where it begins and ends, and what was found for many partitions at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

from seamark.errors import PartialError, SeamarkError

T = TypeVar("T")

Spot = tuple[str, int]
"""A partition: its topic and its number."""


class Edge(StrEnum):
    """An offset that the brokers know by name.

    `STABLE` is where readers of committed records come to an end; that is `LATEST`, or where an open transaction began.
    `NEWEST` is that of the record with the latest timestamp.
    """

    EARLIEST = "earliest"
    LATEST = "latest"
    STABLE = "stable"
    NEWEST = "newest"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The first offset of a partition, and the one that its next record will get."""

    earliest: int
    latest: int

    @property
    def records(self) -> int:
        """How many offsets lie between: as many records at most, fewer where the log is compacted."""
        return max(0, self.latest - self.earliest)


@dataclass(frozen=True, slots=True)
class Stamp:
    """An offset and, where the brokers tell them, the timestamp of the record there and the epoch of its leader."""

    offset: int
    timestamp_ms: int | None = None
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class SpotReading(Generic[T]):
    """What was read of many partitions, and by partition why the rest could not be: never a silently short answer."""

    found: Mapping[Spot, T] = field(default_factory=dict)
    failures: Mapping[Spot, SeamarkError] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether every partition was read."""
        return not self.failures

    def require_complete(self, *, what: str) -> Mapping[Spot, T]:
        """What was found, or a PartialError that names every partition that could not be read."""
        if self.failures:
            named = {f"{topic}-{partition}": error for (topic, partition), error in self.failures.items()}
            raise PartialError(
                f"{what} could not be read of {', '.join(named)}",
                failures=named,
                hint="seamark topics health says what is wrong there",
            )
        return self.found
