"""Records of a range that can't be rows, counted by reason; too many of them stop the run. No I/O."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from seamark.errors import RejectedError
from seamark.tables.definition import LEAST_RECORDS, DeadLetters, Landing

# PostgreSQL quotes the value that it can't read, mostly at the end. With it each record would have a reason of its own,
# and an error would show data. Names of constraints and tables are quoted, too.
_LAST_VALUE = re.compile(r': "(?:.*"|[^"]*)$', re.DOTALL)
_VALUE = re.compile(r'".*"', re.DOTALL)
_NAME = re.compile(r'\b(?:constraint|relation|table|column|encoding|domain) "')
_MOST_REASONS = 100
_OTHERS = "other reasons"


class ReasonCounts(Counter[str]):
    """How many records have each reason, for at most 100 reasons; the others are counted together."""

    def count(self, reasons: Mapping[str, int]) -> None:
        """Add records by reason. The values that PostgreSQL quotes are left out."""
        for reason, count in reasons.items():
            word = _LAST_VALUE.sub("", reason)
            if not _NAME.search(word):
                word = _VALUE.sub('"…"', word)
            self[word if word in self or len(self) < _MOST_REASONS else _OTHERS] += count

    def describe(self) -> str:
        """Name the most common reason; empty where there is none."""
        known = [(word, count) for word, count in self.most_common(2) if word != _OTHERS]
        if not known:
            return ""
        word, count = known[0]
        return f"the most common reason, of {count:,} records: {word}"


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
        self.reasons = ReasonCounts()

    def add(self, reasons: Mapping[str, int], *, records: int = 0) -> None:
        """Count records that were read, and those that are bad.

        Raises:
            RejectedError: Too many are bad.
        """
        self.records += records
        self.dead += sum(reasons.values())
        self.reasons.count(reasons)
        self._check()

    def end(self) -> None:
        """Note that all records of the range were read.

        Raises:
            RejectedError: Too many of them are bad.
        """
        self._is_read = True
        self._check()

    def describe_most_common(self) -> str:
        """Name the most common reason; empty where there is none."""
        return self.reasons.describe()

    def _check(self) -> None:
        records = self.records if self._is_read else self._most
        is_all = _is_all(self._letters, dead=self.dead, records=self.records)
        if is_all or self.dead > self._letters.count_allowed(records, spent=self._spent):
            raise build_flood(
                self._landing, f"{self.dead:,} of {self.records:,} records of {self.spot}", reasons=self.reasons
            )


class WrittenLetters:
    """The dead letters of a run.

    A range doesn't know of the others. Many small ones that are all bad would each be within their share, so that
    batches are counted together until they have 10,000 records.
    """

    def __init__(self, landing: Landing) -> None:
        self._landing = landing
        self.written = 0
        self._records = self._dead = 0
        self._reasons = ReasonCounts()

    def restart(self, *, written: int) -> None:
        """Begin to count again after a failed batch, of which `written` dead letters of the run are stored."""
        self.written = written
        self._records = self._dead = 0
        self._reasons.clear()

    def add(self, ranges: Iterable[Mapping[str, Any]]) -> None:
        """Count those of a batch: each range has its `records`, its dead letters (`dead`) and their `reasons`.

        Raises:
            RejectedError: There are more than the run may have.
        """
        letters = self._landing.dead_letters
        if letters is None:
            return
        for one in ranges:
            self.written += one["dead"]
            self._records += one["records"]
            self._dead += one["dead"]
            self._reasons.count(one["reasons"])
        if letters.most is not None and self.written > letters.most:
            raise build_flood(self._landing, f"{self.written:,} records of this run", reasons=self._reasons)
        is_over = letters.most is None and self._dead > letters.count_allowed(self._records)
        if is_over or _is_all(letters, dead=self._dead, records=self._records):
            which = f"{self._dead:,} of {self._records:,} records of {self._landing.topic}"
            raise build_flood(self._landing, which, reasons=self._reasons)
        if self._records >= LEAST_RECORDS:
            self._records = self._dead = 0
            if letters.most is None:
                self._reasons.clear()


def build_flood(landing: Landing, which: str, *, reasons: ReasonCounts) -> RejectedError:
    """Build the error for more bad records than a run may have."""
    letters = landing.dead_letters or DeadLetters()
    return RejectedError(
        f"{which} can't be rows of {landing.table}, more than on_error allows (max: {letters.max})",
        cause=reasons.describe(),
        hint="correct the columns of the pipeline or the table, or raise on_error.dead_letter.max; "
        "max: 100% allows any number",
    )


def build_refusal(landing: Landing, which: str, *, reason: str) -> RejectedError:
    """Build the error for a record that can't be a row, where none may be bad."""
    return RejectedError(
        f"{which} can't be a row of {landing.table}",
        cause=reason,
        hint="correct the columns of the pipeline, or store such records as dead letters: on_error: {dead_letter: {}}",
    )


def _is_all(letters: DeadLetters, *, dead: int, records: int) -> bool:
    return dead == records >= LEAST_RECORDS and not letters.accepts_all
