"""A run: the records of one source partition that a task took to one target partition, and their checksum."""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass
from functools import reduce
from operator import xor

from seamark.core import strict
from seamark.errors import RefusedError, UsageError

_HEX = re.compile(r"[0-9a-f]{32}", re.ASCII)
_CHECKSUM_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Checksum:
    """Two sums over 64-bit hashes of records that come out the same in any order.

    Either alone misses something: the sum is blind for two errors that cancel out, the xor for a record that is there
    twice too often.
    """

    sum: int = 0
    xor: int = 0

    @classmethod
    def of(cls, hashes: array[int]) -> Checksum:
        """Of many records, by their hashes; of negative ones, as Spark has them, the bits are taken."""
        return cls(sum(hashes) & _CHECKSUM_MASK, reduce(xor, hashes, 0) & _CHECKSUM_MASK)

    def combine(self, other: Checksum) -> Checksum:
        """The checksum of two sets of records together."""
        return Checksum((self.sum + other.sum) & _CHECKSUM_MASK, self.xor ^ other.xor)

    @property
    def text(self) -> str:
        """Both as 32 hexadecimal digits: JSON's numbers are not safe beyond 53 bits."""
        return f"{self.sum:016x}{self.xor:016x}"

    @classmethod
    def from_text(cls, value: object) -> Checksum:
        """Read what `text` gave."""
        digits = strict.read_text(value, what="a checksum")
        if not _HEX.fullmatch(digits):
            raise UsageError("a checksum can't be read", cause="it has not 32 hexadecimal digits")
        return cls(int(digits[:16], 16), int(digits[16:], 16))


@dataclass(frozen=True, slots=True)
class Run:
    """Records that a task took from one source partition to one target partition, in order.

    In the target they lie side by side: the task is the only writer there, and sorts by source partition and offset. In
    the source there may be others between them. So the nth record is the nth offset of the target.
    """

    source: int
    target: int
    count: int
    first_source: int
    last_source: int
    first_target: int
    last_target: int
    checksum: Checksum = Checksum()

    def __post_init__(self) -> None:
        """Refuse what can't be one run. A task that sees this before its commit aborts."""
        taken = self.last_target - self.first_target + 1
        if self.count < 1 or self.last_source - self.first_source + 1 < self.count:
            raise self._refuse(f"{self.count} records can't lie in {self.first_source} to {self.last_source}")
        if taken != self.count:
            raise self._refuse(
                f"{self.count} records take {taken} offsets of the target, {self.first_target} to {self.last_target}: "
                "something came in between"
            )

    def _refuse(self, cause: str) -> RefusedError:
        return RefusedError(
            f"the records from partition {self.source} to partition {self.target} are no run",
            cause=cause,
            hint="stop every other writer of the target topic, and run the copy again; finished tasks are not repeated",
        )

    def to_list(self) -> list[int | str]:
        """The run as JSON takes it."""
        return [
            self.source,
            self.target,
            self.count,
            self.first_source,
            self.last_source,
            self.first_target,
            self.last_target,
            self.checksum.text,
        ]

    @classmethod
    def from_list(cls, data: object) -> Run:
        """Read what `to_list` gave."""
        *numbers, checksum = strict.read_list(data, what="a run", length=8)
        source, target, count, *ends = (strict.read_count(number, what="a number of a run") for number in numbers)
        first_source, last_source, first_target, last_target = ends
        return cls(
            source,
            target,
            count,
            first_source=first_source,
            last_source=last_source,
            first_target=first_target,
            last_target=last_target,
            checksum=Checksum.from_text(checksum),
        )
