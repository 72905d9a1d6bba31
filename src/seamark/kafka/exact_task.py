"""One task of a job, written to Kafka exactly once, however often and wherever it is tried.

The order of steps is what makes it exact. An attempt first takes the task's transactional id: from then on no earlier
attempt can write or commit, and what one of them was committing has been committed. Only then it reads the control
records, which lie in the same transactions as the rows: so they tell the truth, and nobody changes it any more. After
any doubt (a timeout, an abort, an unanswered commit) it does both again, with a new producer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from seamark.errors import FencedError, RefusedError, RejectedError
from seamark.kafka.control import read_progress
from seamark.kafka.copy_trace import CopyTrace
from seamark.kafka.task_failures import Outcome, build_task_error, judge
from seamark.kafka.task_producer import Piece, ProducerFailure, TaskProducer
from seamark.kafka.task_settings import TaskReport, TaskSettings
from seamark.model.control import Amount, Claim, ControlRecord
from seamark.model.control_codec import encode_control

# Of a transaction that failed through no fault of its rows. Each takes up to a minute.
_TRIES = 3
# A look takes some 50 ms.
_LOOK_AGAIN_SECONDS = 0.5
_SLACK_SECONDS = 30.0


class _AlreadyDoneError(Exception):
    """Another attempt has finished the task."""

    def __init__(self, record: ControlRecord) -> None:
        super().__init__()
        self.record = record


@dataclass(slots=True)
class _Transaction:
    """The transaction in hand: how much is in it, and its rows as long as they are few.

    `record` is the control record that it was last tried to be committed with.
    """

    amount: Amount = field(default_factory=Amount)
    kept: list[Piece] | None = field(default_factory=list)
    begun_at: float = 0.0
    record: ControlRecord | None = None

    def add(self, piece: Piece, *, kept_bytes: int) -> None:
        self.amount += piece.amount
        if self.kept is not None:
            self.kept.append(piece)
            if self.amount.bytes > kept_bytes:
                self.kept = None


class ExactTask:
    """One attempt at a task. For one thread, and one call of `write`.

    With a `trace` it is a task of a copy, whose record also says where its records lie, and is written also if there
    were none.
    """

    def __init__(
        self,
        settings: TaskSettings,
        claim: Claim,
        *,
        control_start: int | None = None,
        trace: CopyTrace | None = None,
        open_producer: Callable[[], TaskProducer] | None = None,
        read: Callable[[], ControlRecord | None] | None = None,
    ) -> None:
        self._settings = settings
        self._claim = claim
        self._control_start = control_start
        self._trace = trace
        self._open_producer = open_producer or self._build_producer
        self._read = read or self._read_control
        self._producer: TaskProducer | None = None
        self._seen = Amount()
        self._written = Amount()
        self._transactions = 0
        self._now = _Transaction()

    def write(self, pieces: Iterable[Piece]) -> TaskReport:
        """Write all rows, or find that they are written."""
        counted = self._count(pieces)
        first = next(counted, None)
        if first is None and self._trace is None:
            return TaskReport(self._claim, amount=Amount())
        try:
            return self._write(chain([first] if first is not None else [], counted))
        except _AlreadyDoneError as done:
            return self._accept(done.record, counted)
        except FencedError:
            return self._accept(self._await_other(), counted)
        finally:
            self._close()

    def _count(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        """The pieces that are not empty, counted as they pass."""
        for piece in pieces:
            if piece.amount.records:
                self._seen += piece.amount
                yield piece

    def _write(self, pieces: Iterator[Piece]) -> TaskReport:
        found = self._take_over_patiently()
        if found is not None and found.is_done:
            raise _AlreadyDoneError(found)
        if found is not None:
            pieces = self._skip(found, pieces)
        for piece in pieces:
            if self._is_full():
                self._finish(is_done=False)
            self._add(piece)
        self._finish(is_done=True)
        return TaskReport(self._claim, amount=self._written, transactions=self._transactions)

    def _take_over(self) -> ControlRecord | None:
        """A new producer, then the control records. Gives what is written of this very claim."""
        self._close()
        self._producer = self._open_producer()
        self._producer.take()
        found = self._read()
        if found is None or found.claim == self._claim:
            return found
        if found.claim.batch > self._claim.batch:
            raise RefusedError(
                f"{self._claim} comes too late: batch {found.claim.batch} is written",
                cause="the stream's checkpoint was set back, or this attempt is an old one",
                hint="start the stream with a new checkpoint, or leave this attempt to fail",
            )
        return None

    def _take_over_patiently(self) -> ControlRecord | None:
        for left in reversed(range(_TRIES)):
            try:
                return self._take_over()
            except ProducerFailure as failure:
                if judge(failure.error) is Outcome.HOPELESS or not left:
                    raise build_task_error(failure.error, claim=self._claim) from None
        raise AssertionError

    def _is_full(self) -> bool:
        if not self._settings.is_ordered:
            return False
        now, settings = self._now.amount, self._settings
        return now.records >= settings.transaction_records or now.bytes >= settings.transaction_bytes

    def _add(self, piece: Piece) -> None:
        """Put rows into the transaction in hand; after a failure, into a new one with those that were in it."""
        self._now.add(piece, kept_bytes=self._settings.kept_bytes)
        try:
            self._produce([piece])
        except ProducerFailure as failure:
            self._recover(failure, is_done=None)

    def _finish(self, *, is_done: bool) -> None:
        """Commit the transaction in hand with its control record."""
        try:
            self._commit(is_done=is_done)
        except ProducerFailure as failure:
            self._recover(failure, is_done=is_done)
        self._written += self._now.amount
        self._transactions += 1
        self._now = _Transaction()

    def _recover(self, failure: ProducerFailure, *, is_done: bool | None) -> None:
        """Take over from ourselves: see what became of the transaction, and write it again where it did not happen.

        `is_done` is None where it had not come to its commit.
        """
        for left in reversed(range(_TRIES)):
            self._judge(failure, has_more=left > 0)
            try:
                found = self._take_over()
                if found is not None and found == self._now.record:
                    return
                self._expect_same(found)
                self._write_again(failure, is_done=is_done)
            except ProducerFailure as again:
                failure = again
            else:
                return
        self._judge(failure, has_more=False)

    def _write_again(self, failure: ProducerFailure, *, is_done: bool | None) -> None:
        if self._now.kept is None:
            more = f"{self._now.amount} are too many to keep; Spark runs the task again"
            raise build_task_error(failure.error, claim=self._claim, spot=failure.spot, more=more)
        self._now.begun_at = 0.0
        self._produce(self._now.kept)
        if is_done is not None:
            self._commit(is_done=is_done)

    def _judge(self, failure: ProducerFailure, *, has_more: bool) -> None:
        outcome = judge(failure.error)
        is_late = self._now.begun_at and time.monotonic() - self._now.begun_at > self._settings.transaction_seconds
        more = ""
        if is_late:
            # The brokers ended our transaction themselves, which looks like a fence.
            more = f"the transaction was open for more than {self._settings.transaction_seconds:g} s"
            outcome = Outcome.PASSING if outcome is Outcome.FENCED else outcome
        if outcome is not Outcome.PASSING or not has_more:
            raise build_task_error(failure.error, claim=self._claim, spot=failure.spot, more=more)

    def _expect_same(self, found: ControlRecord | None) -> None:
        if found is not None and found.is_done:
            raise _AlreadyDoneError(found)
        reached = found.amount if found is not None else Amount()
        if reached != self._written:
            raise RefusedError(
                f"another attempt has gone on with {self._claim} meanwhile",
                cause=f"it has written {reached}, this one {self._written}",
                hint="Spark runs it again, from there",
            )

    def _produce(self, pieces: Iterable[Piece]) -> None:
        producer = self._begin()
        for piece in pieces:
            if self._trace is not None:
                self._trace.add(piece)
            producer.produce(piece, deadline=self._deadline())

    def _begin(self) -> TaskProducer:
        """The producer, in a transaction."""
        producer = self._the_producer()
        if not self._now.begun_at:
            producer.begin()
            self._now.begun_at = time.monotonic()
            if self._trace is not None:
                self._trace.begin()
        return producer

    def _commit(self, *, is_done: bool) -> None:
        # Where the input ended with a transaction, the word "done" is all that is left to write, in one of its own.
        producer = self._begin()
        if self._trace is not None:
            # Where records lie is known when the brokers have them, and must be known before the commit.
            producer.flush(deadline=self._deadline())
        self._now.record = record = ControlRecord(
            self._claim,
            amount=self._written + self._now.amount,
            is_done=is_done,
            transactions=self._transactions + 1,
            copied=None if self._trace is None else self._trace.build(),
        )
        producer.commit(
            self._settings.control_topic,
            partition=self._claim.partition,
            key=self._claim.key,
            value=encode_control(record),
            deadline=self._deadline(),
        )

    def _skip(self, found: ControlRecord, pieces: Iterator[Piece]) -> Iterator[Piece]:
        """Pass over the rows that an earlier attempt wrote."""
        if not self._settings.is_ordered:
            raise RejectedError(
                f"{self._claim} was begun in pieces, and its rows are not said to come in the same order again",
                hint="run the job with the option ordered=true, as it was begun",
            )
        wanted = found.amount.records
        seen = Amount()
        rest: Piece | None = None
        while seen.records < wanted:
            piece = next(pieces, None)
            if piece is None:
                break
            if seen.records + piece.amount.records > wanted:
                piece, rest = piece.split(wanted - seen.records)
            seen += piece.amount
        self._expect_amount(seen, found)
        self._written, self._transactions = found.amount, found.transactions
        return chain([rest] if rest is not None else [], pieces)

    def _accept(self, found: ControlRecord, rest: Iterator[Piece]) -> TaskReport:
        """Take what another attempt wrote for this one's work, if it is as much."""
        if self._settings.is_checked:
            for _ in rest:
                pass
            self._expect_amount(self._seen, found)
        return TaskReport(self._claim, amount=found.amount, is_repeat=True)

    def _expect_amount(self, seen: Amount, found: ControlRecord) -> None:
        if seen != found.amount:
            raise RejectedError(
                f"{self._claim} has other rows than when it was written: {seen} now, {found.amount} then",
                cause="its input has changed since, or Spark shared the rows out to the tasks in another way",
                hint="give the job a new name, or the input it had: explicit offsets, the same partitions",
            )

    def _await_other(self) -> ControlRecord:
        """Wait for the attempt that took over. It would be fenced in turn if this one failed and was run again."""
        patience = self._settings.transaction_seconds + _SLACK_SECONDS
        last: ControlRecord | None = None
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            found = self._read()
            if found is not None and found.claim == self._claim and found.is_done:
                return found
            if found != last:
                last, deadline = found, time.monotonic() + patience
            time.sleep(_LOOK_AGAIN_SECONDS)
        raise FencedError(
            f"{self._claim} was taken over by another attempt, which has not finished it in {patience:g} s",
            hint="Spark runs it again; is another job running under this name?",
        )

    def _deadline(self) -> float:
        return self._now.begun_at + self._settings.transaction_seconds

    def _the_producer(self) -> TaskProducer:
        if self._producer is None:
            raise AssertionError
        return self._producer

    def _close(self) -> None:
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def _build_producer(self) -> TaskProducer:
        return TaskProducer(
            self._settings.client,
            transactional_id=self._claim.transactional_id,
            on_written=None if self._trace is None else self._trace.note,
        )

    def _read_control(self) -> ControlRecord | None:
        return read_progress(
            self._settings.reader,
            self._settings.control_topic,
            claim=self._claim,
            patience_seconds=self._settings.transaction_seconds + _SLACK_SECONDS,
            start=self._control_start,
        )
