"""Records of a range that can't be rows, counted by reason; too many of them stop the run. No I/O."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from seamark.errors import RejectedError
from seamark.pipelines.dead_letters import LEAST_RECORDS, DeadLetters
from seamark.pipelines.landing import Landing

# PostgreSQL quotes the value that it can't read: with it, each reason would be another one.
_QUOTED = re.compile(r': ".*', re.DOTALL)
_MOST_REASONS = 100
_OTHERS = "other reasons"


class BadRecords:
    """The bad records of one range, by reason."""

    def __init__(self, landing: Landing, *, spot: str, offsets: int, spent: int = 0) -> None:
        """Begin to count.

        Args:
            landing: The pipeline.
            spot: The partition, as messages name it.
            offsets: How many offsets the range has. It has no more records.
            spent: How many dead letters the run has written before.
        """
        self._landing = landing
        self._letters = landing.dead_letters or DeadLetters()
        self.spot = spot
        self._most = offsets
        self._spent = spent
        self._is_read = False
        self.records = 0
        self.dead = 0
        self.reasons: Counter[str] = Counter()

    def add(self, reasons: Mapping[str, int], *, records: int = 0) -> None:
        """Count records that were read, and those that are bad.

        Raises:
            RejectedError: Too many are bad.
        """
        self.records += records
        for reason, count in reasons.items():
            word = _QUOTED.sub("", reason)
            self.reasons[word if word in self.reasons or len(self.reasons) < _MOST_REASONS else _OTHERS] += count
            self.dead += count
        self._check()

    def end(self) -> None:
        """Note that all records of the range were read.

        Raises:
            RejectedError: Too many of them are bad.
        """
        self._is_read = True
        self._check()

    def _check(self) -> None:
        is_all = self.dead == self.records >= LEAST_RECORDS and not self._letters.accepts_all
        records = self.records if self._is_read else self._most
        if is_all or self.dead > self._letters.count_allowed(records, spent=self._spent):
            raise build_flood(
                self._landing, f"{self.dead:,} of {self.records:,} records of {self.spot}", reasons=self.reasons
            )


class WrittenLetters:
    """The dead letters of a run. Partitions of one batch don't know of each other, so that they are counted here."""

    def __init__(self, landing: Landing) -> None:
        self._landing = landing
        self._reasons: Counter[str] = Counter()
        self.written = 0

    def add(self, ranges: Iterable[Mapping[str, Any]]) -> None:
        """Count those of a batch, each range with its number (`dead`) and its `reasons`.

        Raises:
            RejectedError: The run has written more than it may. Those of this batch are written.
        """
        for one in ranges:
            self.written += one["dead"]
            self._reasons.update(one["reasons"])
        letters = self._landing.dead_letters
        if letters is not None and letters.most is not None and self.written > letters.most:
            raise build_flood(self._landing, f"{self.written:,} records of this run", reasons=self._reasons)


def build_flood(landing: Landing, which: str, *, reasons: Mapping[str, int]) -> RejectedError:
    """Build the error for more bad records than a run may have."""
    word, count = Counter(reasons).most_common(1)[0]
    letters = landing.dead_letters or DeadLetters()
    return RejectedError(
        f"{which} can't be rows of {landing.table}, more than on_error allows (max: {letters.max})",
        cause=f"the most common reason, of {count:,} records: {word}",
        hint="correct the columns of the pipeline or the table, or raise on_error.dead_letter.max; "
        "max: 100% allows any number",
    )


def build_refusal(landing: Landing, which: str, *, reason: str) -> RejectedError:
    """Build the error for a record that can't be a row, where none may be bad."""
    return RejectedError(
        f"{which} can't be a row of {landing.table}",
        cause=reason,
        hint="correct the columns of the pipeline, or keep such records apart: on_error: {dead_letter: {}}",
    )
