"""The rows of a task, which come once: counted as they pass, and compared with what an earlier attempt wrote."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from seamark.errors import RejectedError
from seamark.kafka_sink.control import Amount, ControlRecord
from seamark.kafka_sink.task_producer import RowPiece


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
        now = "as many, and others" if is_as_much else f"{seen} now, {found.amount} then"
        raise RejectedError(
            f"{found.claim} has other rows than when it was written: {now}",
            cause="its input has changed since, or Spark shared the rows out to the tasks in another way",
            hint="run it with the input it had: explicit offsets, the same partitions. Tasks that were not done before "
            "this run may have written rows of those that were: see the control records, or write to a new topic",
        )
