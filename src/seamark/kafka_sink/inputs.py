"""The rows of a task, which come once: counted as they pass, and compared with what an earlier attempt wrote."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from typing import Any, TypeVar

from seamark.errors import RejectedError, UnreachableError, UnsupportedError
from seamark.kafka_sink.control import Amount, ControlRecord, Run
from seamark.kafka_sink.producer import RowPiece

_T = TypeVar("_T")


def read_whole(batches: Iterator[_T]) -> Iterator[_T]:
    """Pass the batches of a Spark task on, and check at their end that they are all of the task.

    A task commits its own transaction, so it must know. Arrow's reader takes a connection that is closed between two
    messages for the end of the stream (tests/spark/kafka_sink/test_whole_input.py), as if an executor that is killed
    there had sent all rows. Spark writes one more number after a complete stream.

    Raises:
        UnreachableError: The connection ended without it.
        UnsupportedError: This version of Spark keeps the connection elsewhere.
    """
    yield from batches
    stream = _find_stream()
    if stream is not None and not stream.peek(1):
        raise UnreachableError(
            "the rows of this task ended early: Spark closed the connection before their end",
            cause="the executor was killed, or reading the rows failed there",
            hint="wait: Spark retries the task; this attempt committed nothing",
        )


def _find_stream() -> BufferedReader | None:
    """Find the connection from which Spark's Python worker reads; None where no worker runs this code."""
    frame = sys._getframe()  # noqa: SLF001 - Spark hands over an iterator, and keeps the connection to itself
    found = frame.f_back
    while found is not None:
        if found.f_code.co_name == "main" and "infile" in found.f_locals:
            stream: BufferedReader = found.f_locals["infile"]
            return stream
        found = found.f_back
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    if main is not None and main.name in ("pyspark.daemon", "pyspark.worker"):
        raise UnsupportedError(
            "unsupported version of Spark: seamark can't find the connection of a task",
            cause="without the connection, a task can't detect that rows are missing",
            hint="use a version of Spark that seamark supports",
        )
    return None


class TaskInput:
    """What is left of a task's rows; to go through them is to use them up. Pieces without rows are left out."""

    def __init__(self, pieces: Iterable[RowPiece]) -> None:
        self._amount = Amount()
        self._pieces = self._count(pieces)
        self._next: RowPiece | None = None

    def __iter__(self) -> Iterator[RowPiece]:
        while (piece := self._take()) is not None:
            yield piece

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left."""
        self._next = self._take()
        return self._next is None

    def skip(self, found: ControlRecord) -> None:
        """Pass over the rows that an earlier attempt wrote, if they are those."""
        wanted = found.amount.records
        passed = Amount()
        while passed.records < wanted and (piece := self._take()) is not None:
            if passed.records + piece.amount.records > wanted:
                piece, self._next = piece.split(wanted - passed.records)
            passed += piece.amount
        _expect_amount(passed, found)

    def compare(self, found: ControlRecord) -> None:
        """Make sure, by going through the rest, that another attempt wrote these rows."""
        for _ in self:
            pass
        self.expect_same(found)

    def note(self, piece: RowPiece) -> None:
        """A piece is passing."""
        self._amount += piece.amount

    def expect_same(self, found: ControlRecord) -> None:
        """Make sure that as much has passed as was written."""
        _expect_amount(self._amount, found)

    def _take(self) -> RowPiece | None:
        piece, self._next = self._next, None
        return piece if piece is not None else next(self._pieces, None)

    def _count(self, pieces: Iterable[RowPiece]) -> Iterator[RowPiece]:
        for piece in pieces:
            if piece.amount.records:
                self.note(piece)
                yield piece


def _expect_amount(seen: Amount, found: ControlRecord) -> None:
    if seen != found.amount:
        is_as_much = (seen.records, seen.bytes) == (found.amount.records, found.amount.bytes)
        now = "the count is the same, the rows differ" if is_as_much else f"{seen} now, {found.amount} before"
        raise RejectedError(
            f"the rows of {found.claim} differ from those it wrote before: {now}",
            cause="the input has changed, or Spark distributed the rows to the tasks differently",
            hint="run the job with the same input: explicit offsets, the same partitions; if tasks of this run have "
            "written already, rows may be duplicated: write to a new topic instead",
        )


# A source with gaps may have more of them in the next read: compaction removes records, and none is ever added
# to offsets that were there. So what a task finds may be less than what was written, and must be within it.


@dataclass(frozen=True, slots=True)
class SourceSpan:
    """So many records of one source partition for one target, and the first and the last of their offsets."""

    source: int
    target: int
    count: int
    first: int
    last: int

    def join(self, other: SourceSpan) -> SourceSpan:
        """Both together."""
        first, last = min(self.first, other.first), max(self.last, other.last)
        return SourceSpan(self.source, self.target, self.count + other.count, first=first, last=last)

    def is_within(self, runs: Iterable[Run]) -> bool:
        """Whether its records can be among those of the runs."""
        own = [run for run in runs if (run.source, run.target) == (self.source, self.target)]
        return (
            bool(own)
            and own[0].first_source <= self.first <= self.last <= own[-1].last_source
            and self.count <= sum(run.count for run in own)
        )


class CopyInput(TaskInput):
    """What is left of a copying task's rows. Its pieces have `spans`."""

    def __init__(self, pieces: Iterable[Any]) -> None:
        super().__init__(pieces)
        self._spans: dict[tuple[int, int], SourceSpan] = {}

    def note(self, piece: Any) -> None:
        """A piece is passing."""
        spans: Iterable[SourceSpan] = piece.spans()
        for span in spans:
            pair = (span.source, span.target)
            self._spans[pair] = self._spans[pair].join(span) if pair in self._spans else span

    def expect_same(self, found: ControlRecord) -> None:
        """Make sure that nothing passed which is not in the runs of the record."""
        for span in self._spans.values():
            if not span.is_within(found.runs):
                raise RejectedError(
                    f"the rows of {found.claim} differ from those it wrote before: of {span.count} records at "
                    f"{span.first} to "
                    f"{span.last} of partition {span.source}, some are not among those written to partition "
                    f"{span.target}",
                    cause="Spark split the rows among several tasks, or the source topic was recreated",
                    hint="delete the target topic and create a new plan; the source topic is unchanged",
                )
