"""One task of a job, written to Kafka exactly once, however often and wherever it is tried.

The order of steps is what makes it exact. An attempt first takes the task's transactional id: from then on no earlier
attempt can write or commit, and what one of them was committing has been committed. Only then it reads the control
records, which lie in the same transactions as the rows: so they tell the truth, and nobody changes it any more. After
any doubt (a timeout, an abort, an unanswered commit) it does both again, with a new producer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from seamark.errors import FencedError, RefusedError, RejectedError, SeamarkError
from seamark.kafka_sink.control import Amount, Claim, ControlRecord
from seamark.kafka_sink.copy_input import CopyInput
from seamark.kafka_sink.copy_trace import CopyTrace
from seamark.kafka_sink.lease import TRIES, TaskHold
from seamark.kafka_sink.task_failures import FailureAction, build_late_error, build_task_error, judge
from seamark.kafka_sink.task_input import TaskInput
from seamark.kafka_sink.task_producer import ProducerFailure, RowPiece, TaskProducer
from seamark.kafka_sink.task_settings import TaskReport, TaskSettings
from seamark.kafka_sink.task_transaction import TaskTransaction


class _AlreadyDoneError(Exception):
    """Another attempt has finished the task."""

    def __init__(self, record: ControlRecord) -> None:
        super().__init__()
        self.record = record


class ExactTask:
    """One attempt at a task. For one thread, and one call of `write`.

    With a `trace` it is a task of a copy, whose record also says where its records lie, and is written also if there
    were none. `is_noted` has the same done for any other task: without rows it leaves no record otherwise. `run` goes
    into its record.
    """

    def __init__(
        self,
        settings: TaskSettings,
        claim: Claim,
        *,
        control_start: int | None = None,
        trace: CopyTrace | None = None,
        is_noted: bool = False,
        run: str = "",
        open_producer: Callable[[], TaskProducer] | None = None,
        read: Callable[[Claim], ControlRecord | None] | None = None,
    ) -> None:
        self._settings = settings
        self._claim = claim
        self._trace = trace
        self._is_noted = is_noted or trace is not None
        self._run = run
        self._hold = TaskHold(
            settings,
            claim,
            control_start=control_start,
            on_written=None if trace is None else trace.note,
            open_producer=open_producer,
            read=read,
        )
        self._written = Amount()
        self._transactions = 0
        self._now = self._build_transaction()

    def write(self, pieces: Iterable[RowPiece]) -> TaskReport:
        """Write all rows, or find that they are written."""
        rows = TaskInput(pieces) if self._trace is None else CopyInput(pieces)
        if rows.is_empty and not self._is_noted:
            return TaskReport(self._claim, amount=Amount())
        try:
            return self._write(rows)
        except _AlreadyDoneError as done:
            return self._accept(done.record, rows)
        except FencedError:
            return self._accept(self._hold.await_other(), rows)
        finally:
            self._hold.close()

    def _write(self, rows: TaskInput) -> TaskReport:
        found = self._hold.take_patiently()
        if found is not None and found.is_done:
            raise _AlreadyDoneError(found)
        if found is not None:
            self._go_on(found, rows)
        for piece in rows:
            if self._now.is_full:
                self._finish(is_done=False)
            self._add(piece)
        self._finish(is_done=True)
        return TaskReport(self._claim, amount=self._written, transactions=self._transactions, run=self._run)

    def _go_on(self, found: ControlRecord, rows: TaskInput) -> None:
        """Begin where an earlier attempt stopped, in the middle of the task."""
        if not self._settings.is_ordered:
            raise RejectedError(
                f"{self._claim} was begun in pieces, and its rows are not said to come in the same order again",
                hint="run the job with the option ordered=true, as it was begun",
            )
        rows.skip(found)
        self._written, self._transactions = found.amount, found.transactions
        self._now = self._build_transaction()

    def _add(self, piece: RowPiece) -> None:
        """Put rows into the transaction in hand; after a failure, into a new one with those that were in it."""
        try:
            self._now.add(piece, self._hold.producer)
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
        self._now = self._build_transaction()

    def _commit(self, *, is_done: bool) -> None:
        self._now.commit(self._hold.producer, control_topic=self._settings.control_topic, is_done=is_done)

    def _recover(self, failure: ProducerFailure, *, is_done: bool | None) -> None:
        """Take over from ourselves: see what became of the transaction, and write it again where it did not happen.

        `is_done` is None where it had not come to its commit.
        """
        for left in reversed(range(TRIES)):
            self._judge(failure, has_more=left > 0)
            try:
                found = self._hold.take()
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
        if not self._now.is_kept:
            raise self._build_error(failure, more=f"{self._now.amount} are too many to keep; Spark runs the task again")
        self._now.write_again(self._hold.producer)
        if is_done is not None:
            self._commit(is_done=is_done)

    def _judge(self, failure: ProducerFailure, *, has_more: bool) -> None:
        is_passing = judge(failure.error) is FailureAction.PASSING or self._was_ended(failure)
        if not is_passing or not has_more:
            raise self._build_error(failure)

    def _was_ended(self, failure: ProducerFailure) -> bool:
        """Whether the brokers ended our transaction themselves, which looks like a fence."""
        return self._now.is_late and judge(failure.error) is FailureAction.FENCED

    def _build_error(self, failure: ProducerFailure, *, more: str = "") -> SeamarkError:
        if self._was_ended(failure):
            seconds = self._settings.transaction_seconds
            return build_late_error(failure.error, claim=self._claim, seconds=seconds, more=more)
        return build_task_error(failure.error, claim=self._claim, spot=failure.spot, more=more)

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

    def _accept(self, found: ControlRecord, rows: TaskInput) -> TaskReport:
        """Take what another attempt wrote for this one's work, if it is that."""
        if self._settings.is_checked:
            rows.compare(found)
        return TaskReport(self._claim, amount=found.amount, is_repeat=True, run=found.run)

    def _build_transaction(self) -> TaskTransaction:
        return TaskTransaction(
            self._settings,
            self._claim,
            before=self._written,
            number=self._transactions + 1,
            trace=self._trace,
            run=self._run,
        )
