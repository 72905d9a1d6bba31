"""The records of a range that can't be rows, each with its reason, in 12 bytes per record."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator


class Refusals:
    """Offsets and reasons. Iterating gives both, in the order of the offsets."""

    def __init__(self) -> None:
        self._offsets = array("q")
        self._reasons = array("i")
        self._words: dict[str, int] = {}
        self._is_sorted = True

    def __len__(self) -> int:
        return len(self._offsets)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        self._sort()
        words = list(self._words)
        return ((offset, words[reason]) for offset, reason in zip(self._offsets, self._reasons, strict=True))

    def add(self, offset: int, reason: str) -> None:
        """Add a record. An offset is added once."""
        if self._offsets and offset < self._offsets[-1]:
            self._is_sorted = False
        self._offsets.append(offset)
        self._reasons.append(self._words.setdefault(reason, len(self._words)))

    def add_all(self, others: Refusals) -> None:
        """Add the records of another one."""
        for offset, reason in others:
            self.add(offset, reason)

    def find(self, first: int, last: int) -> dict[int, str]:
        """Find the records from one offset to another, both included."""
        self._sort()
        words = list(self._words)
        begin, end = bisect_left(self._offsets, first), bisect_left(self._offsets, last + 1)
        return {self._offsets[place]: words[self._reasons[place]] for place in range(begin, end)}

    def _sort(self) -> None:
        if self._is_sorted:
            return
        pairs = sorted(zip(self._offsets, self._reasons, strict=True))
        self._offsets = array("q", (offset for offset, _ in pairs))
        self._reasons = array("i", (reason for _, reason in pairs))
        self._is_sorted = True
