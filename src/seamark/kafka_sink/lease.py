"""The hold of a task: its transactional id, taken from whoever had it, and the control records, true from then on."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from seamark.errors import FencedError, RefusedError, UnreachableError
from seamark.kafka_sink.control import Claim, ControlRecord, build_first_claim
from seamark.kafka_sink.control_progress import read_progress
from seamark.kafka_sink.task_failures import FailureAction, build_task_error, judge
from seamark.kafka_sink.task_producer import ANSWER_SECONDS, ProducerFailure, TaskProducer
from seamark.kafka_sink.task_settings import TaskSettings

TRIES = 3
"""Of what failed through no fault of the rows. Each takes up to a minute."""

# A look takes some 50 ms.
_LOOK_AGAIN_SECONDS = 0.5
_SLACK_SECONDS = 30.0
# Committed records come within milliseconds.
_LOOK_SECONDS = 2.0
# Families of control records, by partition, that this process has read once.
_CHECKED: set[tuple[str, str, str, int]] = set()


class TaskHold:
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
        """Take it, and try again where the brokers don't answer. A finished task of a copy is left alone."""
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
            f"{self._claim} was taken over by another attempt, which has not finished it in "
            f"{self._patience_seconds:g} s",
            hint="Spark runs it again; is another job running under this name?",
        )

    def close(self) -> None:
        """Let go of the producer. An open transaction is left to whoever takes the id next, or to the brokers."""
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
                f"{self._claim} comes too late: batch {found.claim.batch} is written",
                cause="the stream's checkpoint was set back, or this attempt is an old one",
                hint="start the stream with a new checkpoint, or leave this attempt to fail",
            )
        return found.claim == self._claim

    def _expect_known(self) -> None:
        """Refuse a stream in its middle of which the control topic knows nothing: it was begun with another one."""
        if self._read(build_first_claim(self._claim.query)) is not None:
            return
        raise RefusedError(
            f"the control topic {self._settings.control_topic} does not know the stream of {self._claim}",
            cause="the stream was begun with another control.topic, or the topic has lost records: what a batch that "
            "was broken off has written would be written again",
            hint="name the control.topic that it was begun with, or start it with a new checkpoint",
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
