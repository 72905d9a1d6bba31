"""A run: the records of one source partition that a task took to one target partition, and their checksum."""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Callable
from dataclasses import dataclass

from seamark.errors import RefusedError, UsageError
from seamark.model import strict

_HEX = re.compile(r"[0-9a-f]{32}", re.ASCII)
_BITS = 64
_MASK = (1 << _BITS) - 1


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
        """Of many records, by their hashes as 64-bit numbers.

        All as one number, folded in the middle again and again: three times as fast as one after the other.
        """
        bits, count = int.from_bytes(hashes.tobytes(), sys.byteorder), len(hashes)
        # Halves of each, with as much room above them: so many sums have no carry into the next.
        room = int.from_bytes(b"\xff\xff\xff\xff\0\0\0\0" * count, "little")
        low, high = (_fold(half & room, count, int.__add__) for half in (bits, bits >> _BITS // 2))
        return cls((low + (high << _BITS // 2)) & _MASK, _fold(bits, count, int.__xor__))

    def add(self, hashed: int) -> Checksum:
        """With one more record, by its hash; of a negative one, as Spark has them, the bits are taken."""
        bits = hashed & _MASK
        return Checksum((self.sum + bits) & _MASK, self.xor ^ bits)

    def combine(self, other: Checksum) -> Checksum:
        """The checksum of two sets of records together."""
        return Checksum((self.sum + other.sum) & _MASK, self.xor ^ other.xor)

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


def _fold(bits: int, count: int, combine: Callable[[int, int], int]) -> int:
    """All of `count` 64-bit numbers side by side, combined into one."""
    while count > 1:
        half = count // 2
        bits = combine(bits & ((1 << _BITS * half) - 1), bits >> _BITS * half)
        count -= half
    return bits
