"""One task of a job, written to Kafka exactly once, however often and wherever it is tried.

The order of steps is what makes it exact. An attempt first takes the task's transactional id: from then on no earlier
attempt can write or commit, and what one of them was committing has been committed. Only then it reads the control
records, which are in the same transactions as the rows: so they are correct, and no other attempt can change them.
After any doubt (a timeout, an abort, an unanswered commit) it does both again, with a new producer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

from seamark.errors import FencedError, RefusedError, RejectedError, SeamarkError, UnreachableError
from seamark.kafka_sink.control import Amount, Claim, ControlRecord, build_first_claim
from seamark.kafka_sink.control_reads import read_progress
from seamark.kafka_sink.inputs import CopyInput, TaskInput
from seamark.kafka_sink.producer import (
    ANSWER_SECONDS,
    FailureAction,
    ProducerFailure,
    RowPiece,
    TaskProducer,
    TaskReport,
    TaskSettings,
    build_late_error,
    build_task_error,
    judge,
)
from seamark.kafka_sink.transaction import DeliveryTrace, TaskTransaction

TRIES = 3
"""Of what failed through no fault of the rows. Each takes up to a minute."""

# A look takes some 50 ms.
_LOOK_AGAIN_SECONDS = 0.5
_SLACK_SECONDS = 30.0
# Committed records come within milliseconds.
_LOOK_SECONDS = 2.0
# Families of control records, by partition, that this process has read once.
_CHECKED: set[tuple[str, str, str, int]] = set()


class TaskLease:
    """One attempt's hold of a task, which another attempt can take at any time. For one thread."""

    def __init__(
        self,
        settings: TaskSettings,
        claim: Claim,
        *,
        control_start: int | None = None,
        on_written: Callable[[int, int], None] | None = None,
        open_producer: Callable[[], TaskProducer] | None = None,
        read: Callable[[Claim], ControlRecord | None] | None = None,
    ) -> None:
        self._settings = settings
        self._claim = claim
        self._control_start = control_start
        self._on_written = on_written
        self._open_producer = open_producer or self._build_producer
        self._read_once = read or self._read_control
        self._look_once = read or partial(self._read_control, patience_seconds=_LOOK_SECONDS)
        self._producer: TaskProducer | None = None

    @property
    def producer(self) -> TaskProducer:
        """The producer that took the task last."""
        if self._producer is None:
            raise AssertionError
        return self._producer

    def take(self) -> ControlRecord | None:
        """A new producer, then the control records. Gives what is written of this very claim."""
        self.close()
        self._producer = self._open_producer()
        self._producer.take()
        found = self._read(self._claim)
        if found is None and self._claim.batch > 0:
            self._expect_known()
        return found if found is not None and self._is_own(found) else None

    def take_patiently(self) -> ControlRecord | None:
        """Take it, and retry where the brokers don't answer. A finished task of a copy is not taken."""
        if self._claim.part and (found := self._read(self._claim)) is not None and found.is_done:
            # The id is that of all slices: to take it would fence the slice that is being written now. A look costs a
            # copy little, as its tasks take seconds; those of a stream may not.
            return found
        self._check_format()
        for left in reversed(range(TRIES)):
            try:
                return self.take()
            except ProducerFailure as failure:
                if judge(failure.error) is FailureAction.HOPELESS or not left:
                    raise build_task_error(failure.error, claim=self._claim) from None
        raise AssertionError

    def await_other(self) -> ControlRecord:
        """Wait for the attempt that took over. It would be fenced in turn if this one failed and was run again."""
        last: ControlRecord | None = None
        deadline = time.monotonic() + self._patience_seconds
        while time.monotonic() < deadline:
            found = self._read(self._claim)
            if found is not None and self._is_own(found) and found.is_done:
                return found
            if found != last:
                last, deadline = found, time.monotonic() + self._patience_seconds
            time.sleep(_LOOK_AGAIN_SECONDS)
        raise FencedError(
            f"{self._claim} was fenced by another attempt, which has not finished it in {self._patience_seconds:g} s",
            hint="check that no other job runs under this name; Spark retries the task",
        )

    def close(self) -> None:
        """Release the producer. An open transaction is ended by the next holder of the ID, or by the brokers."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    @property
    def _patience_seconds(self) -> float:
        return self._settings.transaction_seconds + _SLACK_SECONDS

    def _is_own(self, found: ControlRecord) -> bool:
        """Whether it is of this very batch. What comes after a later one comes too late."""
        if found.claim.batch > self._claim.batch:
            raise RefusedError(
                f"{self._claim} is out of date: batch {found.claim.batch} is already written",
                cause="the checkpoint of the stream was reset, or an old process of the stream is still running",
                hint="stop the old process, or start the stream with a new checkpoint",
            )
        return found.claim == self._claim

    def _expect_known(self) -> None:
        """Refuse a stream in its middle of which the control topic knows nothing: it was begun with another one."""
        if self._read(build_first_claim(self._claim.query)) is not None:
            return
        raise RefusedError(
            f"the control topic {self._settings.control_topic} has no records of the stream of {self._claim}",
            cause="the stream was started with another control.topic, or the topic has lost records: rows of an "
            "interrupted batch would be duplicated",
            hint="set control.topic to the original one, or start the stream with a new checkpoint",
        )

    def _check_format(self) -> None:
        """Refuse control records of another format version before `take` fences the process that wrote them.

        It is done once per process, because streams may have many short batches; `take` refuses such records too, only
        later. A job without a name has no records yet, and a copy has just read its own.
        """
        settings, claim = self._settings, self._claim
        name = (settings.reader.get("bootstrap.servers", ""), settings.control_topic, claim.family, claim.partition)
        if self._control_start is None and not claim.part and name not in _CHECKED:
            # An open transaction may be that of a dead attempt: it is not waited for, because `take` ends it.
            with suppress(UnreachableError):
                self._look_once(claim)
            _CHECKED.add(name)

    def _read(self, claim: Claim) -> ControlRecord | None:
        """What is written of a claim. A broker that does not answer is asked again, until another leads."""
        deadline = time.monotonic() + min(ANSWER_SECONDS, self._patience_seconds)
        while True:
            try:
                return self._read_once(claim)
            except UnreachableError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_LOOK_AGAIN_SECONDS)

    def _build_producer(self) -> TaskProducer:
        return TaskProducer(
            self._settings.client,
            transactional_id=self._claim.transactional_id,
            control_topic=self._settings.control_topic,
            on_written=self._on_written,
        )

    def _read_control(self, claim: Claim, *, patience_seconds: float | None = None) -> ControlRecord | None:
        return read_progress(
            self._settings.reader,
            self._settings.control_topic,
            claim=claim,
            patience_seconds=self._patience_seconds if patience_seconds is None else patience_seconds,
            start=self._control_start,
            topic_id=self._settings.control_id,
        )


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
        trace: DeliveryTrace | None = None,
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
        self._hold = TaskLease(
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
            self._resume(found, rows)
        for piece in rows:
            if self._now.is_full:
                self._finish(is_done=False)
            self._add(piece)
        self._finish(is_done=True)
        return TaskReport(self._claim, amount=self._written, transactions=self._transactions, run=self._run)

    def _resume(self, found: ControlRecord, rows: TaskInput) -> None:
        """Begin where an earlier attempt stopped, in the middle of the task."""
        if not self._settings.is_ordered:
            raise RejectedError(
                f"{self._claim} was interrupted between transactions, and its rows may come in another order now",
                hint="run the job with option ordered=true, as before",
            )
        rows.skip(found)
        self._written, self._transactions = found.amount, found.transactions
        self._now = self._build_transaction()

    def _add(self, piece: RowPiece) -> None:
        """Put rows into the current transaction; after a failure, into a new one with those that were in it."""
        try:
            self._now.add(piece, self._hold.producer)
        except ProducerFailure as failure:
            self._recover(failure, is_done=None)

    def _finish(self, *, is_done: bool) -> None:
        """Commit the current transaction with its control record."""
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
            raise self._build_error(
                failure, more=f"{self._now.amount} are too many to keep in memory; Spark retries the task"
            )
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
                f"another attempt has continued {self._claim} in the meantime",
                cause=f"it has written {reached}, this one {self._written}",
                hint="wait: Spark retries the task from there",
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


# Each waits for a coordinator, and does nothing else.
_AT_ONCE = 8


def take_over(
    job: str, settings: TaskSettings, *, tasks: int, open_producer: Callable[[str], TaskProducer] | None = None
) -> None:
    """Take the transactional id of every task, and let go of it.

    What a dead attempt left open is ended at once, and not by its timeout: readers of committed records, such as this
    job's own next run, would wait for that.
    """
    control = settings.control_topic
    open_one = open_producer or (
        lambda name: TaskProducer(settings.client, transactional_id=name, control_topic=control)
    )
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(lambda task: _take(Claim(job, task), open_one), range(tasks)):
            pass


def _take(claim: Claim, open_producer: Callable[[str], TaskProducer]) -> None:
    for left in reversed(range(TRIES)):
        producer = open_producer(claim.transactional_id)
        try:
            producer.take()
        except ProducerFailure as failure:
            if judge(failure.error) is FailureAction.HOPELESS or not left:
                raise build_task_error(failure.error, claim=claim) from None
        else:
            return
        finally:
            producer.close()
