"""Slices: the offsets of a topic in parts that are worked off one after the other, each small enough to repeat."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from seamark.core import strict_json as strict
from seamark.errors import RefusedError, UsageError

_KEYS = ("id", "number", "from_ms", "until_ms", "ranges")


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets of one partition from `begin` on, up to but without `end`.

    They are offsets and not records: compaction and transactions leave gaps.
    """

    partition: int
    begin: int
    end: int

    def __post_init__(self) -> None:
        """Refuse a range that runs backwards."""
        if not 0 <= self.begin <= self.end or self.partition < 0:
            raise UsageError(f"invalid range of offsets for partition {self.partition}: {self.begin} to {self.end}")

    @property
    def size(self) -> int:
        """How many offsets it has."""
        return self.end - self.begin

    def to_list(self) -> list[int]:
        """The range as JSON takes it."""
        return [self.partition, self.begin, self.end]

    @classmethod
    def from_list(cls, data: object) -> OffsetRange:
        """Read what `to_list` gave."""
        found = strict.read_list(data, what="a range of offsets", length=3)
        return cls(*(strict.read_count(item, what="a number in a range of offsets") for item in found))


@dataclass(frozen=True, slots=True)
class Slice:
    """One part: a range of every partition that has offsets in it, by partition.

    No record of it has a timestamp of `until_ms` or later. Records before `from_ms` are stragglers, whose timestamps
    run behind those of older records. None: not known.
    """

    number: int
    ranges: tuple[OffsetRange, ...]
    from_ms: int | None = None
    until_ms: int | None = None

    @property
    def id(self) -> str:
        """Its place in the order and what it holds: the same in every run, and another one if the slices are others."""
        text = ";".join(f"{one.partition}:{one.begin}-{one.end}" for one in self.ranges)
        return f"{self.number:06d}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"

    @property
    def size(self) -> int:
        """How many offsets it has in all partitions together."""
        return sum(one.size for one in self.ranges)

    def range_of(self, partition: int) -> OffsetRange | None:
        """What it takes of a partition; None if nothing."""
        return next((one for one in self.ranges if one.partition == partition), None)

    def to_dict(self) -> dict[str, Any]:
        """The slice as JSON takes it."""
        return {
            "id": self.id,
            "number": self.number,
            "from_ms": self.from_ms,
            "until_ms": self.until_ms,
            "ranges": [one.to_list() for one in self.ranges],
        }

    @classmethod
    def from_dict(cls, data: object) -> Slice:
        """Read what `to_dict` gave; the id tells whether the ranges are still those."""
        fields = strict.read_object(data, keys=_KEYS, what="a slice")
        found = cls(
            number=strict.read_count(fields["number"], what="the number of a slice"),
            ranges=tuple(map(OffsetRange.from_list, strict.read_list(fields["ranges"], what="the ranges of a slice"))),
            from_ms=strict.read_optional_count(fields["from_ms"], what="from_ms of a slice"),
            until_ms=strict.read_optional_count(fields["until_ms"], what="until_ms of a slice"),
        )
        if found.id != fields["id"]:
            raise UsageError(
                f"slice {found.number} was changed after it was written",
                cause=f"its ID is {fields['id']!r}, expected {found.id} from its ranges",
                hint="create a new plan",
            )
        return found


def check_cover(ranges: Sequence[OffsetRange], slices: Sequence[Slice]) -> None:
    """Make sure that every offset of the ranges is in exactly one slice, and that the slices are in order."""
    reached = {one.partition: one.begin for one in ranges}
    ends = {one.partition: one.end for one in ranges}
    for place, one in enumerate(slices):
        if one.number != slices[0].number + place:
            raise _refuse(f"found slice {one.number}, expected {slices[0].number + place}")
        for part in one.ranges:
            if reached.get(part.partition) != part.begin or not part.size:
                raise _refuse(
                    f"slice {one.number} has offsets {part.begin} to {part.end} of partition {part.partition}, "
                    f"but the slices before it end at {reached.get(part.partition)}"
                )
            reached[part.partition] = part.end
    short = [partition for partition, end in ends.items() if reached[partition] != end]
    if short:
        raise _refuse(
            f"the slices of partition {short[0]} end at {reached[short[0]]}, and the partition ends at {ends[short[0]]}"
        )


def _refuse(cause: str) -> RefusedError:
    return RefusedError("the slices of the plan do not cover the topic", cause=cause, hint="create a new plan")
